"""How a pair is measured: whose turn it is, when it ends, whose memory counts, which aim holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.peers import measure
from benchmarks.peers.measure import FEWEST, MOST, Budget
from benchmarks.peers.pairs import AIMS, IN_TORCH_ONLY, NOT_SLOWER, REFERENCE
from benchmarks.peers.samples import Sample, Side
from benchmarks.peers.table import judge, summary
from synthbench.analysis.intervals import Interval


class Clock:
    """Steps that take a known time, on a clock that only they move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *seconds: float, beside: float = 0) -> None:
        self.now, self.seconds, self.beside = 0.0, seconds, beside
        self.calls: list[int] = []
        clock = SimpleNamespace(perf_counter=lambda: self.now)
        monkeypatch.setattr(measure, "time", clock)
        monkeypatch.setattr(measure, "timed", self.timed)
        self.steps: Any = [SimpleNamespace(side=side, wait=None) for side in range(len(seconds))]

    def timed(self, step: Any, wait: Any) -> float:
        self.calls.append(step.side)
        self.now += self.seconds[step.side] + self.beside
        return self.seconds[step.side]

    def run(self, budget: Budget, warm: float = 10.0) -> tuple[list[float], list[float]]:
        watch: Any = nullcontext()
        return measure.time_alternately(self.steps, budget, watch, warm)


def test_the_side_that_goes_first_alternates(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, 1.0, 2.0)
    ours, theirs = clock.run(Budget(pairs=4, seconds=0.0, limit=100.0))
    assert clock.calls == [0, 1, 1, 0, 0, 1, 1, 0]
    assert (ours, theirs) == ([1.0] * 4, [2.0] * 4)


def test_both_sides_are_warmed_up_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, 0.01, 0.02)
    clock.run(Budget(pairs=1, seconds=0.0, limit=100.0), warm=0.05)
    assert clock.calls == [0, 1] * 2 + [0, 1]  # 0.05 + 2 x 0.03 seconds are above 0.1
    clock = Clock(monkeypatch, 0.01, 0.02)
    clock.run(Budget(pairs=1, seconds=0.0, limit=100.0), warm=measure.WARM_SECONDS)
    assert clock.calls == [0, 1]


