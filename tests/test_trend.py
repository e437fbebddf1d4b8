"""When steps are warm and samples stable, on times whose course is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthbench.analysis.trend import (
    CLOSE_STEPS,
    STABLE_Z,
    TREND_STEPS,
    WARM_Z,
    Array,
    has_trend,
    is_stable,
    is_warm,
)


def steps_until_warm(times: list[float]) -> int:
    return next(n for n in range(1, len(times) + 1) if is_warm(times[:n]))


def test_equal_steps_are_warm_as_soon_as_they_may_be() -> None:
    assert steps_until_warm([1.0] * 20) == CLOSE_STEPS
    assert steps_until_warm([1.0, 1.01, 1.0, 1.015]) == CLOSE_STEPS


def test_a_fall_keeps_warming_up_and_one_slow_first_step_does_not() -> None:
    falling = [3.0 * 0.9**n for n in range(60)]
    assert not any(is_warm(falling[:n]) for n in range(1, 61))
    assert steps_until_warm([8.0] + [1.0] * 20) == 1 + CLOSE_STEPS


def test_a_step_down_within_the_window_is_a_trend() -> None:
    half = TREND_STEPS // 2
    noise = [0.0, 0.03, 0.01, 0.04] * 2
    down = [2.0 - x for x in noise[:half]] + [1.0 + x for x in noise[:half]]
    assert has_trend(down, WARM_Z, 0.02)
    assert not is_warm(down)


def test_a_drift_that_does_not_matter_is_none() -> None:
    drifting = [1 + 0.002 * n for n in range(TREND_STEPS)]  # 1.4% over all of them
    assert not has_trend(drifting, WARM_Z, 0.02)
    assert has_trend([1 + 0.01 * n for n in range(TREND_STEPS)], WARM_Z, 0.02)


def test_what_follows_warmup_is_near_the_true_time() -> None:
    """Steps of 1 s with 3% of noise that begin at 3 s and settle: the truth is known."""
    generator = np.random.default_rng(0)
    remaining = []
    for _ in range(200):
        noise = generator.normal(1.0, 0.03, size=200)
        times = list((1 + 2 * 0.8 ** np.arange(200)) * noise)
        remaining.append(2 * 0.8 ** steps_until_warm(times))  # what is left at the first sample
    assert np.quantile(remaining, 0.9) < 0.06
    assert np.median(remaining) < 0.02


def test_noise_alone_ends_warmup_soon_and_is_stable() -> None:
    generator = np.random.default_rng(1)
    ends, stable = [], 0
    for _ in range(200):
        times = list(generator.lognormal(sigma=0.3, size=100))
        ends.append(steps_until_warm(times))
        stable += is_stable(times)
    assert np.quantile(ends, 0.95) <= 3 * TREND_STEPS
    assert stable >= 0.97 * 200


@pytest.mark.parametrize("n", [20, 1000])
def test_samples_that_rise_are_not_stable(n: int) -> None:
    noise = np.random.default_rng(2).normal(1.0, 0.02, size=n)
    assert is_stable(list(noise))
    assert not is_stable(list(noise * np.linspace(1.0, 1.3, n)))
    assert is_stable(list(noise * np.linspace(1.0, 1.01, n)))


WORK_EVERY = 20  # samples


def with_work(samples: Array, speed: Array) -> tuple[list[float], list[int], list[float]]:
    """Samples, and fixed work of 3 ms between them, on a machine whose times have this course."""
    after = [n for n in range(0, len(samples) + 1, WORK_EVERY) for _ in range(2)]
    seconds = [0.003 * float(speed[min(n, len(speed) - 1)]) for n in after]
    return (samples * speed).tolist(), after, seconds


@given(st.floats(0.4, 2.5), st.sampled_from([1e-4, 1e-3, 0.03]), st.integers(100, 600))
@settings(max_examples=30)
def test_a_machine_that_changes_its_speed_is_no_trend_of_the_steps(
    change: float, seconds: float, n: int
) -> None:
    noise = np.random.default_rng(n).normal(1.0, 0.02, size=n) * seconds
    speed = np.linspace(1.0, change, n)
    samples, after, work = with_work(noise, speed)
    assert is_stable(samples, after, work)
    if abs(change - 1) > 0.15:
        assert not is_stable(samples)  # without the fixed work, nobody can tell
    # What only the steps do is one, whatever the machine does.
    assert not is_stable(*with_work(noise * np.linspace(1.0, 1.3, n), speed))
    assert not is_stable(*with_work(noise * np.linspace(1.3, 1.0, n), speed))


def test_disturbances_that_last_for_many_steps_are_no_trend() -> None:
    """Steps of 1 ms, each fifth of them 50% slower, in bursts of 15 steps on average."""
    generator = np.random.default_rng(3)
    found = single = 0
    for _ in range(100):
        is_slow, slow = False, []
        for _ in range(500):
            is_slow = generator.random() > 1 / 15 if is_slow else generator.random() < 1 / 60
            slow.append(is_slow)
        times = 1e-3 * (1 + 0.5 * np.array(slow)) * generator.normal(1.0, 0.03, size=500)
        found += not is_stable(times.tolist())
        single += has_trend(times, STABLE_Z, 0.0)
    assert found <= 4
    assert single > 20  # were each step taken as independent


def test_a_block_is_the_median_of_the_steps_of_a_time() -> None:
    """Of 160 steps of 1.5 ms, 20 are a block; 11 of a block decide, and 9 do not."""
    level = np.repeat(1.0 + 0.02 * np.arange(8), 20)
    few, many = level.copy(), level.copy()
    for block in range(8):
        few[block * 20 : block * 20 + 9] = 9.0 - block
        many[block * 20 : block * 20 + 11] = 1.0
    for times, stable in ((level, False), (few, False), (many, True)):
        assert is_stable((1.5e-3 * times / times.mean()).tolist()) == stable


def test_few_samples_show_nothing() -> None:
    assert is_stable([1.0, 2.0, 3.0])
    assert not is_warm([1.0, 1.0, 1.0])


# --- exact limits -------------------------------------------------------------------------------


def ordered_with(inversions: int, n: int = 8) -> list[float]:
    """Rising times with so many pairs out of order, 28 pairs in all."""
    left, order = list(range(n)), []
    for _ in range(n):
        taken = min(inversions, len(left) - 1)
        inversions -= taken
        order.append(left.pop(taken))
    return [1.0 + 0.1 * value for value in order]


def test_a_trend_is_significant_with_the_continuity_correction() -> None:
    """The deviation of S for 8 times is sqrt(8 * 7 * 21 / 18) = 8.083; S = 28 - 2 inversions."""
    assert has_trend(ordered_with(6), WARM_Z, 0.0)  # (16 - 1) / 8.083 = 1.86
    assert not has_trend(ordered_with(7), WARM_Z, 0.0)  # (14 - 1) / 8.083 = 1.61; 14 gives 1.73
    assert has_trend(ordered_with(3), STABLE_Z, 0.0)  # 21 / 8.083 = 2.60
    assert not has_trend(ordered_with(4), STABLE_Z, 0.0)  # 19 / 8.083 = 2.35
    assert has_trend(ordered_with(28 - 6), WARM_Z, 0.0)  # falling
    assert not has_trend(ordered_with(28 - 7), WARM_Z, 0.0)


@pytest.mark.parametrize("n", [8, 20, 200, 1000])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_drift_is_that_from_the_first_to_the_last_over_the_median(n: int, sign: int) -> None:
    def line(drift: float) -> list[float]:
        return [3.0 * (1 + sign * drift * (i / (n - 1) - 0.5)) for i in range(n)]

    near = 0.01 if n > 200 else 1e-6  # blocks of medians end before the first and last sample
    assert has_trend(line(0.05 * (1 + near)), STABLE_Z, 0.05)
    assert not has_trend(line(0.05 * (1 - 1e-6)), STABLE_Z, 0.05)


def test_single_outliers_neither_make_nor_hide_a_trend() -> None:
    rising = [1 + 0.001 * i for i in range(20)]  # by 1.9%, which does not matter
    assert not has_trend([*rising[:-1], 9.0], STABLE_Z, 0.05)
    steep = [1 + 0.01 * i for i in range(20)]
    assert has_trend([9.0, *steep[1:]], STABLE_Z, 0.05)


def test_many_samples_are_judged_by_medians_of_blocks() -> None:
    """Two of five samples rise with time; the other three, and so every block's median, do not."""
    rising = [2.0 + 0.01 * i if i % 5 in (1, 3) else 1.0 for i in range(1000)]
    assert not has_trend(rising, STABLE_Z, 0.05)
    most = [1.0 if i % 5 in (1, 3) else 2.0 + 0.01 * i for i in range(1000)]
    assert has_trend(most, STABLE_Z, 0.05)


