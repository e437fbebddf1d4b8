"""Which of several ways to compute the same is the fastest, from steps timed side by side."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from synthbench.analysis.intervals import Interval, ratio_interval

# After three steps each, a kernel that takes this many times as long as the fastest is left out.
HOPELESS = 1.5
LEAST_ROUNDS = 5  # of one step per kernel: fewer give no interval to decide by
MOST_ROUNDS = 25


K = TypeVar("K", bound=Hashable)  # a kernel


def race(
    names: Sequence[K],
    timed: Callable[[K], float],
    seconds: float,
    clock: Callable[[], float],
) -> dict[K, list[float]]:
    """The seconds of steps of each kernel, in rounds of one step each, in alternating order.

    `timed` does one step of a kernel and returns its seconds. At least LEAST_ROUNDS rounds, then
    until `seconds` have passed since the call. Kernels that cannot win have only three steps.
    """
    begin = clock()
    samples: dict[K, list[float]] = {name: [] for name in names}
    for order in (names, names[::-1], names):  # one disturbance never meets all steps of a kernel
        for name in order:
            samples[name].append(timed(name))
    fastest = min(min(found) for found in samples.values())
    left = [n for n in names if n == names[0] or min(samples[n]) <= HOPELESS * fastest]
    if len(left) == 1:
        return samples
    for number in range(MOST_ROUNDS):
        if number >= LEAST_ROUNDS and clock() - begin >= seconds:
            break
        for name in left if number % 2 else reversed(left):
            samples[name].append(timed(name))
    return samples


def ratios(samples: Mapping[K, Sequence[float]]) -> dict[K, Interval]:
    """The time of each kernel over that of the first, with its 95% interval."""
    first = next(iter(samples))
    return {
        name: ratio_interval(found, samples[first][: len(found)])
        for name, found in samples.items()
        if name != first
    }


def winner(samples: Mapping[K, Sequence[float]]) -> K:
    """The fastest kernel; the first one unless another's whole interval is below its time.

    A kernel with fewer than LEAST_ROUNDS steps was left out of the race.
    """
    faster = {
        name: interval.median
        for name, interval in ratios(samples).items()
        if len(samples[name]) >= LEAST_ROUNDS and interval.high < 1
    }
    return min(faster, key=lambda name: faster[name], default=next(iter(samples)))
