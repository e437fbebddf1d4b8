"""Check whether two runs of the same suite on the same machine agree.

    python -m benchmarks.agreement results/seq_scaling/first results/seq_scaling/second

A ratio to the baseline agrees if the second run's ratio lies in the first run's 95% confidence
interval, or differs from the first run's ratio by less than its noise floor. Prints the share that
agrees, the ratios that do not, and how much the ratios of each framework differ.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

from synthbench.report.data.grid import FRAMEWORKS
from synthbench.report.data.prepared import prepare
from synthbench.report.data.table import Value
from synthbench.report.tables.ratios import ratios
from synthbench.store import read_run


class Ratio(NamedTuple):
    """A ratio to the baseline with its interval."""

    value: float
    low: float
    high: float


def main(
    first: Annotated[
        Path, typer.Argument(help="The run whose intervals and noise floor are used.")
    ],
    second: Annotated[Path, typer.Argument(help="The run whose ratios are checked.")],
) -> None:
    """Print how many ratios agree, and those that do not."""
    expected, floor = read_ratios(first)
    found, _ = read_ratios(second)
    shared = [row for row in expected if row in found]
    disagreeing = []
    for row in shared:
        one, other = expected[row], found[row].value
        inside = one.low <= other <= one.high
        if not inside and abs(math.log(other / one.value)) >= math.log(floor):
            disagreeing.append(row)
            typer.echo(f"{row}: {one.value:.3f} ({one.low:.3f} to {one.high:.3f}), {other:.3f}")
    for framework in FRAMEWORKS:
        rows = [row for row in shared if row.startswith(f"{framework} ")]
        if rows:
            sizes = [abs(math.log(found[row].value / expected[row].value)) for row in rows]
            half, most = (math.exp(size) - 1 for size in np.quantile(sizes, [0.5, 0.95]))
            typer.echo(
                f"{framework}: {sum(row not in disagreeing for row in rows)} of {len(rows)}; half "
                f"differ by less than {100 * half:.2g}%, 95% by less than {100 * most:.2g}%"
            )
    share = 1 - len(disagreeing) / len(shared) if shared else math.nan
    typer.echo(
        f"{len(shared) - len(disagreeing)} of {len(shared)} ratios agree ({100 * share:.1f}%); "
        f"noise floor {100 * (floor - 1):.2g}%"
    )


def read_ratios(run_dir: Path) -> tuple[dict[str, Ratio], float]:
    """The ratios of a run by row and length, and its noise floor as a ratio (1 without one)."""
    prepared = prepare(read_run(run_dir))
    context = prepared.context
    table = ratios(prepared.cost_grid, context)
    keys, found = len(table.keys), {}
    for row in table.rows:
        for start in range(keys, len(row), 4):
            numbers: tuple[Value, ...] = row[start : start + 3]
            if not any(isinstance(number, str) for number in numbers):
                name = " ".join([*map(str, row[:keys]), table.columns[start].group])
                found[name] = Ratio(*map(float, numbers))
    floor = context.noise.floor
    return found, floor.ratio if floor else 1.0


if __name__ == "__main__":
    typer.run(main)
