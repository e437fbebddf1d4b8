"""Work between the samples of a step: a fixed product, or the steps of the baseline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

# Of samples, between the fixed work: what disturbs comes in bursts of milliseconds.
BLOCK_SECONDS = 0.03
REPETITIONS = 2  # of the fixed work, for every BLOCK_SECONDS of samples
MOST_REPETITIONS = 8  # at a time
# A step that is shorter runs once without being a sample after other work, which has displaced its
# data in the caches and let its threads sleep: on two cores 4% to 18% longer at 1 to 40 ms. Where
# one program has one step in a turn and the other several, only the first would show it. Of longer
# steps that is a small part, and both programs have about one in a turn.
SHORT_SECONDS = 0.05
LEAST_SECONDS = 3e-5  # of a step: a turn has at most a thousand


@dataclass
class Times:
    """The seconds of work between the samples, and after how many samples each was done."""

    after: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Between:
    """`times` repetitions of some work after `every` samples, and what each took.

    Both numbers are decided before the first sample. If more work were done where steps are slower,
    its times would be those of slower moments than the samples are.
    """

    work: Callable[[int], list[float]]  # does it so many times; the seconds of each
    every: int
    times: int
    clock: Callable[[], float]
    found: Times = field(default_factory=Times)

    def is_due(self, after: int) -> bool:
        """Whether it is to be done after so many samples."""
        return after % self.every == 0

    def do(self, after: int) -> float:
        """Do it after so many samples, and note the seconds; returns how long all of it took."""
        begin = self.clock()
        seconds = self.work(self.times)
        self.found.after += [after] * len(seconds)
        self.found.seconds += seconds
        return self.clock() - begin


class Beside(NamedTuple):
    """The baseline's step in the process of another cell: `work` does it so many times."""

    work: Callable[[int], list[float]]
    seconds: float  # of one step, about


def fixed_work(
    work: Callable[[int], list[float]], seconds: float, clock: Callable[[], float]
) -> Between:
    """Fixed work between steps that take so many seconds, in proportion to them."""
    every = samples_in(BLOCK_SECONDS, seconds)
    times = REPETITIONS * max(round(every * seconds / BLOCK_SECONDS), 1)
    return Between(work, every, min(times, MOST_REPETITIONS), clock)


def baseline_steps(beside: Beside, seconds: float, clock: Callable[[], float]) -> Between:
    """The baseline's steps between steps of so many seconds: they take turns of equal length.

    A turn lasts BLOCK_SECONDS, or one step of the slower of both.
    """
    turn = max(BLOCK_SECONDS, seconds, beside.seconds)
    return Between(beside.work, samples_in(turn, seconds), samples_in(turn, beside.seconds), clock)


def samples_in(turn: float, seconds: float) -> int:
    """How many steps of so many seconds a turn has, at least one."""
    return max(round(turn / max(seconds, LEAST_SECONDS)), 1)
