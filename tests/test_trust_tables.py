"""Tables that say how far to trust a number: utilisation, warnings, break-even, ways of running."""

from __future__ import annotations

from typing import Any

import pytest

from synthbench.analysis.comparison import Judgement
from synthbench.record import Flops, Record, Timing
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.prepared import prepare
from synthbench.report.data.table import Table, for_reading
from synthbench.report.tables.catalog import make_tables
from synthbench.report.text.comma_separated import csv_text
from synthbench.report.text.markdown import markdown
from synthbench.run_info import Ceiling
from tests.learning_records import learning_cell, learning_record
from tests.test_tables import cell, record, run_of, value

CEILING = Ceiling(
    framework="torch", dtype="float32", device="cpu", flops_per_second=1e9, matrix_size=1024,
    bytes_per_second=2e10, seconds=1.0,
)  # fmt: skip
BUSY = "another process was busy on the measured cores"


def made(records: list[Record], **changes: Any) -> dict[str, Table]:
    return {table.name: table for table in make_tables(run_of(records, **changes))}


def test_utilisation_is_the_steps_flops_over_the_ceiling() -> None:
    half = Flops(formula=1_000_000, traced=5_000_000, traced_tool="tool")
    by_formula = Flops(formula=2_500_000, traced=None, traced_tool=None)
    records = [
        record(cell("V", "torch", "train", 64), 0.01, flops=half),
        record(cell("R", "torch", "train", 64), 0.01, flops=by_formula),
        record(cell("V", "torch", "forward", 64), 0.01, flops=half),
        record(cell("R", "torch", "forward", 64), 0.01, flops=by_formula),
        record(cell("V", "jax", "train", 64), 0.01, flops=half),
        record(cell("R", "jax", "train", 64), outcome="oom", reason="too much"),
    ]
    table = made(records, ceilings=[CEILING])["utilisation"]

    def found(framework: str, mode: str, variant: str) -> Any:
        keys = {"framework": framework, "mode": mode, "variant": variant}
        return value(table, "L=64 util %", **keys)

    assert found("torch", "train", "V") == pytest.approx(50)
    assert found("torch", "train", "R") == "not measured"  # the formula is of a forward pass
    assert found("torch", "forward", "R") == pytest.approx(25)
    assert found("jax", "train", "V") == "no ceiling"
    assert found("jax", "train", "R") == "oom"
    assert "torch float32 on cpu 1.000GFLOP/s (size 1024), copy 20.00GB/s" in table.note


def test_each_group_has_its_own_noise_floor_beside_trainings_too() -> None:
    """At the longest length the same program twice differs by 40%, so 1.2 times is not faster."""
    lengths, noisy = (8, 16, 32, 64, 128, 256, 512), 512
    records = []
    for length in lengths:
        for number, sign in enumerate((1, -1, 1)):
            twin = 1.4 if length == noisy else 1 + sign * 0.001
            for variant, replica, by in (("V", 0, 1.0), ("V", 1, twin), ("R", 0, 1 / 1.2)):
                at = cell(variant, "torch", "forward", length, replica=replica)
                records.append(record(at, 0.01 * by * (1 + number * 1e-4), round=number))
    training = learning_record(learning_cell("V"), 0.9)
    alone, beside = (prepare(run_of(found)) for found in (records, [*records, training]))
    assert beside.cost_grid.twins() == alone.cost_grid.twins() != []
    for key in alone.cost_grid.keys:
        assert beside.context.noise.floor(key) == alone.context.noise.floor(key)
    assert beside.context.verdicts == alone.context.verdicts
    verdicts = [
        beside.context.verdicts[Key("", "R", "torch", "forward", length)] for length in lengths
    ]
    found = [one.verdict for one in verdicts if isinstance(one, Judgement)]
    assert set(found[:-1]) == {"faster"} and found[-1] != "faster"
    table = made([*records, training])["noise"]
    assert table.rows == made(records)["noise"].rows
    assert list(table.frame["noise floor"])[-1] > table.frame["noise floor"][0]


def test_a_disturbed_number_is_marked_and_its_reason_listed() -> None:
    records = [
        record(cell("V", "torch", "forward", 64), 0.01, warnings=[BUSY]),
        record(cell("V", "torch", "forward", 64), 0.01, round=1),
        record(cell("R", "torch", "forward", 64), 0.01),
    ]
    tables = made(records, ceilings=[CEILING])
    column = tables["forward"].columns[3]
    assert column.name == "torch steps/s"
    assert [for_reading(column, row[3]) for row in tables["forward"].rows] == ["100*", "100"]
    assert r"100\*" in markdown(tables["forward"])
    assert "*" not in csv_text(tables["forward"])
    assert "100" in csv_text(tables["forward"])
    assert "*" in markdown(tables["utilisation"])
    assert tables["warnings"].rows == [("V", "torch", "forward", 64, "0", BUSY)]
    assert any("see the table `warnings`" in line for line in tables["speed"].context)
    quiet = made(records[1:])
    assert quiet["warnings"].rows == []
    assert not any("see the table `warnings`" in line for line in quiet["speed"].context)


