"""Rounds are added to what is undecided and to nothing else; disturbed cells are measured again."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from synthbench.errors import NotationError
from synthbench.measure.disturbed import cores_far, disturbed
from synthbench.record import Record
from synthbench.report.tables.catalog import make_tables
from synthbench.run.executors.base import Executor, Work
from synthbench.run.runner import run_plan
from synthbench.run_info import Machine
from synthbench.store import read_run
from synthbench.suites.cell import Cell
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import parse_suite
from tests.test_ratios import steady
from tests.test_tables import record

SUITE = """
axes: {{variant: [V, R, D, FR], framework: [torch], mode: [forward], seq_len: [8, 16]}}
model: {{kind: mixer, d_model: 8, heads: 2}}
measure: {{rounds: {rounds}, retries: {retries}, minutes: {minutes}}}
baseline: V
"""
UNTIL = "{at_least: 2, at_most: 5, until: decided}"
# Relative time and noise per round: R and D are clear, FR is as fast as V and noisy.
TIMES = {"V": (1.0, 0.001), "R": (0.5, 0.001), "D": (1.3, 0.001), "FR": (1.0, 0.2)}


class MadeUp(Executor):
    """Measures in no time; `warn` says which attempts have a warning, `far` which far cores."""

    name = "made_up"

    def __init__(
        self,
        warn: Callable[[Cell, int, int], bool] = lambda *_: False,
        far: Callable[[Cell, int], bool] | None = None,
    ) -> None:
        self.warn, self.far = warn, far
        self.asked: list[Counter[str]] = []  # per call: variant -> cells
        self.drawn = random.Random(1)

    def start(self, work: Work) -> Mapping[str, str]:
        return {}

    def measure(self, work: Work) -> Iterator[Machine | Record]:
        pending = work.pending()
        self.asked.append(Counter(cell.variant for _, cell in pending))
        yield Machine(id="made up")
        for number, cell in pending:
            time, noise = TIMES[cell.variant]
            seconds = 0.01 * time * math.exp(noise * self.drawn.gauss(0, 1))
            attempt = work.attempts.get((cell.id, number), 0)
            warnings = ["busy"] * self.warn(cell, number, attempt)
            timing = steady(seconds)
            if self.far is not None:
                after = 2.1 if self.far(cell, attempt) else 1.2
                timing = timing.model_copy(update={"core_distances": [1.2, after]})
            one = record(cell, round=number, timing=timing, warnings=warnings)
            yield one.model_copy(update={"attempt": attempt, "machine": "made up"})


def run(
    folder: Path, executor: MadeUp, rounds: Any = UNTIL, retries: int = 0, minutes: Any = "null"
) -> list[Record]:
    text = SUITE.format(rounds=rounds, retries=retries, minutes=minutes)
    suite = parse_suite(text, name="made_up", source="made_up")
    run_plan(make_plan(suite, "cpu"), folder / "run", executor=executor)
    return list(read_run(folder / "run").records)


def test_only_what_is_undecided_is_measured_again(tmp_path: Path) -> None:
    executor = MadeUp()
    records = run(tmp_path, executor)
    whole = Counter({"V": 4 * 2, "R": 2 * 2, "D": 2 * 2, "FR": 2 * 2})  # V with its twins
    assert executor.asked[0] == whole
    for further in executor.asked[1:]:
        assert set(further) == {"V", "FR"}
        assert further["V"] == 2 * further["FR"]
    assert 2 <= len(executor.asked) <= 4  # at most five rounds, of which the first call has two
    per_cell = Counter(record.cell.variant for record in records if record.cell.seq_len == 8)
    assert per_cell["R"] == per_cell["D"] == 2 and 3 <= per_cell["FR"] <= 5


def test_verdicts_of_such_a_run_share_their_error_between_the_looks(tmp_path: Path) -> None:
    run(tmp_path, MadeUp())
    (ratios,) = (t for t in make_tables(read_run(tmp_path / "run")) if t.name == "ratios")
    assert "Each of 4 looks" in ratios.note


def test_no_round_is_added_after_the_minutes(tmp_path: Path) -> None:
    executor = MadeUp()
    run(tmp_path, executor, minutes="0.0000001")
    assert len(executor.asked) == 1


def test_a_call_that_resumes_has_the_minutes_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TIMES, "FR", (1.0, 0.5))
    clock = [0.0]
    monkeypatch.setattr("synthbench.run.measuring.time.monotonic", lambda: clock[0])

    class Slow(MadeUp):
        def measure(self, work: Work) -> Iterator[Machine | Record]:
            clock[0] += 10 * 60
            return super().measure(work)

    text = SUITE.format(rounds=UNTIL, retries=0, minutes=15)
    plan = make_plan(parse_suite(text, name="made_up", source="made_up"), "cpu")
    last = []
    for resume in (False, True):
        run_plan(plan, tmp_path / "run", executor=Slow(), resume=resume)
        last.append(max(record.round for record in read_run(tmp_path / "run").records))
    assert last == [2, 3]


def test_a_number_of_rounds_is_that_number(tmp_path: Path) -> None:
    executor = MadeUp()
    run(tmp_path, executor, rounds=2)
    assert len(executor.asked) == 1


@pytest.mark.parametrize("attempts", [0, 1, 2, 9])
def test_cells_with_warnings_are_measured_again(
    attempts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R at length 8 in round 1 is disturbed in its first attempts; there are two retries."""
    waits: list[float] = []

    def wait() -> bool:
        waits.append(1)
        return True

    monkeypatch.setattr("synthbench.run.executors.base.wait_for_quiet", wait)

    def warn(cell: Cell, number: int, attempt: int) -> bool:
        return (cell.variant, cell.seq_len, number) == ("R", 8, 1) and attempt < attempts

    executor = MadeUp(warn)
    records = run(tmp_path, executor, rounds=2, retries=2)
    again = min(attempts, 2)
    assert executor.asked[1:] == [Counter({"R": 1})] * again
    assert len(waits) == again
    found = [r for r in records if (r.cell.variant, r.cell.seq_len, r.round) == ("R", 8, 1)]
    assert [r.attempt for r in found] == list(range(again + 1))
    assert bool(found[-1].measurements.warnings) == (attempts > 2)


