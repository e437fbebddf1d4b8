"""Two runs compared, on numbers whose truth is known, and on what must be so for any numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import ttest_ind

from synthbench.analysis.comparison import Estimate, Verdict
from synthbench.analysis.intervals import median_interval
from synthbench.analysis.two_runs import (
    Pair,
    Sample,
    Series,
    agreement,
    compare_crossings,
    estimate_pairs,
    judge_pairs,
)

STEP_TIMES = Path(__file__).parent / "data" / "step_times.json"
BLOCK = 20  # samples of one simulated round, consecutive
MIRRORED = {"faster": "slower", "slower": "faster"}

logs = st.lists(st.floats(-5, 5), min_size=1, max_size=5).map(tuple)
samples = st.builds(Sample, logs, st.floats(0, 1), st.just(()))


def on_machines(number: int) -> st.SearchStrategy[Sample]:
    """A sample with at least a round of each machine."""
    names = tuple(f"m{n}" for n in range(number))
    return st.integers(number, 6).flatmap(
        lambda rounds: st.builds(
            Sample,
            st.tuples(*[st.floats(-5, 5)] * rounds),
            st.floats(0, 1),
            st.just((names * rounds)[:rounds]),
        )
    )


pairs = st.builds(Pair, samples, samples, st.sampled_from("ab")) | st.integers(2, 3).flatmap(
    lambda number: st.builds(Pair, on_machines(number), on_machines(number))
)
tables = st.lists(pairs, min_size=1, max_size=8)
margins = st.floats(1.0, 1.5)


@pytest.fixture(scope="module")
def recorded() -> list[Sample]:
    """What real processes measured of the same thing: the log median of each, and its error."""
    found = []
    for times in json.loads(STEP_TIMES.read_text())["processes"]:
        for start in range(0, len(times) - BLOCK + 1, BLOCK):
            median, low, high = median_interval(times[start : start + BLOCK])
            found.append(Sample((math.log(median),), math.log(high / low) / (2 * 1.96)))
    return found


def simulated(
    rng: np.random.Generator, recorded: list[Sample], rounds: int, slowdown: float = 1.0
) -> Sample:
    """A cell of a run: one process per round."""
    drawn = [recorded[i] for i in rng.integers(len(recorded), size=rounds)]
    within = math.sqrt(np.mean([one.within**2 for one in drawn]))
    return Sample(tuple(one.logs[0] + math.log(slowdown) for one in drawn), within)


def verdicts(
    recorded: list[Sample], rounds: tuple[int, int], size: int, margin: float, slowdown: float = 1.0
) -> list[list[Verdict]]:
    """The verdicts of 200 tables of `size` cells, one list per table."""
    rng = np.random.default_rng(5)
    first, second = rounds
    found = []
    for _ in range(200):
        pairs = [
            Pair(simulated(rng, recorded, first), simulated(rng, recorded, second, slowdown))
            for _ in range(size)
        ]
        found.append([one.verdict for one in judge_pairs(pairs, margin)])
    return found


@pytest.mark.parametrize("rounds", [(2, 2), (3, 3), (5, 2)])
@pytest.mark.parametrize("size", [5, 20])
def test_at_most_5_percent_of_tables_have_a_false_verdict(
    recorded: list[Sample], rounds: tuple[int, int], size: int
) -> None:
    """Without a margin, so that the correction alone prevents them."""
    wrong = [{"faster", "slower"} & set(table) for table in verdicts(recorded, rounds, size, 1.0)]
    assert sum(map(bool, wrong)) <= 10  # 5% of 200


def test_a_slowdown_of_a_tenth_is_found(recorded: list[Sample]) -> None:
    found = [one for table in verdicts(recorded, (5, 5), 20, 1.03, 1.1) for one in table]
    assert found.count("slower") >= 0.9 * len(found)
    assert "faster" not in found


def test_the_intervals_contain_the_truth() -> None:
    """Two runs of different noise and different numbers of rounds; no cell differs."""
    rng = np.random.default_rng(11)
    inside = total = 0
    for _ in range(100):
        pairs = [
            Pair(Sample(tuple(rng.normal(0, 0.02, 3)), 0), Sample(tuple(rng.normal(0, 0.08, 4)), 0))
            for _ in range(20)
        ]
        intervals = [one.interval() for one in estimate_pairs(pairs)]
        inside += sum(low <= 1 <= high for low, high in intervals)
        total += len(intervals)
    assert 0.93 <= inside / total <= 0.97


def test_one_cell_has_the_test_of_welch() -> None:
    first, second = (0.0, 0.1, 0.2), (0.3, 0.35)
    (found,) = estimate_pairs([Pair(Sample(first, 0), Sample(second, 0))])
    known = ttest_ind(first, second, equal_var=False)
    assert found.log_ratio / found.error == pytest.approx(known.statistic)
    assert (found.degrees, found.p_value) == pytest.approx((known.df, known.pvalue))


@given(tables, margins)
def test_a_run_compared_with_itself_finds_nothing(table: list[Pair], margin: float) -> None:
    same = [Pair(pair.first, pair.first, pair.family) for pair in table]
    for one in judge_pairs(same, margin):
        assert one.verdict not in ("faster", "slower")
        assert one.estimate.ratio == 1


@given(tables, margins)
def test_swapping_the_runs_mirrors_the_verdicts(table: list[Pair], margin: float) -> None:
    swapped = [Pair(pair.second, pair.first, pair.family) for pair in table]
    for one, other in zip(judge_pairs(table, margin), judge_pairs(swapped, margin), strict=True):
        assert other.verdict == MIRRORED.get(one.verdict, one.verdict)
        assert other.estimate.log_ratio == pytest.approx(-one.estimate.log_ratio)
        assert other.estimate.error == pytest.approx(one.estimate.error)


@given(st.lists(samples, min_size=1, max_size=8), st.floats(-1, 1))
def test_scaling_all_times_of_a_run_moves_every_ratio_alike(
    table: list[Sample], shift: float
) -> None:
    shifted = [Pair(s, s._replace(logs=tuple(x + shift for x in s.logs))) for s in table]
    for one in estimate_pairs(shifted):
        assert one.log_ratio == pytest.approx(-shift, abs=1e-9)


def test_one_round_in_either_run_has_no_verdict() -> None:
    several, alone = Sample((1.0, 1.01, 0.99), 0.01), Sample((0.0,), 0.01)
    pairs = [Pair(several, alone), Pair(alone, several), Pair(several, several)]
    assert [one.verdict for one in judge_pairs(pairs, 1.03)] == ["one round", "one round", "same"]


def test_the_noise_within_rounds_bounds_the_error_from_below() -> None:
    equal_by_chance = Sample((0.0, 0.0), 0.3)
    (found,) = estimate_pairs([Pair(equal_by_chance, Sample((0.1, 0.1), 0.4))])
    assert found.error == pytest.approx(math.sqrt((0.3**2 + 0.4**2) / 2))


def test_samples_of_0_seconds_leave_everything_open() -> None:
    """A logarithm with such a sample in its interval has no finite error."""
    known, unknown = Sample((0.1, 0.11), 0.01), Sample((0.5, 0.51), math.inf)
    for pair in (Pair(known, unknown), Pair(unknown, known), Pair(unknown, unknown)):
        (found,) = judge_pairs([pair], 1.03)
        assert found.estimate.interval() == (0, math.inf)
        assert (found.verdict, found.p, found.further) == ("undecided", 1, None)


def test_conclusions() -> None:
    assert agreement("faster", "faster") == agreement("same", "same") == "agree"
    assert agreement("faster", "slower") == agreement("slower", "faster") == "contradict"
    assert agreement("same", "slower") == agreement("faster", "same") == "differ"
    for other in ("faster", "undecided", "one round"):
        assert agreement("undecided", other) == agreement(other, "one round") == "undecided"


def line(*log_ratios: float, error: float = 0.01, rounds: int = 3) -> Series:
    lengths = tuple(64 * 2**i for i in range(len(log_ratios)))
    return Series(lengths, tuple(Estimate(x, error, 10, rounds) for x in log_ratios))


def moved(first: Series, second: Series) -> bool | None:
    (one,) = compare_crossings([(first, second)])
    (other,) = compare_crossings([(second, first)])
    assert one.moved == other.moved
    assert (one.first, one.second) == (other.second, other.first)
    return one.moved


def test_a_crossing_moves_beyond_its_intervals_only() -> None:
    early, late = line(-1, 1, 2, 3), line(-3, -2, -1, 1)
    assert moved(early, late) is True
    assert moved(early, line(-1.01, 0.99, 2, 3)) is False
    assert moved(line(-1, 1, 2, 3, error=3), line(-3, -2, -1, 1, error=3)) is False


def test_crossings_that_appear_disappear_or_turn_have_moved() -> None:
    overtakes, falls_behind = line(-1, -1, 1, 1), line(1, 1, -1, -1)
    always, never = line(1, 1, 1, 1), line(-1, -1, -1, -1)
    kinds = [overtakes, falls_behind, always, never]
    for i, one in enumerate(kinds):
        for j, other in enumerate(kinds):
            assert moved(one, other) is (i != j), (i, j)


def test_with_one_round_it_is_not_known_whether_a_crossing_moved() -> None:
    assert moved(line(-1, 1), line(1, 1, rounds=1)) is None


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_crossings_of_equal_runs_seldom_move(seed: int) -> None:
    """40 crossings per table, each at the same length in truth; by chance none is called moved."""
    rng = np.random.default_rng(seed)
    truth, error = np.array([-0.2, -0.05, 0.1, 0.25]), 0.03

    def drawn() -> Series:
        return line(*(truth + rng.normal(0, error, 4)), error=error)

    found = compare_crossings([(drawn(), drawn()) for _ in range(40)])
    assert sum(bool(one.moved) for one in found) <= 1


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=2, max_size=4))
def test_several_machines_give_one_ratio_each(changes: list[tuple[float, float]]) -> None:
    """The t interval of the differences of the machines, whatever each machine adds to both."""
    names = tuple(f"m{n}" for n, _ in enumerate(changes))
    first = Sample(tuple(10.0 * n + a for n, (a, _) in enumerate(changes)), 0.0, names)
    second = Sample(tuple(10.0 * n + b for n, (_, b) in enumerate(changes))[::-1], 0.0, names[::-1])
    alone = Pair(Sample((0.0, 0.1), 0.0), Sample((0.0, 0.1), 0.0))
    (found, other) = estimate_pairs([Pair(first, second), alone])
    differences = [a - b for a, b in changes]
    assert found.log_ratio == pytest.approx(np.mean(differences), abs=1e-9)
    assert found.error == pytest.approx(stats.sem(differences), abs=1e-9)
    assert (found.degrees, found.machines) == (len(names) - 1, len(names))
    assert other == estimate_pairs([alone])[0]


def test_machines_that_agree_are_not_surer_than_the_samples() -> None:
    first = Sample((0.1, 0.1, 0.1, 0.1), 0.03, ("a", "a", "b", "b"))
    second = Sample((0.0, 0.0), 0.04, ("a", "b"))
    (found,) = estimate_pairs([Pair(first, second)])
    assert found.error == pytest.approx(math.sqrt(0.03**2 / 4 + 0.04**2 / 2))


def test_other_machines_cannot_be_paired() -> None:
    with pytest.raises(ValueError, match="measured by a, b and then by b"):
        estimate_pairs([Pair(Sample((0.0, 1.0), 0.0, ("a", "b")), Sample((0.0,), 0.0, ("b",)))])
