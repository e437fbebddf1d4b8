"""The noise floors of a run, and the margins of its verdicts."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from synthbench.analysis.noise_floor import NoiseFloor, noise_floors
from synthbench.metrics import significant
from synthbench.report.data.grid import Cost, Grid, Key, group_of
from synthbench.run_info import RunInfo
from synthbench.suites.measure import RoundsUntil
from synthbench.suites.settings import Settings

NOT_MEASURED = "Noise floor: not measured; this run has no A/A twin of its baseline (measure.aa)."

MOST_PERCENT = 1000  # more says nothing more: two rounds of a busy machine can give 343,691%
TOO_NOISY = 2.0  # of a noise floor, as a ratio above 1: twice as fast is then no finding


@dataclass(frozen=True)
class Noise:
    """What two measurements of the same thing differ by, in each group of cells.

    `floors`: of the baseline against its A/A twin, by `group_of`, per round, or per machine where
    several measured the rounds. `rounds`: how many of these each group's twin has. `usual`: of a
    framework's groups without a twin. `declared`: the suite's margin, like 0.03; `resolution`:
    like 0.05. `looks`: how often the run may have asked for verdicts.
    """

    floors: Mapping[Hashable, NoiseFloor] = field(default_factory=dict)
    rounds: Mapping[Hashable, int] = field(default_factory=dict)
    usual: Mapping[str, NoiseFloor] = field(default_factory=dict)
    declared: float = 0.0
    resolution: float = 0.0
    looks: int = 1

    def floor(self, key: Key) -> NoiseFloor | None:
        """The noise floor for a cell; None if its framework has no twin at all."""
        return self.floors.get(group_of(key)) or self.usual.get(key.framework)

    def margin(self, key: Key, rounds: int) -> float:
        """The larger of declared margin and noise floor, as a ratio above 1.

        `rounds`: of the cell, or machines where several measured the rounds.
        """
        floor = self.floor(key)
        return max(1 + self.declared, floor.ratio(rounds) if floor else 1.0)

    def is_too_high(self, key: Key, rounds: int) -> bool:
        """Whether there is too much noise for any verdict on a cell; `rounds` as for `margin`."""
        floor = self.floor(key)
        return floor is not None and floor.ratio(rounds) > TOO_NOISY

    @property
    def by_framework(self) -> dict[str, list[float]]:
        """The noise floors of each framework's groups, as ratios above 1."""
        found: dict[str, list[float]] = {}
        for group, floor in self.floors.items():
            framework = str(group[1]) if isinstance(group, tuple) else ""
            found.setdefault(framework, []).append(floor.ratio(self.rounds[group]))
        return found

    @property
    def line(self) -> str:
        """The noise floors of each framework as a sentence."""
        by_framework = self.by_framework
        if not by_framework:
            return NOT_MEASURED
        parts = [
            f"{framework} {percentage(statistics.median(found))} "
            f"({percentage(min(found))} to {percentage(max(found))}, {_groups(len(found))})"
            for framework, found in by_framework.items()
        ]
        return (
            f"Noise floor, median and range: {'; '.join(parts)}. It is what the baseline and its "
            "A/A twin differ by in 95 of 100 cases."
        )


def noise_of(grid: Grid, info: RunInfo, cost: Cost = "seconds") -> Noise:
    """The noise floors from the A/A twins of a run, and the margin from its settings.

    Information is shared within a framework.
    """
    twins: dict[str, dict[Hashable, tuple[float, ...]]] = {}
    for twin in grid.twins():
        found = grid.compare(twin, twin._replace(replica=0), twin.variant, cost=cost)
        if not isinstance(found, str):
            twins.setdefault(twin.framework, {})[group_of(twin)] = found.independent
    floors: dict[Hashable, NoiseFloor] = {}
    rounds: dict[Hashable, int] = {}
    usual: dict[str, NoiseFloor] = {}
    for framework, groups in twins.items():
        of_framework = noise_floors(groups)
        floors |= of_framework.of_groups
        rounds |= {group: len(values) for group, values in groups.items()}
        if of_framework.of_others is not None:
            usual[framework] = of_framework.of_others
    fields = Settings.model_fields
    declared, resolution = (
        float(info.settings.get(name, fields[name].default)) for name in ("margin", "resolution")
    )
    return Noise(floors, rounds, usual, declared, resolution, looks_of(info))


def looks_of(info: RunInfo) -> int:
    """How often a run may have asked for verdicts while it added rounds."""
    asked = info.settings.get("measure", {}).get("rounds")
    return RoundsUntil.model_validate(asked).looks if isinstance(asked, dict) else 1


def percentage(ratio: float) -> str:
    """A ratio above 1 as a percentage: 1.031 is 3.1%; above 1000%, it only says so."""
    percent = 100 * (ratio - 1)
    return f"over {MOST_PERCENT}%" if percent > MOST_PERCENT else f"{significant(percent, 2)}%"


def _groups(number: int) -> str:
    return f"{number} group{'s' if number != 1 else ''}"
