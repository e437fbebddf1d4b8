"""Which of several ways to compute the same is the fastest, from steps timed side by side."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, TypeVar

from synthbench.analysis.intervals import Interval
from synthbench.analysis.paired_ratio import paired_ratio

HOPELESS = 1.5  # a kernel that takes this many times as long as the fastest is left out
# The same after one step, which may have to wait for memory that the step of another kernel gave
# back: three times as long as the next ones have been seen.
HOPELESS_AT_ONCE = 5.0
# Rounds of one step per kernel. A race that leaves no question may end after some, where the time
# has passed already after two.
LEAST_ROUNDS = 3
DECIDED_AFTER = 5
DECIDED_LATE_AFTER = 2
MOST_ROUNDS = 28
# A kernel must save this share of the time: less is not worth another program, and two races on one
# machine, which differ by some percent, would choose differently.
LEAST_GAIN = 0.05
# The same for plain code, with which forms are compared: they should reach 0.95 of its speed, and a
# race can be wrong by some percent.
LEAST_GAIN_OF_PLAIN = 0.03
COMPARED: Final = "faster halves"  # of the steps: what disturbs a step only adds time


K = TypeVar("K", bound=Hashable)  # a kernel


def race(
    names: Sequence[K],
    timed: Callable[[K], float],
    seconds: float,
    clock: Callable[[], float],
    plain: K | None = None,
) -> dict[K, list[float]]:
    """The seconds of steps of each kernel, in rounds of one step each, in alternating order.

    `timed` does one step of a kernel and returns its seconds. `plain`: the kernel that is plain
    code. The rounds end when they decide, or when `seconds` have passed since the call and there
    were LEAST_ROUNDS. Kernels that cannot win are left out after so many steps, or after two where
    the time has passed; far slower ones after one.
    """
    begin = clock()
    samples: dict[K, list[float]] = {name: [] for name in names}
    left = list(names)
    for number in range(1, MOST_ROUNDS + 1):
        for name in left if number % 2 else reversed(left):
            samples[name].append(timed(name))
        is_over = clock() - begin >= seconds
        if number >= LEAST_ROUNDS or is_over:
            fastest = min(min(samples[name]) for name in left)
            limit = (HOPELESS if number > 1 else HOPELESS_AT_ONCE) * fastest
            left = [name for name in left if name == names[0] or min(samples[name]) <= limit]
        if number >= LEAST_ROUNDS and (is_over or len(left) == 1):
            break
        enough = DECIDED_LATE_AFTER if is_over else DECIDED_AFTER
        if number >= enough and is_decided(samples, plain):
            break
    return samples


def ratios(samples: Mapping[K, Sequence[float]]) -> dict[K, Interval]:
    """The time of each kernel over that of the first, with its 95% interval; COMPARED says how."""
    first = next(iter(samples))
    return {
        name: paired_ratio(samples[first][: len(found)], found)
        for name, found in samples.items()
        if name != first
    }


def is_decided(samples: Mapping[K, Sequence[float]], plain: K | None = None) -> bool:
    """Whether every kernel that is still in the race gains enough, or does not, beyond doubt."""
    return all(
        found.high < 1 - least_gain(name, plain) or found.low > 1 - least_gain(name, plain)
        for name, found in ratios(in_race(samples)).items()
    )


def winner(samples: Mapping[K, Sequence[float]], plain: K | None = None) -> K:
    """The fastest kernel; the first one unless another's whole interval is below its time.

    It must also save `least_gain` of the time, and have been in the race to its end.
    """
    faster = {
        name: interval.value
        for name, interval in ratios(in_race(samples)).items()
        if interval.high < 1 and interval.value <= 1 - least_gain(name, plain)
    }
    return min(faster, key=lambda name: faster[name], default=next(iter(samples)))


def least_gain(name: K, plain: K | None) -> float:
    """The share of the time that a kernel must save; `plain`: the one that is plain code."""
    return LEAST_GAIN if name != plain else LEAST_GAIN_OF_PLAIN


def in_race(samples: Mapping[K, Sequence[float]]) -> dict[K, Sequence[float]]:
    """The samples of the kernels that were in the race to its end, as the first one is."""
    rounds = max(DECIDED_LATE_AFTER, len(next(iter(samples.values()))))
    return {name: found for name, found in samples.items() if len(found) >= rounds}
