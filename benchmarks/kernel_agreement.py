"""Check whether two searches for kernels on the same machine chose the same ones.

    python -m benchmarks.kernel_agreement results/forms/first results/forms/second

Each is a run, or a file of choices as `synthbench tune` keeps it in the user's cache. A margin is
the time of the kernel that the other search chose over that of its own choice, with the 95%
interval; it is beyond noise where the whole interval is above 1 + LEAST_GAIN, the gain that every
kernel but plain code needs. Prints every shape for which the searches chose differently, how many
have the same choice, and how many of the others have a margin beyond noise in one search, or in
both, which then contradict each other.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from synthbench.analysis.intervals import Interval
from synthbench.analysis.kernel_race import LEAST_GAIN
from synthbench.kernel import Kernel
from synthbench.measure.kernel_cache import read_choices
from synthbench.report.tables.choices import time_ratio
from synthbench.run_info import KernelChoice
from synthbench.store import read_info


class Difference(NamedTuple):
    """A shape for which two searches chose other kernels, and their margins; None: not timed."""

    choices: tuple[KernelChoice, KernelChoice]
    margins: tuple[Interval | None, Interval | None]

    @property
    def beyond_noise(self) -> int:
        """In how many of the two searches the margin is beyond noise."""
        return sum(found is not None and found.low > 1 + LEAST_GAIN for found in self.margins)


class Found(NamedTuple):
    """How many shapes two searches share, and those with different choices."""

    shared: int
    different: list[Difference]


def main(
    first: Annotated[Path, typer.Argument(exists=True, help="A run, or a file of choices.")],
    second: Annotated[Path, typer.Argument(exists=True, help="Another one.")],
) -> None:
    """Print for which shapes the choices differ, and by how much."""
    found = compare(choices_of(first), choices_of(second))
    for each in found.different:
        typer.echo(described(each))
    same = found.shared - len(found.different)
    share = same / found.shared if found.shared else float("nan")
    typer.echo(f"{same} of {found.shared} shapes have the same choice ({share:.1%})")
    for count, where in ((1, "one search"), (2, "both, which contradict each other")):
        number = sum(each.beyond_noise == count for each in found.different)
        typer.echo(f"{number} others have a margin beyond noise in {where}")


def choices_of(path: Path) -> list[KernelChoice]:
    """The choices of a run's folder or of a file of the cache; BadParameter where it has none."""
    if path.is_dir():
        found = [choice for machine in read_info(path).machines for choice in machine.choices]
    else:
        found = read_choices(path)
    if not found:
        raise typer.BadParameter(
            f"{path} has no choices of kernels; name a run, or a file that `synthbench tune` wrote"
        )
    return found


def compare(first: list[KernelChoice], second: list[KernelChoice]) -> Found:
    """The shapes of both, by the content of their cells."""
    others = {_shape(choice): choice for choice in second}
    pairs = [(one, others[_shape(one)]) for one in first if _shape(one) in others]
    different = [
        Difference((one, other), (margin(one, other.chosen), margin(other, one.chosen)))
        for one, other in pairs
        if one.chosen != other.chosen
    ]
    return Found(len(pairs), different)


def margin(choice: KernelChoice, kernel: Kernel) -> Interval | None:
    """The time of a kernel over that of the chosen one; None where either was not timed."""
    timed = {each.kernel.name: each for each in choice.kernels}
    own, other = timed.get(choice.chosen.name), timed.get(kernel.name)
    if own is None or other is None:
        return None
    return time_ratio(other, own, choice.compared)


def described(found: Difference) -> str:
    """A shape with both choices in words."""
    cell = found.choices[0].cell
    shape = f"{cell.framework} {cell.variant} {cell.mode} L={cell.seq_len} B={cell.batch}"
    parts = [
        f"{choice.chosen.name} ({_text(margin)})"
        for choice, margin in zip(found.choices, found.margins, strict=True)
    ]
    return f"{shape}: {' | '.join(parts)}"


def _text(margin: Interval | None) -> str:
    if margin is None:
        return "the other was not timed"
    return f"{margin.value:.2f}, {margin.low:.2f} to {margin.high:.2f}"


def _shape(choice: KernelChoice) -> str:
    return json.dumps(choice.cell.flat(), sort_keys=True, default=str)


if __name__ == "__main__":
    typer.run(main)