@given(
    times=st.lists(st.integers(1, 100).map(float), min_size=4, max_size=30),
    unit=st.sampled_from([2.0**-20, 0.5, 1024.0]),
    z=st.sampled_from([WARM_Z, STABLE_Z]),
)
@settings(max_examples=50)
def test_a_trend_does_not_depend_on_unit_or_direction(
    times: list[float], unit: float, z: float
) -> None:
    found = has_trend(times, z, 0.02)
    assert has_trend([unit * t for t in times], z, 0.02) == found
    assert has_trend(times[::-1], z, 0.02) == found
    if found:
        assert has_trend(times, z, 0.01)
        assert has_trend(times, z - 0.5, 0.02)


def test_warm_is_four_close_steps_or_eight_without_a_trend() -> None:
    assert is_warm([9.0, 1.0, 1.0199, 1.0, 1.0199])
    assert not is_warm([9.0, 1.0, 1.021, 1.0, 1.021])
    assert is_warm([1.0, 1.02, 1.02, 1.02])  # 2% of the median
    assert not is_warm([1.0, 1.0])
    swinging = [1.0, 1.3, 0.9, 1.2, 1.1, 0.8, 1.25, 1.05]
    assert not is_warm(swinging[1:])
    assert is_warm(swinging)
    assert is_warm([9.0, 8.0, 7.0, 6.0, *swinging])  # only the last eight count
    assert is_warm(ordered_with(7))
    assert not is_warm(ordered_with(6))


def test_samples_are_stable_below_five_percent_or_one_percent_significance() -> None:
    assert is_stable([1 + 0.049 * i / 19 for i in range(20)])
    assert not is_stable([1 + 0.053 * i / 19 for i in range(20)])
    assert is_stable(ordered_with(4))
    assert not is_stable(ordered_with(3))


def test_closeness_and_drift_are_relative_to_the_median() -> None:
    assert not is_warm([1.0, 1.0, 1.0, 1.0201])  # 2% of the median are 0.0200, of the mean 0.0201
    rising = [1 + 0.06 * i / 19 for i in range(20)]
    assert has_trend([*rising[:10], 9.0, *rising[11:]], STABLE_Z, 0.05)  # 6% of 1.03, 4% of 1.43
