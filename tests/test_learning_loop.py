"""The loop of learning tasks: what is recorded, when it ends, and how it goes on."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthbench.backends.torch import backend as torch_backend
from synthbench.checkpoint import read_checkpoint
from synthbench.errors import DataError, DivergedError, NotationError, UnsupportedError
from synthbench.record import Evaluation, Measurements, Training
from synthbench.run.cell_runner import CellRunner
from synthbench.run.folders import IN_PROGRESS
from synthbench.run.runner import run_plan
from synthbench.store import read_run
from synthbench.suites.cell import Cell, model_of
from synthbench.suites.measure import Measure
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import parse_suite
from synthbench.tasks.base import TaskContext
from synthbench.tasks.catalog import with_options
from synthbench.tasks.learning.evaluation import answers_to
from synthbench.tasks.learning.examples import Examples, order_of
from synthbench.tasks.learning.loop import Loop, evaluation_steps
from synthbench.tasks.learning.saved_state import NAME, read_state
from synthbench.tasks.progress import read_progress
from tests.plugins.counting import Counting

SHORT: dict[str, Any] = {"steps": 60, "evaluations": 3, "held_out": 20}


def cell(**options: Any) -> Cell:
    return Cell.from_flat(
        variant="V", framework="torch", task="counting", options=SHORT | options, mode="train",
        seq_len=8, batch=6, compile="eager", model="decoder", d_model=16, heads=2, max_len=8,
        vocabulary=31, dtype="float64",
    )  # fmt: skip


def context_of(asked: Cell, measured: Measurements, **folders: Any) -> TaskContext:
    backend: Any = torch_backend
    return TaskContext(backend, asked, Measure(), measured, lambda stage, m: None, **folders)


def train(asked: Cell, folder: Path | None = None, checkpoints: Path | None = None) -> Measurements:
    measured = Measurements()
    context = context_of(asked, measured, folder=folder, checkpoints=checkpoints)
    task = Counting(**asked.options)
    task.check(asked)
    task.run(context)
    return measured


def curve(measured: Measurements) -> list[Evaluation]:
    assert measured.training is not None
    return measured.training.evaluations


def without_times(evaluations: list[Evaluation]) -> list[Evaluation]:
    return [evaluation.model_copy(update={"seconds": 0.0}) for evaluation in evaluations]


def test_a_training_is_recorded() -> None:
    asked = cell()
    found = train(asked)
    training, model = found.training, model_of(asked)
    assert training is not None
    assert [e.step for e in training.evaluations] == [0, 20, 40, 60]
    first, last = training.evaluations[0], training.evaluations[-1]
    assert (first.seconds, first.flops, first.tokens, first.train_loss) == (0, 0, 0, None)
    assert last.tokens == 60 * 6 * 8
    forward = model.flops(batch=6, seq_len=8)
    assert forward is not None
    assert last.flops == 3 * forward * 60
    assert last.loss < first.loss - 0.5
    assert last.train_loss is not None
    assert abs(last.train_loss - last.loss) < 0.5
    assert found.values == last.metrics
    assert found.parameters == found.declared_parameters
    assert found.predicted_memory is not None and found.predicted_memory.bytes > 0
    seconds = [e.seconds for e in training.evaluations]
    assert seconds == sorted(seconds)
    assert (training.metric, training.steps, training.diverged_step) == ("accuracy", 60, None)
    assert training.data.keys() == {"train", "test"}
    assert training.data["train"] != training.data["test"]


@given(steps=st.integers(1, 3000), evaluations=st.integers(1, 50))
def test_evaluations_are_spread_evenly(steps: int, evaluations: int) -> None:
    marks = evaluation_steps(Counting(steps=steps, evaluations=evaluations))
    assert (marks[0], marks[-1]) == (0, steps)
    gaps = np.diff(marks)
    assert len(gaps) == min(evaluations, steps)
    assert gaps.max() - gaps.min() <= 1


@given(size=st.integers(1, 40), batch=st.integers(1, 50), seed=st.integers(0, 9))
def test_each_example_is_seen_once_before_any_is_seen_again(
    size: int, batch: int, seed: int
) -> None:
    examples = Examples("", lambda numbers: pytest.fail("not needed"), size)
    seen = np.concatenate([order_of(examples, batch, step, seed) for step in range(6)])
    for epoch in range(len(seen) // size):
        assert sorted(seen[epoch * size : (epoch + 1) * size]) == list(range(size))
    if size > 8 and len(seen) >= 2 * size:
        assert (seen[:size] != seen[size : 2 * size]).any(), "the order is not drawn anew"


def test_the_last_batch_of_held_out_examples_counts_once() -> None:
    """7 examples in batches of 3: the sums are those of single examples."""
    asked = cell(size=7, held_out=100)
    task, model = Counting(**asked.options), model_of(asked)
    start = {n: np.ones(p.shape) * 0.1 for n, p in model.parameters().items()}
    from synthbench.measure.inputs import setting_of

    trainer = torch_backend.trainer(model, start, setting_of(asked), task)
    examples = task.examples(model, 8, 0)["test"]
    by_three = answers_to(examples, 100, 3, trainer.predict)
    alone = answers_to(examples, 100, 1, trainer.predict)
    assert [len(a.predictions) for a in by_three] == [3, 3, 1]
    assert len(alone) == 7
    for name in ("loss_sum", "weight"):
        sums = [sum(getattr(a, name) for a in found) for found in (by_three, alone)]
        assert sums[0] == pytest.approx(sums[1], rel=1e-12)
    rows = Counter(tuple(row) for a in alone for row in a.batch.inputs)
    assert rows == Counter(tuple(row) for a in by_three for row in a.batch.inputs)


def test_a_training_goes_on_where_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same bits, and the state of a finished training is not left behind."""
    asked = cell()
    whole = train(asked)
    steps_done, real = [0], Loop.train

    def interrupted(self: Loop, steps: range) -> None:
        if steps.start >= 40:
            raise KeyboardInterrupt
        real(self, steps)
        steps_done[0] += len(steps)

    monkeypatch.setattr(Loop, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(asked, tmp_path)
    saved, said = read_state(tmp_path), read_progress(tmp_path)
    assert saved is not None and saved.steps == 40
    assert said is not None and said.text.startswith("step 40 of 60, loss ")
    monkeypatch.setattr(Loop, "train", real)
    resumed = train(asked, tmp_path)
    assert resumed.training is not None
    assert resumed.training.resumed == 1
    assert without_times(curve(resumed)) == without_times(curve(whole))
    assert [e.seconds for e in curve(resumed)[:3]] == [
        e.seconds for e in saved.training.evaluations
    ]


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 not a file", None])
def test_a_damaged_state_starts_again(tmp_path: Path, damage: bytes | None) -> None:
    if damage is None:
        (tmp_path / NAME).mkdir()
    else:
        (tmp_path / NAME).write_bytes(damage)
    assert read_state(tmp_path) is None


def test_a_state_of_other_data_is_not_used(tmp_path: Path) -> None:
    asked = cell()
    train(asked, tmp_path)
    saved = read_state(tmp_path)
    assert saved is not None
    other = train(asked.changed(seed=1), tmp_path)
    assert other.training is not None
    assert other.training.resumed == 0


def test_a_loss_that_is_not_finite_is_an_outcome() -> None:
    measured = Measurements()
    asked = cell(learning_rate=1e300, clip=0.0)
    context = context_of(asked, measured)
    with pytest.raises(DivergedError, match=r"^the loss is \S+ at step \d+ of 60; a smaller"):
        Counting(**asked.options).run(context)
    training = measured.training
    assert training is not None
    assert training.diverged_step is not None
    assert 1 < training.diverged_step <= 20
    assert [e.step for e in training.evaluations] == [0]


def test_it_stops_early_only_if_asked() -> None:
    never_better = {"learning_rate": 0.0, "evaluations": 10}
    assert len(curve(train(cell(**never_better)))) == 11
    measured = train(cell(**never_better, patience=2))
    assert measured.training is not None
    assert [e.step for e in curve(measured)] == [0, 6, 12]
    assert measured.training.stopped_early


def test_one_that_stopped_early_and_was_killed_ends_with_its_values(tmp_path: Path) -> None:
    """As where the disk is full when its parameters are kept: it evaluates nothing again."""
    asked = cell(learning_rate=0.0, evaluations=10, patience=2)
    whole, resumed = train(asked, tmp_path), train(asked, tmp_path)
    assert resumed.training is not None and resumed.training.resumed == 1
    assert curve(resumed) == curve(whole)
    assert resumed.values == whole.values != {}


def test_parameters_are_kept_only_if_asked(tmp_path: Path) -> None:
    train(cell(), tmp_path / "a", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
    asked = cell(keep=True)
    train(asked, tmp_path / "b", tmp_path / "kept")
    found, parameters = read_checkpoint(tmp_path / "kept" / f"{asked.id}.npz")
    assert found == asked
    assert parameters.keys() == model_of(asked).parameters().keys()


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(NotationError, match="steps, evaluations and held_out are 1 to 1000000000"):
        Counting(steps=0).check(cell())
    with pytest.raises(NotationError, match="steps, evaluations and held_out are 1 to 1000000000"):
        Counting(held_out=10**20).check(cell())
    with pytest.raises(UnsupportedError, match="needs a model of kind decoder; got encoder"):
        Counting().check(cell().changed(model=cell().model.model_copy(update={"kind": "encoder"})))

    for wrong, allowed in (
        ({"learning_rate": -0.1}, "0 or more, at most 1e.30"),
        ({"learning_rate": 10**400}, "0 or more, at most 1e.30"),
        ({"warmup": 1.1}, "0 to 1"),
        ({"final": -0.1}, "0 to 1"),
        ({"b1": 1.0}, "0 to below 1"),
        ({"b2": 1.5}, "0 to below 1"),
        ({"epsilon": -1e-8}, "0 or more, at most 1e.30"),
        ({"weight_decay": -0.1}, "0 or more, at most 1e.30"),
        ({"clip": -1.0}, "0 or more, at most 1e.30"),
        ({"label_smoothing": 1.1}, "0 to 1"),
        ({"patience": 0}, "1 or more, at most 1e.30"),
    ):
        ((option, value),) = wrong.items()
        with pytest.raises(NotationError, match=rf"{option} is {value}; give it {allowed}$"):
            Counting(**wrong).check(cell())
    ends = {"learning_rate": 0.0, "warmup": 1.0, "final": 0.0, "b1": 0.0, "label_smoothing": 1.0}
    Counting(**ends, patience=1).check(cell())  # type: ignore[arg-type]

    class Empty(Counting):
        def examples(self, *args: Any) -> Any:
            found = dict(super().examples(*args))
            return found | {"test": Examples("", found["test"].batch, 0)}

    context = context_of(cell(), Measurements())
    with pytest.raises(DataError, match="its split test is empty"):
        Empty(**SHORT).run(context)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("target", "abc", "target is 'abc'; expected float"),
        ("patience", "abc", "patience is 'abc'; expected int"),
        ("patience", 1.5, "patience is 1.5; expected int"),
        ("target", math.nan, "target is nan; give a finite number"),
        ("learning_rate", math.inf, "learning_rate is inf; give a finite number"),
    ],
)
def test_options_of_a_wrong_type_are_refused(option: str, value: object, message: str) -> None:
    with pytest.raises(NotationError, match=f"task counting: {message}$"):
        with_options(Counting, {option: value})
    with_options(Counting, {"target": 1, "patience": None})


