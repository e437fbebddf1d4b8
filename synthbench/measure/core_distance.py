"""How far apart two cores are, and how to bring the cores of a virtual machine together.

A hypervisor moves virtual cores between physical ones. Where two of them do not share a cache, what
one wrote takes the other several times as long to read, and a step whose threads exchange data
takes up to half as long again. The system does not say so: no time is stolen, and each core alone
is as fast as before.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np

from synthbench.measure.environment import is_virtual, usable_cores

# Of an array that fits into the cache of a core: only another core's cache can be slow.
ARRAY_BYTES = 256 * 1024
READINGS = 16  # the fastest counts: whatever disturbs a reading makes it longer
# What the other core wrote takes this many times as long to read as what the core wrote itself.
# Seen on AMD EPYC: 1.2 in one group of cores, 2.1 in two.
FAR = 1.6
WAKING_SECONDS = 0.04
MOST_WAKINGS = 4
# Near readings that count as seen before the first one: cores that move stay far for about ten
# seconds, in which about five races are run.
ASSUMED_NEAR = 8
# A core that waits for less is not given up: Linux polls for up to 0.2 ms before it halts a virtual
# core, and only a core that was halted can be placed anew.
PAUSE_SECONDS = 0.0005

Clock = Callable[[], float]


def are_far(*distances: float | None) -> bool | None:
    """Whether cores were far apart in any of the readings around one measurement.

    A reading of None is not known; None if none is known.
    """
    known = [distance for distance in distances if distance is not None]
    return max(known) > FAR if known else None


class UsualDistance:
    """Whether the cores of this machine are near as a rule, by all readings so far.

    On some processors they never are: two cores of an Intel Xeon that exchange data through a mesh
    read 1.5 to 2.5 times as long. There far cores are the machine, and no disturbance.
    """

    def __init__(self) -> None:
        self._near, self._far = ASSUMED_NEAR, 0

    def add(self, *distances: float | None) -> None:
        """Count one measurement by the readings around it; None: not known."""
        if (far := are_far(*distances)) is not None:
            self._far += far
            self._near += not far

    @property
    def is_near(self) -> bool:
        """Whether at most half of the readings were far."""
        return self._far <= self._near


def core_distance(clock: Clock = time.perf_counter) -> float | None:
    """How many times as long a core reads what another wrote as what it wrote itself.

    Of the two usable cores that differ most in number. None where there is only one, or where the
    system does not let a thread choose its core. Takes some milliseconds.
    """
    if not hasattr(os, "sched_setaffinity") or len(cores := usable_cores()) < 2:
        return None
    written = np.zeros(ARRAY_BYTES // 8)
    of_other, of_own = [], []
    with suppress(OSError), _same_cores_afterwards():  # a core that is taken away meanwhile
        for _ in range(READINGS):
            os.sched_setaffinity(0, {cores[0]})
            written.fill(1.0)
            os.sched_setaffinity(0, {cores[-1]})
            of_other.append(_seconds(written.sum, clock))
            written.fill(1.0)
            of_own.append(_seconds(written.sum, clock))
    if len(of_own) < READINGS or min(*of_own, *of_other) <= 0:
        return None
    return min(of_other) / min(of_own)


def wake_cores(seconds: float = WAKING_SECONDS, clock: Clock = time.perf_counter) -> None:
    """From the first usable core wake a sleeping thread on each other one, again and again.

    Does less where a core is taken away meanwhile, or memory is too short for a thread.
    """
    first, *others = usable_cores()
    sleepers: list[_Sleeper] = []
    try:
        with suppress(OSError, RuntimeError), _same_cores_afterwards():
            sleepers.extend(map(_Sleeper, others))
            os.sched_setaffinity(0, {first})
            end = clock() + seconds
            while clock() < end:
                for sleeper in sleepers:
                    sleeper.wake()
                awake_until = clock() + PAUSE_SECONDS
                while clock() < awake_until:
                    pass
    finally:
        for sleeper in sleepers:
            sleeper.close()


def bring_cores_together(
    cores_may_be_near: bool = True,
    distance: Callable[[], float | None] = core_distance,
    wake: Callable[[], None] = wake_cores,
    virtual: Callable[[], bool] = is_virtual,
) -> float | None:
    """Wake the cores by each other until they are near, at most MOST_WAKINGS times.

    Returns the distance afterwards; None where there is none. A hypervisor that wakes a virtual
    core for another tends to place it beside that one. They are woken once whatever the distance
    is: other work on the machine can hide that it is large. And no more than once where they never
    come near (`cores_may_be_near`, see `UsualDistance`). Cores of a real machine stay where they
    are, and are only measured.
    """
    if (found := distance()) is None or not virtual():
        return found
    for _ in range(MOST_WAKINGS if cores_may_be_near else 1):
        wake()
        found = distance()
        if found is None or found <= FAR:
            break
    return found


class _Sleeper:
    """A thread that sleeps on a core until it is woken, and says that it was."""

    def __init__(self, core: int) -> None:
        self._to, self._call = os.pipe()
        self._answer, self._back = os.pipe()
        self._core = core
        self._thread = threading.Thread(target=self._sleep, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no memory for it
            for end in (self._to, self._call, self._answer, self._back):
                os.close(end)
            raise

    def wake(self) -> None:
        """Wake it, and wait until it was awake."""
        os.write(self._call, b".")
        os.read(self._answer, 1)

    def close(self) -> None:
        """End the thread."""
        os.close(self._call)
        self._thread.join()
        os.close(self._answer)

    def _sleep(self) -> None:
        try:
            os.sched_setaffinity(0, {self._core})
            while os.read(self._to, 1):
                os.write(self._back, b".")
        except OSError:
            return
        finally:  # who waits for an answer then gets none, and goes on
            os.close(self._to)
            os.close(self._back)


def _seconds(work: Callable[[], object], clock: Clock) -> float:
    begin = clock()
    work()
    return clock() - begin


@contextmanager
def _same_cores_afterwards() -> Iterator[None]:
    """Let this thread use the cores afterwards that it may use now."""
    before = os.sched_getaffinity(0)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
