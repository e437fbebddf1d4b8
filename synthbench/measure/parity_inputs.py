"""Small models and inputs for the parity check, with every combination of masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from synthbench.backends.base import Batch
from synthbench.errors import ShapeError, UnsupportedError
from synthbench.measure.inputs import random_batch
from synthbench.mixers.attention import Attention
from synthbench.mixers.base import Array, Mixer
from synthbench.mixers.factorized_dense import FactorizedDense
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.start_values import start_values

SMALL = {"d_model": 16, "heads": 4, "max_len": 12}
# Tried in this order for a mixer from outside that cannot be so small: it may need lengths of whole
# blocks of 16, or heads of 16 channels or of 64.
LARGER = (
    {"d_model": 16, "heads": 4, "max_len": 16},
    {"d_model": 64, "heads": 4, "max_len": 16},
    {"d_model": 128, "heads": 2, "max_len": 64},
)
SHORTER = 9
BATCH = 4


@dataclass(frozen=True)
class Case:
    """One small input: its masks and its length."""

    name: str
    seq_len: int
    padded: bool
    causal: bool


def cases(model: Model) -> Iterator[Case]:
    """{no mask, padding, causal, both} x {L = N, L < N}, without what the mixer cannot do."""
    max_len = model.sizes.max_len
    for causal in (False, True):
        try:
            replace(model, causal=causal).check()
        except UnsupportedError:
            continue
        for padded in (False, True):
            masks = "+".join(["padding"] * padded + ["causal"] * causal) or "no mask"
            for seq_len in dict.fromkeys((max_len, max(1, min(SHORTER, max_len - 1)))):
                yield Case(f"{masks}, L={seq_len}", seq_len, padded, causal)


def small_model(variant: str, **sizes: Any) -> Model:
    """A bare mixer at a small size: SMALL, or the first of LARGER that it takes.

    FD(a, b) determines max_len. Raises ShapeError for a mixer that takes none of the sizes.
    """
    mixer = parse(variant)
    forced = _forced_length(mixer)
    tried = [SMALL | sizes, *(size | sizes | forced for size in (SMALL, *LARGER))]
    refused: ShapeError | None = None
    for size in tried:
        model = Model.of("mixer", mixer, Sizes.of(**size))
        try:
            model.check()
        except ShapeError as error:
            refused = refused or error
        else:
            return model
    listed = dict.fromkeys(
        ", ".join(f"{name} {value}" for name, value in size.items() if value is not None)
        for size in tried
    )
    raise ShapeError(
        f"{variant} can be built at none of the small sizes at which a mixer is checked "
        f"({'; '.join(listed)}): {refused}"
    )


def _forced_length(mixer: Mixer) -> dict[str, int]:
    """The max_len that the factors of FD determine, if they are given."""
    for component in mixer.components if isinstance(mixer, Attention) else ():
        if isinstance(component, FactorizedDense) and (component.a or component.b):
            return {"max_len": (component.a or 2) * (component.b or 2)}
    return {}


def random_parameters(model: Model, seed: int = 0) -> dict[str, Array]:
    """Start values plus noise, so that no bias or alpha is zero."""
    start = start_values(model.parameters(), seed)
    noise = np.random.default_rng(seed + 1)
    return {
        name: value + 0.1 * noise.standard_normal(value.shape, dtype=np.float32)
        for name, value in start.items()
    }


def case_batch(model: Model, case: Case, seed: int = 0) -> Batch:
    """A batch of four. If padded: one full, one padded at the end, one at the start, one fully."""
    batch = random_batch(model, BATCH, case.seq_len, seed)
    return replace(batch, padding_mask=padding(model, batch)) if case.padded else batch


def padding(model: Model, batch: Batch) -> Array:
    """A mask [B,L] of each sequence: of 4 examples, one is full, one padded at the end, one at the
    start, one fully."""
    masks = []
    for tokens in model.split(batch.inputs):
        B, L = tokens.shape[:2]
        mask = np.ones((B, L), dtype=bool)
        mask[1::4, L // 2 :] = False
        mask[2::4, : L // 3] = False
        mask[3::4] = False
        masks.append(mask)
    return np.concatenate(masks, axis=1)