@pytest.mark.parametrize(
    ("budget", "pairs"),
    [
        (Budget(pairs=7, seconds=0.0, limit=1e9), 7),  # enough pairs
        (Budget(pairs=1, seconds=30.0, limit=1e9), 10),  # enough seconds of both sides
        (Budget(pairs=1, seconds=30.5, limit=1e9), 11),
        (Budget(pairs=50, seconds=1e9, limit=20.0), 5),  # late: 4 seconds per pair
        (Budget(pairs=50, seconds=1e9, limit=20.5), 6),
        (Budget(pairs=50, seconds=1e9, limit=0.0), FEWEST),
        (Budget(pairs=10**6, seconds=1e9, limit=1e9), MOST),
    ],
)
def test_the_samples_end_where_the_budget_does(
    budget: Budget, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = Clock(monkeypatch, 1.0, 2.0, beside=0.5).run(budget)
    assert len(ours) == len(theirs) == pairs


def test_the_garbage_collector_comes_back_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    import gc

    clock = Clock(monkeypatch, 1.0, 2.0)

    def fails(step: Any, wait: Any) -> float:
        assert not gc.isenabled()
        raise RuntimeError("busy")

    monkeypatch.setattr(measure, "timed", fails)
    with pytest.raises(RuntimeError, match="busy"):
        clock.run(Budget())
    assert gc.isenabled()


def side(**changes: Any) -> Any:
    """A step whose memory is known: 1,111 bytes held between steps, a peak of 50,000."""
    known: dict[str, Any] = {
        "parameter_bytes": 1000, "optimizer_bytes": 100, "batch_bytes": 10, "gradient_bytes": 1,
        "reset_device_peak": lambda: None, "predict_memory": lambda: None,
        "device_peak_bytes": lambda: 50_000, "wait": lambda produced: None,
    }  # fmt: skip
    made: Any = type("Step", (), {"__call__": lambda self: (np.ones(3), "state")})()
    for name, value in (known | changes).items():
        setattr(made, name, value)
    return made


def test_the_memory_of_the_other_side_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    other = side(parameter_bytes=20_000, optimizer_bytes=3000)
    peak, produced, seconds, method = measure.memory(side(), other, "cuda")
    assert peak == 50_000 - 23_011
    assert produced.tolist() == [1, 1, 1]
    assert seconds >= 0
    assert "minus the memory of the other side" in method
    plan = SimpleNamespace(peak_bytes=777, tool="a plan")
    planned = side(predict_memory=lambda: plan)
    assert measure.memory(planned, other, "cuda")[::3] == (777, "a plan")
    assert measure.memory(side(device_peak_bytes=lambda: None), other, "cuda")[0] is None
    # On a CPU, the rise over what was resident before includes neither side.
    mark = SimpleNamespace(rise=lambda: 5000, description="a rise")
    monkeypatch.setattr(measure, "mark_resident", lambda: mark)
    assert measure.memory(side(), other, "cpu")[::3] == (1111 + 5000, "a rise")


def test_the_mark_and_the_reset_come_before_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def noted(word: str, value: Any = None) -> Any:
        order.append(word)
        return value

    mark = SimpleNamespace(rise=lambda: noted("rise", 0), description="")
    monkeypatch.setattr(measure, "mark_resident", lambda: noted("mark", mark))
    monkeypatch.setattr(measure, "run", lambda step: noted("run"))
    step = side(reset_device_peak=lambda: noted("reset"))
    measure.memory(step, side(), "cpu")
    assert sorted(order[:2]) == ["mark", "reset"]
    assert order[2:] == ["run", "rise"]


def test_a_difference_is_relative_to_the_largest_of_the_other() -> None:
    one, other = np.array([1.0, -10.0, 4.0]), np.array([1.0, -20.0, 4.5])
    assert measure.difference(one, other) == 0.5
    assert measure.difference(other, one) == 1.0
    assert measure.difference(one, one) == 0
    for wrong in (np.nan, np.inf):
        assert measure.difference(np.array([wrong, 1.0]), np.ones(2)) == np.inf
        assert measure.difference(np.ones(2), np.array([wrong, 1.0])) == np.inf
    assert measure.difference(np.ones(2), np.zeros(2)) == np.inf


@pytest.mark.parametrize(
    ("falls", "outcome"), [((1.0, 1.019), "ok"), ((1.0, 1.03), "differs"), ((0.0, 0.0), "differs")]
)
@pytest.mark.parametrize("peer", ["textbook", "transformers T5Attention"])
def test_one_update_has_to_lower_both_losses_alike(
    peer: str, falls: tuple[float, float], outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T5 alone is compared before the first update only: it trains scaled weights."""
    losses = [iter([8.0, 8.0 - fall, 8.0 - fall]) for fall in falls]
    both = [side(form="fused", compile=lambda: None, losses=each) for each in losses]
    monkeypatch.setattr(measure, "build", lambda *args: tuple(both))
    monkeypatch.setattr(measure, "run", lambda step: np.asarray(next(step.losses)))
    monkeypatch.setattr(measure, "time_alternately", lambda *args: ([1.0], [2.0]))
    found = Sample.model_validate(
        measure.measure("torch", "V", peer, "train", 8, 2, 8, 2, "float32", "cpu",
                        {"pairs": 1, "seconds": 0.0, "limit": 0.0})
    )  # fmt: skip
    assert found.outcome == ("ok" if peer != "textbook" else outcome)
    if found.outcome == "ok":
        assert found.ours is not None and found.ours.samples == [1.0]
        assert found.theirs is not None and found.theirs.samples == [2.0]


@pytest.mark.parametrize(
    ("first", "outcome"), [(1.0 + 9e-5, "ok"), (1.0 + 2e-4, "differs"), (np.nan, "differs")]
)
def test_outputs_have_to_agree_before_anything_is_timed(
    first: float, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [side(form="fused", compile=lambda: None, value=value) for value in (first, 1.0)]
    timed: list[str] = []

    def alternately(*args: Any) -> Any:
        timed.append("timed")
        return [1.0], [2.0]

    monkeypatch.setattr(measure, "build", lambda *args: tuple(both))
    monkeypatch.setattr(measure, "run", lambda step: np.asarray(step.value))
    monkeypatch.setattr(measure, "time_alternately", alternately)
    found = measure.measure("torch", "V", "textbook", "forward", 8, 2, 8, 2, "float32", "cpu",
                            {"pairs": 1, "seconds": 0.0, "limit": 0.0})  # fmt: skip
    assert found["outcome"] == outcome
    assert bool(timed) == (outcome == "ok")


@pytest.mark.parametrize(
    ("low", "median", "high", "verdict"),
    [
        (2.0, 2.2, 2.4, "reached"),
        (1.99, 2.2, 2.4, "undecided"),  # the median alone would say reached
        (1.7, 1.9, 2.0, "undecided"),  # the median alone would say not reached
        (1.7, 1.9, 1.99, "not reached"),
    ],
)
def test_an_aim_is_judged_by_the_whole_interval(
    low: float, median: float, high: float, verdict: str
) -> None:
    assert judge(2.0, Interval(median, low, high)) == verdict


def cells() -> Iterator[Sample]:
    """Every aim in both frameworks, each exactly reached, and one cell that no aim is for."""
    for framework in ("torch", "jax"):
        for variant, aim in AIMS.items():
            for peer in (REFERENCE, "textbook"):
                yield Sample(
                    framework=framework, variant=variant, peer=peer, mode="train", seq_len=2048,
                    batch=4, ours=Side(samples=[1.0] * 3, peak_bytes=None),
                    theirs=Side(samples=[aim] * 3, peak_bytes=None),
                )  # fmt: skip


def test_the_aims_that_are_stated_are_judged_and_no_others() -> None:
    lines = [line for line in summary(list(cells())).splitlines() if line.startswith("- aim")]
    wanted = [
        (framework, variant)
        for framework in ("torch", "jax")
        for variant in AIMS
        if framework == "torch" or variant not in IN_TORCH_ONLY
    ]
    assert len(lines) == len(wanted) == 9
    for line, (framework, variant) in zip(lines, wanted, strict=True):
        stated = f"- aim of {AIMS[variant]} times reached: {framework} {variant} against"
        assert line.startswith(stated)


def test_a_cell_at_the_bound_is_not_slower() -> None:
    def at(ratio: float) -> Sample:
        return Sample(
            framework="torch", variant="V", peer="textbook", mode="forward", seq_len=8, batch=1,
            ours=Side(samples=[1.0] * 3, peak_bytes=None),
            theirs=Side(samples=[ratio] * 3, peak_bytes=None),
        )  # fmt: skip

    assert "1 of 1 cells" in summary([at(NOT_SLOWER)])
    assert "0 of 1 cells" in summary([at(NOT_SLOWER - 0.001)])
    assert "slower" not in summary([at(NOT_SLOWER)])
