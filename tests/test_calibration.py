"""Times relative to fixed work: in records, ratios, and the table `machine_speed`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from synthbench.api import backend_of
from synthbench.record import Calibration, Record, Timing
from synthbench.report.data.grid import Grid, Key
from synthbench.report.tables.catalog import make_tables
from synthbench.report.tables.machine_speed import by_variant, spread_within
from synthbench.run.worker import run_cell
from synthbench.suites.measure import Measure
from synthbench.tasks import cost
from tests.test_tables import cell, record, run_of, value

PRODUCT = 0.004


def key(variant: str, framework: str = "torch") -> Key:
    return Key("", variant, framework, "forward", 64)


def timed(variant: str, step: float, slow: float, number: int, **fields: Any) -> Record:
    """A cell on a machine that was `slow` times as slow while it was measured."""
    fixed = fields.pop("fixed", True)
    timing = Timing(
        build_seconds=0.001, compile_seconds=0.002, first_step_seconds=0.003, warmup_steps=3,
        samples=[one * step * slow for one in (0.99, 1.0, 1.01)], clock="perf_counter, waited",
        calibration=Calibration(after=[0, 2, 3], seconds=[PRODUCT * slow] * 3) if fixed else None,
    )  # fmt: skip
    framework = fields.pop("framework", "torch")
    return record(cell(variant, framework, "forward", 64), timing=timing, round=number, **fields)


def records(speeds: Sequence[float] = (1.0, 3.0, 1.5, 1.0), **fields: Any) -> list[Record]:
    """Two rounds; each cell meets another speed of the machine. R is twice as fast as V."""
    first_v, first_r, second_v, second_r = speeds
    return [
        timed("V", 0.02, first_v, 0, **fields), timed("R", 0.01, first_r, 0, **fields),
        timed("V", 0.02, second_v, 1, **fields), timed("R", 0.01, second_r, 1, **fields),
    ]  # fmt: skip


def test_ratios_do_not_follow_the_speed_of_the_machine() -> None:
    found = Grid(records(), ()).compare(key("R"), key("V"), "V")
    assert not isinstance(found, str)
    assert found.log_ratios == pytest.approx([math.log(2)] * 2)
    raw = Grid(records(fixed=False), ()).compare(key("R"), key("V"), "V")
    assert not isinstance(raw, str)
    assert raw.log_ratios == pytest.approx([math.log(2 / 3), math.log(3)])


def test_relative_times_are_given_in_seconds_at_the_usual_speed() -> None:
    usual = PRODUCT * np.median([1.0, 3.0, 1.5, 1.0])
    fast = np.quantile([0.99, 1.0, 1.01], 0.1)
    assert Grid(records(), ()).costs(key("V"), "seconds") == pytest.approx(
        [0.02 * fast / PRODUCT * usual] * 2
    )


def test_each_framework_has_its_own_product() -> None:
    """JAX's product was timed while the machine was three times as slow: R's step is 1/4 of it."""
    slow = [timed("R", 0.01, 3.0, n, framework="jax") for n in (0, 1)]
    grid = Grid([*records(), *slow], ())
    fast = np.quantile([0.99, 1.0, 1.01], 0.1)
    assert grid.costs(key("R", "jax"), "seconds") == pytest.approx([0.03 * fast] * 2)
    assert grid.costs(key("R"), "seconds") == pytest.approx([0.0125 * fast] * 2)


def test_frameworks_are_on_one_scale() -> None:
    """Relative times are those of fast steps: against medians, torch would look faster."""
    grid = Grid([*records(), *records(framework="jax", fixed=False)], ())
    for framework in ("torch", "jax"):
        assert grid.costs(key("R", framework), "seconds") == pytest.approx([0.03, 0.01])
    assert grid.units == {}
    with_products = Grid(records(), ())
    assert with_products.units
    in_seconds = Grid(records(), (), in_seconds=True)
    assert in_seconds.costs(key("R"), "seconds") == pytest.approx([0.03, 0.01])


def test_each_device_of_a_machine_is_on_its_own() -> None:
    """The product is timed on the CPU only; cells on a GPU beside them change nothing."""
    beside = []
    for one in records(fixed=False):
        own = one.cell.changed(device="cuda:0")
        beside.append(one.model_copy(update={"cell": own, "id": own.id}))
    grid = Grid([*records(), *beside], ())
    on_cpu, on_gpu = (key("R")._replace(setting=f"device={name}") for name in ("cpu", "cuda:0"))
    assert grid.costs(on_cpu, "seconds") == Grid(records(), ()).costs(key("R"), "seconds")
    assert grid.costs(on_gpu, "seconds") == pytest.approx([0.03, 0.01])


def test_times_with_and_without_the_product_are_not_mixed() -> None:
    """As in a run that an earlier version began."""
    mixed = [*records()[:2], *records(fixed=False)[2:]]
    found = Grid(mixed, ()).compare(key("R"), key("V"), "V")
    assert not isinstance(found, str)
    assert found.log_ratios == pytest.approx([math.log(2 / 3), math.log(3)])


def test_the_table_tells_how_the_machine_changed() -> None:
    (table,) = (one for one in make_tables(run_of(records())) if one.name == "machine_speed")
    assert value(table, "measurements") == 4
    assert value(table, "product ms") == pytest.approx(1e3 * PRODUCT * 1.25)
    logs = np.log([1.0, 3.0, 1.5, 1.0])
    assert value(table, "its spread %") == pytest.approx(100 * np.std(logs, ddof=1))
    within = math.sqrt((math.log(1.5) ** 2 / 2 + math.log(3) ** 2 / 2) / 2)
    assert value(table, "steps %") == pytest.approx(100 * within)
    assert value(table, "relative %") == pytest.approx(0, abs=1e-12)
    assert all(one.name != "machine_speed" for one in make_tables(run_of(records(fixed=False))))


def test_a_product_that_is_slower_after_some_variants_is_seen() -> None:
    rng = np.random.default_rng(0)
    names = [name for name in "abcd" for _ in range(8)]
    false, found = 0, 0
    for _ in range(200):
        same = [float(x) for x in 1 + 0.02 * rng.standard_normal(32)]
        slower = [x * (1.1 if name == "d" else 1) for name, x in zip(names, same, strict=True)]
        false += by_variant(names, same) < 0.05  # type: ignore[operator]
        found += by_variant(names, slower) < 0.05  # type: ignore[operator]
    assert false < 20
    assert found == 200
    assert by_variant(["a", "b"], [1.0, 2.0]) == "too few"
    assert by_variant(["a", "a", "b", "b"], [1.0] * 4) == "too few"


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_cell_on_the_host_has_its_own_products(framework: str) -> None:
    # In a process of its own it keeps freed memory, which would change this one.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "keep_freed_memory", lambda: False)
        measure = Measure(min_samples=3, min_seconds=0.05, max_seconds=1.0)
        measured, notes = run_cell(
            backend_of(framework), cell("V", framework, "train", 16), measure
        )
    assert notes == []
    assert measured.timing is not None
    fixed = measured.timing.calibration
    assert fixed is not None
    assert fixed.after[-1] == len(measured.timing.samples)
    assert min(fixed.seconds) > 1e-5  # half a GFLOP


def test_one_round_has_no_spread_between_rounds() -> None:
    assert spread_within(["a", "b"], [1.0, 2.0]) == "one round"


@pytest.mark.parametrize(
    ("after", "seconds"), [([], []), ([1], [0.1]), ([0, 2], [0.1]), ([0], [0.0])]
)
def test_a_record_whose_product_was_not_timed_is_refused(
    after: list[int], seconds: list[float]
) -> None:
    with pytest.raises(ValidationError):
        Calibration(after=after, seconds=seconds)


def test_the_products_of_other_numbers_of_devices_are_on_their_own() -> None:
    """Four devices share the cores of a CPU: the product has a quarter of them."""
    on_four = []
    for one in records(speeds=(4.0, 12.0, 6.0, 4.0)):
        own = one.cell.changed(devices=4)
        on_four.append(one.model_copy(update={"cell": own, "id": own.id}))
    run = run_of([*records(), *on_four])
    grid = Grid(run.records, ())
    alone = Grid(records(), ())
    for name in "VR":
        found = grid.costs(key(name)._replace(setting="devices=1"), "seconds")
        assert found == pytest.approx(alone.costs(key(name), "seconds"))
    (table,) = (one for one in make_tables(run) if one.name == "machine_speed")
    frame = table.frame
    assert list(frame["devices"]) == [1, 4]
    assert list(frame["product ms"]) == pytest.approx([1e3 * PRODUCT * 1.25, 4e3 * PRODUCT * 1.25])
    assert frame["its spread %"][0] == pytest.approx(frame["its spread %"][1])


def test_the_spread_of_the_product_is_within_machines() -> None:
    """Two machines of one kind, one of them three times as fast, each as even as can be."""
    slow = [one.model_copy(update={"machine": "slow"}) for one in records(speeds=[3.0] * 4)]
    fast = [
        one.model_copy(update={"machine": "fast", "round": one.round + 2})
        for one in records(speeds=[1.0] * 4)
    ]
    (table,) = (one for one in make_tables(run_of([*slow, *fast])) if one.name == "machine_speed")
    assert value(table, "measurements") == 8
    assert value(table, "its spread %") == pytest.approx(0, abs=1e-9)
    assert value(table, "steps %") == pytest.approx(0, abs=1e-9)
