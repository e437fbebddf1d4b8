"""What single entries of the tables compute, from numbers whose results are exact."""

from __future__ import annotations

import math
from typing import Any

import pytest

from synthbench.metrics import percent, si, significant
from synthbench.record import Flops, Memory, PredictedMemory, Record, Timing
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Column, Marked, Table, metric_column
from synthbench.report.tables.break_even import break_even
from synthbench.report.tables.catalog import make_tables
from synthbench.report.tables.count_agreement import disagreements, far_off, uncounted
from synthbench.report.tables.forms import form_pairs
from synthbench.report.tables.layout import first_known
from synthbench.report.tables.utilisation import share
from synthbench.run_info import Ceiling
from synthbench.suites.cell import Cell
from synthbench.tasks.derived_metrics import DERIVED
from tests.test_tables import cell, record, run_of, value


def made(records: list[Record], **changes: Any) -> dict[str, Table]:
    return {table.name: table for table in make_tables(run_of(records, **changes))}


def test_a_column_of_a_metric_has_its_label() -> None:
    column = metric_column("ratio", "time", is_key=True)
    assert column == Column("ratio", "ratio", "time", is_key=True)
    assert metric_column("ratio") == Column("ratio", "ratio")
    assert (column.name, column.declared) == ("time ratio", DERIVED["ratio"])
    assert Column("variant").declared is None


# --- break-even ---------------------------------------------------------------------------------


def timing(compile_seconds: float, first: float, median: float) -> Timing:
    return Timing(
        build_seconds=99.0, compile_seconds=compile_seconds, first_step_seconds=first,
        warmup_steps=1, samples=[median] * 3, clock="perf_counter, waited",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("eager", "compiled", "steps"),
    [
        ((0.0, 1.0, 1.0), (2.0, 1.0, 0.5), 5),  # 2 s more, and 0.5 s less with each step: exactly 4
        ((0.0, 1.0, 1.0), (2.25, 1.0, 0.5), 6),  # 4.5 steps
        ((0.0, 3.0, 1.0), (2.0, 1.0, 0.5), 1),  # no more in all
        ((0.0, 3.0, 1.0), (2.0, 0.5, 0.5), 1),  # the first step has paid already
        ((0.0, 3.0, 1.0), (2.0, 0.5, 2.0), "never"),  # it has, and each further step is slower
        ((0.0, 3.0, 1.0), (2.0, 0.5, 1.0), "never"),  # and no further step is faster
        ((0.5, 3.0, 1.0), (4.0, 1.5, 0.5), 5),  # both have a compilation and a first step
        ((0.0, 1.0, 1.0), (2.0, 1.0, 1.0), "never"),
        ((0.0, 1.0, 1.0), (2.0, 1.0, 1.5), "never"),
    ],
)
def test_break_even_counts_the_first_step_and_those_that_pay_the_rest(
    eager: tuple[float, float, float], compiled: tuple[float, float, float], steps: int | str
) -> None:
    cells = {how: cell("V", "torch", "train", 64, compile=how) for how in ("eager", "compiled")}
    grid = Grid(
        [
            record(cells["eager"], timing=timing(*eager)),
            record(cells["compiled"], timing=timing(*compiled)),
        ],
        ["V"],
    )
    assert break_even(grid, grid.key(cells["compiled"])) == steps
    assert break_even(grid, grid.key(cells["eager"])) == "eager"


def test_break_even_needs_both_cells() -> None:
    eager, compiled = (
        cell("V", "torch", "train", 64, compile=how) for how in ("eager", "compiled")
    )
    failed = Grid([record(eager, outcome="oom", reason="full"), record(compiled)], ["V"])
    assert break_even(failed, failed.key(compiled)) == "no eager cell"
    assert break_even(failed, failed.key(eager)) == "oom"
    other = Grid([record(eager), record(compiled, outcome="timeout", reason="slow")], ["V"])
    assert break_even(other, other.key(compiled)) == "timeout"


# --- utilisation --------------------------------------------------------------------------------


def ceiling(rate: float, **changes: Any) -> Ceiling:
    content: dict[str, Any] = {
        "framework": "torch", "dtype": "float32", "device": "cpu", "flops_per_second": rate,
        "matrix_size": 1024, "bytes_per_second": 2e10, "seconds": 1.0,
    }  # fmt: skip
    return Ceiling(**content | changes)


