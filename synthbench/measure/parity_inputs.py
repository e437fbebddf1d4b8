"""Small models and inputs for the parity check, with every combination of masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from synthbench.backends.base import Batch
from synthbench.errors import ShapeError, UnsupportedError
from synthbench.measure.inputs import random_batch
from synthbench.mixers.base import Array
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.start_values import start_values

SMALL = {"d_model": 16, "heads": 4, "max_len": 12}
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
    for causal in (False, True):
        try:
            replace(model, causal=causal).check()
        except UnsupportedError:
            continue
        for padded in (False, True):
            masks = "+".join(["padding"] * padded + ["causal"] * causal) or "no mask"
            for seq_len in (model.sizes.max_len, min(SHORTER, model.sizes.max_len - 1)):
                yield Case(f"{masks}, L={seq_len}", seq_len, padded, causal)


def small_model(variant: str, **sizes: Any) -> Model:
    """A bare mixer at a small size; FD(a, b) determines max_len."""
    mixer = parse(variant)
    model = Model.of("mixer", mixer, Sizes.of(**{**SMALL, **sizes}))
    try:
        model.check()
    except ShapeError:
        factors = [(c.a, c.b) for c in getattr(mixer, "components", ()) if hasattr(c, "factors")]
        a, b = factors[0] if factors else (None, None)
        if a is None and b is None:
            raise
        max_len = (a or 2) * (b or 2)
        model = model.changed(max_len=max_len)
        model.check()
    return model


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
