"""Train every learning task with every variant in both frameworks, and compare the curves.

    python -m benchmarks.learning_equality [--tasks mqar,listops] [--variants V,R+V]
        [--dtype float64,float32] [--generation] --out FILE [--out FILE]

Both frameworks start with the same values and run the whole recipe, at small sizes: warm-up,
clipping, weight decay, label smoothing, evaluations in between. In float64 no loss, held-out loss
or metric of 50 steps may differ by more than 1e-8; in float32 no loss of the first 20 steps by more
than 1e-3. With --generation both also write tokens, by greedy and by beam search in float64.
FILE.csv gets every comparison, FILE.md the largest differences per task and per variant, again
after each variant. Exit code 1: something differs, or ended with an error.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from benchmarks.learning_equality.finding import Finding
from benchmarks.learning_equality.generations import PLACES, compare_generations
from benchmarks.learning_equality.settings import Place, learning_tasks, places
from benchmarks.learning_equality.table import as_markdown, write_tables
from benchmarks.learning_equality.trainings import TOLERANCE, Trainers, compare_trainings
from synthbench.cli.options import split_list
from synthbench.errors import SynthbenchError
from synthbench.mixers.notation import canonical
from tests.variants import VARIANTS


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options, compare everything, write the tables; the exit code."""
    options = _options(arguments)
    found: list[Finding] = []
    console = Console(stderr=True)
    bars = Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
        TimeRemainingColumn(), console=console, transient=True,
    )  # fmt: skip
    with bars:
        bar = bars.add_task("", total=len(options.variants) * len(_comparisons(options)))
        for variant in options.variants:
            for compare in _comparisons(options):
                bars.update(bar, description=f"{variant}, {compare.name}")
                found.append(compare(variant))
                if found[-1].failed:
                    told = f"{variant}, {compare.name}: {found[-1].reason}"
                    console.print(Text(told), soft_wrap=True)
                bars.advance(bar)
            write_tables(found, options.out)
            jax.clear_caches()
            gc.collect()
    print(as_markdown(found), end="")
    return 1 if any(one.failed for one in found) else 0


@dataclass(frozen=True)
class Comparison:
    """One comparison of a variant: of trainings, or with no `trainers` of generated tokens."""

    place: Place
    dtype: str
    trainers: Trainers | None = None

    @property
    def name(self) -> str:
        """What is compared, for a person."""
        return f"{self.place} in {self.dtype}" + ", generation" * (self.trainers is None)

    def __call__(self, variant: str) -> Finding:
        """Do it."""
        if self.trainers is None:
            return compare_generations(self.place, variant)
        return compare_trainings(self.place, variant, self.dtype, self.trainers)


def _comparisons(options: argparse.Namespace) -> list[Comparison]:
    """What is compared with each variant; its trainers end with the list."""
    found = []
    for dtype in options.dtype:
        trainers = Trainers()
        found += [Comparison(place, dtype, trainers) for place in places(options.tasks)]
    return found + [Comparison(place, "float64") for place in PLACES if options.generation]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learning_equality",
        description=(__doc__ or "").partition("\n")[0],
    )
    parser.add_argument("--tasks", type=_names(learning_tasks()), help="only these; commas between")
    parser.add_argument("--variants", type=_variants, default=VARIANTS, help="likewise")
    parser.add_argument(
        "--dtype", type=_names(TOLERANCE), default=list(TOLERANCE), help="float64, float32 or both"
    )
    parser.add_argument("--generation", action="store_true", help="compare generated tokens too")
    parser.add_argument(
        "--out", type=Path, action="append", required=True, metavar="FILE",
        help="a table, .csv or .md; may be given twice",
    )  # fmt: skip
    return parser.parse_args(arguments)


def _names(known: Collection[str]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        names = split_list([text])
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} not known; use {', '.join(known)}")
        return names

    return read


def _variants(text: str) -> list[str]:
    try:
        return [canonical(name) for name in split_list([text])]
    except SynthbenchError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
