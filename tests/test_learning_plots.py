"""Figures of trainings: the values they must show, and what is told apart in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from synthbench.errors import ResultsError, UnknownNameError
from synthbench.record import Measurements, Memory, Record
from synthbench.report.data.prepared import prepare
from synthbench.report.data.training_groups import groups_of
from synthbench.report.data.trainings import LOSS, Group
from synthbench.report.figures.image_files import svg_text
from synthbench.report.figures.learning_data import lines_of, pareto_points
from synthbench.report.figures.learning_plot import learning_figures
from synthbench.report.figures.run_plots import write_plots
from tests.learning_records import (
    SEEDS,
    STEPS,
    VARIANTS,
    declare,
    learning_cell,
    learning_record,
    learning_records,
    with_failures,
)
from tests.test_tables import all_records, cell, record, run_of


@pytest.fixture(autouse=True)
def tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch)


def group(records: list[Record]) -> Group:
    """The group in torch."""
    return groups_of(records, VARIANTS)[0]


def test_lines_are_means_over_seeds_and_bands_their_range() -> None:
    finals = {0: 0.2, 1: 0.3, 2: 0.7}
    found = group([learning_record(learning_cell("V", seed=s), y) for s, y in finals.items()])
    lines = lines_of(found, ["V"], found.metric)
    assert len(lines.means) == 11
    last = lines.means[-1]
    assert last["value"] == pytest.approx(0.4)
    assert (last["low"], last["high"]) == pytest.approx((0.2, 0.7))
    assert (last["steps"], last["seconds"], last["flops"]) == pytest.approx((STEPS, 100, 1e12))
    assert lines.failed == lines.ends == []
    assert [one["value"] for one in lines_of(found, ["V"], LOSS).means][::10] == [5, 2]


def test_a_diverged_seed_is_a_line_of_its_own_that_ends_where_it_diverged() -> None:
    found = group(with_failures(learning_records()))
    lines = lines_of(found, ["R"], found.metric)
    assert len(lines.means) == 11
    assert [one["steps"] for one in lines.failed] == [0, 100, 200, 300]
    assert [(one["seed"], one["steps"]) for one in lines.ends] == [(1, 300)]


def test_the_front_has_those_to_which_none_is_as_good_for_less() -> None:
    finals = {"V": 0.9, "R": 0.3, "D+V": 0.8, "linformer": 0.5}  # s per step: .10 .05 .12 .08
    records = [
        learning_record(learning_cell(variant, seed=s), y)
        for variant, y in finals.items()
        for s in SEEDS
    ]
    points = {one["variant"]: one for one in pareto_points(group(records), VARIANTS, records)}
    on_front = {v for v, one in points.items() if "step_seconds" in one["front"]}
    assert on_front == {"V", "R", "linformer"}  # D+V is worse than V and slower
    assert points["R"]["step_seconds"] == pytest.approx(0.05)
    assert points["R"]["step_flops"] == pytest.approx(1e9)
    assert points["R"]["peak_bytes"] == 2_000_000
    assert {v for v, one in points.items() if "peak_bytes" in one["front"]} == {"V"}  # all equal


def test_with_a_metric_that_is_better_lower_the_front_is_below() -> None:
    records = [
        learning_record(learning_cell(variant, task="language_model"), y)
        for variant, y in (("V", 3.0), ("R", 3.5), ("D+V", 2.5), ("linformer", 3.2))
    ]
    points = pareto_points(group(records), VARIANTS, records)
    on_front = {one["variant"] for one in points if "step_seconds" in one["front"]}
    assert on_front == {"V", "R", "D+V", "linformer"}
    slower = learning_record(learning_cell("D", task="language_model"), 3.1)  # as fast as V
    points = pareto_points(group([*records, slower]), [*VARIANTS, "D"], records)
    assert "D" not in {one["variant"] for one in points if "step_seconds" in one["front"]}


def test_memory_is_that_of_a_cost_record_of_the_same_model() -> None:
    trained = learning_record(learning_cell("V"), 0.5)
    bare = trained.measurements.model_copy(update={"memory": None})
    trained = trained.model_copy(update={"measurements": bare})
    fields = {"model": "decoder", "vocabulary": 256, "layers": 1}
    memory = Memory(parameters=1, optimizer=1, batch=1, peak=7_000_000, method="rss")
    alike = record(cell("V", "torch", "train", 64, **fields), memory=memory)
    other = record(cell("V", "torch", "train", 64), memory=memory)  # another model

    def peak(*others: Record) -> Any:
        (point,) = pareto_points(group([trained]), ["V"], [trained, *others])
        return point["peak_bytes"]

    assert peak(alike) == 7_000_000
    smaller = memory.model_copy(update={"peak": 5_000_000})
    again = record(alike.cell, memory=smaller).model_copy(update={"attempt": 1})
    assert peak(alike, again) == 5_000_000  # the last attempt counts
    assert peak(other) is None
    assert peak() is None


def test_every_variant_and_mark_is_in_the_pictures() -> None:
    options = {"target": 0.9}
    records = with_failures(learning_records(frameworks=("torch",), options=options))
    figures = {one.name: one for one in learning_figures(prepare(run_of(records)))}
    assert figures.keys() == {"curves_mqar_torch", "pareto_mqar_torch"}
    curves, pareto = (svg_text(one.spec) for one in figures.values())
    for text in (curves, pareto):
        assert "mqar, PyTorch, length 64" in text
        assert "accuracy (higher is better)" in text
        for variant in VARIANTS:
            assert f">{variant}</text>" in text
    assert curves.count("\u00d7</text>") == 6  # a cross per panel
    assert curves.count('stroke-dasharray="2,3"') == 3  # the target, in the panels of the metric
    assert "Dashed: the target." in curves
    for title in ("training steps", "training time (s)", "training FLOPs", "held-out loss (nats)"):
        assert title in curves
    for title in ("time of a step (ms)", "peak memory (MB)", "FLOPs of a step"):
        assert title in pareto
    assert ">100</text>" in pareto  # an axis with numbers: the points have arrived
    assert svg_text(figures["curves_mqar_torch"].spec) == curves


def test_groups_have_files_of_their_own() -> None:
    records = [
        *learning_records(("mqar", "language_model"), seeds=(0,), variants=("V",)),
        *learning_records(seeds=(0,), variants=("V",), seq_len=128),
    ]
    names = [one.name for one in learning_figures(prepare(run_of(records)))]
    assert len(set(names)) == len(names)
    assert {"curves_language_model_jax", "curves_mqar_torch_64", "pareto_mqar_torch_128"} <= {
        *names
    }


def test_plot_draws_what_a_run_has(tmp_path: Path) -> None:
    learned = list(learning_records(frameworks=("torch",), seeds=(0,)))
    names = ["curves_mqar_torch", "pareto_mqar_torch"]
    only = write_plots(run_of(learned), tmp_path / "only")
    assert [one.name for one in only] == [f"{n}.{end}" for n in names for end in ("svg", "png")]
    both = write_plots(run_of([*learned, *all_records()]), tmp_path / "both", variants=["V", "D+V"])
    assert {one.stem for one in both} == {"train", *names}  # D+V was only trained
    assert (tmp_path / "both" / "curves_mqar_torch.svg").read_text().count(">R</text>") == 0
    with pytest.raises(UnknownNameError, match="variant of this run"):
        write_plots(run_of(learned), tmp_path, variants=["fnet"])
    with pytest.raises(ResultsError, match="--setting chooses among cells of the task"):
        write_plots(run_of(learned), tmp_path, setting="form=fused")


def test_trainings_without_a_value_are_said_to_have_none(tmp_path: Path) -> None:
    crashed = learning_record(learning_cell("V"), 0.5, outcome="crashed")
    early = crashed.model_copy(update={"measurements": Measurements()})
    with pytest.raises(ResultsError, match="no training of this run has a value"):
        write_plots(run_of([early]), tmp_path / "plots")
    assert not (tmp_path / "plots").exists()
    files = write_plots(run_of([early, *all_records()]), tmp_path / "plots")
    assert {one.stem for one in files} == {"train"}
