"""The noise floor of a run, and the margin of its verdicts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from synthbench.analysis.noise_floor import NoiseFloor, noise_floor
from synthbench.metrics import significant
from synthbench.record import RunInfo
from synthbench.report.data.grid import Cost, Grid
from synthbench.suites.settings import Settings


@dataclass(frozen=True)
class Noise:
    """`floor`: None if no A/A twin was measured; `declared`: the suite's margin, like 0.03."""

    floor: NoiseFloor | None
    declared: float

    @property
    def margin(self) -> float:
        """The larger of noise floor and declared margin, as a ratio above 1."""
        return max(1 + self.declared, self.floor.ratio if self.floor else 1.0)

    @property
    def line(self) -> str:
        """The noise floor as a sentence, with the coverage that so few groups allow."""
        if self.floor is None:
            return (
                "Noise floor: not measured; this run has no A/A twin of its baseline (measure.aa)."
            )
        groups = self.floor.groups
        return (
            f"Noise floor: {percentage(self.floor.ratio)} (from the baseline against its A/A twin "
            f"in {groups} group{'s' if groups != 1 else ''}; another such ratio lies within it "
            f"with probability {math.floor(100 * self.floor.coverage)}%)."
        )


def noise_of(grid: Grid, info: RunInfo, cost: Cost = "seconds") -> Noise:
    """The noise floor from the A/A twins of a run, and the margin from its settings."""
    ratios: list[float] = []
    for twin in grid.twins():
        found = grid.compare(twin, twin._replace(replica=0), twin.variant, cost=cost)
        if not isinstance(found, str):
            ratios.append(float(np.mean(found.log_ratios)))
    declared = info.settings.get("margin", Settings.model_fields["margin"].default)
    return Noise(noise_floor(ratios), float(declared))


def percentage(ratio: float) -> str:
    """A ratio above 1 as a percentage: 1.031 is 3.1%."""
    return f"{significant(100 * (ratio - 1), 2)}%"
