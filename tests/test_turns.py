"""Programs that take turns: what a change from one to the other costs is in neither's times."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import pytest

from synthbench.analysis.paired_ratio import paired_ratio
from synthbench.backends.base import Step
from synthbench.measure.between import SHORT_SECONDS
from synthbench.measure.timing import time_steps, timed
from synthbench.tasks import paired
from synthbench.tasks.base import Baseline
from synthbench.tasks.paired import PairedStep
from tests.test_tables import cell

CHANGE = 0.0015  # seconds that the first step after the other program's takes longer


class Machine:
    """A clock, and which program ran last."""

    def __init__(self) -> None:
        self.now, self.last = 0.0, ""

    def clock(self) -> float:
        return self.now


class Program:
    """A step that takes so many seconds, and CHANGE more after another program's."""

    def __init__(self, machine: Machine, name: str, seconds: float) -> None:
        self.machine, self.name, self.seconds = machine, name, seconds

    def __call__(self) -> None:
        self.machine.now += self.seconds + CHANGE * (self.machine.last != self.name)
        self.machine.last = self.name

    def wait(self, produced: None) -> None:
        pass


# About the baseline's step, as its first uses said: seven times as long as it is, in one case.
@pytest.mark.parametrize(
    ("own", "baseline", "about"),
    [(0.007, 0.007, 0.007), (0.007, 0.007, 0.049), (0.001, 0.02, 0.02), (0.04, 0.004, 0.004),
     (0.2, 0.03, 0.03)],
)  # fmt: skip
def test_what_a_change_of_programs_costs_is_in_no_short_step(
    own: float, baseline: float, about: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine()
    monkeypatch.setattr(paired, "timed", partial(timed, clock=machine.clock))
    of_baseline = Program(machine, "V", baseline)
    beside = PairedStep(
        Baseline(cell("V", "torch", "train", 16), None), cast(Step, of_baseline), [], None, about
    ).beside
    step = Program(machine, "R", own)
    options: dict[str, Any] = {"min_samples": 5, "min_seconds": 0.1, "max_seconds": 1e6}
    found = time_steps(step, step.wait, clock=machine.clock, beside=beside, **options)
    assert found.baseline is not None
    assert found.baseline.seconds == pytest.approx([baseline] * len(found.baseline.seconds))
    if own < SHORT_SECONDS:
        assert found.samples == pytest.approx([own] * len(found.samples))
        ratio = paired_ratio(found.samples, found.baseline.seconds)
        assert ratio.value == pytest.approx(baseline / own)
    else:  # a small part of a long step
        assert max(found.samples) == pytest.approx(own + CHANGE)