def test_a_cell_is_compared_with_the_ceiling_of_its_own_dtype_device_and_framework() -> None:
    ceilings = (
        ceiling(1e9, dtype="bfloat16"), ceiling(2e9, framework="jax"), ceiling(4e9, device="cuda"),
        ceiling(8e9), ceiling(16e9),
    )  # fmt: skip
    counted = Flops(formula=80_000_000, traced=40_000_000, traced_tool="tool")
    cells = {
        name: cell("V", framework, "forward", 64, **changes)
        for name, framework, changes in (
            ("float32", "torch", {}),
            ("bfloat16", "torch", {"dtype": "bfloat16"}),
            ("float64", "torch", {"dtype": "float64"}),
            ("jax", "jax", {}),
        )
    }
    grid = Grid([record(one, 0.5, flops=counted) for one in cells.values()], ["V"])
    found = {name: share(grid, grid.key(one), ceilings) for name, one in cells.items()}
    assert found == {
        "float32": pytest.approx(0.01), "bfloat16": pytest.approx(0.08), "float64": "no ceiling",
        "jax": pytest.approx(0.04),
    }  # fmt: skip


def test_a_marked_time_marks_its_utilisation() -> None:
    grid = Grid([record(cell("V", "torch", "forward", 64), warnings=["busy"])], ["V"])
    key = grid.key(cell("V", "torch", "forward", 64))
    assert isinstance(share(grid, key, (ceiling(1e9),)), Marked)
    assert share(grid, key._replace(variant="R"), (ceiling(1e9),)) == "no cell"


# --- counts that agree --------------------------------------------------------------------------


def test_counts_are_compared_with_the_expected_one_or_with_each_other() -> None:
    both = ["torch", "jax"]
    assert disagreements("FLOPs", 100, both, [100, 100]) == []
    assert disagreements("FLOPs", 100, both, [100, "not run"]) == []
    assert disagreements("FLOPs", 100, both, [125, 80]) == ["FLOPs: torch +25%", "FLOPs: jax -20%"]
    assert disagreements("FLOPs", 0, both, [0, 7]) == ["FLOPs: jax 7 instead of 0"]
    assert disagreements("FLOPs", "not measured", both, [5, 5]) == []
    assert disagreements("FLOPs", "not measured", both, [5, 6]) == ["FLOPs: torch and jax differ"]
    assert disagreements("FLOPs", "not measured", both, [5, "oom"]) == []
    assert disagreements("FLOPs", "not measured", ["torch", "x", "jax"], [5, "oom", 6]) == [
        "FLOPs: torch and jax differ"
    ]


def test_xlas_count_is_flagged_beyond_a_quarter() -> None:
    assert far_off(100, [75, 125, 100]) == []
    assert far_off(100, [74.9]) == ["XLA -25.1%"]
    assert far_off(100, [125.1, 75]) == ["XLA +25.1%"]
    assert far_off(100, ["not measured"]) == []
    assert far_off("not measured", [5]) == []


def test_unknown_operations_of_the_shown_length_come_first() -> None:
    def of(length: int, **met: int) -> Record:
        counted = Flops(formula=1, traced=1, traced_tool="tool", uncounted=met)
        return record(cell("V", "torch", "forward", length), flops=counted)

    grid = Grid([of(64, a=1, c=2), of(128, b=3, c=4), of(256, b=5, a=6)], ["V"])
    assert uncounted(grid, Key("", "V", "torch", "forward", 256)) == [
        "torch did not count a (6), b (5)",
        "torch did not count c (4) at length 128",
    ]
    assert uncounted(grid, Key("", "R", "torch", "forward", 256)) == []


def test_the_first_known_number_stands_for_all() -> None:
    one, failed = cell("V", "torch", "forward", 64), cell("V", "jax", "forward", 64)
    grid = Grid(
        [record(failed, outcome="oom", reason="x", flops=None), record(one, flops=None)], ["V"]
    )
    there, oom = grid.key(one), grid.key(failed)
    nowhere = there._replace(mode="train")
    assert first_known(grid, [nowhere, oom, there], "parameters") == 16384
    assert first_known(grid, [nowhere, oom, there], "flops") == "oom"
    assert first_known(grid, [there, oom], "flops") == "not measured"
    assert first_known(grid, [nowhere], "flops") == "not measured"
    assert first_known(grid, [], "flops") == "not measured"


# --- memory and forms ---------------------------------------------------------------------------


def test_a_prediction_is_over_the_peak_and_the_peak_is_that_of_the_worst_round() -> None:
    def of(round: int, peak: int) -> Record:
        return record(
            cell("V", "torch", "train", 64), round=round,
            memory=Memory(parameters=10, optimizer=20, batch=5, peak=peak, method="rss"),
            predicted_memory=PredictedMemory(bytes=300, tool="plan"),
        )  # fmt: skip

    table = made([of(0, 100), of(1, 400)])["memory_parts"]
    assert table.rows[0][2:] == (10, 20, 5, 365, 400, 300, 0.75)


