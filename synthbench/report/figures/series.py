"""The data of a figure: one line per variant, made from records; nothing is drawn here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from synthbench.errors import ResultsError, UnknownNameError
from synthbench.report.data.context import named
from synthbench.report.data.grid import Cost, Grid, Key

SHOWN = ("V", "R", "FR", "D", "D+V", "linformer", "light_conv", "dynamic_conv")
OUT_OF_MEMORY = ("oom", "oom_predicted")
# The setting to draw if a run has several.
PREFERRED = "form=fused"


class Point(NamedTuple):
    """The cost of a cell in seconds or bytes; `low` and `high`: the ends of its band.

    A band spans the intervals of several rounds, of memory their peaks.
    """

    length: int
    cost: float
    low: float | None
    high: float | None


class Series(NamedTuple):
    """The line of a variant in one framework; `out_of_memory`: the first length not to fit."""

    variant: str
    points: tuple[Point, ...]
    out_of_memory: int | None


def choose_variants(grid: Grid, setting: str, wanted: Sequence[str] = ()) -> list[str]:
    """The variants to draw: the wanted ones (in any notation), or by default a small selection.

    Raises UnknownNameError for a variant that the run does not have.
    """
    present = grid.variants(setting)
    for text in wanted:
        if named(text) not in present:
            raise UnknownNameError("variant of this run", text, present)
    if wanted:
        return list(dict.fromkeys(map(named, wanted)))
    return [name for name in SHOWN if name in present] or present[: len(SHOWN)]


def choose_setting(grid: Grid, mode: str, wanted: str | None = None) -> str:
    """The setting to draw: the wanted one; by default the fused one, or the first with numbers.

    Raises UnknownNameError for a setting that the run does not have, ResultsError if the run has no
    cells of this mode.
    """
    present = [setting for setting in grid.settings() if mode in grid.modes(setting)]
    if not present:
        modes = " and ".join(grid.modes())
        only = f", only {modes} cells; choose another run or another --mode"
        raise ResultsError(
            f"this run has no cells of mode {mode}{only if modes else '; choose another run'}"
        )
    if wanted is not None:
        if wanted not in present:
            raise UnknownNameError("setting of this run", wanted, [s for s in present if s])
        return wanted
    ok = {key.setting for key in grid.ids if key.mode == mode and grid.missing(key) is None}
    first = [setting for setting in present if setting in ok] or present
    return next((setting for setting in first if PREFERRED in setting.split()), first[0])


def series_of(
    grid: Grid, setting: str, variants: Sequence[str], framework: str, mode: str, cost: Cost
) -> list[Series]:
    """One line per variant: the median time over the rounds, or the largest peak."""
    found: list[Series] = []
    for variant in variants:
        keys = [Key(setting, variant, framework, mode, n) for n in grid.lengths(setting)]
        points = [point for key in keys if (point := _point(grid, key, cost))]
        failed = [key.seq_len for key in keys if grid.missing(key) in OUT_OF_MEMORY]
        found.append(Series(variant, tuple(points), min(failed, default=None)))
    return [one for one in found if one.points or one.out_of_memory]


def _point(grid: Grid, key: Key, cost: Cost) -> Point | None:
    column = "median_seconds" if cost == "seconds" else "peak_bytes"
    value = grid.value(key, column)
    row = grid.cell(key)
    if isinstance(value, str) or row is None:
        return None
    rounds = grid.costs(key, cost)
    if len(rounds) < 2:
        return Point(key.seq_len, float(value), None, None)
    ends = (row["low_seconds"], row["high_seconds"]) if cost == "seconds" else rounds
    return Point(key.seq_len, float(value), float(min(ends)), float(max(ends)))
