"""How often verdicts are right, on the noise that a committed run recorded.

    python -m benchmarks.verdicts results/seq_scaling/cpu-reference

Draws tables whose truth is known: in each round, a process takes the true time, changed by what
processes of the same cells of that run differed by between its rounds. Rounds are added to what is
undecided, as `rounds: {at_least: 2, at_most: N, until: decided}` does. Prints, for each framework,
the share of tables with a false verdict where nothing differs, how often a planted slowdown is
found, how often `same` is said of it, and what stays undecided. Then, for spreads that differ
between variants as SPREADS declares them, the share of tables of one baseline with a false verdict,
by rounds. Measures nothing; takes minutes.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from synthbench.analysis.comparison import Comparison, Judgement, Rule, judge
from synthbench.analysis.noise_floor import noise_floors
from synthbench.report.data.grid import Grid
from synthbench.report.data.prepared import prepare
from synthbench.store import read_run

GROUPS, VARIANTS = 10, 20  # of a table: groups with a baseline each, as modes and lengths
MARGIN, RESOLUTION = 1.03, 0.05  # as suites have them
SLOWDOWNS = (1.0, 1.05, 1.10)
LEAST = 2
ROUNDS = (2, 3, 4, 6, 12)

# The standard deviation of the log time of the baseline, and of each variant, between rounds.
SPREADS: dict[str, tuple[float, list[float]]] = {
    "all alike": (0.02, [0.02] * VARIANTS),
    "a noisy baseline": (0.02, [0.002] * VARIANTS),
    "all different": (0.01, [float(s) for s in np.geomspace(0.002, 0.1, VARIANTS)]),
    "four noisy variants": (0.003, [0.1] * 4 + [0.003] * (VARIANTS - 4)),
}


@dataclass
class Table:
    """The log times of each round, beside the true ones: [round, group, cell]; cell 0 and 1 are the
    baseline and its twin."""

    noise: NDArray[np.float64]
    rounds: NDArray[np.int64]  # that each comparison has: [group, variant]

    def comparisons(self, slowdown: float) -> list[Comparison]:
        """Each variant compared with the baseline, in the rounds that it has."""
        found = []
        for group in range(GROUPS):
            for variant in range(VARIANTS):
                n = self.rounds[group, variant]
                base, own = self.noise[:n, group, 0], self.noise[:n, group, 2 + variant]
                found.append(Comparison(tuple(base - own - math.log(slowdown)), 0.0))
        return found

    def margins(self) -> list[float]:
        """The margin of each comparison, from the twins of its group."""
        most = self.rounds.max(axis=1)
        floors = noise_floors(
            {g: tuple(self.noise[: most[g], g, 0] - self.noise[: most[g], g, 1])
             for g in range(GROUPS)}
        ).of_groups  # fmt: skip
        return [
            max(MARGIN, floors[group].ratio(int(self.rounds[group, variant])))
            for group in range(GROUPS)
            for variant in range(VARIANTS)
        ]


def main(
    run: Annotated[Path, typer.Argument(help="The run whose noise is used.")],
    tables: Annotated[int, typer.Option(help="Tables of each kind.")] = 100,
    at_most: Annotated[int, typer.Option(help="Rounds of a comparison.")] = 6,
) -> None:
    """Draw and judge tables, and print how often they are right."""
    grid = prepare(read_run(run)).cost_grid
    for framework in grid.frameworks():
        noise = recorded_noise(grid, framework)
        typer.echo(
            f"{framework}: {len(noise)} processes differ from their cell's mean by "
            f"{100 * np.std(noise):.1f}% (standard deviation), 95% of them by less than "
            f"{100 * np.quantile(np.abs(noise), 0.95):.1f}%"
        )
        for slowdown in SLOWDOWNS:
            typer.echo(f"  {described(noise, slowdown, tables, at_most)}")
    typer.echo(
        f"One baseline and {VARIANTS} equal variants, normal noise: tables with a false verdict"
    )
    for name, spreads in SPREADS.items():
        shares = (f"{rounds} rounds {unequal(spreads, rounds, tables):.1%}" for rounds in ROUNDS)
        typer.echo(f"  {name}: {', '.join(shares)}")


def recorded_noise(grid: Grid, framework: str) -> NDArray[np.float64]:
    """The log of each process's time over the mean of its cell, scaled for the mean's own error."""
    found: list[float] = []
    for key in grid.keys:
        logs = np.log(grid.costs(key, "seconds"))
        if key.framework == framework and len(logs) > 1:
            found += list((logs - logs.mean()) * math.sqrt(len(logs) / (len(logs) - 1)))
    return np.array(found)


def described(noise: NDArray[np.float64], slowdown: float, tables: int, at_most: int) -> str:
    """What the verdicts of such tables are, in words."""
    rng = np.random.default_rng(0)
    verdicts: Counter[str] = Counter()
    wrong, rounds = 0, []
    for _ in range(tables):
        judged, spent = sequential(noise, slowdown, at_most, rng)
        said = Counter(one.verdict for one in judged)
        verdicts += said
        rounds.append(spent)
        false = said["faster"] + (said["slower"] if slowdown == 1 else said["same"])
        wrong += false > 0
    total = sum(verdicts.values())
    shares = ", ".join(f"{name} {count / total:.1%}" for name, count in verdicts.most_common())
    return (
        f"{slowdown - 1:.0%} slower: a false verdict in {wrong / tables:.0%} of tables; {shares}; "
        f"{np.mean(rounds):.1f} rounds per comparison"
    )


def unequal(spreads: tuple[float, list[float]], rounds: int, tables: int) -> float:
    """The share of tables with a false verdict, where nothing differs but the spread of variants.

    Each table has one baseline, whose rounds are in every comparison. The margin is that of suites.
    """
    rng, wrong = np.random.default_rng(1), 0
    for _ in range(tables):
        base = rng.normal(0, spreads[0], rounds)
        judged = judge(
            [Comparison(tuple(base - rng.normal(0, one, rounds)), 0.0) for one in spreads[1]],
            MARGIN,
        )
        wrong += any(one.verdict in ("faster", "slower") for one in judged)
    return wrong / tables


def sequential(
    noise: NDArray[np.float64], slowdown: float, at_most: int, rng: np.random.Generator
) -> tuple[list[Judgement], float]:
    """The last verdicts of one table, and the mean number of rounds of its comparisons."""
    drawn = rng.choice(noise, size=(at_most, GROUPS, VARIANTS + 2))
    rule = Rule(looks=at_most - LEAST + 1, resolution=RESOLUTION, same_within=MARGIN)
    table = Table(drawn, np.full((GROUPS, VARIANTS), LEAST))
    while True:
        judged = judge(table.comparisons(slowdown), table.margins(), rule)
        undecided = np.array([one.verdict == "undecided" for one in judged])
        again = undecided.reshape(GROUPS, VARIANTS) & (table.rounds < at_most)
        if not again.any():
            return judged, float(table.rounds.mean())
        table.rounds = table.rounds + again


if __name__ == "__main__":
    typer.run(main)
