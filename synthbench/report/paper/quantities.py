"""Rows of the paper's tables: the published number, ours in each framework, the comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from synthbench.metrics import significant
from synthbench.report.data.cell_layout import FRAMEWORKS
from synthbench.report.data.table import Column, Value
from synthbench.report.paper.check.evidence import Evidence
from synthbench.report.paper.check.setting import is_reduced
from synthbench.report.paper.measured import NO_RUN, Measured
from synthbench.report.paper.reasons import why, why_different
from synthbench.suites.cell import Cell, model_of

CLOSE = 0.01

COLUMNS = (
    Column("variant", is_key=True), Column("quantity", is_key=True), Column("paper"),
    Column("torch", group="ours"), Column("jax", group="ours"), Column("compared"), Column("why"),
)  # fmt: skip


class Place(NamedTuple):
    """Where a number was published, and which of our variants it is compared with."""

    table: str
    column: str  # of the published file
    variant: str  # as published
    ours: str  # in any notation
    label: str = ""  # of the model, in a suite of several
    heads: int | None = None


Row = tuple[Value, ...]


def parameters(measured: Measured, at: Place, quantity: str, paper: str) -> Row:
    """Parameters in millions, counted by each framework in the model it built."""
    cells = [measured.cell(f, at.ours, at.label, at.heads) for f in FRAMEWORKS]
    counts = [measured.value(cell, "parameters") for cell in cells]
    ours = [count if isinstance(count, str) else f"{count / 1e6:.2f}" for count in counts]
    numbers = [float(count) for count in counts if not isinstance(count, str)]
    if not numbers:
        return at.variant, quantity, paper, *ours, "", why("no run")
    difference = numbers[0] / 1e6 - float(paper)
    decimals = len(paper.partition(".")[2])
    agrees = all(round(n / 1e6, decimals) == float(paper) for n in numbers)
    reason = why("agrees") if agrees else why_different(at.table, at.column, at.variant)
    return at.variant, quantity, paper, *ours, f"{difference:+.2f}", reason


def step_ratio(measured: Measured, at: Place, baseline: Place, quantity: str, paper: float) -> Row:
    """Steps per second over those of another variant, published and measured."""
    ours = []
    for framework in FRAMEWORKS:
        cell = measured.cell(framework, at.ours, at.label, at.heads)
        other = measured.cell(framework, baseline.ours, baseline.label, baseline.heads)
        ours.append(measured.ratio(cell, other))
    shown = [value if isinstance(value, str) else significant(value) for value in ours]
    numbers = [value for value in ours if not isinstance(value, str)]
    compared = " ".join(f"x{significant(value / paper)}" for value in numbers)
    reason = why("device" if numbers else "no run")
    return at.variant, quantity, significant(paper), *shown, compared, reason


def flops_ratio(measured: Measured, at: Place, baseline: Place, quantity: str, paper: float) -> Row:
    """FLOPs at the paper's sizes over those of another variant, by formula."""
    ours: list[Value] = []
    for framework in FRAMEWORKS:
        cell = measured.cell(framework, at.ours)
        other = measured.cell(framework, baseline.ours)
        if cell is None or other is None:
            ours.append(NO_RUN)
        else:
            ours.append(one_hot_flops(cell) / one_hot_flops(other))
    shown = [value if isinstance(value, str) else f"{value:.3f}" for value in ours]
    numbers = [value for value in ours if not isinstance(value, str)]
    if not numbers:
        return at.variant, quantity, f"{paper:.3f}", *shown, "", why("no run")
    difference = float(numbers[0]) - paper
    close = abs(difference) < CLOSE
    reason = why("close") if close else why_different(at.table, at.column, at.variant)
    return at.variant, quantity, f"{paper:.3f}", *shown, f"{difference:+.3f}", reason


def one_hot_flops(cell: Cell) -> int:
    """FLOPs of one example of 512 and 114 tokens.

    Embedding look-ups count as products with one-hot vectors, which they are in Mesh TensorFlow.
    """
    model = model_of(cell).changed(target_len=TARGET)
    flops = model.flops(batch=1, seq_len=SOURCE)
    assert flops is not None
    return flops + 2 * (SOURCE + TARGET) * model.sizes.d_model * model.classes


SOURCE, TARGET = 512, 114  # tokens of an example in Table 4


def reached(ours: Mapping[str, Evidence], at: Place, quantity: str, paper: str) -> Row:
    """A published quality, and by framework what our trainings reached, the mean over seeds."""
    if not ours:
        return at.variant, quantity, paper, "", "", "", why("paper only")
    decimals = len(paper.partition(".")[2])
    figures = {name: one.figure for name, one in ours.items() if one.figure is not None}
    shown = [f"{figures[f]:.{decimals}f}" if f in figures else NO_RUN for f in FRAMEWORKS]
    is_smaller = any(is_reduced(one.differences) for one in ours.values())
    if is_smaller:  # of other data or sizes: a difference of the two figures would say nothing
        return at.variant, quantity, paper, *shown, "", why("reduced")
    difference = next(iter(figures.values())) - float(paper)
    return at.variant, quantity, paper, *shown, f"{difference:+.{decimals}f}", why("setting")
