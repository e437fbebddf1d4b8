"""The figures of the models that `synthbench inspect` draws, and what is wrong with asking them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from synthbench.backends.base import Batch
from synthbench.cli.inspected import Inspected, labels_of, name_of_all
from synthbench.models.layer_weights import require_weights
from synthbench.report.figures.image_files import make_folder, write_figures
from synthbench.report.figures.weight_spreads import write_spreads
from synthbench.report.figures.weights import (
    compared_histograms,
    head_maps,
    heat_maps,
    histograms,
    maps_of,
    require_head,
    weights_of,
)
from synthbench.suites.cell import model_of
from synthbench.tasks.training import held_out_batch, held_out_example, text_example


def examples_of(
    models: Sequence[Inspected], number: int, text: str | None, target: str | None
) -> list[Batch]:
    """What each model reads for its heat maps: a text, or else a held-out example."""
    if text is None:
        return [held_out_example(one.cell, number) for one in models]
    return [text_example(one.cell, text, target) for one in models]


def check(models: Sequence[Inspected], examples: Sequence[Batch], head: int, folder: Path) -> None:
    """Raise what cannot be drawn or written: a training of hours should not come before it."""
    for one, example in zip(models, examples, strict=True):
        require_weights(model_of(one.cell).mixer, "choose other variants")
        state, parameters = next(iter(one.states.items()))
        require_head(maps_of(one.cell, {state: parameters}, example), head)
    make_folder(folder)


def draw(
    models: Sequence[Inspected], examples: Sequence[Batch], head: int, folder: Path
) -> list[Path]:
    """Write the figures and the spreads of all models; return the files."""
    labels = labels_of(models)
    found = {
        label: weights_of(one.cell, one.states, held_out_batch(one.cell))
        for label, one in zip(labels, models, strict=True)
    }
    pictures = {}
    for one, label, example in zip(models, labels, examples, strict=True):
        cell = one.cell
        title = f"{cell.variant} in {cell.framework}: weights"
        drawn = maps_of(cell, one.states, example)
        last, by_layer = list(drawn.items())[-1]
        pictures[f"{one.name}-histograms"] = histograms(found[label], title)
        pictures[f"{one.name}-maps"] = heat_maps(drawn, title, head)
        pictures[f"{one.name}-heads"] = head_maps(by_layer, f"{title} {last}")
    name = name_of_all(models)
    if len(models) > 1:
        title = f"{' and '.join(labels)}: weights"
        pictures[f"{name}-histograms"] = compared_histograms(found, title)
    cells = {label: (one.cell, found[label]) for label, one in zip(labels, models, strict=True)}
    return [*write_figures(pictures, folder), write_spreads(cells, folder / f"{name}-spread.csv")]
