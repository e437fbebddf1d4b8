"""Figures of mixing weights: histograms by layer and heat maps (figures 2 to 7 of the paper).

The same parameters always give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from synthbench.backends.base import Batch
from synthbench.errors import NotationError
from synthbench.mixers.base import Array
from synthbench.models.layer_weights import maps, real_weights
from synthbench.report.figures.image_files import FONT
from synthbench.suites.cell import Cell, model_of

if TYPE_CHECKING:
    import altair as alt

States = Mapping[str, Mapping[str, Array]]  # "at the start", "after 300 steps" -> parameters
Weights = dict[str, dict[str, Array]]  # state -> layer -> weights

LEAST = 1e-6  # smaller weights are counted as this
BINS = 48
MAP_PIXELS = 156
LARGEST_MAP = 48  # rows and columns of a heat map: the first positions
MOST_SQUARES = 60_000  # of all heat maps of a figure together
COLOURS = ("#9a9a9a", "#0072b2", "#d55e00", "#009e73")  # of states; distinct for the colour-blind


def weights_of(cell: Cell, states: States, batch: Batch) -> Weights:
    """All weights of each layer [count] on a batch, by state; padding and masked keys left out."""
    return _by_state(real_weights, cell, states, batch)


def maps_of(cell: Cell, states: States, batch: Batch) -> Weights:
    """The weights [1, H, L or 1, things] of each layer on the first example, by state."""
    return _by_state(maps, cell, states, batch)


def _by_state(look: Callable[..., Any], cell: Cell, states: States, batch: Batch) -> Weights:
    """What `look` says of the parameters of each state, in float64."""
    model, inputs = model_of(cell), batch.inputs
    inputs = inputs if model.is_stack else inputs.astype(np.float64)
    found: Weights = {}
    for state, parameters in states.items():
        wide = {name: array.astype(np.float64) for name, array in parameters.items()}
        found[state] = look(model, wide, inputs, batch.padding_mask)
    return found


def histogram(values: Array) -> tuple[Array, Array]:
    """Centres of bins of log10(weight), and the share of the weights in each bin.

    Weights of zero, as at masked positions, are not counted.
    """
    positive = values[values > 0]
    edges = np.linspace(np.log10(LEAST), 0, BINS + 1)
    counts, _ = np.histogram(np.log10(np.clip(positive, LEAST, 1)), edges)
    return (edges[1:] + edges[:-1]) / 2, counts / max(len(positive), 1)


def histograms(found: Weights, title: str) -> dict[str, Any]:
    """Vega-Lite: one panel per layer with the distribution of its weights, one line per state."""
    import altair as alt

    layers = list(next(iter(found.values())))
    panels = [
        _histogram_panel(
            {state: by_layer[layer] for state, by_layer in found.items()}, layer_name(layer)
        )
        for layer in layers
    ]
    return _configured(alt.concat(*panels, columns=_columns(layers)), title)


def compared_histograms(found: Mapping[str, Weights], title: str) -> dict[str, Any]:
    """Vega-Lite: one panel per state and layer, one line per model (label -> its weights).

    A model is left out of the panels of states and layers that it does not have.
    """
    import altair as alt

    states = list(dict.fromkeys(state for own in found.values() for state in own))
    layers = list(
        dict.fromkeys(name for own in found.values() for at in own.values() for name in at)
    )
    panels = [
        _histogram_panel(
            {
                label: own[state][layer]
                for label, own in found.items()
                if layer in own.get(state, {})
            },
            f"{layer_name(layer)}, {state}",
            list(found),
        )
        for state in states
        for layer in layers
    ]
    return _configured(alt.concat(*panels, columns=_columns(layers)), title)


def _histogram_panel(
    lines: Mapping[str, Array], title: str, labels: Iterable[str] | None = None
) -> alt.Chart:
    """The distribution of weights per line; `labels`: all lines of the figure."""
    import altair as alt

    names = list(lines if labels is None else labels)
    rows = [
        {"line": label, "weight": float(10**centre), "share": float(share)}
        for label, values in lines.items()
        for centre, share in zip(*histogram(values), strict=True)
    ]
    return (
        alt.Chart(alt.InlineData(values=rows), width=190, height=110, title=title)
        .mark_line(interpolate="step", strokeWidth=1.6)
        .encode(
            alt.X("weight:Q", title="weight").scale(type="log", domain=[LEAST, 1])
            .axis(format="~e", values=[1e-6, 1e-4, 1e-2, 1]),
            alt.Y("share:Q", title="share of weights").axis(format="%", tickCount=4),
            alt.Color("line:N", title=None, sort=names)
            .scale(domain=names, range=[COLOURS[i % len(COLOURS)] for i in range(len(names))])
            .legend(orient="top"),
        )
    )  # fmt: skip


def require_head(found: Weights, head: int) -> None:
    """Raise NotationError for a head that no layer has."""
    most = max(values.shape[1] for layers in found.values() for values in layers.values())
    if head >= most:
        raise NotationError(f"head {head} does not exist; choose one from 0 to {most - 1}")


def heat_maps(found: Weights, title: str, head: int = 0) -> dict[str, Any]:
    """Vega-Lite: one row per state, one panel per layer with the weights of one head."""
    import altair as alt

    require_head(found, head)
    size = _map_size(sum(map(len, found.values())))
    panels = [
        _map_panel(values[0, min(head, values.shape[1] - 1)], f"{layer_name(layer)}, {state}", size)
        for state, by_layer in found.items()
        for layer, values in by_layer.items()
    ]
    chart = alt.concat(*panels, columns=_columns(next(iter(found.values()))))
    return _configured(chart.resolve_scale(color="independent"), f"{title}, head {head}")


def head_maps(by_layer: Mapping[str, Array], title: str) -> dict[str, Any]:
    """Vega-Lite: one row per head, one panel per layer with the weights of this head."""
    import altair as alt

    heads = max(values.shape[1] for values in by_layer.values())
    size = _map_size(heads * len(by_layer))
    panels = [
        _map_panel(values[0, head], f"{layer_name(layer)}, head {head}", size)
        for head in range(heads)
        for layer, values in by_layer.items()
        if head < values.shape[1]
    ]
    chart = alt.concat(*panels, columns=len(by_layer))
    return _configured(chart.resolve_scale(color="independent"), title)


def _map_panel(weights: Array, title: str, size: int) -> alt.Chart:
    """The heat map of weights [L or 1, things], the first `size` of each."""
    import altair as alt

    shown = weights[:size, :size]
    cells = [
        {"l": l, "m": m, "weight": round(float(shown[l, m]), 6)}
        for l in range(shown.shape[0])
        for m in range(shown.shape[1])
    ]
    pixels = max(2, MAP_PIXELS // max(shown.shape))  # an integer leaves no gaps
    return (
        alt.Chart(
            alt.InlineData(values=cells),
            width=pixels * shown.shape[1],
            height=pixels * shown.shape[0],
            title=title,
        )
        .mark_rect()
        .encode(
            alt.X("m:O", title="weighed").axis(values=_ticks(shown.shape[1]), grid=False),
            alt.Y("l:O", title="position").axis(values=_ticks(shown.shape[0]), grid=False),
            alt.Color("weight:Q", title=None).scale(scheme="viridis", domainMin=0),
        )
    )


def _map_size(panels: int) -> int:
    """Rows and columns of each heat map of a figure with this many."""
    return max(1, min(LARGEST_MAP, math.isqrt(MOST_SQUARES // panels)))


def _columns(layers: Iterable[str]) -> int:
    """The number of panels per row: the layers of one stack, at most six."""
    stacks = [layer.rpartition(" ")[0] for layer in layers]
    return min(6, stacks.count(stacks[0]))


def layer_name(layer: str) -> str:
    """A layer as people read it, counted from 1: "encoder layer 1" of "encoder 0"."""
    stack, _, number = layer.rpartition(" ")
    return f"{stack} layer {int(number) + 1}".strip() if number.isdigit() else layer


def _ticks(count: int) -> list[int]:
    return list(range(0, count, max(1, 10 ** len(str(count - 1)) // 10)))


def _configured(chart: alt.ConcatChart, title: str) -> dict[str, Any]:
    import altair as alt

    made = chart.properties(
        title=alt.TitleParams(title, anchor="start", fontSize=15, offset=12),
        padding=8,
        background="white",
    )
    made = made.configure(font=FONT, aria=False)
    content: dict[str, Any] = made.configure_axis(gridColor="#ededed").to_dict()
    return content
