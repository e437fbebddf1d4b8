"""Verdicts on numbers whose truth is known: equal, 10% slower, drawn from a recorded machine."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from synthbench.analysis.comparison import (
    MOST_ROUNDS,
    Comparison,
    Estimate,
    Judgement,
    Rule,
    estimate,
    further_rounds,
    judge,
    judge_estimates,
)
from synthbench.analysis.intervals import median_interval
from synthbench.analysis.moderated_variance import t_quantile
from synthbench.analysis.multiple_testing import holm
from synthbench.analysis.noise_floor import noise_floors

STEP_TIMES = Path(__file__).parent / "data" / "step_times.json"
BLOCK = 20  # samples of one simulated round, consecutive
DECLARED = 1.03


class Timed(NamedTuple):
    """A process as a table sees it: its median, and the standard error of the median's log."""

    seconds: float
    error: float


@pytest.fixture(scope="module")
def recorded() -> list[Timed]:
    """What real processes measured of the same thing (benchmarks/record_noise.py)."""
    found = []
    for samples in json.loads(STEP_TIMES.read_text())["processes"]:
        for start in range(0, len(samples) - BLOCK + 1, BLOCK):
            median, low, high = median_interval(samples[start : start + BLOCK])
            found.append(Timed(median, math.log(high / low) / (2 * 1.96)))
    return found


def simulated(
    rng: np.random.Generator, recorded: list[Timed], rounds: int, slowdown: float = 1.0
) -> Comparison:
    """Baseline and variant, each a process a round; the variant `slowdown` times slower."""
    drawn = [[recorded[i] for i in rng.integers(len(recorded), size=2)] for _ in range(rounds)]
    within = math.sqrt(np.mean([a.error**2 + b.error**2 for a, b in drawn]))
    return Comparison(tuple(math.log(a.seconds / (b.seconds * slowdown)) for a, b in drawn), within)


