"""The spread of the mixers' weights as metrics of a training (option `spread`).

encoder_spread, decoder_spread    the mean over the layers of a stack
encoder_spread_1, ...             each layer
"""

from __future__ import annotations

from collections.abc import Mapping

from synthbench.mixers.base import Array
from synthbench.models.layer_weights import spreads, stack_of
from synthbench.models.model import Model
from synthbench.tasks.learning.evaluation import held_out_numbers
from synthbench.tasks.learning.examples import Examples

EXAMPLES = 16  # held-out ones whose weights are looked at, at most


def spread_metrics(
    model: Model, parameters: Mapping[str, Array], held_out: Examples, most: int
) -> dict[str, float]:
    """The standard deviation of the weights on held-out examples, at most `most`, by layer.

    NumPy computes them from the parameters, in float64, so that both frameworks are measured alike.
    """
    batch = held_out.batch(held_out_numbers(held_out, min(most, EXAMPLES)))
    by_stack: dict[str, list[float]] = {}
    for layer, spread in spreads(model, parameters, batch.inputs, batch.padding_mask).items():
        by_stack.setdefault(stack_of(layer) or _only_stack(model), []).append(spread)
    found = {f"{stack}_spread": sum(own) / len(own) for stack, own in by_stack.items()}
    for stack, own in by_stack.items():
        found |= {f"{stack}_spread_{number}": one for number, one in enumerate(own, start=1)}
    return found


def _only_stack(model: Model) -> str:
    return "decoder" if model.causal else "encoder"
