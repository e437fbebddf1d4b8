"""The largest ablation: how many cells its suites have, and how long they would take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from synthbench.run.estimate import Estimate, estimate
from synthbench.run.planning import plan_suite
from synthbench.run.shard import split_into_shards
from synthbench.suites.plan import Plan
from synthbench.suites.suite import load_suite

HERE = Path(__file__).resolve().parent
SUITES = {"cost": "ablation_cost.yaml", "quality": "ablation_quality.yaml"}
NO_RUNS = HERE / "no runs"  # where an estimate finds none, and goes by the suite's limits


@dataclass(frozen=True)
class Part:
    """A suite of the ablation."""

    name: str
    plan: Plan

    @property
    def records(self) -> int:
        """One per cell and round."""
        return len(self.plan.cells) * self.plan.settings.measure.least_rounds

    @cached_property
    def shards(self) -> int:
        """How many devices can work on it at the same time."""
        return len(split_into_shards(self.plan.cells))

    def share(self, devices: int) -> float:
        """The part of all shards that the busiest of some devices measures."""
        return math.ceil(self.shards / devices) / self.shards

    def hours_at(self, cells_per_hour: float, devices: int) -> float:
        """With devices that measure so many cells per hour each."""
        return self.records / cells_per_hour * self.share(devices)

    def hours_by_limits(self, devices: int) -> tuple[float, float]:
        """Least and most, as `synthbench run --dry-run` estimates without an earlier run."""
        share = self.share(devices)
        return self.estimated.low / 3600 * share, self.estimated.high / 3600 * share

    @cached_property
    def estimated(self) -> Estimate:
        """How long one device takes, by the suite's limits."""
        return estimate(self.plan, NO_RUNS)


@cache
def parts() -> tuple[Part, ...]:
    """The suites of the ablation, planned for GPUs; none is needed for that."""
    suites = {name: load_suite(HERE / file) for name, file in SUITES.items()}
    return tuple(Part(name, plan_suite(suite, "cuda")) for name, suite in suites.items())
