"""Check whether two runs of the same suite on the same machine agree.

    python -m benchmarks.agreement results/seq_scaling/first results/seq_scaling/second

Two ratios to the baseline agree if they differ by no more than both 95% intervals explain (a t
interval of the difference of the two log ratios), or by less than the noise floor of their
framework, mode and length in either run. Verdicts contradict each other if one is `faster` and the
other `slower` or `same`, and so on; `undecided` and `close` contradict nothing. Prints the shares,
the ratios that do not agree, how much the ratios of each framework differ, how many differ by less
than WITHIN, and the noise floors. Two runs that differ by chance alone agree in 95% of the ratios.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

from synthbench.analysis.comparison import CONFIDENCE, Judgement
from synthbench.analysis.moderated_variance import t_quantile
from synthbench.report.data.cell_layout import FRAMEWORKS
from synthbench.report.data.grid import Key
from synthbench.report.data.noise import Noise
from synthbench.report.data.prepared import prepare
from synthbench.store import read_run

WITHIN = (0.03, 0.05, 0.08)
SAID = {"faster", "slower", "same"}  # verdicts that exclude each other


class Agreement(NamedTuple):
    """How many ratios two runs share, and how many of them agree."""

    shared: int
    agreeing: int
    contradicting: int  # verdicts


class Ratio(NamedTuple):
    """A ratio to the baseline, and the noise floor of its cells as a log ratio."""

    judged: Judgement
    floor: float


def main(
    first: Annotated[Path, typer.Argument(help="A run.")],
    second: Annotated[Path, typer.Argument(help="Another run of the same suite.")],
) -> None:
    """Print how many ratios agree, and those that do not."""
    (ones, noise), (others, other_noise) = read_ratios(first), read_ratios(second)
    shared = [key for key in ones if key in others]
    agreeing = {key for key in shared if agree(ones[key], others[key])}
    for key in shared:
        if key not in agreeing:
            typer.echo(f"{name(key)}: {described(ones[key])}, {described(others[key])}")
    for framework in FRAMEWORKS:
        keys = [key for key in shared if key.framework == framework]
        if keys:
            sizes = [abs(difference(ones[key], others[key])) for key in keys]
            half, most = (math.exp(size) - 1 for size in np.quantile(sizes, [0.5, 0.95]))
            typer.echo(
                f"{framework}: {len(agreeing.intersection(keys))} of {len(keys)}; half differ by "
                f"less than {half:.1%}, 95% by less than {most:.1%}"
            )
    sizes = [abs(difference(ones[key], others[key])) for key in shared]
    for most in WITHIN:
        count = sum(size < math.log(1 + most) for size in sizes)
        typer.echo(f"{count} of {len(shared)} ratios differ by less than {most:.0%}")
    found = compare(ones, others)
    share = found.agreeing / found.shared if found.shared else math.nan
    typer.echo(f"{found.agreeing} of {found.shared} ratios agree ({share:.1%})")
    typer.echo(f"{found.contradicting} of {found.shared} verdicts contradict each other")
    typer.echo(f"first: {noise.line}\nsecond: {other_noise.line}")


def compare(ones: Mapping[Key, Ratio], others: Mapping[Key, Ratio]) -> Agreement:
    """Count the ratios of two runs that agree, and the verdicts that contradict each other."""
    pairs = [(ratio, others[key]) for key, ratio in ones.items() if key in others]
    verdicts = [(one.judged.verdict, other.judged.verdict) for one, other in pairs]
    return Agreement(
        shared=len(pairs),
        agreeing=sum(agree(*pair) for pair in pairs),
        contradicting=sum(a != b and {a, b} <= SAID for a, b in verdicts),
    )


def agree(one: Ratio, other: Ratio) -> bool:
    """Whether two ratios may be the same, given their noise."""
    size = abs(difference(one, other))
    a, b = one.judged.estimate, other.judged.estimate
    degrees = min(a.degrees + b.degrees, 1e6)
    half = t_quantile(degrees, (1 + CONFIDENCE) / 2) * math.hypot(a.error, b.error)
    return size <= max(half, one.floor, other.floor)


def difference(one: Ratio, other: Ratio) -> float:
    """Between the logarithms of two ratios."""
    return other.judged.estimate.log_ratio - one.judged.estimate.log_ratio


def described(one: Ratio) -> str:
    """A ratio with its interval and verdict."""
    estimate = one.judged.estimate
    low, high = estimate.interval()
    return f"{estimate.ratio:.3f} ({low:.3f} to {high:.3f}, {one.judged.verdict})"


def name(key: Key) -> str:
    """A cell in words."""
    twin = ["(A/A twin)"] * key.replica
    parts = [key.framework, key.mode, key.variant, *twin, f"L={key.seq_len}", key.setting]
    return " ".join(filter(None, parts))


def read_ratios(run_dir: Path) -> tuple[dict[Key, Ratio], Noise]:
    """The ratios of a run by the position of their cells, and its noise."""
    context = prepare(read_run(run_dir)).context
    found = {}
    for key, judged in context.verdicts.items():
        if isinstance(judged, Judgement):
            floor = context.noise.floor(key)
            size = math.log(floor.ratio(judged.estimate.independent)) if floor else 0.0
            found[key] = Ratio(judged, size)
    return found, context.noise


if __name__ == "__main__":
    typer.run(main)
