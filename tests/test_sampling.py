"""When the interval of the samples is computed, and what ends warm-up and sampling, exactly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, cycle, repeat

import pytest

from synthbench.analysis.intervals import Interval
from synthbench.measure import timing
from synthbench.measure.timing import SteadyState, timed
from synthbench.suites.measure import Measure


class Steps:
    """Steps of given seconds, half of which pass in the call and half while waiting for it."""

    def __init__(self, seconds: Iterable[float]) -> None:
        self.seconds: Iterator[float] = iter(seconds)
        self.now = 0.0
        self.half = 0.0

    def step(self) -> None:
        self.half = next(self.seconds) / 2
        self.now += self.half

    def wait(self, produced: object) -> None:
        self.now += self.half

    def run(self, **options: object) -> SteadyState:
        wanted: dict[str, object] = {"min_samples": 1, "min_seconds": 0.0, "max_seconds": 1000.0}
        return timing.time_steps(
            self.step, self.wait, clock=lambda: self.now, **(wanted | options)  # type: ignore[arg-type]
        )  # fmt: skip


WARM = [1.0] * 4  # enough to end the warm-up


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many samples there were each time the interval was computed; it is always wide."""
    seen: list[int] = []

    def wide(samples: list[float]) -> Interval:
        seen.append(len(samples))
        return Interval(1.0, 0.5, 1.5)

    monkeypatch.setattr(timing, "median_interval", wide)
    return seen


@pytest.mark.parametrize(
    ("min_samples", "expected"),
    [
        (1, [6, 8, 11, 14, 18, 23, 29, 37]),  # 6, and then a quarter more and one
        (6, [6, 8, 11, 14, 18, 23, 29, 37]),
        (10, [10, 13, 17, 22, 28, 36]),
    ],
)
def test_the_interval_is_computed_when_a_quarter_more_samples_are_there(
    looks: list[int], min_samples: int, expected: list[int]
) -> None:
    found = Steps(repeat(1.0)).run(
        before=WARM, min_samples=min_samples, max_seconds=4.0 + 40.0, precision=0.01
    )
    assert len(found.samples) == 40
    assert looks == [*expected, 40]  # at the end, for the precision reached
    assert found.precision == 0.5


def test_no_interval_is_computed_before_the_least_seconds(looks: list[int]) -> None:
    Steps(repeat(1.0)).run(before=WARM, max_seconds=24.0, min_seconds=9.5, precision=0.01)
    assert looks == [10, 13, 17, 20]


def test_without_a_precision_the_interval_is_computed_once(looks: list[int]) -> None:
    found = Steps(repeat(1.0)).run(before=WARM, min_samples=9)
    assert (len(found.samples), looks) == (9, [9])


@pytest.mark.parametrize(("wanted", "count"), [(0.5, 6), (0.49, 40)])
def test_a_precision_is_reached_when_half_the_width_is_at_most_it(
    looks: list[int], wanted: float, count: int
) -> None:
    found = Steps(repeat(1.0)).run(before=WARM, max_seconds=44.0, precision=wanted)
    assert len(found.samples) == count


def test_samples_and_seconds_are_both_reached_and_not_exceeded() -> None:
    assert len(Steps(repeat(0.5)).run(before=WARM, min_samples=5, min_seconds=2.0).samples) == 5
    assert len(Steps(repeat(0.5)).run(before=WARM, min_samples=3, min_seconds=2.0).samples) == 4
    assert len(Steps(repeat(0.5)).run(before=WARM, min_samples=3, min_seconds=2.1).samples) == 5


def test_warm_up_and_sampling_share_the_most_seconds() -> None:
    found = Steps(repeat(1.0)).run(before=[2.0, 1.0, 1.0, 1.0, 1.0], max_seconds=16.0,
                                   min_samples=99)  # fmt: skip
    assert (found.warmup_steps, len(found.samples)) == (5, 10)
    over = Steps(repeat(1.0)).run(before=[9.0], max_seconds=4.0)
    assert (over.warmup_steps, over.samples, over.precision) == (1, [1.0], None)


def test_two_samples_have_a_precision() -> None:
    found = Steps(repeat(1.0)).run(before=WARM, min_samples=2)
    assert (len(found.samples), found.precision) == (2, 0.0)


def test_warm_up_takes_at_most_a_quarter_of_the_seconds() -> None:
    """Every step takes longer than the one before it, so that the warm-up never ends by itself."""
    growing = [1.0 + 0.25 * n for n in range(100)]  # 1 + 1.25 + .. of n steps: n + n (n - 1) / 8
    found = Steps(growing).run(max_seconds=40.0)  # 10 are reached with the 7th step: 12.25
    assert (found.warmup_steps, sum(growing[:6]), sum(growing[:7])) == (7, 9.75, 12.25)
    assert Steps(growing).run(max_seconds=39.0).warmup_steps == 6  # 9.75 is a quarter of it


def test_warm_up_lasts_two_steps_and_twenty_milliseconds() -> None:
    """Equal steps are warm after four; shorter ones than 5 ms need more of them."""
    assert Steps(repeat(0.25)).run().warmup_steps == 4
    short = 2.0**-8  # 3.9 ms: six of them are more than 20 ms
    assert Steps(repeat(short)).run(max_seconds=1.0).warmup_steps == 6
    # Of at most 1/32 s, a quarter is 7.8 ms, which is less than 20 ms: two steps reach it.
    assert Steps(repeat(short)).run(max_seconds=1 / 32).warmup_steps == 2


def test_a_gpu_is_warmed_up_for_half_a_second_however_short_a_step_is() -> None:
    least = timing.least_warmup_seconds("cuda:1")
    assert (least, timing.least_warmup_seconds("cpu")) == (0.5, 0.02)
    short = 2.0**-12  # 0.24 ms: more than a thousand steps
    found = Steps(repeat(short)).run(max_seconds=100.0, least_warmup=least)
    assert found.warmup_steps == 2048
    found = Steps(repeat(short)).run(max_seconds=1.0, least_warmup=least)
    assert found.warmup_steps == 1024  # a quarter of max_seconds


def test_warm_up_ends_after_a_thousand_steps() -> None:
    rising = chain((1.03**n for n in range(1000)), repeat(1.0))
    found = Steps(rising).run(max_seconds=1e18)
    assert found.warmup_steps == timing.MAX_WARMUP_STEPS == 1000


def test_at_most_a_thousand_samples_are_taken() -> None:
    found = Steps(cycle([1.0])).run(before=WARM, min_samples=5000, max_seconds=1e9)
    assert len(found.samples) == timing.MAX_SAMPLES == 1000
    for name in ("min_samples", "min_seconds"):  # which it limits, so their descriptions say it
        assert "1000" in (Measure.model_fields[name].description or "")


def test_a_time_begins_before_the_call_and_ends_after_the_wait() -> None:
    steps = Steps([3.0])
    assert timed(steps.step, steps.wait, lambda: steps.now) == 3.0
