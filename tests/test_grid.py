"""Frame and grid from a few records: pooling, settings, costs by round and comparisons, exactly."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthbench.analysis.comparison import Comparison
from synthbench.analysis.noise_floor import noise_floors
from synthbench.metrics import pool_values
from synthbench.record import Memory, Record, Timing
from synthbench.report.data.frame import OUTCOMES, pool_rounds, record_frame
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.noise import noise_of
from synthbench.report.data.prepared import prepare
from synthbench.report.data.table import MARK, Column, Marked, for_machines, for_reading
from synthbench.report.screen.head import trust
from synthbench.report.tables.catalog import make_tables
from tests.test_ratios import steady
from tests.test_tables import cell, info, record, run_of

SAMPLES = (0.9, 1.0, 1.1)  # of `record`, times its seconds: three, so the interval spans them
ERROR = math.log(1.1 / 0.9) / (2 * 1.959964)  # standard error of one such median's logarithm


def memory(peak: int, batch: int = 1) -> Memory:
    return Memory(parameters=1, optimizer=1, batch=batch, peak=peak, method="rss")


def key(variant: str = "V", framework: str = "torch", mode: str = "forward", **changes: Any) -> Key:
    return Key("", variant, framework, mode, 64, **changes)


def at(variant: str = "V", framework: str = "torch", **fields: Any) -> Any:
    return cell(variant, framework, fields.pop("mode", "forward"), fields.pop("n", 64), **fields)


# --- rounds pooled to one row -------------------------------------------------------------------


@given(
    st.lists(st.none() | st.integers(-1000, 1000).map(float), min_size=1, max_size=7),
    st.permutations(range(7)),
)
@settings(max_examples=50)
def test_pooled_values_are_those_of_the_known_rounds(
    values: list[float | None], order: list[int]
) -> None:
    known = [value for value in values if value is not None]
    expected: dict[str, Any] = {"median": statistics.median, "max": max, "min": min, "sum": sum}
    for how, function in expected.items():
        found = pool_values(how, values, first=7)  # type: ignore[arg-type]
        assert found == (function(known) if known else None)
        mixed = [values[i] for i in order if i < len(values)]
        assert pool_values(how, mixed, first=7) == found  # type: ignore[arg-type]
    assert pool_values("first", list(values), first=7) == 7


def test_texts_are_joined_once_and_empty_ones_left_out() -> None:
    assert pool_values("join", ["busy", "", None, "hot", "busy"], None) == "busy; hot"
    assert pool_values("join", ["", None], None) == ""


def test_each_metric_is_pooled_as_it_is_declared() -> None:
    def timing(seconds: float, build: float) -> Timing:
        return Timing(
            build_seconds=build, compile_seconds=2 * build, first_step_seconds=3 * build,
            warmup_steps=1, samples=[x * seconds for x in SAMPLES], clock="perf_counter, waited",
        )  # fmt: skip

    rounds = [
        record(at(), timing=timing(0.2, 1.0), memory=memory(100), round=0),
        record(at(), timing=timing(0.1, 8.0), memory=memory(300, batch=50), round=1),
        record(at(), timing=timing(0.7, 3.0), memory=memory(200), round=2),
    ]
    frame = record_frame(rounds)
    assert list(frame["steps_per_second"]) == pytest.approx([5, 10, 1 / 0.7])
    row = pool_rounds(frame).iloc[0]
    assert row["median_seconds"] == pytest.approx(0.2)
    assert (row["low_seconds"], row["high_seconds"]) == pytest.approx((0.09, 0.77))
    assert row["steps_per_second"] == pytest.approx(5)
    assert row["half_width_percent"] == pytest.approx(100 * (0.77 - 0.09) / 2 / 0.2)
    assert (row["build_seconds"], row["compile_seconds"], row["first_step_seconds"]) == (3, 6, 9)
    assert (row["samples"], row["rounds"]) == (9, 3)
    assert row["peak_bytes"] == 300
    assert row["activation_bytes"] == 300 - 1 - 1 - 50
    assert row["batch_bytes"] == 1  # of the first round


@pytest.mark.parametrize("milder", range(1, len(OUTCOMES)))
def test_the_worst_outcome_of_the_rounds_is_that_of_the_cell(milder: int) -> None:
    worse: Any = OUTCOMES[milder - 1]
    mild: Any = OUTCOMES[milder]
    rounds = [
        record(at(), outcome=mild, reason="mild", round=0, constants=1),
        record(at(), outcome=worse, reason="bad", round=1, constants=2),
        record(at(), outcome=worse, reason="bad again", round=2),
    ]
    row = pool_rounds(record_frame(rounds)).iloc[0]
    assert (row["outcome"], row["reason"], row["round"]) == (worse, "bad", 1)
    assert row["constants"] == 2  # of the round that gives the outcome


def test_outcomes_are_ordered_from_failures_to_ok() -> None:
    assert OUTCOMES[0] == "crashed"
    assert OUTCOMES[-1] == "ok"
    assert OUTCOMES.index("oom") < OUTCOMES.index("oom_predicted")


def test_cells_of_one_id_are_pooled_and_others_are_not() -> None:
    found = [record(at(), 0.1), record(at("R"), 0.2), record(at(), 0.3, round=1)]
    pooled = pool_rounds(record_frame(found))
    assert list(pooled["variant"]) == ["V", "R"]
    assert list(pooled["rounds"]) == [2, 1]
    assert list(pooled["median_seconds"]) == pytest.approx([0.2, 0.2])


# --- settings -----------------------------------------------------------------------------------


def fields_of(*cells: Any) -> list[str]:
    return Grid([record(one) for one in cells], ["V", "R"]).setting_fields


def test_a_field_in_which_cells_differ_is_a_setting() -> None:
    assert fields_of(at(), at("R")) == []
    assert fields_of(at(dtype="float32"), at("R", dtype="bfloat16")) == ["dtype"]
    assert fields_of(at(dtype="float32"), at("R", mode="train", dtype="bfloat16")) == ["dtype"]
    assert fields_of(at(n=64, dtype="float32"), at(n=128, dtype="bfloat16")) == ["dtype"]
    assert fields_of(at(batch=1), at("R", batch=2)) == ["batch"]
    assert fields_of(at(batch=1, dtype="float64"), at(batch=2)) == ["batch", "dtype"]
    assert fields_of(at(), at(replica=1)) == []


def test_frameworks_may_differ_only_in_how_they_are_run() -> None:
    assert fields_of(at(), at(framework="jax")) == []  # eager and compiled
    assert fields_of(at(), at(compile="compiled"), at(framework="jax")) == ["compile"]
    assert fields_of(at(dtype="float32"), at(framework="jax", dtype="bfloat16")) == ["dtype"]
    assert fields_of(at(batch=1), at(framework="jax", batch=2)) == ["batch"]
    assert fields_of(at(heads=4), at(framework="jax", heads=8)) == ["heads"]


def test_the_longest_length_may_follow_the_length() -> None:
    assert fields_of(at(n=64), at(n=128)) == []  # max_len is the length
    assert fields_of(at(n=64, max_len=64), at("R", n=64, max_len=128)) == ["max_len"]


def test_heads_may_follow_the_variant() -> None:
    assert fields_of(at(heads=4), at("R", heads=8)) == []
    assert fields_of(at(heads=4), at(heads=8)) == ["heads"]
    assert fields_of(at(head_dim=16), at("R", head_dim=8)) == []
    assert fields_of(at(n=64, head_dim=16), at(n=128, head_dim=8)) == ["head_dim"]


def test_models_with_a_label_may_differ_in_their_own_fields() -> None:
    wide: dict[str, Any] = {"label": "wide", "d_model": 128}
    narrow: dict[str, Any] = {"label": "narrow", "d_model": 64}
    assert fields_of(at(**wide), at(**narrow)) == ["label"]
    assert fields_of(at(**wide), at("R", label="wide", d_model=64)) == ["d_model"]
    assert fields_of(at(**wide, batch=2), at(**narrow, batch=4)) == ["batch", "label"]


def test_settings_are_sorted_by_their_numbers() -> None:
    grid = Grid([record(at(batch=n)) for n in (16, 2, 128, 4)], ["V"])
    assert grid.settings() == ["batch=2", "batch=4", "batch=16", "batch=128"]
    assert grid.key(at(batch=4)).setting == "batch=4"


# --- what a run has -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grid() -> Grid:
    """Two settings: three variants in torch, one of them with a twin; one variant in jax."""
    cells = [
        at("R", n=128, batch=1), at("V", batch=1), at("V", batch=1, replica=1),
        at("zz", mode="train", batch=1), at("FR", framework="jax", n=256, batch=2),
    ]  # fmt: skip
    return Grid([record(one) for one in cells], ["V", "FR", "R"])


def test_variants_follow_the_suite_and_then_their_names(grid: Grid) -> None:
    assert grid.variants("batch=1") == ["V", "R", "zz"]
    assert grid.variants("batch=2") == ["FR"]
    assert Grid([record(at(v)) for v in ("b", "a", "R")], ["R"]).variants("") == ["R", "a", "b"]


def test_lengths_pairs_and_modes_are_those_of_the_setting(grid: Grid) -> None:
    assert grid.lengths() == [64, 128, 256]
    assert grid.lengths("batch=1") == [64, 128]
    assert (grid.longest("batch=1"), grid.longest("batch=2")) == (128, 256)
    assert grid.pairs() == [("torch", "forward"), ("torch", "train"), ("jax", "forward")]
    assert grid.pairs("batch=2") == [("jax", "forward")]
    assert (grid.frameworks(), grid.frameworks("batch=2")) == (["torch", "jax"], ["jax"])
    assert grid.modes("batch=1") == ["forward", "train"]
    assert grid.modes("batch=2") == ["forward"]


def test_the_cells_of_a_run_are_the_product_of_each_setting(grid: Grid) -> None:
    first, second = (
        [key for key in grid.keys if key.setting == name] for name in ("batch=1", "batch=2")
    )
    assert second == [Key("batch=2", "FR", "jax", "forward", 256)]
    assert len(first) == 2 * (3 + 1) * 2  # pairs, variants and the twin of V, lengths
    assert [key.variant for key in grid.twins()] == ["V"] * 4
    assert all(key.replica == 1 for key in grid.twins())


def test_a_cell_without_numbers_says_why(grid: Grid) -> None:
    there = Key("batch=1", "V", "torch", "forward", 64)
    assert grid.missing(there) is None
    assert grid.missing(there._replace(mode="train")) == "not run"
    assert grid.missing(there._replace(replica=1)) is None
    assert grid.missing(there._replace(variant="R", replica=1)) == "no cell"
    assert grid.missing(there._replace(framework="jax")) == "no cell"
    assert grid.missing(there._replace(setting="batch=2")) == "no cell"


# --- costs and comparisons ----------------------------------------------------------------------


def test_costs_are_by_round_and_left_out_where_not_measured() -> None:
    rounds = [
        record(at(), 0.3, round=2, memory=memory(30)),
        record(at(), 0.1, round=0, memory=None),
        record(at(), 0.2, round=1, memory=memory(20)),
    ]
    found = Grid(rounds, ["V"])
    assert found.costs(key(), "seconds") == pytest.approx([0.1, 0.2, 0.3])
    assert found.costs(key(), "peak_bytes") == [20, 30]
    assert found.costs(key("R"), "seconds") == []


def test_a_comparison_pairs_the_rounds_that_both_have() -> None:
    narrow = Timing(
        build_seconds=0, compile_seconds=0, first_step_seconds=0, warmup_steps=1,
        samples=[0.2] * 3, clock="perf_counter, waited",
    )  # fmt: skip
    rounds = [
        record(at(), 0.4, round=0, memory=memory(400)),
        record(at(), 0.6, round=1, memory=memory(100)),
        record(at(), 9.0, round=3),
        record(at("R"), timing=narrow, round=0, memory=memory(100)),
        record(at("R"), 0.1, round=1, memory=memory(200)),
        record(at("R"), 7.0, round=2),
    ]
    found = Grid(rounds, ["V", "R"]).compare(key("R"), key(), "V")
    assert isinstance(found, Comparison)
    assert found.log_ratios == pytest.approx((math.log(2), math.log(6)))
    # Errors of round 0: V alone; of round 1: both.
    assert found.within == pytest.approx(ERROR * math.sqrt((1 + 2) / 2), rel=1e-6)
    by_memory = Grid(rounds, ["V", "R"]).compare(key("R"), key(), "V", cost="peak_bytes")
    assert isinstance(by_memory, Comparison)
    assert by_memory.log_ratios == pytest.approx((math.log(4), math.log(0.5)))
    assert by_memory.within == 0
    rounds += [record(at(), 8.0, round=4), record(at("R"), 0.5, round=4)]
    ratio = Grid(rounds, ["V", "R"]).speed_ratio(key("R"), key(), "V")
    assert ratio == pytest.approx((2 * 6 * 16) ** (1 / 3))


def test_a_comparison_without_numbers_says_whose_are_missing() -> None:
    rounds = [
        record(at(), outcome="oom", reason="full"), record(at("R"), outcome="timeout", reason="x"),
        record(at("D"), round=0), record(at("FR"), round=1),
    ]  # fmt: skip
    grid = Grid(rounds, ["V", "R", "D", "FR"])
    assert grid.compare(key("D"), key(), "V") == "V oom"
    assert grid.compare(key("R"), key(), "V") == "timeout"
    assert grid.compare(key("R"), key(), "V", "R") == "R timeout"
    assert grid.compare(key(), key(), "V") == "oom"
    assert grid.compare(key("D"), key("FR"), "FR") == "no shared round"


def test_a_value_is_marked_only_where_the_timing_was_disturbed() -> None:
    disturbed = record(at(), 0.5, warnings=["busy"])
    grid = Grid([disturbed, record(at("R"), 0.5)], ["V", "R"])
    assert isinstance(grid.value(key(), "steps_per_second"), Marked)
    assert not isinstance(grid.value(key("R"), "steps_per_second"), Marked)
    assert not isinstance(grid.value(key(), "peak_bytes"), Marked)
    assert grid.value(key(), "steps_per_second") == pytest.approx(2)
    assert grid.value(key("D"), "steps_per_second") == "no cell"


@pytest.mark.parametrize("far", [{"R"}, {"V", "R"}, {"V", "R", "D"}])
def test_so_is_one_whose_cores_were_far_unlike_those_of_most(far: set[str]) -> None:
    """Of four cells: where half or more have far cores, that is the machine."""
    found = []
    for name in ("V", "R", "D", "FR"):
        timing = steady(0.5).model_copy(
            update={"core_distances": [1.2, 2.1 if name in far else 1.3]}
        )
        found.append(record(at(name), timing=timing))
    run = run_of(found)
    grid = prepare(run).grid
    marked = {n for n in ("V", "R", "D", "FR")
              if isinstance(grid.value(key(n), "steps_per_second"), Marked)}  # fmt: skip
    assert marked == (far if len(far) < 2 else set())
    (table,) = (one for one in make_tables(run) if one.name == "warnings")
    assert [row[0] for row in table.rows] == sorted(marked)
    # A warning in the last attempt says nothing of the cores in an earlier one.
    warned = record(at("FR"), warnings=["busy"]).model_copy(update={"attempt": 1})
    (table,) = (one for one in make_tables(run_of([*found, warned])) if one.name == "warnings")
    assert sorted(row[0] for row in table.rows if row[-1] == "busy") == ["FR"]
    assert sorted(row[0] for row in table.rows if row[-1] != "busy") == sorted(marked)
    assert f"disturbed {len(marked)} of 4" in " ".join(trust(prepare(run)))
    marks = [line for line in prepare(run).context.shared if line.startswith(MARK)]
    assert len(marks) == len(marked)


def test_a_number_of_a_failed_cell_is_known_and_not_shown() -> None:
    grid = Grid([record(at(), outcome="oom", reason="full", flops=None)], ["V"])
    assert grid.known(key(), "parameters") == 16384
    assert grid.value(key(), "parameters") == "oom"
    assert grid.known(key(), "flops") == "oom"
    unmeasured = Grid([record(at(), flops=None)], ["V"])
    assert unmeasured.value(key(), "flops") == "not measured"


# --- noise --------------------------------------------------------------------------------------


TWIN_LOG_RATIOS = {
    64: (math.log(2),) * 2,
    128: (-math.log(3),) * 2,
    256: (math.log(2), -math.log(2)),
}


def twin_records() -> list[Record]:
    """Twins at 3 lengths, 2 rounds each; the mean log ratios are log 2, -log 3 and 0."""
    found = []
    for length, twins in ((64, (0.25, 0.25)), (128, (1.5, 1.5)), (256, (0.25, 1.0))):
        for number, seconds in enumerate(twins):
            found += [
                record(at(n=length), 0.5, round=number),
                record(at(n=length, replica=1), seconds, round=number),
            ]
    return found


def test_each_group_of_twins_has_a_noise_floor() -> None:
    noise = noise_of(Grid(twin_records(), ["V"]), info())
    floors = {group[3]: floor for group, floor in noise.floors.items()}  # type: ignore[index]
    of_all = noise_floors(TWIN_LOG_RATIOS)
    assert floors == dict(of_all.of_groups)
    assert noise.usual == {"torch": of_all.of_others}
    assert set(noise.rounds.values()) == {2}
    key = Key("", "R", "torch", "train", 128)
    assert noise.floor(key) == floors[128]
    assert noise.floor(key._replace(seq_len=4096)) == of_all.of_others
    assert noise.floor(key._replace(framework="jax")) is None
    assert noise.margin(key, 3) == pytest.approx(floors[128].ratio(3))
    assert noise.margin(key._replace(framework="jax"), 3) == 1.03
    assert replace(noise, declared=1e6).margin(key, 2) == 1e6 + 1
    assert noise.line.startswith("Noise floor, median and range: torch ")
    assert "3 groups" in noise.line
    without = noise_of(Grid([r for r in twin_records() if not r.cell.replica], ["V"]), info())
    assert (without.floors, without.declared, without.resolution) == ({}, 0.03, 0.05)
    assert "no A/A twin" in without.line


# --- values for people and machines -------------------------------------------------------------


def test_numbers_are_scaled_to_the_unit_of_their_metric() -> None:
    milliseconds = Column("steady", "median_seconds")
    assert for_reading(milliseconds, 0.0123) == "12.3"
    assert for_reading(milliseconds, Marked(0.0123)) == "12.3*"
    assert for_machines(milliseconds, Marked(1 / 3)) == "333.333333"
    assert for_machines(Column("MB", "peak_bytes"), 2_500_000) == "2.5"
    assert for_machines(Column("count", "exact_count"), 2**60 + 1) == str(2**60 + 1)
    assert for_reading(milliseconds, math.inf) == "not finite"
    assert for_reading(milliseconds, "oom") == for_machines(milliseconds, "oom") == "oom"
    assert for_reading(Column("rounds"), 3) == "3"