def verdicts_of_tables(
    recorded: list[Timed], rounds: int, slowdown: float, size: int, seed: int = 0
) -> list[str]:
    """The verdicts of 200 comparisons, `size` of them a table with a noise floor of 20 groups."""
    rng = np.random.default_rng(seed)
    found: list[str] = []
    for _ in range(200 // size):
        twins = [simulated(rng, recorded, rounds) for _ in range(20)]
        floor = noise_floors({n: twin.log_ratios for n, twin in enumerate(twins)}).of_others
        assert floor is not None
        table = [simulated(rng, recorded, rounds, slowdown) for _ in range(size)]
        found += [one.verdict for one in judge(table, max(DECLARED, floor.ratio(rounds)))]
    assert len(found) == 200
    return found


@pytest.mark.parametrize("size", [1, 20])
@pytest.mark.parametrize("rounds", [2, 3, 5])
def test_equals_are_seldom_called_different(recorded: list[Timed], rounds: int, size: int) -> None:
    found = verdicts_of_tables(recorded, rounds, 1.0, size)
    assert found.count("faster") + found.count("slower") <= 10  # 5% of 200


@pytest.mark.parametrize("rounds", [3, 5])
def test_equals_are_seldom_called_different_even_without_a_margin(
    recorded: list[Timed], rounds: int
) -> None:
    """The correction alone: at most 5% of tables hold a false verdict, 40 tables of 5."""
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(200):
        table = [simulated(rng, recorded, rounds) for _ in range(5)]
        wrong += any(one.verdict in ("faster", "slower") for one in judge(table, 1.0))
    assert wrong <= 16  # 10, and two standard deviations


@pytest.mark.parametrize("size", [1, 20])
def test_a_planted_slowdown_is_found(recorded: list[Timed], size: int) -> None:
    found = verdicts_of_tables(recorded, 5, 1.10, size)
    assert found.count("slower") >= 180
    assert "faster" not in found


def test_a_planted_speedup_is_called_faster(recorded: list[Timed]) -> None:
    found = verdicts_of_tables(recorded, 5, 1 / 1.10, 20)
    assert found.count("faster") >= 180


def judged(*log_ratios: float, margin: float = 1.03, within: float = 0.0) -> Judgement:
    (one,) = judge([Comparison(log_ratios, within)], margin)
    return one


def test_each_verdict_where_it_is_plain() -> None:
    assert judged(0.50, 0.51, 0.49).verdict == "faster"
    assert judged(-0.50, -0.51, -0.49).verdict == "slower"
    assert judged(0.001, -0.001, 0.0005).verdict == "same"
    assert judged(0.2, -0.1, 0.1).verdict == "undecided"
    assert judged(0.020, 0.0201, 0.0199).verdict == "same"  # different, and not by what matters
    assert judged(0.50).verdict == "one round"
    assert judged(0.50).p is None


def test_identical_rounds_are_certain() -> None:
    same, faster = judged(0.0, 0.0), judged(0.5, 0.5)
    assert (same.verdict, same.p, same.estimate.interval()) == ("same", 1, (1, 1))
    assert (faster.verdict, faster.p) == ("faster", 0)


def test_the_interval_of_one_comparison_is_the_t_interval() -> None:
    """mean 0.1, standard deviation 0.1, 3 rounds: 0.1 +- 4.302653 * 0.1 / sqrt(3)."""
    low, high = judged(0.0, 0.1, 0.2).estimate.interval()
    assert math.log(low) == pytest.approx(0.1 - 0.248414, abs=1e-6)
    assert math.log(high) == pytest.approx(0.1 + 0.248414, abs=1e-6)


def test_the_samples_inside_a_round_bound_the_error_from_below() -> None:
    by_chance_equal = judged(0.1, 0.1, 0.1, within=0.3)
    assert by_chance_equal.estimate.error == pytest.approx(0.3 / math.sqrt(3))
    assert by_chance_equal.verdict == "undecided"
    low, high = judged(0.1, within=0.05).estimate.interval()  # one round: they alone
    assert (math.log(low), math.log(high)) == pytest.approx((0.1 - 0.098, 0.1 + 0.098), abs=1e-4)


def test_holm_against_known_values() -> None:
    # R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    # R: p.adjust(c(0.0001, 0.2, 0.9, 0.6), "holm")
    assert holm([0.0001, 0.2, 0.9, 0.6]) == pytest.approx([0.0004, 0.6, 1, 1])
    assert holm([]) == []


def test_more_comparisons_ask_for_more() -> None:
    plain = Comparison((0.04, 0.05, 0.06, 0.05, 0.045), 0.0)
    noise = Comparison((0.1, -0.1, 0.05, 0.0, 0.02), 0.0)
    alone, among = judge([plain], 1.03)[0], judge([plain, noise], 1.03)[0]
    assert alone.p is not None and among.p is not None
    assert among.p == pytest.approx(2 * alone.p)  # two are too few to moderate
    assert alone.verdict == "faster"


def test_further_rounds_are_those_that_decide() -> None:
    seen = Estimate(log_ratio=0.05, error=0.05, degrees=math.inf, rounds=4)  # 0.1 a round
    assert further_rounds(seen, 0.03, 0.05, 0.05) == 12  # 1.96 * 0.1 / sqrt(16) < 0.05
    inside = Estimate(log_ratio=0.0, error=0.05, degrees=math.inf, rounds=4)
    assert further_rounds(inside, 0.03, 0.05, 0.05) == 39  # 1.96 * 0.1 / sqrt(43) < 0.03
    on_the_margin = Estimate(log_ratio=0.0299, error=0.05, degrees=math.inf, rounds=4)
    assert further_rounds(on_the_margin, 0.03, 0.05, 0.05) is None


def test_the_forecast_waits_for_the_noise_to_fall() -> None:
    """Certain, but within the noise floor of 10%: that falls below 6% at four rounds times 2.7."""
    seen = Estimate(log_ratio=0.06, error=0.001, degrees=math.inf, rounds=4)
    assert further_rounds(seen, 0.03, 0.05, 0.05) == 1
    assert further_rounds(seen, 0.03, 0.05, 0.05, noise=0.1) == 8  # 0.1 * sqrt(4 / 12) < 0.06
    assert further_rounds(seen, 0.03, 0.05, 0.05, noise=0.5) is None
    rule = Rule(same_within=1.03)
    (one,) = judge_estimates([seen], 1.11, rule)
    assert one.verdict == "undecided"
    assert one.further == next(
        n for n in range(1, 50) if math.log(1.11) * math.sqrt(4 / (4 + n)) < 0.06
    )


def test_the_forecast_of_further_rounds_comes_true() -> None:
    """Half of what is undecided should be decided by then: the forecast is no promise."""
    rng = np.random.default_rng(3)
    came_true = forecasts = 0
    while forecasts < 200:
        rounds = rng.normal(0.08, 0.06, 4)
        first = judged(*rounds)
        if first.verdict != "undecided" or first.further is None:
            continue
        forecasts += 1
        later = judged(*rounds, *rng.normal(0.08, 0.06, first.further))
        came_true += later.verdict != "undecided"
    assert came_true >= 100


def test_nothing_is_promised_beyond_the_horizon() -> None:
    one = judged(0.2, -0.2, 0.21, -0.2)
    assert (one.verdict, one.further) == ("undecided", None)
    assert MOST_ROUNDS == 50


@pytest.mark.parametrize("rounds", [2, 3, 5])
def test_intervals_cover_the_truth(rounds: int) -> None:
    """Tables of 30 comparisons of unlike noise: 95% of the intervals hold the true ratio."""
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(40):
        spreads = np.sqrt(1e-4 * 5 / rng.chisquare(5, 30))
        table = [Comparison(tuple(rng.normal(0.1, s, rounds)), 0.0) for s in spreads]
        intervals = [one.interval() for one in estimate(table)]
        covered += sum(low <= math.exp(0.1) <= high for low, high in intervals)
    assert covered / 1200 >= 0.93


def test_functions_against_known_values() -> None:
    assert t_quantile(2, 0.975) == pytest.approx(4.302653, abs=1e-6)
    assert t_quantile(math.inf, 0.975) == pytest.approx(1.959964, abs=1e-6)
