"""How often verdicts are right, on the noise that a committed run recorded.

    python -m benchmarks.verdicts results/seq_scaling/cpu-reference

Draws runs whose truth is known: in each round, a process takes the true time, changed by what
processes of that run, at the same length, differed by between its rounds; or it has the true ratio,
changed by what ratios differed by, if the run took them within its processes, with the error that
that process had within it. As many cells are
disturbed as in that run, and take the noise of its disturbed cells. Rounds are added to
what is undecided, as `rounds: {at_least: 2, at_most: N, until: decided}` does. Prints, per
framework, the share of tables (one framework, mode and length) and of runs with a false verdict
where nothing differs, how often a planted slowdown is found, how often `same` is said of it, and
what stays undecided. Then, for spreads that differ between variants as SPREADS declares them, the
share of tables with a false verdict, by rounds. Measures nothing; takes minutes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar

import numpy as np
import typer
from numpy.typing import NDArray

from synthbench.analysis.cell_noise import CellNoise, noise_of_cells
from synthbench.analysis.comparison import (
    Comparison,
    Judgement,
    Rule,
    estimate,
    judge,
    judge_estimates,
)
from synthbench.analysis.noise_floor import noise_floors
from synthbench.report.data.grid import Grid
from synthbench.report.data.prepared import prepare
from synthbench.store import read_run

LENGTHS, VARIANTS = 5, 20  # of a run of one framework
TABLES = 2 * LENGTHS  # of it, each with a baseline: of two modes
T = TypeVar("T")
MARGIN, RESOLUTION = 1.03, 0.05  # as suites have them
SLOWDOWNS = (1.0, 1.05, 1.10)
LEAST = 2
FEW_CELLS = 5
MOSTLY = 0.95  # of the cells of a framework
ROUNDS = (2, 3, 4, 6, 12)

# The standard deviation of the log time of the baseline, and of each variant, between rounds.
SPREADS: dict[str, tuple[float, list[float]]] = {
    "all alike": (0.02, [0.02] * VARIANTS),
    "a noisy baseline": (0.02, [0.002] * VARIANTS),
    "all different": (0.01, [float(s) for s in np.geomspace(0.002, 0.1, VARIANTS)]),
    "four noisy variants": (0.003, [0.1] * 4 + [0.003] * (VARIANTS - 4)),
}


class Processes(NamedTuple):
    """What some processes differed by, and the error within each; without errors, all alike."""

    logs: NDArray[np.float64]
    errors: NDArray[np.float64] | None = None

    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> NDArray[np.float64]:
        """Of processes taken at random, with replacement: [log or error, *size]."""
        errors = np.ones(len(self.logs)) if self.errors is None else self.errors
        drawn = rng.integers(len(self.logs), size=size)
        return np.stack([self.logs[drawn], errors[drawn]])


class Recorded(NamedTuple):
    """What the processes of a run differed by: the logs of times, or of ratios.

    `disturbed`: those of cells that were disturbed in some round, of all lengths; `share`: how many
    of the cells these are. Where they are fewer than `FEW_CELLS`, they count among the others: the
    few values that they have would be drawn again and again, as if such cells had no noise.
    """

    by_length: Sequence[Processes]  # without `disturbed`
    is_paired: bool  # ratios that were taken within a process
    disturbed: Processes = Processes(np.array([]))
    share: float = 0.0


@dataclass
class Drawn:
    """A run's log times of each round, over the true ones: [round, table, cell].

    Cell 0 is the baseline, 1 its twin. If they are of ratios (`is_paired`), there is no baseline
    and cell 0 is the twin.
    """

    noise: NDArray[np.float64]
    errors: NDArray[np.float64]  # within each process
    rounds: NDArray[np.int64]  # that each comparison has: [table, variant]
    is_paired: bool
    disturbed: NDArray[np.bool_]  # [table, cell]

    @property
    def first(self) -> int:
        """The cell that is the first variant."""
        return self.noise.shape[2] - VARIANTS

    @property
    def known(self) -> dict[tuple[int, int], CellNoise]:
        """What the rounds so far say of each cell: (table, cell)."""
        most = self.rounds.max(axis=1, keepdims=True)
        measured = np.hstack([*[most] * self.first, self.rounds])
        noise, errors = (
            {g: {(g, cell): dict(enumerate(values[:n, g, cell].tolist()))
                 for cell, n in enumerate(measured[g])} for g in range(TABLES)}
            for values in (self.noise, self.errors)
        )  # fmt: skip
        return noise_of_cells(
            noise,
            lambda group, cell: "disturbed" if self.disturbed[cell] else group % LENGTHS,
            shares_rounds=not self.is_paired,
            errors={cell: own for each in errors.values() for cell, own in each.items()}
            if self.is_paired
            else None,
        )

    def judged(self, slowdown: float, rule: Rule) -> list[Judgement]:
        """Each variant compared with the baseline, in the rounds that it has."""
        known = self.known
        compared = [
            self.comparison(known, group, cell + self.first, slowdown)
            for group in range(TABLES)
            for cell in range(VARIANTS)
        ]
        floors = noise_floors(
            {g: self.comparison(known, g, self.first - 1).log_ratios for g in range(TABLES)}
        ).of_groups
        found: list[Judgement] = []
        for group, estimates in enumerate(by_table(estimate(compared))):
            margins = [max(MARGIN, floors[group].ratio(e.rounds)) for e in estimates]
            found += judge_estimates(estimates, margins, rule)
        return found

    def comparison(
        self, known: Mapping[tuple[int, int], CellNoise], group: int, cell: int, slowdown: float = 1
    ) -> Comparison:
        """A cell and the baseline of its table, as `Grid.compare` makes it."""
        own = known[group, cell]
        if not self.is_paired:
            return comparison(known[group, 0], own, slowdown)
        logs = own.rounds.logs.values()
        return Comparison(tuple([-log - math.log(slowdown) for log in logs]), 0.0,
                          sides=(own.between,))  # fmt: skip


def comparison(base: CellNoise, own: CellNoise, slowdown: float = 1.0) -> Comparison:
    """A variant and the baseline in the rounds that both have, as `Grid.compare` makes it."""
    logs, of_base = own.rounds.logs, base.rounds.logs
    ratios = tuple([of_base[n] - logs[n] - math.log(slowdown) for n in logs])
    return Comparison(ratios, 0.0, sides=(own.between, base.between))


def main(
    run: Annotated[Path, typer.Argument(help="The run whose noise is used.")],
    runs: Annotated[int, typer.Option(help="Runs of each kind.")] = 100,
    at_most: Annotated[int, typer.Option(help="Rounds of a comparison.")] = 6,
    resolution: Annotated[float, typer.Option(help="As of a suite.")] = RESOLUTION,
    first_attempts: Annotated[
        bool, typer.Option(help="Only the first rounds, before disturbed cells were repeated.")
    ] = False,
) -> None:
    """Draw and judge tables, and print how often they are right."""
    read = read_run(run)
    if first_attempts:
        records = [one for one in read.records if one.attempt == 0 and one.round < LEAST]
        read = replace(read, records=records)
    grid = prepare(read).cost_grid
    for framework in grid.frameworks():
        noise = recorded_noise(grid, framework)
        together = np.concatenate([one.logs for one in (*noise.by_length, noise.disturbed)])
        typer.echo(
            f"{framework}: {'ratios in ' * noise.is_paired}{len(together)} processes differ from "
            "their cell's mean by "
            f"{100 * np.std(together):.1f}% (standard deviation), 95% of them by less than "
            f"{100 * np.quantile(np.abs(together), 0.95):.1f}%; {noise.share:.1%} of the cells "
            "were disturbed"
        )
        for slowdown in SLOWDOWNS:
            typer.echo(f"  {described(noise, slowdown, runs, at_most, resolution)}")
    typer.echo(
        f"One baseline and {VARIANTS} equal variants, normal noise: tables with a false verdict"
    )
    for name, spreads in SPREADS.items():
        shares = (f"{rounds} rounds {unequal(spreads, rounds, runs):.1%}" for rounds in ROUNDS)
        typer.echo(f"  {name}: {', '.join(shares)}")


def recorded_noise(grid: Grid, framework: str) -> Recorded:
    """The log of each process's time over the mean of its cell, by length; scaled for its error.

    Of its ratio to the baseline instead, if the run took those of most cells within processes; the
    others are left out.
    """
    keys = [key for key in grid.keys if key.framework == framework]
    baselines = {twin: twin._replace(replica=0) for twin in grid.twins()}
    name = next((twin.variant for twin in baselines), "")
    pairs = {key: grid.paired_rounds(key, key._replace(variant=name, replica=0)) for key in keys}
    paired = [bool(own) for key, own in pairs.items() if key not in baselines.values()]
    is_paired = sum(paired) >= MOSTLY * len(paired)
    found: dict[int, list[tuple[float, float]]] = {key.seq_len: [] for key in keys}
    of_disturbed: list[tuple[float, float]] = []
    cells = Counter[bool]()
    marked = {key for key in keys if grid.ids.get(key) in grid.disturbed_cells}
    if len(marked) < FEW_CELLS:
        marked = set()
    for key in keys:
        own = [(pair.log_ratio, pair.error) for pair in pairs[key].values()]
        if not is_paired:
            own = [(math.log(seconds), 1.0) for seconds in grid.costs(key, "seconds")]
        if len(own) > 1:
            mean, wider = np.mean([log for log, _ in own]), math.sqrt(len(own) / (len(own) - 1))
            is_disturbed = key in marked
            (of_disturbed if is_disturbed else found[key.seq_len]).extend(
                (wider * float(log - mean), error) for log, error in own
            )
            cells[is_disturbed] += 1
    by_length = [_processes(found[length]) for length in sorted(found)]
    share = cells[True] / max(cells.total(), 1)
    return Recorded(by_length, is_paired, _processes(of_disturbed), share)


def _processes(found: Sequence[tuple[float, float]]) -> Processes:
    logs, errors = np.array([*found], dtype=np.float64).reshape(-1, 2).T
    return Processes(logs, errors)


def described(
    noise: Recorded, slowdown: float, runs: int, at_most: int, resolution: float = RESOLUTION
) -> str:
    """What the verdicts of such tables are, in words."""
    rng = np.random.default_rng(0)
    verdicts: Counter[str] = Counter()
    tables = wrong_runs = 0
    rounds = []
    for _ in range(runs):
        judged, spent = sequential(noise, slowdown, at_most, rng, resolution)
        rounds.append(spent)
        verdicts += Counter(one.verdict for one in judged)
        false = {"faster", "slower" if slowdown == 1 else "same"}
        wrong = sum(any(one.verdict in false for one in table) for table in by_table(judged))
        tables += wrong
        wrong_runs += wrong > 0
    total = sum(verdicts.values())
    shares = ", ".join(f"{name} {count / total:.1%}" for name, count in verdicts.most_common())
    return (
        f"{slowdown - 1:.0%} slower: a false verdict in {tables / (runs * TABLES):.1%} of tables, "
        f"{wrong_runs / runs:.0%} of runs; {shares}; {np.mean(rounds):.1f} rounds per comparison"
    )


def unequal(spreads: tuple[float, list[float]], rounds: int, tables: int) -> float:
    """The share of tables with a false verdict, where nothing differs but the spread of variants.

    Each table has one baseline, whose rounds are in every comparison. The margin is that of suites.
    """
    rng, wrong = np.random.default_rng(1), 0
    for _ in range(tables):
        logs = rng.normal(0, [spreads[0], *spreads[1]], (rounds, VARIANTS + 1)).T
        cells = {number: dict(enumerate(own.tolist())) for number, own in enumerate(logs)}
        noise = noise_of_cells({"": cells}, lambda *_: "")
        judged = judge(
            [comparison(noise[0], noise[number]) for number in range(1, VARIANTS + 1)], MARGIN
        )
        wrong += any(one.verdict in ("faster", "slower") for one in judged)
    return wrong / tables


def by_table(values: Sequence[T]) -> list[Sequence[T]]:
    """The values of the comparisons of each table."""
    return [values[begin : begin + VARIANTS] for begin in range(0, len(values), VARIANTS)]


def sequential(
    noise: Recorded,
    slowdown: float,
    at_most: int,
    rng: np.random.Generator,
    resolution: float = RESOLUTION,
) -> tuple[list[Judgement], float]:
    """The last verdicts of one run, and the mean number of rounds of its comparisons."""
    cells = VARIANTS + (1 if noise.is_paired else 2)
    of_groups = [
        noise.by_length[group % len(noise.by_length)].draw(rng, (at_most, cells))
        for group in range(TABLES)
    ]
    drawn = np.stack(of_groups, axis=2)
    is_disturbed = rng.random((TABLES, cells)) < noise.share
    if noise.share:
        drawn = np.where(is_disturbed, noise.disturbed.draw(rng, drawn.shape[1:]), drawn)
    rule = Rule(looks=at_most - LEAST + 1, resolution=resolution, same_within=MARGIN)
    logs, errors = drawn
    least = np.full((TABLES, VARIANTS), LEAST)
    run = Drawn(logs, errors, least, noise.is_paired, is_disturbed)
    while True:
        judged = run.judged(slowdown, rule)
        undecided = np.array([one.verdict == "undecided" for one in judged])
        again = undecided.reshape(TABLES, VARIANTS) & (run.rounds < at_most)
        if not again.any():
            return judged, float(run.rounds.mean())
        run.rounds = run.rounds + again


if __name__ == "__main__":
    typer.run(main)
