"""Cells whose memory and FLOPs are known beforehand, in both frameworks, through the harness."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from synthbench.backends.base import BACKENDS, Setting, Step
from synthbench.measure.inputs import random_batch
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.start_values import start_values
from synthbench.record import Record
from synthbench.report.tables.catalog import make_tables
from synthbench.run.extensions import load_plugin
from synthbench.run.runner import Summary, run_plan
from synthbench.store import read_records, read_run
from synthbench.suites.plan import Plan, make_plan
from synthbench.suites.suite import parse_suite
from tests.plugin_isolation import isolated_plugins

PLUGIN = "tests.plugins.known"
FRAMEWORKS = tuple(BACKENDS)
BATCH, LENGTH, D = 3, 5, 8
LIMIT = 300 * 10**6
TOO_LARGE = "holder(megabytes=400)"

linux = pytest.mark.skipif(sys.platform != "linux", reason="the harness's limits are Linux's")


@pytest.fixture(scope="module", autouse=True)
def plugin() -> Iterator[None]:
    """The known mixers, in the catalogue for this module only."""
    with isolated_plugins():
        load_plugin(PLUGIN)
        yield


def built(framework: str, variant: str, mode: str) -> Step:
    model = Model.of("mixer", parse(variant), Sizes.of(d_model=D, heads=2, max_len=LENGTH))
    setting = Setting(compile="eager" if framework == "torch" else "compiled")
    start, batch = start_values(model.parameters()), random_batch(model, BATCH, LENGTH)
    step: Step = importlib.import_module(BACKENDS[framework]).build(
        model, start, setting, mode, batch
    )
    return step


@pytest.mark.parametrize("times", [1, 7, 30])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_products_in_a_loop_are_counted_exactly(framework: str, times: int) -> None:
    one = 2 * BATCH * LENGTH * D * D
    variant = f"repeated(times={times})"
    forward = built(framework, variant, "forward").traced_flops()
    assert (forward.flops, dict(forward.uncounted)) == (times * one, {})
    train = built(framework, variant, "train").traced_flops()
    # Backward makes two products for each. The inputs need no gradient, which saves one in torch;
    # every turn of a scan is alike, and makes it.
    expected = 3 * times - (framework == "torch")
    assert (train.flops, dict(train.uncounted)) == (expected * one, {})


def plan(*, force: bool = False) -> Plan:
    text = f"""
    axes: {{variant: [holder, {TOO_LARGE}], framework: [torch, jax], mode: [forward], seq_len: [8]}}
    model: {{kind: mixer, d_model: 8, heads: 2}}
    measure: {{rounds: 2, min_samples: 1, min_seconds: 0.001, max_seconds: 0.1,
               timeout_seconds: 300, ceiling: false, memory_limit_gb: {LIMIT / 1e9}, threads: 1}}
    """
    suite = parse_suite(text, name="known", source="known.yaml")
    return make_plan(suite, "cpu", force=force)


Found = dict[tuple[str, str, int], Record]


def by_place(run_dir: Path) -> Found:
    """Variant, framework and round -> the record that counts."""
    return {(r.cell.variant, r.cell.framework, r.round): r for r in read_records(run_dir)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Found, Summary, Found]:
    """A run in which one mixer does not fit, and the same run gone on with by force."""
    run_dir = tmp_path_factory.mktemp("runs") / "known"
    run_plan(plan(), run_dir, plugins=[PLUGIN])
    first = by_place(run_dir)
    forced = run_plan(plan(force=True), run_dir, resume=True, plugins=[PLUGIN])
    return run_dir, first, forced, by_place(run_dir)


@linux
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_known_allocation_is_the_peak_and_was_predicted(runs: Any, framework: str) -> None:
    record = runs[1]["holder", framework, 0]
    assert record.outcome == "ok", record.reason
    memory, predicted = record.measurements.memory, record.measurements.predicted_memory
    known = memory.parameters + memory.optimizer + memory.batch + 64 * 10**6
    tolerance = max(2 * 10**6, 0.03 * known)
    assert abs(memory.peak - known) <= tolerance
    assert abs(predicted.bytes - known) <= tolerance
    assert predicted.available == LIMIT
    assert predicted.tool == {
        "torch": "torch storage tracking", "jax": "XLA memory analysis",
    }[framework]  # fmt: skip


@linux
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_does_not_fit_is_not_run(runs: Any, framework: str) -> None:
    record = runs[1][TOO_LARGE, framework, 0]
    assert record.outcome == "oom_predicted"
    for part in ("400 MB", "300 MB available", "--force"):
        assert part in record.reason
    assert record.measurements.memory is None
    assert record.measurements.timing is None
    assert record.measurements.predicted_memory.bytes == pytest.approx(400e6, rel=0.01)
    assert "running the first steps" not in record.host["stage_seconds"]
    again = runs[1][TOO_LARGE, framework, 1]
    assert (again.outcome, again.wall_seconds) == ("oom_predicted", 0)
    assert again.reason == f"as in round 0: {record.reason}"


@linux
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_force_runs_what_was_predicted_not_to_fit_and_nothing_else(
    runs: Any, framework: str
) -> None:
    _, first, forced, second = runs
    assert forced.recorded == 4  # two frameworks, two rounds
    assert forced.outcomes == {"ok": 8}, [record.reason for record in second.values()]
    for number in (0, 1):
        record = second[TOO_LARGE, framework, number]
        assert record.outcome == "ok", record.reason
        assert record.measurements.memory.peak >= 399e6
        assert record.measurements.predicted_memory.available is None
        assert second["holder", framework, number] == first["holder", framework, number]


@linux
def test_the_parts_of_the_peak_stand_in_a_table(runs: Any) -> None:
    (table,) = [t for t in make_tables(read_run(runs[0])) if t.name == "memory_parts"]
    frame = table.frame.set_index("variant")
    for framework in FRAMEWORKS:
        row = frame.loc["holder"]
        parts = [row[f"{framework} {part}"] for part in ("parameters", "optimizer", "batch")]
        assert parts[:2] == [0, 0]
        whole = sum(parts) + row[f"{framework} activations"]
        assert whole == pytest.approx(row[f"{framework} peak"])
        assert row[f"{framework} activations"] == pytest.approx(64, abs=2)
        assert row[f"{framework} predicted/peak"] == pytest.approx(1, abs=0.03)
    assert "torch by torch storage tracking; jax by XLA" in table.note
