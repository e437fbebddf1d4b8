"""The noise floor of a run, and the margin its verdicts keep."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from synthbench.analysis.noise_floor import NoiseFloor, noise_floor
from synthbench.metrics import significant
from synthbench.record import RunInfo
from synthbench.report.data.grid import Grid
from synthbench.suites.settings import Settings


@dataclass(frozen=True)
class Noise:
    """`floor`: None where no A/A twin was measured; `declared`: the suite's margin, like 0.03."""

    floor: NoiseFloor | None
    declared: float

    @property
    def margin(self) -> float:
        """The ratio, above 1, up to which a difference is none: the larger of floor and margin."""
        return max(1 + self.declared, self.floor.ratio if self.floor else 1.0)

    @property
    def line(self) -> str:
        """The noise floor for the note of a table, with the limit of a small sample."""
        if self.floor is None:
            return (
                "Noise floor: not measured; this run has no A/A twin of its baseline (measure.aa)."
            )
        groups = self.floor.groups
        return (
            f"Noise floor: {percentage(self.floor.ratio)} (the baseline against its A/A twin, "
            f"{groups} group{'s' if groups != 1 else ''}; a further such ratio stays within it "
            f"with probability {math.floor(100 * self.floor.coverage)}%)."
        )


def noise_of(grid: Grid, info: RunInfo) -> Noise:
    """The noise floor from the A/A twins of a run, the margin from its settings."""
    ratios: list[float] = []
    for twin in grid.twins():
        found = grid.compare(twin, twin._replace(replica=0), twin.variant)
        if not isinstance(found, str):
            ratios.append(float(np.mean(found.log_ratios)))
    declared = info.settings.get("margin", Settings.model_fields["margin"].default)
    return Noise(noise_floor(ratios), float(declared))


def percentage(ratio: float) -> str:
    """How far a ratio above 1 is from it: 1.031 is 3.1%."""
    return f"{significant(100 * (ratio - 1), 2)}%"