SUITE = """
axes: {{variant: [V], framework: [{framework}], task: [counting], mode: [train], seq_len: [8],
        batch: [6], dtype: [float64], seed: [0, 1]}}
model: {{kind: decoder, d_model: 16, heads: 2, vocabulary: 31}}
tasks:
  counting: {{steps: 60, evaluations: 3, held_out: 20, kill_at: {kill_at}, marker: {marker}}}
measure: {{ceiling: false, kernel_seconds: 0}}
"""


@pytest.mark.long
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_killed_run_ends_with_the_same_bits(framework: str, tmp_path: Path) -> None:
    """The process of seed 0 is killed at step 45; with --resume --retry crashed it goes on."""

    def run(name: str, kill_at: int, **options: Any) -> list[Any]:
        marker = tmp_path / "killed"
        text = SUITE.format(framework=framework, kill_at=kill_at, marker=marker)
        plan = make_plan(parse_suite(text, name="mine", source="mine.yaml"), "cpu")
        run_plan(plan, tmp_path / name, plugins=["tests.plugins.counting"], **options)
        return list(read_run(tmp_path / name).records)

    killed = run("killed-run", 45 * 6)
    assert Counter(record.outcome for record in killed) == {"ok": 1, "crashed": 1}
    kept = [path.name for path in (tmp_path / "killed-run" / IN_PROGRESS).iterdir()]
    assert [name.split(".")[0] for name in kept] == [
        record.id for record in killed if record.outcome == "crashed"
    ]
    found = run("killed-run", 45 * 6, resume=True, retry=["crashed"])
    trainings = [record.measurements.training for record in found if record.outcome == "ok"]
    assert [training.resumed for training in trainings] == [0, 1]
    assert not (tmp_path / "killed-run" / IN_PROGRESS).exists()
    whole = [record.measurements.training for record in run("whole", -2)]

    def bits(trainings: list[Training]) -> set[tuple[float, ...]]:
        return {tuple(e.loss for e in training.evaluations) for training in trainings}

    assert bits(trainings) == bits(whole)
    assert len(bits(whole)) == 2, "the seeds do not differ"


@pytest.mark.long
def test_a_training_begins_anew_on_another_kind_of_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its seconds are added up, and those of two kinds of machines mean nothing together."""
    text = SUITE.format(framework="torch", kill_at=45 * 6, marker=tmp_path / "killed")
    plan = make_plan(parse_suite(text, name="mine", source="mine.yaml"), "cpu")
    run_dir, plugins = tmp_path / "run", ["tests.plugins.counting"]
    run_plan(plan, run_dir, plugins=plugins)
    assert list((run_dir / IN_PROGRESS).glob(f"*/{NAME}")), "nothing was saved"
    here = CellRunner.environment
    monkeypatch.setattr(CellRunner, "environment", lambda self: here(self) | {"cpu": "another"})
    run_plan(plan, run_dir, plugins=plugins, resume=True, retry=["crashed"])
    records = read_run(run_dir).records
    trainings = [record.measurements.training for record in records if record.outcome == "ok"]
    assert [training.resumed for training in trainings if training is not None] == [0, 0]
    assert not (run_dir / IN_PROGRESS).exists()