@pytest.mark.parametrize(("variant", "first"), [("FR", True), ("R", False)])
def test_of_disturbed_cells_those_that_verdicts_wait_for_are_measured_again_first(
    variant: str, first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R is clear in spite of it, FR never is. One retry is the limit for the whole run."""
    monkeypatch.setattr("synthbench.run.executors.base.wait_for_quiet", lambda: True)
    monkeypatch.setitem(TIMES, "FR", (1.0, 0.5))
    executor = MadeUp(lambda cell, number, attempt: (cell.variant, number) == (variant, 0))
    run(tmp_path, executor, retries=1)
    calls = executor.asked
    again = [place for place, asked in enumerate(calls) if set(asked) == {variant}]
    assert sum(calls[place][variant] for place in again) == 2  # both lengths
    assert again[0] == (1 if first else len(calls) - 1)
    rounds = [asked for place, asked in enumerate(calls) if place not in {0, *again}]
    assert rounds and all({"V", "FR"} == set(later) for later in rounds)


def test_what_a_repeated_cell_leaves_undecided_gets_more_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D in round 0, disturbed, is as slow as in round 1; its repeat is much faster."""
    monkeypatch.setattr("synthbench.run.executors.base.wait_for_quiet", lambda: True)
    times = dict(TIMES, FR=(0.7, 0.001))
    monkeypatch.setattr("tests.test_further_rounds.TIMES", times)

    def warn(cell: Cell, number: int, attempt: int) -> bool:
        if (cell.variant, number) != ("D", 0):
            return False
        times["D"] = (1.3, 0.001) if attempt == 0 else (1.02, 0.001)
        return attempt == 0

    executor = MadeUp(warn)
    run(tmp_path, executor, retries=2)
    assert executor.asked[1] == Counter({"D": 2})
    assert executor.asked[2:] and all({"V", "D"} == set(later) for later in executor.asked[2:])


def rounds_of(records: list[Record], variant: str) -> set[tuple[int, ...]]:
    """Which rounds the cells of a variant have."""
    found: dict[str, list[int]] = {}
    for one in records:
        if one.cell.variant == variant and not one.attempt:
            found.setdefault(one.id, []).append(one.round)
    return {tuple(sorted(numbers)) for numbers in found.values()}


def test_cells_with_fewer_rounds_than_others_get_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FR has had all its rounds when D becomes undecided: its repeat at one length is fast."""
    monkeypatch.setattr("synthbench.run.executors.base.wait_for_quiet", lambda: True)
    times = dict(TIMES, FR=(1.0, 0.5))
    monkeypatch.setattr("tests.test_further_rounds.TIMES", times)

    def warn(cell: Cell, number: int, attempt: int) -> bool:
        if (cell.variant, number) != ("D", 0):
            return False
        times["D"] = (1.3, 0.001) if attempt == 0 else (1.0, 0.5)
        return attempt == 0

    executor = MadeUp(warn)
    records = run(tmp_path, executor, retries=1)
    assert rounds_of(records, "FR") == {(0, 1, 2, 3, 4)}
    assert rounds_of(records, "D") == {(0, 1), (0, 1, 2, 3, 4)}
    asked = [{"V", "D", "R", "FR"}, *[{"V", "FR"}] * 3, {"D"}, *[{"D"}] * 3]  # V has its rounds
    assert [set(each) for each in executor.asked] == asked


@pytest.mark.parametrize("last", [2, 4])
def test_a_further_round_that_was_interrupted_is_completed(
    last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TIMES, "FR", (1.0, 0.5))

    class Stops(MadeUp):
        def measure(self, work: Work) -> Iterator[Machine | Record]:
            for each in super().measure(work):
                yield each
                if isinstance(each, Record) and each.round == last:
                    raise KeyboardInterrupt

    suite = parse_suite(
        SUITE.format(rounds=UNTIL, retries=0, minutes="null"), name="made_up", source="made_up"
    )
    assert run_plan(make_plan(suite, "cpu"), tmp_path / "run", executor=Stops()).interrupted
    run_plan(make_plan(suite, "cpu"), tmp_path / "run", executor=MadeUp(), resume=True)
    records = list(read_run(tmp_path / "run").records)
    assert rounds_of(records, "FR") == rounds_of(records, "V") == {(0, 1, 2, 3, 4)}


@pytest.mark.parametrize(
    ("far", "measured_again"),
    [
        ({"R"}, {"R": 2 * 2}),  # of 4 variants and the twin: most had near cores
        ({"V", "R"}, {}),  # 3 of 5: this machine's cores are far apart
        (set(), {}),
    ],
)
def test_cells_with_far_cores_are_measured_again_where_most_had_near_ones(
    far: set[str], measured_again: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("synthbench.run.executors.base.wait_for_quiet", lambda: True)
    executor = MadeUp(far=lambda cell, attempt: cell.variant in far and attempt == 0)
    records = run(tmp_path, executor, rounds=2, retries=2)
    expected = [Counter(measured_again)] if measured_again else []
    assert executor.asked[1:] == expected
    assert not disturbed(records) or not expected


def test_a_distance_that_is_not_known_is_not_far() -> None:
    cell = make_plan(parse_suite(SUITE.format(rounds=1, retries=0, minutes="null"), name="made_up",
                                 source="made_up"), "cpu").cells[0]  # fmt: skip
    one = record(cell, timing=steady(0.01))
    assert cores_far(one) is None and disturbed([one]) == set()


@pytest.mark.parametrize(
    ("rounds", "message"),
    [
        ("{at_least: 4, at_most: 3}", "measure.rounds: got .*at_most of at least 4"),
        ("{until: dawn}", "measure.rounds.until: got 'dawn', expected one of 'decided'"),
        ("{at_leats: 3}", r"measure.rounds.at_leats: unknown key. Did you mean at_least"),
        ("two", "measure.rounds: got 'two', expected an integer"),
        ("[2, 3]", "measure.rounds: got .*, expected an integer"),
        ("{at_least: 0}", "measure.rounds.at_least: got 0, expected a number of at least 1"),
    ],
)
def test_what_rounds_may_not_be(rounds: str, message: str) -> None:
    text = SUITE.format(rounds=rounds, retries=0, minutes="null")
    with pytest.raises(NotationError, match=message):
        parse_suite(text, name="made_up", source="made_up")


def test_how_long_it_waits_for_a_quiet_machine() -> None:
    from synthbench.measure.quiet import wait_for_quiet

    busy = iter([90.0, 30.0, 2.0])
    assert wait_for_quiet(10.0, lambda _: next(busy), lambda: 0.0, cores=2)
    few = iter([1.6, 0.7])  # percent: one busy core of 64, and less than half of one
    assert wait_for_quiet(10.0, lambda _: next(few), lambda: 0.0, cores=64)
    assert next(few, None) is None
    clock = iter([0.0, 4.0, 8.0, 12.0])
    assert not wait_for_quiet(10.0, lambda _: 90.0, lambda: next(clock))
    assert next(clock, None) is None
