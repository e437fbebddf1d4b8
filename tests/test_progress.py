"""What is shown of a run while it goes on."""

from __future__ import annotations

import dataclasses
import io

import pytest

from synthbench.record import Evaluation, Measurements, Outcome, Record, Timing, Training
from synthbench.run.cell_words import describe, varying
from synthbench.run.progress import (
    PlainProgress,
    RichProgress,
    duration,
    make_observer,
    result,
)
from synthbench.suites.cell import Cell
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import parse_suite
from tests.learning_records import learning_cell

PLAN = make_plan(
    parse_suite(
        "axes: {variant: [V], seq_len: [8], framework: [torch], mode: [train]}\n"
        "model: {d_model: 8, heads: 2}",
        name="mine",
        source="mine.yaml",
    ),
    "cpu",
)
CELL: Cell = PLAN.cells[0]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def record(outcome: Outcome, reason: str = "", scale: float = 1) -> Record:
    timing = Timing(
        build_seconds=1, compile_seconds=1, first_step_seconds=1, warmup_steps=2,
        samples=[0.002 * scale, 0.004 * scale, 0.003 * scale], clock="mine",
    )  # fmt: skip
    return Record(
        id=CELL.id, cell=CELL, outcome=outcome, reason=reason, started="", wall_seconds=1,
        measurements=Measurements(timing=timing if outcome == "ok" else None),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (45.4, "45 s"), (89, "89 s"), (130, "2 min"), (5400, "1 h 30 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_terminal_gets_a_bar_and_everything_else_lines() -> None:
    assert isinstance(make_observer(Terminal()), RichProgress)
    assert isinstance(make_observer(io.StringIO()), PlainProgress)


def test_plain_lines_say_result_and_time_left() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.started(PLAN, 1, 3)
    progress.cell_finished(record("ok"), 2, 3, 200.0)
    progress.cell_finished(record("ok", scale=412), 2, 3, 200.0)  # no exponent in 1236
    progress.cell_finished(record("oom", "too large"), 3, 3, None)
    progress.note("a word")
    assert stream.getvalue().splitlines() == [
        "suite mine on cpu: 3 records, 1 already recorded",
        "[2/3] torch V train L=8: 3.00 ms/step; 3 min left",
        "[2/3] torch V train L=8: 1236 ms/step; 3 min left",
        "[3/3] torch V train L=8: oom: too large",
        "a word",
    ]


def training(metric: str, task: str = "walks") -> Record:
    """A training whose metric ended at 0.954."""
    evaluation = Evaluation(
        step=1, tokens=1, seconds=1, flops=1, train_loss=1, loss=1, metrics={metric: 0.954}
    )
    found = Training(metric=metric, data={}, steps=1, evaluations=[evaluation])
    cell = learning_cell("V", task="walks").changed(task=task)
    return Record(
        id=cell.id, cell=cell, outcome="ok", started="", wall_seconds=1,
        measurements=Measurements(training=found),
    )  # fmt: skip


def test_a_training_is_told_in_the_unit_of_the_tables() -> None:
    assert result(training("accuracy")) == "accuracy % 95.4"


def test_a_training_of_a_plug_in_is_told_where_that_is_not_imported() -> None:
    assert result(training("recall", task="of_a_plug_in")) == "recall 0.954"
    assert result(training("not_declared")) == "not_declared 0.954"


def test_a_training_without_a_score_is_told() -> None:
    found = training("accuracy")
    assert found.measurements.training is not None
    found.measurements.training.metric = "loss of something else"
    assert result(found) == "ok"


def test_what_varies_is_in_the_name_of_a_cell() -> None:
    eager, other = CELL.changed(compile="eager"), CELL.changed(compile="compiled", framework="jax")
    assert varying([eager, other]) == ()  # each framework has one
    many = [eager, eager.changed(batch=8), eager.changed(form="reference"), other]
    assert varying(many) == ("batch", "form")
    names = [describe(cell, varying(many)) for cell in many]
    assert names == [
        "torch V train L=8 B=1 auto form", "torch V train L=8 B=8 auto form",
        "torch V train L=8 B=1 reference form", "jax V train L=8 B=1 auto form",
    ]  # fmt: skip
    labelled = eager.changed(label="base")
    assert describe(labelled, varying([eager, labelled])) == "torch V train L=8 base"
    assert describe(eager, ("label",)) == "torch V train L=8"
    halves = [eager.changed(dtype="bfloat16"), eager.changed(devices=2), other, eager]
    assert describe(halves[0], varying(halves)) == "torch V train L=8 bfloat16 devices=1"


def test_lines_of_a_plan_name_what_varies_in_it() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.started(dataclasses.replace(PLAN, cells=(CELL, CELL.changed(batch=4))), 0, 2)
    progress.cell_finished(record("ok"), 1, 2, None)
    named = f"torch V train L=8 B={CELL.batch}"
    assert stream.getvalue().splitlines()[1] == f"[1/2] {named}: 3.00 ms/step"


def test_a_bar_names_what_varies_in_the_plan() -> None:
    stream = Terminal()
    progress = RichProgress(stream)
    progress.started(dataclasses.replace(PLAN, cells=(CELL, CELL.changed(batch=4))), 0, 2)
    named = f"torch V train L=8 B={CELL.batch}"
    progress.cell_started(CELL, 0)
    assert named in stream.getvalue()
    progress.cell_finished(record("crashed", "killed"), 1, 2, None)
    assert f"{named}: crashed: killed" in stream.getvalue()
    progress.finished()


def test_a_bar_shows_cell_and_time_left_and_keeps_what_went_wrong() -> None:
    stream = Terminal()
    progress = RichProgress(stream)
    progress.started(PLAN, 0, 2)
    progress.cell_started(CELL, 0)
    progress.cell_finished(record("ok"), 1, 2, 200.0)
    progress.cell_finished(record("crashed", "killed [by] SIGSEGV"), 2, 2, 0.0)
    progress.finished()
    shown = stream.getvalue()
    assert "1/2" in shown
    assert "3 min left" in shown
    assert "torch V train L=8" in shown
    assert "crashed: killed [by] SIGSEGV" in shown


@pytest.mark.parametrize("kind", [PlainProgress, RichProgress])
def test_texts_of_a_cell_are_only_text(kind: type[PlainProgress | RichProgress]) -> None:
    text = "[red]x[/nope] :smile: \x1b[2J"
    stream = Terminal() if kind is RichProgress else io.StringIO()
    progress = kind(stream)
    plan = dataclasses.replace(PLAN, suite="[/nope]")
    progress.started(plan, 0, 2)
    progress.cell_started(CELL.changed(variant=text), 0)
    progress.stage(text)
    progress.note(text)
    progress.cell_finished(record("crashed", text), 1, 2, None)
    progress.finished()
    shown = stream.getvalue()
    assert "\x1b[2J" not in shown
    assert r"[red]x[/nope] :smile: \x1b[2J" in shown
    assert "[/nope]" in shown
