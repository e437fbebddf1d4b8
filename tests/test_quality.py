"""What is reported of trainings: the tables, the screen, and every command on such runs."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from synthbench.cli.app import main
from synthbench.metrics import Metric, percent
from synthbench.record import Measurements, Record
from synthbench.report.data.frame import record_frame
from synthbench.report.data.prepared import prepare
from synthbench.report.data.selection import Selection
from synthbench.report.data.table import Table
from synthbench.report.data.training_groups import groups_of
from synthbench.report.page.page import report_page
from synthbench.report.screen.screen import HEIGHT, WIDTH, screen_lines, screen_of
from synthbench.report.tables.catalog import TABLES, make_tables
from synthbench.report.text.comma_separated import csv_text
from synthbench.report.text.latex import latex
from synthbench.report.text.markdown import markdown
from synthbench.store import append_record, create_run
from tests.learning_records import (
    FINAL,
    SEEDS,
    STEPS,
    VARIANTS,
    Recall,
    declare,
    learning_cell,
    learning_record,
    learning_records,
    with_failures,
)
from tests.test_tables import all_records, cell, info, record, run_of, value

OF_TRAININGS = {"quality", "quality_frameworks", "learning_curves"}


@pytest.fixture(autouse=True)
def tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch)


def made(records: list[Record], **changes: Any) -> dict[str, Table]:
    return {table.name: table for table in make_tables(run_of(records, **changes))}


def screen(records: list[Record], height: int = HEIGHT, **selected: Any) -> list[str]:
    prepared = prepare(run_of(records))
    selection = Selection.of(prepared.grid, **selected)
    return [one.text for one in screen_lines(screen_of(prepared, selection), WIDTH, height)]


# --- the table quality --------------------------------------------------------------------------


def test_a_planted_difference_is_found_and_its_direction_is_that_of_the_metric() -> None:
    table = made(list(learning_records(("mqar", "language_model"))))["quality"]
    expected = {
        ("mqar", "R"): "worse",
        ("mqar", "D+V"): "same",
        ("mqar", "linformer"): "worse",
        ("language_model", "R"): "worse",
        ("language_model", "D+V"): "better",  # fewer bits
        ("language_model", "linformer"): "same",
    }
    for (task, variant), verdict in expected.items():
        for framework in ("torch", "jax"):
            row = {"task": task, "framework": framework, "variant": variant}
            assert value(table, "equal steps verdict", **row) == verdict
            planted = FINAL[task][variant] - FINAL[task]["V"]
            found = value(table, "equal steps difference", **row)
            assert found == pytest.approx(planted, abs=0.005)
            low = value(table, "equal steps difference low", **row)
            high = value(table, "equal steps difference high", **row)
            assert low < found < high
            assert high - low < 0.02  # seeds differ by more than that; pairs do not
    assert "accuracy: higher is better" in table.note
    assert "bits per byte: lower is better" in table.note
    for name in (row[0] for row in table.rows):
        assert name in ("mqar", "language_model")


def test_at_equal_time_a_slower_variant_has_done_fewer_steps() -> None:
    """V takes 0.1 s per step and R 0.05 s, so V is compared with its value after half the steps."""
    records = [
        learning_record(learning_cell(variant, seed=seed), final)
        for variant, final in (("V", 0.8), ("R", 0.6))
        for seed in SEEDS
    ]
    table = made(records)["quality"]
    assert value(table, "equal steps at", variant="V") == STEPS
    assert value(table, "equal time at", variant="V") == pytest.approx(50)
    assert value(table, "equal time mean", variant="V") == pytest.approx(0.4)
    assert value(table, "equal time difference", variant="R") == pytest.approx(0.2)
    assert value(table, "equal time verdict", variant="R") == "better"
    assert value(table, "equal steps verdict", variant="R") == "worse"
    assert value(table, "equal FLOPs verdict", variant="R") == "worse"
    assert value(table, "equal steps verdict", variant="V") == "baseline"


def test_what_has_failed_is_shown_and_does_not_shorten_the_others() -> None:
    table = made(with_failures(learning_records()))["quality"]
    torch = {"framework": "torch"}
    assert value(table, "seeds", variant="V", **torch) == "3"
    assert value(table, "seeds", variant="R", **torch) == "2 of 3 (1 diverged at step 350)"
    assert value(table, "seeds", variant="linformer", **torch) == "2 of 3 (1 not run)"
    assert value(table, "seeds", variant="R", framework="jax") == "3"
    assert value(table, "equal steps at", variant="R", **torch) == STEPS


def test_a_variant_without_any_result_says_why() -> None:
    diverged = [
        learning_record(learning_cell("R", seed=s), 0.3, outcome="diverged", diverged_step=1)
        for s in SEEDS
    ]
    measured = list(learning_records(variants=("V", "linformer"), frameworks=("torch",)))
    table = made([*diverged, *measured])["quality"]
    assert value(table, "seeds", variant="R") == "0 of 3 (3 diverged at step 1)"
    for column in ("mean", "low", "difference", "difference high", "verdict"):
        assert value(table, f"equal steps {column}", variant="R") == "diverged at step 1"
    # and a baseline without a result leaves the means
    table = made(
        [*(learning_record(learning_cell("V", seed=s), 0.3, outcome="diverged", diverged_step=350)
           for s in SEEDS), *learning_records(variants=("R",), frameworks=("torch",))]
    )["quality"]  # fmt: skip
    assert value(table, "equal steps mean", variant="R") == pytest.approx(0.3, abs=0.05)
    assert value(table, "equal steps verdict", variant="R") == "diverged at step 350"


SOME, OTHER = ({"train": sign * 64} for sign in "12")


def test_trainings_on_different_data_are_not_compared() -> None:
    """As after `--resume`, where the file that a task reads has changed in between."""
    finals = {"V": (0.8, 0.9, 0.7), "R": (0.5, 0.7, 0.1), "D": (0.5, 0.7, 0.6)}
    changed = {("R", "torch", 2), *(("D", "torch", seed) for seed in SEEDS)}
    records = [
        learning_record(
            learning_cell(variant, framework, seed), finals[variant][seed],
            data=OTHER if (variant, framework, seed) in changed else SOME,
        )
        for framework in ("torch", "jax")
        for variant in finals
        for seed in SEEDS
    ]  # fmt: skip
    tables = made(records)
    found = partial(value, tables["quality"], framework="torch")
    # of seeds 0 and 1: -0.3 and -0.2; seed 2 would change the mean to -0.37
    assert found("equal steps difference", variant="R") == pytest.approx(-0.25)
    assert found("equal steps difference", variant="D") == "other data"
    assert found("equal steps verdict", variant="D") == "other data"
    in_jax = value(tables["quality"], "equal steps difference", variant="R", framework="jax")
    assert in_jax == pytest.approx(-1.1 / 3)
    between = tables["quality_frameworks"]
    assert value(between, "jax - torch difference", variant="D") == "other data"
    assert value(between, "jax - torch difference", variant="R") == pytest.approx(0, abs=1e-12)


def test_one_seed_has_differences_and_no_verdict() -> None:
    table = made(list(learning_records(seeds=(0,))))["quality"]
    row = {"framework": "torch", "variant": "R"}
    assert value(table, "equal steps difference", **row) == pytest.approx(-0.68, abs=0.01)
    assert value(table, "equal steps difference low", **row) == "one seed"
    assert value(table, "equal steps verdict", **row) == "one seed"
    assert "`one seed`: the spread over seeds is not known" in table.note
    assert "Holm" not in table.note


def test_the_cost_of_a_target_is_that_of_more_than_half_of_the_seeds() -> None:
    options = {"target": 0.45}
    records = [
        learning_record(learning_cell("V", seed=0, options=options), 0.9),  # after 500 steps
        learning_record(learning_cell("V", seed=1, options=options), 0.5),  # after 900
        learning_record(learning_cell("V", seed=2, options=options), 0.4),  # never
        *(learning_record(learning_cell("R", seed=s, options=options), 0.2) for s in SEEDS),
        *(
            learning_record(learning_cell("D", seed=s, options=options), 0.9, outcome="diverged",
                            diverged_step=850)
            for s in SEEDS
        ),
    ]  # fmt: skip
    table = made(records)["quality"]
    assert value(table, "to target target", variant="V") == 0.45
    assert value(table, "to target reached", variant="V") == "2 of 3"
    assert value(table, "to target steps", variant="V") == pytest.approx(900)
    assert value(table, "to target seconds", variant="V") == pytest.approx(90)
    assert value(table, "to target FLOPs", variant="V") == pytest.approx(9e11)
    assert value(table, "to target steps", variant="R") == "> 1000"
    assert value(table, "to target seconds", variant="R") == "> 50.00"
    assert value(table, "to target FLOPs", variant="R") == "> 1.000T"
    assert value(table, "to target reached", variant="D") == "0 of 3"  # not even at step 800
    assert value(table, "to target steps", variant="D") == "never"
    assert "to target" not in str(made(list(learning_records()))["quality"].columns)


def test_what_has_no_flops_has_no_cost_in_flops() -> None:
    """No formula, and one seed diverged: that says nothing of the FLOPs of the others."""
    options = {"target": 0.45}
    records = [
        learning_record(learning_cell("V", seed=0, options=options), 0.9),
        learning_record(learning_cell("V", seed=1, options=options), 0.9),
        learning_record(learning_cell("V", seed=2, options=options), 0.9, outcome="diverged",
                        diverged_step=450),
    ]  # fmt: skip
    table = made([without_flops(one) for one in records])["quality"]
    assert value(table, "to target reached", variant="V") == "2 of 3"
    assert value(table, "to target steps", variant="V") == pytest.approx(500)
    assert value(table, "to target FLOPs", variant="V") == "not measured"
    assert value(table, "equal FLOPs mean", variant="V") == "not measured"


def without_flops(one: Record) -> Record:
    training = one.measurements.training
    assert training is not None
    steps = [point.model_copy(update={"flops": None}) for point in training.evaluations]
    changed = training.model_copy(update={"evaluations": steps})
    content = one.measurements.model_copy(update={"training": changed})
    return one.model_copy(update={"measurements": content})


def test_the_metric_is_shown_in_its_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    in_percent = Metric("correct %", "%", "higher", percent, scale=100)
    monkeypatch.setattr(Recall, "metrics", {"recall_accuracy": in_percent})
    tables = made(list(learning_records()))
    row = {"framework": "torch", "variant": "R"}
    assert value(tables["quality"], "metric", **row) == "correct %"
    assert value(tables["quality"], "equal steps mean", **row) == pytest.approx(30, abs=2)
    assert value(tables["quality"], "equal steps difference", **row) == pytest.approx(-68, abs=1)
    last = {"step": STEPS} | row
    assert value(tables["learning_curves"], "mean", **last) == pytest.approx(30, abs=2)
    assert value(tables["quality_frameworks"], "torch mean", variant="R") == pytest.approx(
        30, abs=2
    )


def test_a_task_that_is_not_loaded_has_means_and_no_verdict() -> None:
    records = list(
        itertools.chain.from_iterable(
            (
                learning_record(learning_cell("V", seed=s, task="unknown"), 0.5),
                learning_record(learning_cell("R", seed=s, task="unknown"), 0.3),
            )
            for s in SEEDS
        )
    )
    table = made(records)["quality"]
    assert value(table, "metric", variant="R") == "score"
    assert value(table, "equal steps mean", variant="R") == pytest.approx(0.3)
    assert value(table, "equal steps verdict", variant="R") == "no better side"


def test_seeds_are_pooled_and_other_fields_are_settings() -> None:
    records = [one for pairs in (4, 8) for one in learning_records(options={"pairs": pairs})]
    groups = groups_of(records, VARIANTS)
    assert [one.seeds for one in groups] == [SEEDS] * 4
    assert {one.place.setting for one in groups} == {
        "options={'pairs': 4}", "options={'pairs': 8}",
    }  # fmt: skip
    assert [one.place.framework for one in groups] == ["torch", "jax"] * 2
    table = made(records)["quality"]
    assert table.columns[0].label == "setting"
    # two tasks alone need no column for the setting: the task has one
    both = made(list(learning_records(("mqar", "language_model"))))
    assert both["quality"].columns[0].label == "task"
    assert not any("Rows also differ" in line for line in both["quality"].context)


def test_of_several_rounds_the_first_that_is_ok_counts() -> None:
    at = learning_cell("V")
    failed = learning_record(at, 0.9, outcome="crashed").model_copy(
        update={"measurements": Measurements()}
    )
    good = learning_record(at, 0.5).model_copy(update={"round": 1})
    other = learning_record(at, 0.7).model_copy(update={"round": 2})
    (group,) = groups_of([failed, other, good], ["V"])
    assert group.final_values("V") == {0: pytest.approx(0.5)}
    (group,) = groups_of([failed], ["V"])
    assert group.problems("V") == {0: "crashed"}


# --- the other tables ---------------------------------------------------------------------------


def test_the_frameworks_are_compared_within_each_seed() -> None:
    planted = {"V": 0.0, "R": 0.1, "D+V": 1e-9}
    records = [
        learning_record(
            learning_cell(variant, framework, seed),
            0.5 + 0.05 * seed + (difference + 1e-6 * seed) * (framework == "jax"),
        )
        for variant, difference in planted.items()
        for framework in ("torch", "jax")
        for seed in SEEDS
    ]
    table = made(records)["quality_frameworks"]
    for variant, difference in planted.items():
        found = value(table, "jax - torch difference", variant=variant)
        assert found == pytest.approx(difference, abs=2e-6)
        low = value(table, "jax - torch difference low", variant=variant)
        high = value(table, "jax - torch difference high", variant=variant)
        assert low <= found <= high
    verdicts = {
        variant: value(table, "jax - torch verdict", variant=variant) for variant in planted
    }
    assert verdicts == {"V": "same", "R": "differ", "D+V": "same"}
    assert "quality_frameworks" not in made(list(learning_records(frameworks=("jax",))))


def test_every_metric_of_a_task_is_shown_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = Metric("exact match %", "%", "higher", percent, scale=100)
    monkeypatch.setattr(Recall, "metrics", {**Recall.metrics, "exact_match": extra})
    records = with_failures(learning_records())
    assert "final_metrics" not in made(records)
    for one in records:
        training = one.measurements.training
        assert training is not None
        for evaluation in training.evaluations:
            evaluation.metrics["exact_match"] = evaluation.step / STEPS / 4
    tables = made(records)
    table, row = tables["final_metrics"], {"framework": "torch", "variant": "R"}
    assert value(table, "mean", metric="exact match %", **row) == pytest.approx(25)
    assert value(table, "mean", metric="accuracy", **row) == pytest.approx(
        value(tables["quality"], "equal steps mean", **row)
    )
    assert value(table, "seeds", metric="accuracy", **row) == 2
    assert "exact match %: higher is better" in table.note
    assert set(tables["quality"].frame.metric) == {"accuracy"}


def test_learning_curves_are_means_over_the_seeds_that_got_there() -> None:
    table = made(with_failures(learning_records()))["learning_curves"]
    row = {"framework": "torch", "variant": "R"}
    assert value(table, "seeds", step=300, **row) == 3
    assert value(table, "seeds", step=400, **row) == 2  # one has diverged at step 350
    assert value(table, "tokens", step=300, **row) == 128 * 300
    assert value(table, "seconds", step=300, **row) == pytest.approx(15)
    assert value(table, "FLOPs", step=300, **row) == pytest.approx(3e11)
    assert value(table, "training loss", step=0, **row) == "no step yet"
    assert value(table, "training loss", step=STEPS, **row) == pytest.approx(1)
    assert value(table, "held-out loss", step=STEPS, **row) == pytest.approx(2)
    assert len(table.frame[(table.frame.variant == "V")]) == 2 * 11


def test_the_final_metric_is_in_the_frame_and_in_exports() -> None:
    frame = record_frame(learning_records()).set_index(["variant", "framework", "seed"])
    assert frame.loc[("R", "torch", 0), "recall_accuracy"] == pytest.approx(0.3, abs=0.05)
    assert record_frame([record(cell("V", "torch", "train", 64))])["recall_accuracy"].isna().all()


# --- runs that only train, and runs that do both ------------------------------------------------


def trained(**fields: Any) -> list[Record]:
    return with_failures(learning_records(**fields))


def both(**fields: Any) -> list[Record]:
    return [*trained(**fields), *all_records()]


@pytest.mark.parametrize("mixed", [False, True], ids=["only trainings", "both"])
def test_every_table_of_such_a_run_can_be_made(mixed: bool) -> None:
    tables = made(both() if mixed else with_failures(learning_records()))
    assert tables.keys() >= OF_TRAININGS | {"parity", "outcomes", "warnings"}
    assert "metrics" not in tables
    of_cost = {"train", "ratios", "speed", "memory", "scaling", "cost"}
    assert tables.keys() & of_cost == (of_cost if mixed else set())
    for table in tables.values():
        for text in (markdown(table), latex(table), csv_text(table)):
            assert text
        rows = list(csv.reader(io.StringIO(csv_text(table))))
        assert len(rows) == 1 + len(table.rows)
        for row in table.rows:
            assert len(row) == len(table.columns)
            assert all(entry != "" for entry in row)
    outcomes = tables["outcomes"].frame
    assert set(outcomes[outcomes.outcome == "diverged"].variant) == {"R"}


def test_a_mixed_run_keeps_its_times_and_verdicts() -> None:
    """What was learned beside them changes no table of costs."""
    alone, together = made(list(all_records())), made(both())
    for name in TABLES.keys() & alone.keys() - {"parity", "outcomes", "warnings", "kernels"}:
        assert together[name].columns == alone[name].columns
        assert together[name].rows == alone[name].rows


def test_the_screen_says_which_variants_are_better_or_worse() -> None:
    text = "\n".join(screen(with_failures(learning_records())))
    assert "mqar torch L=64, accuracy, higher is better, 3 seeds, at equal steps: V 0.985" in text
    assert "worse             R -0.679  linformer -0.482" in text
    assert "same              D+V +0.000" in text
    assert "at equal time     D+V worse" in text
    assert "without a result  R 2 of 3 (1 diverged at step 350)  linformer 2 of 3" in text
    assert "--table quality (intervals)" in text
    for absent in ("noise", "No cell of the task", "see the table `metrics`", "Speed vs"):
        assert absent not in text
    only = "\n".join(screen(list(learning_records()), frameworks=["jax"], variants=["R"]))
    assert "mqar jax" in only
    assert "mqar torch" not in only
    assert "linformer" not in only


def test_the_screen_of_both_fits_and_has_both() -> None:
    lines = screen(both())
    assert len(lines) <= HEIGHT
    text = "\n".join(lines)
    assert "mqar torch L=64" in text
    assert "torch train" in text
    assert "fastest +" in text
    for height in (30, 20, 12):
        fewer = screen(both(), height)
        assert len(fewer) <= max(height, 15)
    assert "groups of trainings are left out here" in "\n".join(screen(both(), 12))


@pytest.mark.parametrize("mixed", [False, True], ids=["only trainings", "both"])
def test_the_page_has_the_curves_and_the_table(mixed: bool) -> None:
    in_torch = {"frameworks": ("torch",)}
    text = report_page([run_of(both(**in_torch) if mixed else trained(**in_torch))])
    assert 'id="run1-quality"' in text
    assert 'id="run1-learning_curves"' in text
    assert "<figcaption>Learning curves, mqar, length 64</figcaption>" in text
    assert "<figcaption>Metric and cost, mqar, length 64</figcaption>" in text
    assert text.count('data-framework="torch" data-group="0"') == 2
    assert "<figure><img" not in text  # as those of `inspect`
    assert '<td class="worse">worse</td>' in text
    assert ('id="run1-measurements"' in text) == mixed
    assert "A training is one cell" in text
    plain = report_page([run_of(list(all_records()))])
    assert ">Learning curves" not in plain
    assert "A training is one cell" not in plain


@pytest.fixture
def results(tmp_path: Path) -> Path:
    in_torch = {"frameworks": ("torch",)}
    for suite, records in (("learned", trained(**in_torch)), ("mixed", both(**in_torch))):
        for name in ("one", "two"):
            folder = tmp_path / suite / name
            create_run(folder, info(suite=suite))
            for one in records:
                append_record(folder, one)
    return tmp_path


def called(capsys: pytest.CaptureFixture[str], *arguments: object) -> Iterator[str]:
    """The exit code of a command, then what it wrote to both streams."""
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    streams = capsys.readouterr()
    yield str(exit_.value.code or 0)
    yield streams.out + streams.err


@pytest.mark.long_but("mixed")
@pytest.mark.parametrize("suite", ["learned", "mixed"])
def test_every_command_works_on_such_a_run_or_says_why_not(
    results: Path, suite: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = results / suite / "one", results / suite / "two"
    for arguments in (
        ("tables", one),
        ("tables", one, "--check"),
        ("tables", one, "--all"),
        ("tables", one, "--table", "quality", "--sort", "equal steps mean"),
        ("tables", one, "--table", "quality", "--framework", "torch", "--format", "csv"),
        ("export", one, "--format", "csv", "--out", results / "records.csv"),
        ("report", one, "--out", results / "page.html"),
    ):
        code, text = called(capsys, *arguments)
        assert code == "0", text
    assert (one / "tables" / "quality.csv").exists()
    assert "recall_accuracy" in (results / "records.csv").read_text()
    refused: dict[tuple[object, ...], str] = {
        ("compare", one, two): "A has no cell of the task `cost`",
        ("history", suite, "--results", results): "have no cell of the task `cost`",
        ("export", one, "--format", "pytest-benchmark", "--out", results / "b.json"): "no cell of",
    }
    for command, reason in refused.items():
        code, text = called(capsys, *command)
        assert code == ("2" if suite == "learned" else "0"), text
        assert (reason in text) == (suite == "learned"), text


@pytest.mark.long
def test_the_tables_of_the_paper_can_be_made_beside_trainings(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("learned", "mixed"):
        (results / name).rename(results / f"old_{name}")
    for name, records in (("table4", both()), ("table9", with_failures(learning_records()))):
        folder = results / name / "one"
        create_run(folder, info(suite=name))
        for one in records:
            append_record(folder, one)
    code, text = called(capsys, "tables", "--paper", "--results", results)
    assert code == "0", text
    assert "Table 4" in text
