"""When steps are warm and samples stable, on times whose course is known."""

from __future__ import annotations

import numpy as np
import pytest

from synthbench.analysis.trend import (
    CLOSE_STEPS,
    TREND_STEPS,
    WARM_Z,
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


def test_few_samples_show_nothing() -> None:
    assert is_stable([1.0, 2.0, 3.0])
    assert not is_warm([1.0, 1.0, 1.0])
