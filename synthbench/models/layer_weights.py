"""The weights over positions of each layer of a model, without padding, and their spread.

Figures 2 to 7 of the Synthesizer paper show such weights. Layers are named as in
`reference.weights`: "encoder 0", "1", "mixer".
"""

from __future__ import annotations

import numpy as np

from synthbench.errors import UnsupportedError
from synthbench.mixers.base import Array, Mixer, Tensors
from synthbench.mixers.notation import format_mixer
from synthbench.models.model import Model
from synthbench.models.reference import weights


def require_weights(mixer: Mixer, instead: str) -> None:
    """Raise UnsupportedError for a mixer whose weights cannot be computed.

    Those of a later layer need what the mixer computes in the layers before it.
    """
    lacking = [] if type(mixer).weights is not Mixer.weights else ["weights()"]
    lacking += [] if mixer.has_reference else ["reference()"]
    if lacking:
        raise UnsupportedError(
            f"{format_mixer(mixer)} has no weights over positions in NumPy "
            f"(its class has no {' and no '.join(lacking)}); {instead}"
        )


def real_weights(
    model: Model, p: Tensors, inputs: Array, padding_mask: Array | None = None
) -> dict[str, Array]:
    """The weights of each layer in one list, without those that padding or causality removes.

    Left out are the queries at padded positions, and weights of zero, which masked keys have.
    """
    found = weights(model, p, inputs, padding_mask)
    masks = _masks(model, padding_mask)
    return {name: _real(values, masks[stack_of(name)]) for name, values in found.items()}


def maps(
    model: Model, p: Tensors, inputs: Array, padding_mask: Array | None = None
) -> dict[str, Array]:
    """The weights [1, H, L or 1, things] of each layer on the first example, without padding.

    Raises UnsupportedError for padding that is not at the end.
    """
    mask = None if padding_mask is None else padding_mask[:1]
    found = weights(model, p, inputs[:1], mask)
    masks = _masks(model, mask)
    return {name: _cut(values, masks[stack_of(name)]) for name, values in found.items()}


def spreads(
    model: Model, p: Tensors, inputs: Array, padding_mask: Array | None = None
) -> dict[str, float]:
    """The standard deviation of the weights of each layer, in float64; 0: all weigh the same."""
    wide = {name: array.astype(np.float64) for name, array in p.items()}
    inputs = inputs if model.is_stack else inputs.astype(np.float64)
    found = real_weights(model, wide, inputs, padding_mask)
    return {name: float(values.std()) if values.size else 0.0 for name, values in found.items()}


def stack_of(layer: str) -> str:
    """The stack that a layer belongs to: "encoder" of "encoder 0", "" of "0"."""
    return layer.rpartition(" ")[0]


def _masks(model: Model, padding_mask: Array | None) -> dict[str, Array | None]:
    """The padding mask [B,L] of each stack."""
    if not model.is_stack:
        return {"": padding_mask}
    names = [stack.prefix.removesuffix(".") for stack in model.stacks]
    return dict(zip(names, model.split(padding_mask), strict=True))


def _real(values: Array, mask: Array | None) -> Array:
    """Of weights [B or 1, H, L or 1, things], those above zero of real queries."""
    if mask is not None and values.shape[2] == mask.shape[1]:
        every = np.broadcast_to(values, (len(mask), *values.shape[1:]))
        values = every.swapaxes(1, 2)[mask.astype(bool)]
    return values[values > 0]


def _cut(values: Array, mask: Array | None) -> Array:
    """Weights [1, H, L or 1, things] of the real positions of one example."""
    if mask is None:
        return values
    length, real = mask.shape[1], int(mask.sum())
    if not mask[0, :real].all():
        raise UnsupportedError("padding stands before real tokens; choose another example")
    rows = real if values.shape[2] == length else values.shape[2]
    values = values[:, :, :rows]
    # As many things as positions need not be positions: what padding hides weighs nothing.
    are_positions = values.shape[3] == length and not values[..., real:].any()
    return values[..., :real] if are_positions else values