def test_forms_are_compared_in_the_fused_form_if_there_is_one() -> None:
    def grid(*cells: Cell) -> Grid:
        return Grid([record(one) for one in cells], ["V"])

    forms = {f: cell("V", "torch", "train", 64, form=f) for f in ("reference", "fused", "auto")}
    assert form_pairs(grid(*forms.values())) == {"form=reference": "form=fused"}
    assert form_pairs(grid(forms["reference"], forms["auto"])) == {"form=reference": "form=auto"}
    assert form_pairs(grid(forms["fused"], forms["auto"])) == {}
    batches = [
        cell("V", "torch", "train", 64, form=form, batch=batch)
        for form, batch in (("reference", 1), ("fused", 2), ("reference", 2))
    ]
    assert form_pairs(grid(*batches)) == {"batch=2 form=reference": "batch=2 form=fused"}


def test_the_memory_of_forms_is_a_geometric_mean_of_reference_over_fused() -> None:
    peaks = {"reference": (800, 800), "fused": (100, 400)}
    records = [
        record(
            cell("V", "torch", "train", 64, form=form), round=number,
            memory=Memory(parameters=1, optimizer=1, batch=1, peak=peak, method="rss"),
        )
        for form, measured in peaks.items()
        for number, peak in enumerate(measured)
    ]  # fmt: skip
    table = made(records)["forms"]
    assert value(table, "memory ratio", variant="V") == pytest.approx(math.sqrt(8 * 2))


# --- scaling ------------------------------------------------------------------------------------


def scaled(seconds: dict[str, list[float]], peaks: dict[str, list[int]] | None = None) -> Table:
    """The table of scaling of one round at lengths 64, 128, 256, ..."""
    records = []
    for variant, measured in seconds.items():
        for i, one in enumerate(measured):
            peak = peaks[variant][i] if peaks else 1000
            memory = Memory(parameters=1, optimizer=1, batch=1, peak=peak, method="rss")
            records.append(record(cell(variant, "torch", "forward", 64 * 2**i), one, memory=memory))
    return made(records)["scaling"]


def test_a_variant_that_ends_equal_has_a_length_up_to_which_it_costs_less() -> None:
    times = {"V": [1.0, 2.0, 4.0], "R": [1.0, 2.0, 4.0]}
    table = scaled(times, {"V": [400, 400, 400], "R": [100, 200, 400]})
    assert value(table, "memory overtakes V at", variant="R") == "until 256"
    assert value(table, "time overtakes V at", variant="R") == "never in range"
    falls = scaled(times, {"V": [400, 400, 400], "R": [100, 200, 800]})
    assert value(falls, "memory overtakes V at", variant="R") == "until 181"  # 128 * sqrt(2)


def test_exponents_are_of_the_longer_half_and_of_what_was_measured() -> None:
    """Linear up to 256, then quadratic up to 2048; R has no numbers at the longest length."""
    times = [1.0, 2.0, 4.0, 16.0, 64.0, 256.0]
    table = scaled({"V": times, "R": times[:2]})
    assert value(table, "time exponent", variant="V") == pytest.approx(2)
    assert value(table, "time exponent", variant="R") == "too few lengths"
    assert value(table, "time overtakes V at", variant="V") == "baseline"
    assert value(table, "memory exponent", variant="V") == pytest.approx(0, abs=1e-9)


def test_ends_beyond_the_lengths_name_them() -> None:
    table = scaled({"V": [1.0, 2.0, 4.0], "R": [0.99, 1.0, 1.1], "D": [2.0, 4.0, 8.0]})
    assert value(table, "time overtakes V at", variant="R") == "always"
    assert value(table, "time overtakes V low", variant="R") == "below 64"
    assert value(table, "time overtakes V at", variant="D") == "never in range"
    assert value(table, "time overtakes V high", variant="D") == "above 256"


# --- digits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (significant(9.996), "10.0"), (significant(9.994), "9.99"), (significant(999.6), "1000"),
        (significant(0.0099996), "0.0100"), (significant(-0.0123), "-0.0123"),
        (significant(1e-6), "0.00000100"), (significant(9.99e-7), "9.99e-07"),
        (significant(1e12), "1.00e+12"), (significant(9.99e11), "999000000000"),
        (significant(12.345, 2), "12"), (significant(1.2345, 2), "1.2"),
        (si(999), "999"), (si(999.94), "999.9"), (si(999.96), "1.000k"), (si(1000), "1.000k"),
        (si(-1500), "-1.500k"), (si(2.5), "2.500"), (si(1e6), "1.000M"), (si(2e12), "2.000T"),
        (si(0), "0"), (percent(99.94), "99.9"), (percent(100), "100"), (percent(123.4), "123"),
    ],
)  # fmt: skip
def test_digits_at_the_limits_of_each_format(text: str, expected: str) -> None:
    assert text == expected
