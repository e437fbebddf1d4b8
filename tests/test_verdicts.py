"""Verdicts, corrections and the noise floor: exact, from first principles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

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
from synthbench.analysis.multiple_testing import holm, holm_factors

NORMAL = 1.959963984540054  # the 97.5% quantile of the normal distribution


def with_interval(low: float, high: float) -> Comparison:
    """Three rounds whose 95% interval has these ends: m - s, m, m + s have the deviation s."""
    middle, half = math.log(low * high) / 2, math.log(high / low) / 2
    spread = half * math.sqrt(3) / stats.t.ppf(0.975, 2)
    return Comparison((middle - spread, middle, middle + spread), 0.0)


def verdict(low: float, high: float, margin: float = 1.03) -> str:
    (one,) = judge([with_interval(low, high)], margin)
    assert one.estimate.interval() == pytest.approx((low, high))
    return one.verdict


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.99, 1.01, "same"),
        (0.99, 1.029, "same"),
        (0.99, 1.031, "undecided"),
        (0.99, 1.30, "undecided"),
        (0.80, 1.01, "undecided"),
        (0.98, 1.031, "undecided"),
        (0.971, 1.01, "same"),  # 1 / 1.03 is 0.97087
        (0.9708, 1.01, "undecided"),
        (0.90, 1.10, "undecided"),
        (1.01, 1.02, "same"),  # significant, and smaller than the margin
        (1.031, 1.05, "faster"),
        (0.95, 0.97, "slower"),
        (1.0295, 1.0308, "faster"),  # the ratio is above 1.03, its logarithm below 0.03
        (1.005, 1.12, "faster"),  # the ratio is 1.061
        (1.005, 1.05, "undecided"),  # the ratio is 1.027
    ],
)
def test_the_verdict_follows_from_both_ends_of_the_interval(
    low: float, high: float, expected: str
) -> None:
    assert verdict(low, high) == expected


@pytest.mark.parametrize(
    ("low", "high", "margin", "expected"),
    [
        (0.99, 1.04, 1.03, "close"),
        (1.001, 1.058, 1.03, "close"),  # 1.029, and 2.8% to either side
        (0.95, 1.06, 1.03, "undecided"),  # 5.6% to either side
        (0.99, 1.02, 1.03, "same"),
        (0.99, 1.02, 1.3, "same"),  # noise does not widen what is the same
        (0.99, 1.04, 1.049, "close"),
        (0.99, 1.04, 1.051, "undecided"),  # the noise is more than the resolution
        (1.04, 1.06, 1.3, "undecided"),
        (1.04, 1.06, 1.03, "faster"),
    ],
)
def test_what_is_known_well_enough_is_close(
    low: float, high: float, margin: float, expected: str
) -> None:
    (one,) = judge([with_interval(low, high)], margin, Rule(resolution=0.05, same_within=1.03))
    assert one.verdict == expected


@pytest.mark.parametrize(
    ("margin", "same", "expected"),
    [
        (1.05, 1.03, "close"),  # the noise is as much as the resolution
        (1.051, 1.03, "undecided"),
        (1.08, 1.08, "close"),  # no noise beyond a margin that is more than the resolution
        (1.081, 1.08, "undecided"),
    ],
)
def test_what_is_close_has_no_more_noise_than_resolution_and_margin(
    margin: float, same: float, expected: str
) -> None:
    near = with_interval(1.01, 1.09)
    (one,) = judge([near], margin, Rule(resolution=0.05, same_within=same))
    assert one.verdict == expected


@pytest.mark.parametrize("sign", [1, -1], ids=["faster", "slower"])
def test_what_is_wholly_beyond_the_margin_is_not_close(sign: int) -> None:
    """10%, known to within 5%: more rounds make it significant among 20 others too."""
    rule = Rule(resolution=0.05, same_within=1.03)
    beyond = Estimate(sign * math.log(1.10), 0.0175, 4, 4)
    table = [beyond] + [Estimate(0.0, 0.0175, 4, 4)] * 20
    one = judge_estimates(table, 1.03, rule)[0]
    low, high = one.estimate.interval()
    assert (low > 1.03 if sign > 0 else high < 1 / 1.03) and high < one.estimate.ratio * 1.05
    assert one.verdict == "undecided"
    assert one.further is not None  # rounds that decide, with the same ratio and spread
    rounds = 4 + one.further
    later = Estimate(beyond.log_ratio, 0.0175 * math.sqrt(4 / rounds), rounds, rounds)
    assert judge_estimates([later, *table[1:]], 1.03, rule)[0].verdict in ("faster", "slower")
    assert judge_estimates([beyond], 1.03, rule)[0].verdict in ("faster", "slower")


@pytest.mark.parametrize("sign", [1, -1], ids=["faster", "slower"])
def test_what_is_beyond_the_margin_is_not_close_either_where_rounds_are_added(sign: int) -> None:
    """The interval that is shown, at 95%, is beyond the margin; the one of a look reaches it."""
    rule = Rule(looks=100, resolution=0.05)
    (one,) = judge_estimates([Estimate(sign * 0.039, 0.013, 1000, 4)], 1.01, rule)
    low, high = one.estimate.interval()
    assert low > 1.01 if sign > 0 else high < 1 / 1.01
    low, high = one.estimate.interval(1 - 0.05 / 100)
    assert low < 1.01 and high > 1 / 1.01 and high < one.estimate.ratio * 1.05
    assert one.verdict == "undecided"


def test_each_comparison_has_its_own_margin() -> None:
    twice = [with_interval(1.09, 1.10)] * 2
    assert [one.verdict for one in judge(twice, [1.03, 1.2])] == ["faster", "same"]
    with pytest.raises(ValueError, match="argument"):
        judge(twice, [1.03])


def test_families_share_their_spread_among_themselves_only() -> None:
    rng = np.random.default_rng(3)
    calm = [Comparison(tuple(rng.normal(0.2, 0.001, 2)), 0.0, "calm") for _ in range(12)]
    wild = [Comparison(tuple(rng.normal(0.2, 0.2, 2)), 0.0, "wild") for _ in range(12)]
    together = estimate([*calm, *wild])
    assert together[:12] == estimate(calm) and together[12:] == estimate(wild)
    mixed = estimate([one._replace(family="") for one in (*calm, *wild)])
    assert min(one.degrees for one in together) > 2 * max(one.degrees for one in mixed)


@pytest.mark.parametrize("looks", [1, 4])
def test_looks_share_the_error(looks: int) -> None:
    """At each look a verdict needs the level 5% / looks; the p value of this one is 3%."""
    spread = math.sqrt(3) / stats.t.ppf(1 - 0.03 / 2, 2)
    one = Comparison((1 - spread, 1.0, 1 + spread), 0.0)
    (found,) = judge([one], 1.03, Rule(looks=looks))
    assert found.p == pytest.approx(0.03)
    assert found.verdict == ("faster" if looks == 1 else "undecided")
    near = with_interval(0.975, 1.02)
    assert judge([near], 1.03, Rule(looks=looks))[0].verdict == (
        "same" if looks == 1 else "undecided"
    )


@given(
    log_ratio=st.floats(-0.2, 0.2),
    width=st.floats(1e-4, 0.3),
    margin=st.floats(1.005, 1.2),
)
@settings(max_examples=50)
def test_a_verdict_of_the_swapped_pair_is_the_mirrored_verdict(
    log_ratio: float, width: float, margin: float
) -> None:
    size, limit = abs(log_ratio), math.log(margin)
    near = min(abs(size - width), abs(size + width - limit), abs(size - limit))
    assume(near > 1e-6)  # no rounding error decides
    low, high = math.exp(log_ratio - width), math.exp(log_ratio + width)
    mirrored = {"faster": "slower", "slower": "faster"}
    there = judge([with_interval(low, high)], margin)[0].verdict
    back = judge([with_interval(1 / high, 1 / low)], margin)[0].verdict
    assert back == mirrored.get(there, there)
    if size < limit:
        assert (there == "same") == (size + width < limit)
    else:
        assert (there in ("faster", "slower")) == (size > width)


def test_a_true_difference_at_the_margin_is_called_same_in_at_most_1_of_40() -> None:
    """Two one-sided tests at 2.5%: 400 comparisons whose true ratio is the margin."""
    rng = np.random.default_rng(11)
    drawn = rng.normal(math.log(1.03), 0.003, (400, 5))
    found = [one.verdict for one in judge([Comparison(tuple(row), 0.0) for row in drawn], 1.03)]
    assert found.count("same") <= 10 + 6  # and two standard deviations


def test_the_confidence_decides_on_verdict_and_interval() -> None:
    """The p value of this comparison is 0.1."""
    spread = math.sqrt(3) / stats.t.ppf(0.95, 2)
    one = Comparison((1 - spread, 1.0, 1 + spread), 0.0)
    (found,) = judge([one], 1.03)
    assert found.p == pytest.approx(0.1)
    assert found.verdict == "undecided"
    assert judge([one], 1.03, Rule(confidence=0.89))[0].verdict == "faster"
    assert judge([one], 1.03, Rule(confidence=0.91))[0].verdict == "undecided"
    narrow = with_interval(0.99, 1.035)
    assert judge([narrow], 1.03)[0].verdict == "undecided"
    assert judge([narrow], 1.03, Rule(confidence=0.8))[0].verdict == "same"


def test_a_p_value_is_the_two_sided_t_test_against_zero() -> None:
    rounds = (0.03, -0.01, 0.04, 0.02)
    (one,) = estimate([Comparison(rounds, 0.0)])
    expected = stats.ttest_1samp(rounds, 0)
    assert one.p_value == pytest.approx(expected.pvalue)
    assert one.interval() == pytest.approx(
        tuple(math.exp(end) for end in expected.confidence_interval(0.95))
    )
    assert one.interval(0.5) == pytest.approx(
        tuple(math.exp(end) for end in expected.confidence_interval(0.5))
    )
    assert one.ratio == pytest.approx(math.exp(0.02))
    assert (one.rounds, one.degrees) == (4, 3)
    assert Estimate(0.02, 0.01, math.inf, 4).p_value == pytest.approx(
        2 * stats.norm.sf(2), rel=1e-4
    )
    assert Estimate(-0.02, 0.01, 3, 4).p_value == pytest.approx(2 * stats.t.sf(2, 3))


def test_verdicts_use_the_corrected_p_value() -> None:
    """Alone it is significant; as one of two that are not moderated, it is not."""
    near = Comparison((0.10, 0.14, 0.20, 0.05), 0.0)
    (alone,) = judge([near], 1.03)
    assert alone.p is not None and 0.025 < alone.p < 0.05
    assert alone.verdict == "faster"
    for table in ([near, near], [near, near][::-1]):
        assert [one.verdict for one in judge(table, 1.03)] == ["undecided"] * 2
        assert [one.p for one in judge(table, 1.03)] == pytest.approx([2 * alone.p] * 2)


TABLE = [
    Comparison((0.20,), 0.01),
    Comparison((0.10, 0.14, 0.20, 0.05), 0.01),
    Comparison((0.5, 0.52), 0.02),
    Comparison((0.001, -0.002, 0.001), 0.0),
    Comparison((-0.3, -0.29, -0.31, -0.28), 0.0),
    Comparison((-0.1, 0.2, 0.1), 0.3),
]


@given(order=st.permutations(range(len(TABLE))))
@settings(max_examples=20)
def test_the_order_of_comparisons_changes_nothing(order: list[int]) -> None:
    expected = judge(TABLE, 1.03)
    for position, one in zip(order, judge([TABLE[i] for i in order], 1.03), strict=True):
        assert one.verdict == expected[position].verdict
        assert one.further == expected[position].further
        assert one.p == (None if position == 0 else pytest.approx(expected[position].p))
        assert one.estimate.error == pytest.approx(expected[position].estimate.error)


def test_one_round_is_neither_tested_nor_counted() -> None:
    single, several = judge(TABLE[:1] + TABLE[4:5], 1.03)
    assert single == Judgement(Estimate(0.20, 0.01, math.inf, 1), "one round")
    assert single.estimate.interval() == pytest.approx(
        (math.exp(0.20 - NORMAL * 0.01), math.exp(0.20 + NORMAL * 0.01))
    )
    assert several == judge(TABLE[4:5], 1.03)[0]


# --- how many more rounds ----------------------------------------------------------------------


def rounds_needed(
    room: float, spread: float, rounds: int, degrees: float, level: float
) -> int | None:
    """The first number of further rounds whose interval is narrower than `room`."""
    for more in range(1, 51):
        half = stats.t.ppf(1 - level / 2, degrees + more) * spread / math.sqrt(rounds + more)
        if half < room:
            return more
    return None


def test_the_forecast_is_made_at_the_corrected_level() -> None:
    """Of two comparisons, the smaller p value is tested at 2.5%, the other one at 5%."""
    first, second = (0.02, 0.14, 0.20, 0.05), (-0.06, 0.30, 0.28, 0.02)
    found = judge([Comparison(first, 0.0), Comparison(second, 0.0)], 1.03)
    assert [one.verdict for one in found] == ["undecided"] * 2
    assert found[0].p is not None and found[1].p is not None
    assert found[0].p < found[1].p
    for one, rounds, level in zip(found, (first, second), (0.025, 0.05), strict=True):
        spread = float(np.std(rounds, ddof=1))
        expected = rounds_needed(float(np.mean(rounds)), spread, 4, 3, level)
        assert one.further == expected
        assert expected is not None
        other = rounds_needed(float(np.mean(rounds)), spread, 4, 3, 0.075 - level)
        assert other != expected  # the test can tell the levels apart


def test_within_the_margin_the_forecast_is_for_same_at_the_plain_level() -> None:
    near_one = (0.025, -0.005, 0.04, -0.02)  # of the smaller p value, so that its factor is 2
    found, other = judge([Comparison(near_one, 0.0), Comparison((0.3, -0.3), 0.0)], 1.03)
    assert found.verdict == "undecided"
    assert found.estimate.p_value < other.estimate.p_value
    room, spread = math.log(1.03) - 0.01, float(np.std(near_one, ddof=1))
    assert found.further == rounds_needed(room, spread, 4, 3, 0.05)
    assert found.further != rounds_needed(room, spread, 4, 3, 0.025)


@pytest.mark.parametrize(("alpha", "alpha_same"), [(0.05, 0.2), (0.01, 0.05)])
@pytest.mark.parametrize("log_ratio", [0.01, -0.01, 0.05, -0.05])
@pytest.mark.parametrize("degrees", [2.0, 7.5, math.inf])
def test_the_forecast_counts_rounds_and_degrees(
    alpha: float, alpha_same: float, log_ratio: float, degrees: float
) -> None:
    seen = Estimate(log_ratio, error=0.02, degrees=degrees, rounds=3)
    size = abs(log_ratio)
    room, level = (size, alpha) if size > 0.03 else (0.03 - size, alpha_same)
    expected = rounds_needed(room, 0.02 * math.sqrt(3), 3, degrees, level)
    assert further_rounds(seen, 0.03, alpha, alpha_same) == expected


def test_the_forecast_ends_after_fifty_rounds() -> None:
    """A spread of 1 per round, 4 rounds: enough once sqrt(4 + n) exceeds 1.96 / room."""

    def needed(total: float) -> int | None:
        seen = Estimate(NORMAL / math.sqrt(total), error=0.5, degrees=math.inf, rounds=4)
        return further_rounds(seen, 0.0, 0.05, 0.05)

    assert MOST_ROUNDS == 50
    assert (needed(1), needed(4.5), needed(5.5)) == (1, 1, 2)
    assert (needed(52.5), needed(53.5), needed(54.5)) == (49, 50, None)


# --- Holm --------------------------------------------------------------------------------------


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=6))
@settings(max_examples=50)
def test_holm_is_the_closed_bonferroni_procedure(p_values: list[float]) -> None:
    """Corrected p: the largest, over the subsets that contain it, of the subset's smallest * size.

    For a hypothesis, the worst subset of each size has it and the largest other p values.
    """
    for p, corrected in zip(p_values, holm(p_values), strict=True):
        others = sorted(p_values)
        others.remove(p)
        worst = [
            min([p, *others[len(others) - size + 1 :]]) * size
            for size in range(1, len(p_values) + 1)
        ]
        assert corrected == pytest.approx(min(max(worst), 1))


def test_of_equal_p_values_the_first_has_the_larger_factor() -> None:
    assert holm_factors([0.5] * 40) == list(range(40, 0, -1))
    assert holm_factors([0.1, 0.5] * 20) == [40 - n // 2 - 20 * (n % 2) for n in range(40)]


def test_holms_factors_count_down_from_the_smallest() -> None:
    assert holm_factors([0.3, 0.01, 0.2]) == [1, 3, 2]
    assert holm_factors([0.2, 0.2, 0.1]) == [2, 1, 3]  # equal ones in their order
    assert holm_factors([]) == []
