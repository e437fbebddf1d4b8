"""Timing, on a clock that the test turns."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from synthbench.analysis.calibration import relative_interval
from synthbench.analysis.intervals import median_interval
from synthbench.measure.between import BLOCK_SECONDS, SHORT_SECONDS, Beside
from synthbench.measure.new_pages import REPEATS
from synthbench.measure.timing import (
    CLOCK,
    CLOCK_SYNCHRONISED,
    MAX_SAMPLES,
    MAX_WARMUP_STEPS,
    SteadyState,
    clock_of,
    time_steps,
)


class Machine:
    """Steps that take what they are told, on a clock of their own; the time passes in wait()."""

    def __init__(self, seconds: Iterator[float] | float) -> None:
        self.seconds = seconds
        self.now = 0.0
        self.steps = 0
        self.collecting: list[bool] = []

    def clock(self) -> float:
        return self.now

    def step(self) -> int:
        self.steps += 1
        self.collecting.append(gc.isenabled())
        return self.steps

    def wait(self, produced: object) -> None:
        assert produced == self.steps, "what the step returned is what is waited for"
        self.now += self.seconds if isinstance(self.seconds, float) else next(self.seconds)

    def time(self, **options: float | list[float]) -> tuple[list[float], int]:
        found = self.steady_state(**options)
        return found.samples, found.warmup_steps

    def steady_state(self, **options: float | list[float]) -> SteadyState:
        wanted = {"min_samples": 5, "min_seconds": 1.0, "max_seconds": 100.0} | options
        found = time_steps(self.step, self.wait, clock=self.clock, **wanted)  # type: ignore[arg-type]
        assert self.steps == len(found.samples) + found.warmup_steps - len(
            options.get("before", [])  # type: ignore[arg-type]
        )
        return found


def test_enough_samples_and_enough_seconds() -> None:
    samples, warmup = Machine(0.5).time(min_samples=5, min_seconds=1.0)
    assert (len(samples), warmup) == (5, 4)
    samples, _ = Machine(0.1).time(min_samples=5, min_seconds=2.05)
    assert len(samples) == 21
    assert samples == pytest.approx([0.1] * 21)


def test_what_a_step_returns_late_is_waited_for() -> None:
    samples, _ = Machine(0.25).time()
    assert min(samples) == pytest.approx(0.25)  # the call itself took no time at all


def test_warmup_goes_on_until_no_trend_is_left() -> None:
    falling = iter([8.0, 4.0, 2.0, 1.5, 1.4] + [1.0] * 100)
    samples, warmup = Machine(falling).time(max_seconds=1000.0)
    assert warmup == 5 + 4  # four steps within 2% of each other
    assert samples == pytest.approx([1.0] * 5)


def noisy(median: float, sigma: float, seed: int = 0) -> Iterator[float]:
    generator = np.random.default_rng(seed)
    while True:
        yield float(median * generator.lognormal(sigma=sigma))


def test_samples_are_taken_until_the_precision_asked_for_is_reached() -> None:
    wanted = {"min_samples": 6, "min_seconds": 0.01, "max_seconds": 1e6}
    counts = []
    for precision in (0.10, 0.02):
        found = Machine(noisy(1.0, 0.1)).steady_state(precision=precision, **wanted)
        interval = median_interval(found.samples)
        assert found.precision == pytest.approx((interval.high - interval.low) / 2 / interval.value)
        assert found.precision is not None
        assert found.precision <= precision
        assert found.stable
        counts.append(len(found.samples))
    # 1.25 x 1.96 x 0.1 / sqrt(n) is 2% at about 150 samples
    assert counts[0] < 12
    assert 60 < counts[1] < 400


def test_the_precision_reached_is_told_where_the_cap_ends_it() -> None:
    found = Machine(noisy(1.0, 0.5)).steady_state(precision=0.001, max_seconds=60.0)
    assert found.precision is not None
    assert found.precision > 0.01
    assert sum(found.samples) < 65
    found = Machine(60.0).steady_state(precision=0.001, max_seconds=10.0)
    assert (len(found.samples), found.precision) == (1, None)


def test_equal_steps_are_precise_with_the_fewest_samples_that_can_say_so() -> None:
    found = Machine(0.5).steady_state(precision=0.02, min_samples=1, min_seconds=0.1)
    assert (len(found.samples), found.precision) == (6, 0.0)


def test_samples_that_still_rise_are_not_stable() -> None:
    rising = iter([1.0] * 4 + [1.0 * 1.02**n for n in range(60)])
    found = Machine(rising).steady_state(min_samples=40, max_seconds=1000.0)
    assert not found.stable
    assert Machine(1.0).steady_state().stable


def test_the_watch_is_entered_for_the_samples_alone() -> None:
    machine = Machine(0.5)
    seen: list[int] = []

    class InterferenceMonitor:
        def __enter__(self) -> None:
            seen.append(machine.steps)

        def __exit__(self, *exception: object) -> None:
            seen.append(machine.steps)

    found = time_steps(
        machine.step, machine.wait, min_samples=5, min_seconds=1.0, max_seconds=100.0,
        clock=machine.clock, watch=InterferenceMonitor(),
    )  # fmt: skip
    assert seen == [found.warmup_steps, machine.steps]


def test_what_the_last_step_returned_is_inspected_at_once() -> None:
    machine = Machine(0.5)
    seen: list[tuple[object, int]] = []
    found = time_steps(
        machine.step, machine.wait, min_samples=5, min_seconds=1.0, max_seconds=100.0,
        clock=machine.clock, inspect=lambda produced: seen.append((produced, machine.steps)),
    )  # fmt: skip
    assert seen == [(machine.steps, machine.steps)]
    assert machine.steps == found.warmup_steps + len(found.samples)


def test_no_result_is_kept_while_the_next_step_runs() -> None:
    alive: list[weakref.ref[Result]] = []

    class Result:
        pass

    def step() -> Result:
        assert not [kept for kept in alive if kept() is not None]
        result = Result()
        alive.append(weakref.ref(result))
        return result

    ticks = itertools.count()
    time_steps(
        step, lambda produced: None, min_samples=5, min_seconds=1.0, max_seconds=100.0,
        clock=lambda: float(next(ticks)), inspect=lambda produced: None,
    )  # fmt: skip
    assert len(alive) >= 5


def test_the_clock_is_named_by_the_device() -> None:
    assert (clock_of("cpu"), clock_of("cuda:1")) == (CLOCK, CLOCK_SYNCHRONISED)


def test_warmup_ends_in_any_case() -> None:
    swinging = iter([0.001, 0.002, 0.004] * 1000)
    _, warmup = Machine(swinging).time(min_seconds=0.01)
    assert 2 <= warmup <= MAX_WARMUP_STEPS
    growing = iter(1.2**n for n in range(200))
    _, warmup = Machine(growing).time(max_seconds=30.0)
    assert sum(1.2**n for n in range(warmup - 1)) < 10.0


def test_steps_run_before_count_as_warmup() -> None:
    machine = Machine(0.5)
    samples, warmup = machine.time(before=[0.5, 0.5, 0.5, 0.5])
    assert warmup == 4
    assert machine.steps == len(samples)


def test_the_cap_wins_but_one_sample_is_taken() -> None:
    samples, warmup = Machine(60.0).time(max_seconds=10.0)
    assert (len(samples), warmup) == (1, 1)
    samples, warmup = Machine(60.0).time(max_seconds=10.0, before=[60.0])
    assert (len(samples), warmup) == (1, 1)
    samples, _ = Machine(1.0).time(min_samples=50, max_seconds=10.0)
    assert 1 < len(samples) < 10


def test_samples_are_bounded_in_number() -> None:
    samples, _ = Machine(1e-6).time(min_seconds=1e6, max_seconds=1e7)
    assert len(samples) == MAX_SAMPLES


def test_no_garbage_is_collected_in_between() -> None:
    machine = Machine(0.1)
    assert gc.isenabled()
    machine.time()
    assert not any(machine.collecting)
    assert gc.isenabled()


def test_collection_is_on_again_after_a_step_that_fails() -> None:
    def fails() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        time_steps(fails, print, min_samples=1, min_seconds=0.1, max_seconds=1)
    assert gc.isenabled()


def test_interval_is_the_same_each_time_and_holds_the_median() -> None:
    samples = list(np.random.default_rng(0).lognormal(size=41))
    first = median_interval(samples)
    assert first == median_interval(samples) == median_interval(sorted(samples))
    assert first.low <= first.value <= first.high
    assert first.value == np.median(samples)
    wider = median_interval(samples, confidence=0.99)
    assert wider.low <= first.low <= first.high <= wider.high


def test_interval_of_one_and_of_no_sample() -> None:
    assert median_interval([3.0]) == (3.0, 3.0, 3.0)
    with pytest.raises(ValueError, match="no samples"):
        median_interval([])


@pytest.mark.parametrize("n", [5, 12, 40])
def test_interval_is_that_of_the_plain_bootstrap(n: int) -> None:
    generator = np.random.default_rng(n)
    samples = generator.gamma(2.0, size=n)
    drawn = generator.choice(samples, size=(40_000, n))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    found = median_interval(list(samples))
    spread = np.ptp(samples)
    assert abs(found.low - low) < 0.05 * spread
    assert abs(found.high - high) < 0.05 * spread


def test_interval_covers_the_true_median_as_often_as_it_says() -> None:
    generator = np.random.default_rng(1)
    covered = 0
    for _ in range(300):
        low, high = median_interval(list(generator.exponential(size=25)))[1:]
        covered += low <= np.log(2) <= high
    assert 0.90 <= covered / 300 <= 0.99


UNTIMED = 0.005  # of the fixed work, each time


class Drifting(Machine):
    """A machine that is `slower` times as slow from a moment on, for steps and fixed work alike."""

    def __init__(self, step: float, slower: float, since: float) -> None:
        super().__init__(step)
        self.step_seconds, self.slower, self.since = step, slower, since
        self.works: list[int] = []

    def speed(self) -> float:
        return self.slower if self.now >= self.since else 1.0

    def wait(self, produced: object) -> None:
        self.now += self.step_seconds * self.speed()

    def work(self, times: int) -> list[float]:
        self.works.append(self.steps)
        seconds = 0.01 * self.speed()
        self.now += seconds * times + UNTIMED
        return [seconds] * times

    def calibrated(self, samples: int, most: float = 1e6) -> SteadyState:
        return time_steps(
            self.step, self.wait, min_samples=samples, min_seconds=0.1, max_seconds=most,
            clock=self.clock, calibrate=self.work,
        )  # fmt: skip


@pytest.mark.parametrize("step", [0.007, 0.02, 0.2, 3.0])
def test_the_fixed_work_follows_the_speed_of_the_machine(step: float) -> None:
    """As many of its times as of the samples are from before a change."""
    found = Drifting(step, slower=3.0, since=60 * step).calibrated(100)
    fixed = found.calibration
    assert fixed is not None
    assert max(found.samples) == pytest.approx(3 * min(found.samples))
    assert (fixed.after[0], fixed.after[-1]) == (0, len(found.samples))
    assert max(np.diff(fixed.after)) * step <= BLOCK_SECONDS + step
    assert fixed.seconds == sorted(fixed.seconds)
    shares = [np.mean(np.array(one) > 1.5 * one[0]) for one in (found.samples, fixed.seconds)]
    assert shares[1] == pytest.approx(shares[0], abs=0.05)
    usual = relative_interval(found.samples, fixed.seconds)
    changed = [seconds for seconds in found.samples if seconds > 2 * step]
    slow = relative_interval(changed, [seconds for seconds in fixed.seconds if seconds > 0.02])
    assert usual.value == pytest.approx(slow.value) == pytest.approx(step / 0.01)


@pytest.mark.parametrize(("step", "times"), [(0.02, 2), (0.06, 4), (0.09, 6), (0.6, 8)])
def test_the_fixed_work_is_done_in_proportion_to_the_samples(step: float, times: int) -> None:
    found = Drifting(step, slower=1.0, since=0.0).calibrated(6)
    assert found.calibration is not None
    places = found.calibration.after
    assert {places.count(place) for place in places} == {times}


@pytest.mark.parametrize(("step", "discarded"), [(0.9 * SHORT_SECONDS, 1), (0.0025, 1), (0.2, 0)])
def test_a_short_step_runs_once_after_the_fixed_work_before_the_next_sample(
    step: float, discarded: int
) -> None:
    machine = Drifting(step, slower=1.0, since=0.0)
    found = machine.calibrated(40)
    assert found.calibration is not None
    places = list(dict.fromkeys(found.calibration.after))
    assert len(places) > 3
    assert (places[0], places[-1]) == (0, len(found.samples))
    assert max(np.diff(places)) == max(round(BLOCK_SECONDS / step), 1)
    done = [steps - machine.works[0] for steps in machine.works]
    assert done == [place + number * discarded for number, place in enumerate(places)]


class TwoPrograms(Drifting):
    """A machine on which a baseline takes turns with the steps."""

    def __init__(self, step: float, baseline: float, slower: float = 1.0, since: float = 0) -> None:
        super().__init__(step, slower, since)
        self.baseline = baseline
        self.turns: list[int] = []

    def of_baseline(self, times: int) -> list[float]:
        self.turns.append(times)
        found = []
        for _ in range(times):
            found.append(self.baseline * self.speed())
            self.now += found[-1]
        return found

    def paired(self, samples: int, most: float = 1e6) -> SteadyState:
        return time_steps(
            self.step, self.wait, min_samples=samples, min_seconds=0.1, max_seconds=most,
            clock=self.clock, calibrate=self.work, beside=Beside(self.of_baseline, self.baseline),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("step", "baseline"), [(0.01, 0.01), (0.001, 0.004), (0.01, 0.3), (0.3, 0.01), (0.2, 0.25)]
)
def test_the_baseline_and_the_steps_take_turns_of_equal_length(
    step: float, baseline: float
) -> None:
    found = TwoPrograms(step, baseline).paired(300 if step < 0.1 else 12)
    beside = found.baseline
    assert beside is not None
    assert (beside.after[0], beside.after[-1]) == (0, len(found.samples))
    turn = max(BLOCK_SECONDS, step, baseline)
    for one, seconds in ((np.diff(sorted(set(beside.after)))[:-1], step),
                         (np.unique(beside.after, return_counts=True)[1], baseline)):  # fmt: skip
        assert {round(n * seconds, 9) for n in one} <= {round(n * seconds, 9) for n in one[:1]}
        assert abs(one[0] * seconds - turn) <= seconds / 2 + 1e-9


def test_a_machine_that_becomes_slower_slows_both_sides_of_the_pair() -> None:
    found = TwoPrograms(0.01, 0.02, slower=3.0, since=4.0).paired(200)
    assert found.baseline is not None
    slow = [
        np.mean(np.array(one) > 2 * min(one)) for one in (found.samples, found.baseline.seconds)
    ]
    assert 0.3 < slow[0] < 0.7
    assert slow[1] == pytest.approx(slow[0], abs=0.05)


def test_time_of_the_baseline_is_in_addition_to_that_of_the_steps() -> None:
    alone = Drifting(0.05, slower=1.0, since=0.0).calibrated(1000, most=3.0)
    found = TwoPrograms(0.05, 0.04).paired(1000, most=3.0)
    assert len(found.samples) == len(alone.samples)
    assert found.baseline is not None
    assert len(found.baseline.seconds) == pytest.approx(1.25 * len(found.samples), rel=0.3)


def test_a_slow_baseline_has_the_least_number_of_samples_too_unless_time_is_up() -> None:
    found = TwoPrograms(0.01, 0.3).paired(5)
    assert found.baseline is not None
    assert len(found.baseline.seconds) >= 5
    assert len(found.samples) >= 4 * 30
    hurried = TwoPrograms(0.01, 0.3).paired(5, most=0.7)
    assert hurried.baseline is not None
    assert len(hurried.baseline.seconds) < 5
    assert sum(hurried.samples) < 0.7


def test_the_fixed_work_counts_as_time() -> None:
    machine = Drifting(0.05, slower=1.0, since=0.0)
    found = machine.calibrated(1000, most=3.0)
    assert machine.now < 3.2  # with what is not timed
    assert len(found.samples) < 50


def test_without_fixed_work_there_is_no_calibration() -> None:
    assert Machine(0.5).steady_state().calibration is None
    assert Machine(0.5).steady_state().baseline is None


@pytest.mark.parametrize(
    ("late", "discarded"), [(0, 0), (1, 1), (2, 2), (REPEATS, REPEATS), (REPEATS + 2, REPEATS)]
)
def test_a_first_sample_that_waited_for_memory_is_warm_up(late: int, discarded: int) -> None:
    """The steps after the warm-up take 0.2 s instead of 0.1 s while they get new pages."""
    count = steps = 0
    now = 0.0
    warm = 10**9  # steps before the first sample

    def step() -> None:
        nonlocal count, steps, now
        is_late = warm <= steps < warm + late
        now += 0.2 if is_late else 0.1
        count += 30_000 * is_late
        steps += 1

    @contextmanager
    def watch() -> Iterator[None]:
        nonlocal warm
        warm = steps
        yield

    found = time_steps(
        step, lambda _: None, min_samples=3, min_seconds=0.1, max_seconds=10.0,
        clock=lambda: now, pages=lambda: count, watch=watch(),
    )  # fmt: skip
    assert found.warmup_steps == warm + discarded
    left = late - discarded
    assert found.samples == pytest.approx([0.2] * left + [0.1] * (3 - left))
