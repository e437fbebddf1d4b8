"""The spread of weights as a CSV file, beside the figures that show their distribution."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from synthbench.errors import ResultsError
from synthbench.report.figures.weights import Weights, layer_name
from synthbench.report.text.escaping import csv_cell
from synthbench.suites.cell import Cell

HEADINGS = ("variant", "framework", "task", "seed", "state", "layer", "weights", "mean", "spread")


def spread_rows(cell: Cell, found: Weights) -> list[tuple[object, ...]]:
    """One row per state and layer: number of weights, their mean and their standard deviation."""
    return [
        (
            csv_cell(cell.variant), cell.framework, csv_cell(cell.task), cell.seed,
            csv_cell(state), layer_name(layer),
            values.size, float(values.mean()), float(values.std()),
        )
        for state, by_layer in found.items()
        for layer, values in by_layer.items()
        if values.size
    ]  # fmt: skip


def write_spreads(found: Mapping[str, tuple[Cell, Weights]], path: Path) -> Path:
    """Write the rows of all models; raises ResultsError if that fails."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADINGS)
    for cell, weights in found.values():
        writer.writerows(spread_rows(cell, weights))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.getvalue(), encoding="utf-8")
    except OSError as error:
        raise ResultsError(
            f"cannot write {path}: {error.strerror}; choose another folder with --out"
        ) from error
    return path