def test_what_was_measured_again_is_not_among_the_warnings() -> None:
    own = cell("V", "torch", "forward", 64)
    again = record(own, 0.01).model_copy(update={"attempt": 1})
    tables = made([record(own, 0.01, warnings=[BUSY]), again])
    assert tables["warnings"].rows == []
    assert tables["warnings"].note == "No disturbance was seen while the cells were timed."
    assert not any("see the table `warnings`" in line for line in tables["speed"].context)


def test_the_warning_of_an_a_a_twin_is_its_own() -> None:
    twins = [cell("V", "torch", "forward", 64, replica=n) for n in (0, 1)]
    tables = made([record(twins[0], 0.01), record(twins[1], 0.01, warnings=[BUSY])])
    assert tables["warnings"].rows == [("V (A/A twin)", "torch", "forward", 64, "0", BUSY)]
    assert tables["warnings"].note.startswith("1 of 2 cells")


def compiled(compile_seconds: float, first: float, median: float) -> Timing:
    return Timing(
        build_seconds=0.001, compile_seconds=compile_seconds, first_step_seconds=first,
        warmup_steps=3, samples=[median] * 3, clock="perf_counter, waited",
    )  # fmt: skip


def test_break_even_is_where_compiling_has_paid() -> None:
    def pair(variant: str, eager: Timing, made: Timing) -> list[Record]:
        return [
            record(cell(variant, "torch", "train", 64, compile="eager"), timing=eager),
            record(cell(variant, "torch", "train", 64, compile="compiled"), timing=made),
        ]

    records = [
        *pair("V", compiled(0, 0.02, 0.010), compiled(1.0, 0.01, 0.005)),
        *pair("R", compiled(0, 0.02, 0.010), compiled(1.0, 0.01, 0.011)),
        *pair("D", compiled(0, 0.02, 0.010), compiled(0.01, 0.005, 0.005)),
        record(cell("FD", "torch", "train", 64, compile="compiled")),
        record(cell("V", "jax", "train", 64, compile="compiled")),
    ]
    phases = made(records)["phases"]

    def found(framework: str, setting: str, variant: str) -> Any:
        row = {"setting": f"compile={setting}", "variant": variant}
        return value(phases, f"{framework} break-even", **row)

    # 1.01 - 0.02 = 0.99 s more once, 5 ms less with each further step: the 199th
    assert found("torch", "compiled", "V") == 1 + 198
    assert found("torch", "compiled", "R") == "never"
    assert found("torch", "compiled", "D") == 1
    assert found("torch", "compiled", "FD") == "no eager cell"
    assert found("torch", "eager", "V") == "eager"
    assert found("jax", "compiled", "V") == "no eager cell"
    assert "break-even" in phases.note
    alone = made([record(cell("V", "jax", "train", 64))])["phases"]
    assert not [column for column in alone.columns if column.label == "break-even"]


def test_a_ratio_never_mixes_eager_with_compiled() -> None:
    """An unfinished run: the baseline is there eager, the variant compiled."""
    records = [
        record(cell("V", "torch", "train", 64, compile="eager"), 0.01),
        record(cell("R", "torch", "train", 128, compile="compiled"), 0.001),
    ]
    grid = Grid(records, ["V", "R"])
    assert grid.setting_fields == ["compile"]
    summary = made(records)["train"]
    ratio = value(summary, "torch speed vs V", setting="compile=compiled", variant="R")
    assert isinstance(ratio, str)


def test_a_ratio_of_frameworks_says_how_each_was_run() -> None:
    default = [
        record(cell("V", "torch", "train", 64), 0.01),
        record(cell("V", "jax", "train", 64), 0.01),
    ]
    assert "Compared are torch eager and jax compiled." in made(default)["frameworks"].note
    both = [*default, record(cell("V", "torch", "train", 64, compile="compiled"), 0.002)]
    table = made(both)["frameworks"]
    assert "Eager or compiled as the setting says." in table.note
    fair = value(table, "L=64", setting="compile=compiled", variant="V")
    assert fair == pytest.approx(0.2)
    unfair = value(table, "L=64", setting="compile=eager", variant="V")
    assert isinstance(unfair, str)
