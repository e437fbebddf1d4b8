"""`synthbench compare`: made-up runs whose differences are known, its gate, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthbench.errors import NotationError, ResultsError
from synthbench.record import Measurements, Memory, Record
from synthbench.report.compare.as_json import comparisons_json
from synthbench.report.compare.comparison import COSTS, RunComparison, compare_runs
from synthbench.report.compare.environment import environment_changes
from synthbench.report.compare.gate import hidden_by_margin, parse_conditions, violations
from synthbench.report.compare.headline import headline
from synthbench.report.compare.matching import match_cells
from synthbench.report.compare.side import Side
from synthbench.report.compare.tables import comparison_tables
from synthbench.report.compare.text import comparisons_markdown
from synthbench.run_info import Ceiling, Machine
from synthbench.store import Run, append_record, create_run
from tests import test_calibration as calibrated
from tests.command_line import Captured, refused, synthbench
from tests.test_tables import cell, info, record, run_of

VARIANTS = ("V", "R", "FR(rank=32)+V")
LENGTHS = (64, 128, 256)
ROUNDS = 3
NOISE = (1.0, 1.001, 0.999)  # of the rounds
SPECIAL = "a|b *c* <d> `e` \x1b[31m"


def seconds_of(variant: str, seq_len: int) -> float:
    """V is quadratic and the others are linear, so they overtake V."""
    return 1e-6 * seq_len**2 if variant == "V" else 1e-4 * seq_len


def records(
    changes: dict[tuple[str, int], float] | None = None,
    *,
    scale: float = 1.0,
    rounds: int = ROUNDS,
    peak: float = 2.5e6,
    **fields: Any,
) -> list[Record]:
    """Every cell in each round; `changes`: (variant, length) -> times as long."""
    found = []
    for number in range(rounds):
        for variant in VARIANTS:
            for length in LENGTHS:
                factor = scale * (changes or {}).get((variant, length), 1.0) * NOISE[number % 3]
                made = record(
                    cell(variant, "torch", "train", length, **fields),
                    seconds_of(variant, length) * factor,
                    round=number,
                    memory=Memory(parameters=1, optimizer=1, batch=1, peak=int(peak), method="rss"),
                )
                timing = made.measurements.timing
                assert timing is not None
                steady = [timing.samples[1]] * 20  # no noise within a round
                content = made.measurements.model_copy(
                    update={"timing": timing.model_copy(update={"samples": steady})}
                )
                found.append(made.model_copy(update={"measurements": content}))
    return found


def side(letter: str, found: Sequence[Record], **changes: Any) -> Side:
    return Side(letter, f"made_up/{letter.lower()}", run_of(list(found), **changes))


def on_machine(name: str, **environment: Any) -> dict[str, Any]:
    return {"machines": [Machine(id=name, environment=environment)]}


def compared(first: Sequence[Record], second: Sequence[Record], **changes: Any) -> RunComparison:
    return compare_runs(side("A", first), side("B", second, **changes))


def test_times_with_and_without_a_product_are_compared_in_seconds() -> None:
    """The same steps; the second run has the product between them, and so relative times."""
    without, with_product = calibrated.records(fixed=False), calibrated.records()
    machine = on_machine("some-cpu")
    first, second = (side(letter, found, **machine)
                     for letter, found in (("A", without), ("B", with_product)))  # fmt: skip
    for one, other in ((first, second), (second, first)):
        found = compare_runs(one, other)
        assert [change.ratio for change in found.costs["time"]] == pytest.approx([1.0, 1.0])
        assert found.first is one and found.second is other


def met(comparison: RunComparison, *conditions: str) -> list[str]:
    """The cells that meet any of the conditions."""
    return [
        name for one in violations(comparison, parse_conditions(conditions)) for name in one.found
    ]


# --- same machine --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def same() -> RunComparison:
    return compared(records(), records())


def test_a_run_compared_with_itself_finds_nothing(same: RunComparison) -> None:
    assert set(same.verdicts("time")) == set(same.verdicts("memory")) == {"same"}
    assert len(same.costs["time"]) == len(same.costs["memory"]) == 9
    assert all(change.ratio == 1 for change in same.costs["time"])
    assert same.agreements() == {"agree": 6}
    assert [one.moved for one in same.crossings] == [False, False]
    assert not same.environment and not same.outcomes
    assert met(same, "any", "slower", "faster", "memory", "failed", "contradiction") == []


@given(st.sampled_from([1.1, 1.5, 3.0]))
def test_scaling_all_times_gives_the_same_ratio_everywhere(scale: float) -> None:
    slower = compared(records(), records(scale=scale))
    assert slower.verdicts("time") == {"slower": 9}
    assert [one.ratio for one in slower.costs["time"]] == pytest.approx([scale] * 9)
    assert slower.typical("time") == pytest.approx({"torch": scale})
    assert slower.agreements() == {"agree": 6}  # the ratios within each run are the same
    assert any("more often the machine" in line for line in headline(slower))
    faster = compared(records(scale=scale), records())
    assert faster.verdicts("time") == {"faster": 9}
    for one, other in zip(slower.costs["time"], faster.costs["time"], strict=True):
        assert (one.first, one.second) == (other.second, other.first)
        assert (one.low, one.high) == pytest.approx((1 / other.high, 1 / other.low))
        assert one.low < one.ratio < one.high


def test_one_slow_cell_is_the_only_one_named() -> None:
    found = compared(records(), records({("R", 128): 1.2}))
    assert found.verdicts("time") == {"slower": 1, "same": 8}
    (place,) = [one.place for one in found.costs["time"] if one.verdict == "slower"]
    assert (place.variant, place.framework, place.mode, place.seq_len) == (
        "R",
        "torch",
        "train",
        128,
    )
    assert met(found, "slower 5%") == ["torch train R L=128 (slower time: x1.20)"]
    assert met(found, "slower 25%") == met(found, "faster", "memory") == []
    shown = next(table for table in comparison_tables(found) if table.name == "time")
    assert len(shown.rows) == 1
    everything = comparison_tables(found, every=True)
    assert {table.name: len(table.rows) for table in everything} == {
        "time": 9, "memory": 9, "conclusions": 6, "crossings": 2,
    }  # fmt: skip


def test_more_memory_is_found() -> None:
    found = compared(records(), records(peak=3e6))
    assert found.verdicts("memory") == {"more": 9}
    assert found.verdicts("time") == {"same": 9}
    assert len(met(found, "memory +10%")) == 9
    assert met(found, "memory +25%") == met(found, "slower") == []
    assert compared(records(peak=3e6), records()).verdicts("memory") == {"less": 9}


def test_a_change_within_the_noise_floor_of_either_run_is_no_difference() -> None:
    twins = [
        record(cell("V", "torch", "train", n, replica=1), 1.4 * seconds_of("V", n), round=number)
        for n in LENGTHS for number in range(ROUNDS)
    ]  # fmt: skip
    slow = {("R", 128): 1.2}
    for first, second in ((twins, []), ([], twins)):
        found = compared([*records(), *first], [*records(slow), *second])
        assert all(one.margin > 1.4 for one in found.costs["time"])
        conditions = parse_conditions(["slower 5%", "memory +10%", "slower", "slower 900%"])
        (remark,) = hidden_by_margin(found, conditions)
        assert "slower 5%: the noise floor of " in remark
        assert "slower" not in found.verdicts("time")


def test_a_cell_that_fails_now_is_named() -> None:
    after = records()
    broken = record(cell("R", "torch", "train", 128), outcome="oom", reason="too large")
    after = [broken if (one.id, one.round) == (broken.id, 0) else one for one in after]
    found = compared(records(), after)
    assert met(found, "failed") == ["torch train R L=128 (ok -> oom)"]
    assert len(found.costs["time"]) == 8
    assert met(found, "slower 5%") == []
    assert "Another outcome: 1 cell." in headline(found)
    back = compared(after, records())
    assert met(back, "failed") == []
    assert met(back, "any") == ["torch train R L=128 (oom -> ok)"]


def planned(**axes: Any) -> dict[str, Any]:
    """The settings of a run of the made-up cells, with other axes."""
    every = {
        "variant": list(VARIANTS), "framework": ["torch"], "mode": ["train"],
        "seq_len": list(LENGTHS), "batch": [2],
    }  # fmt: skip
    settings = {"axes": every | axes, "baseline": "V", "model": {"d_model": 64, "heads": 4}}
    return {"settings": settings}


def test_a_cell_that_was_planned_and_is_missing_now_is_named() -> None:
    """The run was interrupted before it."""
    kept = [one for one in records() if (one.cell.variant, one.cell.seq_len) != ("R", 128)]
    found = compared(records(), kept, **planned())
    gone = ["torch train R L=128 (ok -> not run)"]
    assert met(found, "failed") == gone and met(found, "any") == gone
    assert "Another outcome: 1 cell." in headline(found)
    assert "8 cells in both; 1 only in A." in headline(found)
    outcomes = next(table for table in comparison_tables(found) if table.name == "outcomes")
    assert outcomes.rows == [("torch", "train", "R", "128", "ok", "not run")]
    assert json.loads(comparisons_json([found], []))["comparisons"][0]["outcomes"][0]["first"]
    assert met(compared(kept, records(), **planned()), "failed", "any") == []


@pytest.mark.parametrize(
    ("axes", "missed"),
    [
        ({}, ["V L=128", "R L=64", "R L=128", "R L=256", "FR(rank=32)+V L=128"]),
        ({"variant": ["V", "FR(rank=32)+V"]}, ["V L=128", "FR(rank=32)+V L=128"]),
        ({"seq_len": [64, 256]}, ["R L=64", "R L=256"]),
        ({"variant": ["V", "FR(rank=32)+V"], "seq_len": [64, 256]}, []),
    ],
)
def test_a_cell_that_was_not_planned_is_not_missed(axes: dict[str, Any], missed: list[str]) -> None:
    left = [one for one in records() if one.cell.variant != "R" and one.cell.seq_len != 128]
    found = compared(records(), left, **planned(**axes))
    assert met(found, "failed") == [f"torch train {name} (ok -> not run)" for name in missed]


def test_a_framework_that_could_not_be_loaded_is_missed() -> None:
    in_jax = [one.cell.changed(framework="jax", compile="compiled") for one in records()]
    before = [
        *records(),
        *(
            one.model_copy(update={"cell": own, "id": own.id})
            for one, own in zip(records(), in_jax, strict=True)
        ),
    ]
    both = {"framework": ["torch", "jax"]}
    assert len(met(compared(before, records(), **planned(**both)), "failed")) == 9
    assert met(compared(before, records(), **planned()), "failed") == []


def test_a_missing_twin_is_named_where_it_was_planned() -> None:
    twins = [
        one.model_copy(update={"cell": twin, "id": twin.id})
        for one in records() if one.cell.variant == "V"
        for twin in [one.cell.changed(replica=1)]
    ]  # fmt: skip
    for rounds, missed in ((1, 0), (ROUNDS, 3)):
        settings = planned()["settings"] | {"measure": {"rounds": rounds}}
        found = compared([*records(), *twins], records(), settings=settings)
        assert len(met(found, "failed")) == missed


def test_without_a_plan_that_can_be_read_every_missing_cell_is_named() -> None:
    kept = [one for one in records() if one.cell.variant != "R"]
    settings = {"axes": {"of_another_version": [1]}, "baseline": "V"}
    assert len(met(compared(records(), kept, settings=settings), "failed")) == 3


def test_other_kernels_and_disturbances_are_remarked() -> None:
    after = [
        one.model_copy(update={"measurements": Measurements.model_validate(
            one.measurements.model_dump() | {"kernels": ["blocks"], "warnings": ["busy"]})})
        for one in records()
    ]  # fmt: skip
    remarks = {one.remark for one in compared(records(), after).costs["time"]}
    assert remarks == {"kernels: none named -> blocks; disturbed in B"}


def test_with_one_round_there_is_no_verdict_and_no_gate() -> None:
    found = compared(records(rounds=1), records(scale=2))
    assert found.verdicts("time") == {"one round": 9}
    assert [one.moved for one in found.crossings] == [None, None]
    assert met(found, "failed") == []
    for condition in ("slower 5%", "faster", "memory", "contradiction", "any"):
        with pytest.raises(ResultsError, match=r"cannot be judged .*two rounds or more"):
            met(found, condition)


def test_a_gate_does_not_pass_cells_that_it_cannot_judge() -> None:
    """Those that are judged would hide them."""
    slow = records({("R", 128): 1.5})
    once = [one for one in slow if (one.cell.variant, one.round) not in (("R", 1), ("R", 2))]
    with pytest.raises(ResultsError, match=r"3 of 9 cells have one round in one of the runs"):
        met(compared(records(), once), "slower 5%")
    parts = [
        one.model_copy(update={"machine": "other" if one.cell.variant == "R" else "some-cpu"})
        for one in slow
    ]
    both = {"machines": [Machine(id=name, environment={}) for name in ("some-cpu", "other")]}
    at_home = side("A", records(), machines=both["machines"][:1])
    apart = compare_runs(at_home, side("B", parts, **both))
    assert (apart.ok_in_both, apart.elsewhere) == (9, 3)
    assert "Not compared, as different machines measured them: 3 cells." in headline(apart)
    with pytest.raises(ResultsError, match=r"3 cells were measured by different machines"):
        met(apart, "slower 5%")
    assert met(apart, "failed", "contradiction") == []


def test_what_is_met_is_told_though_another_condition_cannot_be_judged() -> None:
    """As where every cell of B has crashed: there are no times, and the cells have failed."""
    crashed = [
        one.model_copy(update={"outcome": "crashed", "measurements": Measurements()})
        for one in records()
    ]
    found = compared(records(), crashed)
    for conditions in (["any"], ["slower 5%", "failed"], ["failed"]):
        assert len(met(found, *conditions)) == 9
    with pytest.raises(ResultsError, match=r"no cell is ok in both runs.*\"failed\""):
        met(found, "slower 5%")


# --- other machines, devices, suites -------------------------------------------------------------


def test_across_machines_conclusions_are_compared_and_times_are_not() -> None:
    found = compared(records(), records(scale=5), **on_machine("another-cpu", cpu="Another"))
    assert found.costs == {"time": [], "memory": []}
    assert "some-cpu" in found.no_times and "another-cpu" in found.no_times
    assert found.agreements() == {"agree": 6}
    assert [one.moved for one in found.crossings] == [False, False]
    assert met(found, "contradiction", "any") == []
    with pytest.raises(ResultsError, match=r"only compared on one machine.*contradiction"):
        met(found, "slower 5%")
    names = [change.name for change in found.environment]
    assert names[0] == "machine" and "cpu" in names and "versions.torch" in names


def test_across_machines_a_contradiction_and_a_moved_crossing_are_found() -> None:
    # R overtakes V at 100; where R takes twice as long, at 200.
    slow = {("R", length): 2.0 for length in LENGTHS}
    found = compared(records(), records(slow), **on_machine("another-cpu"))
    assert found.agreements() == {"agree": 5, "contradict": 1}
    assert met(found, "contradiction") == ["torch train R L=128 (faster -> slower than V)"]
    moved = {one.place.variant: one for one in found.crossings}
    assert moved["R"].moved is True and moved["FR(rank=32)+V"].moved is False
    assert (moved["R"].first.length, moved["R"].second.length) == pytest.approx(
        (100, 200), rel=1e-3
    )
    assert "torch train R (crossing moved)" in met(found, "any")


def test_machines_are_matched_cell_by_cell() -> None:
    def measured(found: Iterable[Record], machine: dict[str, str]) -> list[Record]:
        return [r.model_copy(update={"machine": machine[r.cell.variant]}) for r in found]

    machines = [Machine(id="one"), Machine(id="two")]
    first = dict.fromkeys(VARIANTS, "one")
    second = first | {"R": "two"}
    found = compare_runs(
        side("A", measured(records(), first), machines=machines),
        side("B", measured(records(), second), machines=machines),
    )
    assert {one.place.variant for one in found.costs["time"]} == {"V", "FR(rank=32)+V"}


def spread(found: Iterable[Record], machines: Sequence[str], of: dict[str, float]) -> list[Record]:
    """Each round on the next machine; a machine takes `of` times as long."""
    moved = []
    for one in found:
        machine = machines[one.round % len(machines)]
        timing = one.measurements.timing
        assert timing is not None
        slowed = timing.model_copy(update={"samples": [t * of[machine] for t in timing.samples]})
        measured = one.measurements.model_copy(update={"timing": slowed})
        moved.append(one.model_copy(update={"machine": machine, "measurements": measured}))
    return moved


@given(st.floats(0.2, 5), st.floats(0.2, 5))
@settings(max_examples=10, deadline=None)
def test_what_a_machine_adds_to_both_runs_is_no_difference(fast: float, slow: float) -> None:
    names, speeds = ["one", "two", "three"], {"one": 1.0, "two": fast, "three": slow}
    machines = [Machine(id=name) for name in names]
    # In other rounds than in the first run, and two in each place.
    found = compare_runs(
        side("A", spread(records(rounds=6), names, speeds), machines=machines),
        side("B", spread(records({("R", 128): 1.2}, rounds=6), names[::-1], speeds),
             machines=machines),
    )  # fmt: skip
    assert not found.no_times
    changes = {(one.place.variant, one.place.seq_len): one for one in found.costs["time"]}
    assert len(changes) == 9
    slower = changes.pop(("R", 128))
    assert slower.verdict == "slower"
    assert slower.ratio == pytest.approx(1.2, rel=1e-3)
    assert {one.verdict for one in changes.values()} == {"same"}


def test_cells_of_other_sets_of_machines_are_not_compared() -> None:
    names, speeds = ["one", "two"], {"one": 1.0, "two": 2.0}
    machines = [Machine(id=name) for name in names]
    found = compare_runs(
        side("A", spread(records(rounds=4), names, speeds), machines=machines),
        side("B", spread(records(rounds=4), ["two"], speeds), machines=machines),
    )
    assert found.no_times and not found.costs["time"]
    assert found.agreements()["agree"] == 6


@pytest.mark.parametrize("known", [("one",), ("two",), ("one", "two")])
def test_peaks_of_other_machines_are_not_compared(known: tuple[str, ...]) -> None:
    """Run A knows the peaks of R on these machines only, and run B on the machine `two` only."""

    def of_run(letter: str, known: tuple[str, ...]) -> Side:
        found = spread(records(rounds=4), ["one", "two"], {"one": 1.0, "two": 2.0})
        for at, one in enumerate(found):
            if one.cell.variant == "R" and one.machine not in known:
                memory = Memory(parameters=1, optimizer=1, batch=1, peak=None, method="")
                less = one.measurements.model_copy(update={"memory": memory})
                found[at] = one.model_copy(update={"measurements": less})
        return side(letter, found, machines=[Machine(id=name) for name in ("one", "two")])

    found = compare_runs(of_run("A", known), of_run("B", ("two",)))
    variants = {name: {one.place.variant for one in found.costs[name]} for name in COSTS}
    assert variants["time"] == set(VARIANTS)
    assert variants["memory"] == set(VARIANTS) - ({"R"} if known != ("two",) else set())


def test_another_device_is_named_and_only_conclusions_are_compared() -> None:
    found = compared(records(), records(scale=0.01, device="cuda"))
    assert found.match.differing == {"device": ("cpu", "cuda")}
    assert found.no_times == "A ran on device cpu, B on cuda"
    assert found.agreements() == {"agree": 6}


def test_another_dtype_is_named_and_times_are_compared() -> None:
    found = compared(records(), records(scale=0.5, dtype="bfloat16"))
    assert found.match.differing == {"dtype": ("float32", "bfloat16")}
    assert found.verdicts("time") == {"faster": 9}
    assert any("dtype (float32 in A, bfloat16 in B)" in line for line in headline(found))


def test_a_field_with_two_values_in_a_run_is_part_of_the_cell() -> None:
    both = [*records(), *records(scale=2, dtype="bfloat16")]
    found = compared(records(dtype="bfloat16"), both)
    assert (len(found.match.pairs), found.match.only) == (9, (0, 9))
    assert [one.ratio for one in found.costs["time"]] == pytest.approx([2.0] * 9)


def test_cells_of_one_run_are_counted() -> None:
    more = [*records(), *(record(cell("D", "torch", "train", 64), round=n) for n in range(ROUNDS))]
    assert compared(more, records()).match.only == (1, 0)
    assert "9 cells in both; 1 only in B." in headline(compared(records(), more))


def test_nothing_in_common_is_an_error_that_says_why() -> None:
    one, other = [cell("V", "torch", "train", 64)], [cell("R", "torch", "train", 128)]
    with pytest.raises(
        ResultsError, match=r"A and B have no cell in common \(variant V and R; seq_"
    ):
        match_cells(one, other)
    with pytest.raises(ResultsError, match="one of them has no records"):
        match_cells(one, [])
    mixed = [cell("V", "torch", "train", 128), cell("R", "torch", "train", 64)]
    crossed = [cell("V", "torch", "train", 64), cell("R", "torch", "train", 128)]
    with pytest.raises(ResultsError, match="no combination of their fields is in both"):
        match_cells(mixed, crossed)


def test_another_baseline_leaves_the_conclusions_out() -> None:
    settings = {"axes": {"variant": list(VARIANTS)}, "baseline": "R"}
    found = compared(records(), records(), settings=settings)
    assert found.no_conclusions == "the baseline is V in A and R in B"
    assert not found.conclusions and not found.crossings
    assert found.verdicts("time") == {"same": 9}


def test_what_changed_in_the_environment_is_listed_and_what_always_changes_is_not() -> None:
    def taken(at: str, torch: str, rate: float) -> dict[str, Any]:
        git = {"commit": at * 40, "dirty": at == "b"}
        environment = {"taken": at, "load": [float(ord(at))], "versions": {"torch": torch},
                       "git": git}  # fmt: skip
        ceiling = Ceiling(
            framework="torch", dtype="float32", device="cpu", flops_per_second=rate,
            matrix_size=64, bytes_per_second=4e10, seconds=1,
        )  # fmt: skip
        return {"machines": [Machine(id="m", environment=environment, ceilings=[ceiling])]}

    found = environment_changes(
        info(**taken("a", "2.13.0", 2e11)), info(**taken("b", "2.14.0", 1e11), device="cuda")
    )
    assert [tuple(change) for change in found] == [
        ("device", "cpu", "cuda"),
        ("commit", "aaaaaaa", "bbbbbbb+"),
        ("versions.torch", "2.13.0", "2.14.0"),
        ("ceiling torch float32 cpu, GFLOP/s", 200.0, 100.0),
        ("ceiling torch float32 cpu, GB/s", 40.0, 40.0),
    ]


# --- conditions ----------------------------------------------------------------------------------


def test_conditions() -> None:
    found = parse_conditions(["slower 5%, memory +10%", "any", " faster  2.5% ", "slower"])
    assert [(one.kind, one.limit) for one in found] == [
        ("slower", 1.05), ("memory", 1.1), ("any", 1), ("faster", 1.025), ("slower", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["", "slower 5", "slower -5%", "slower +5%", "memory 10%", "any 5%", "failed 1%", "slow", "5%",
     "slower 5%,", "slower .%", "slower 1e3%", "slower 5%%", "slower nan%", "SLOWER", "slower 5 %"],
)  # fmt: skip
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(NotationError, match='is not a condition; write "slower 5%", ') as caught:
        parse_conditions([text])
    assert "\n" not in str(caught.value)


# --- output --------------------------------------------------------------------------------------


def test_json_is_complete() -> None:
    found = compared(records(), records({("R", 128): 1.2}))
    failed = violations(found, parse_conditions(["slower 5%"]))
    content = json.loads(comparisons_json([found, found], failed))
    assert content["failed"] == [{"condition": "slower 5%", "run": "B", "cells": failed[0].found}]
    assert len(content["comparisons"]) == 2
    one = content["comparisons"][0]
    assert (one["first"]["name"], one["second"]["letter"]) == ("made_up/a", "B")
    cells = {(v, n) for v in VARIANTS for n in LENGTHS}
    for name in ("time", "memory"):
        assert {(row["variant"], row["seq_len"]) for row in one[name]} == cells
    slow = next(row for row in one["time"] if row["verdict"] == "slower")
    assert slow["ratio"] == pytest.approx(1.2)
    assert slow["second_seconds"] == pytest.approx(1.2 * slow["first_seconds"])
    assert slow["low"] < slow["ratio"] < slow["high"] and slow["p"] < 0.05
    assert {(row["variant"], row["seq_len"]) for row in one["conclusions"]} == {
        (v, n) for v, n in cells if v != "V"
    }
    assert {row["variant"]: row["first"]["kind"] for row in one["crossings"]} == dict.fromkeys(
        VARIANTS[1:], "overtakes"
    )


def test_json_of_samples_of_0_seconds_has_null_where_an_interval_is_infinite() -> None:
    found = records()
    for place, one in enumerate(found):
        measured = one.measurements
        assert measured.timing is not None
        samples = [0.0, 0.0, *[measured.timing.samples[0]] * 3]
        timing = measured.timing.model_copy(update={"samples": samples})
        found[place] = one.model_copy(
            update={"measurements": measured.model_copy(update={"timing": timing})}
        )
    content = json.loads(
        comparisons_json([compared(found, found), compared(records(), found)], []),
        parse_constant=lambda name: pytest.fail(f"{name} is not JSON"),
    )
    for comparison in content["comparisons"]:
        for one in comparison["time"]:
            assert (one["low"], one["high"], one["verdict"], one["p"]) == (0, None, "undecided", 1)
            assert one["ratio"] == pytest.approx(1)


def test_json_has_null_where_a_crossing_has_no_length() -> None:
    fast = {(v, n): 1e-3 for v in VARIANTS[1:] for n in LENGTHS}
    content = json.loads(comparisons_json([compared(records(fast), records(fast))], []))
    for row in content["comparisons"][0]["crossings"]:
        assert row["first"] == {"kind": "always", "length": None, "low": None, "high": None}


def test_markdown_is_escaped_and_has_every_table() -> None:
    first = Side("A", SPECIAL, run_of(records()))
    second = Side(
        "B", SPECIAL, run_of(records({("R", 128): 1.2}), **on_machine("some-cpu", cpu=SPECIAL))
    )
    text = comparisons_markdown([compare_runs(first, second)])
    assert "\x1b" not in text and "<d>" not in text
    assert text.startswith("# a\\|b")
    (row,) = [line for line in text.splitlines() if line.startswith("| cpu")]
    assert r"a\|b \*c\* &lt;d>" in row
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        "## What changed in the environment", "## Time of a step: cells that changed",
        "## Where variants overtake V in time: those that moved",
    ]  # fmt: skip


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    after = records({("R", 128): 1.2})
    away = on_machine("another-cpu")
    for name, found, changes in (
        ("a", records(), {}), ("b", after, {}), ("c", records(scale=3), away),
    ):  # fmt: skip
        store(run_of(found, **changes), folder / "made_up" / name)
    return folder


def store(run: Run, folder: Path) -> None:
    create_run(folder, run.info)
    for one in run.records:
        append_record(folder, one)


def compare(capsys: Captured, results: Path, *arguments: str) -> tuple[int, str, str]:
    return synthbench(capsys, "compare", *arguments, "--results", str(results))


def test_the_terminal_shows_what_changed(results: Path, capsys: Captured) -> None:
    code, out, err = compare(capsys, results, "made_up/a", "made_up/b")
    assert (code, err) == (0, "")
    assert out.startswith(
        "made_up/b compared with made_up/a\nA: made_up/a, 2026-01-02 03:04 UTC on"
    )
    assert "1 slower, 8 same" in out
    assert out.count("FR(rank=32)+V") == 0
    code, out, _ = compare(capsys, results, "made_up/a", "made_up/b", "--all")
    assert code == 0 and out.count("FR(rank=32)+V") >= 3 + 3 + 3 + 1


def test_the_gate_exits_1_and_names_the_cell(results: Path, capsys: Captured) -> None:
    gate = ("--fail-on", "slower 5%", "--format", "json")
    code, out, err = compare(capsys, results, "made_up/a", "made_up/b", *gate)
    assert code == 1
    assert err == "--fail-on slower 5%: 1 in B: torch train R L=128 (slower time: x1.20)\n"
    assert json.loads(out)["failed"][0]["condition"] == "slower 5%"
    code, _, err = compare(capsys, results, "made_up/a", "made_up/b", "--fail-on", "slower 30%")
    assert (code, err) == (0, "")


def test_several_runs_are_compared_with_the_first(results: Path, capsys: Captured) -> None:
    code, out, _ = compare(
        capsys, results, "made_up/a", "made_up/b", "made_up/c", "--format", "markdown"
    )
    assert code == 0
    titles = [line for line in out.splitlines() if line.startswith("# ")]
    assert titles == [
        "# made_up/b compared with made_up/a", "# made_up/c compared with made_up/a",
    ]  # fmt: skip
    assert "A ran on some-cpu, C on another-cpu" in out


def test_what_a_gate_cannot_judge_is_told_below_the_comparison(
    results: Path, capsys: Captured
) -> None:
    code, out, err = compare(capsys, results, "made_up/a", "made_up/c", "--fail-on", "slower 5%")
    assert code == 2
    assert out.startswith("made_up/c compared with made_up/a\n")
    assert "only compared on one machine" in err and err.count("\n") == 1
    # and a condition that another run meets is told too
    gate = ("made_up/a", "made_up/c", "made_up/b", "--fail-on", "slower 5%")
    code, _, err = compare(capsys, results, *gate)
    assert code == 1 and "slower 5%" in err


def test_mistakes_are_one_line(results: Path, capsys: Captured) -> None:
    where = ("--results", str(results))
    assert "1 run cannot be compared; give 2 to 26" in refused(
        capsys, "compare", "made_up/a", *where
    )
    message = refused(capsys, "compare", "made_up/a", "made_up/x", *where)
    assert "run 'made_up/x' not known" in message
    for arguments, expected in (
        (("made_up/b", "--fail-on", "slow"), "--fail-on 'slow' is not a condition"),
        (("made_up/b", str(results / "made_up" / "a")), "made_up/a is given twice; give runs"),
    ):
        message = refused(capsys, "compare", "made_up/a", *arguments, *where)
        assert expected in message and message.count("\n") == 1
