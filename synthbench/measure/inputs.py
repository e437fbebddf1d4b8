"""The setting of a cell, and random batches for its model."""

from __future__ import annotations

import numpy as np

from synthbench.backends.base import Batch, Setting
from synthbench.models.model import Model
from synthbench.suites.cell import Cell


def setting_of(cell: Cell) -> Setting:
    """How the model of a cell is run: dtype, device, form, eager or compiled."""
    return Setting(dtype=cell.dtype, device=cell.device, form=cell.form, compile=cell.compile)


def random_batch(model: Model, batch: int, seq_len: int, seed: int = 0) -> Batch:
    """One batch without padding: inputs as `Model.reference` has them, and targets.

    Targets are [B,L], for the second sequence of an encoder-decoder, and [B] for a classifier.
    """
    generator = np.random.default_rng(seed)
    inputs: np.ndarray
    if model.is_stack:
        tokens = seq_len + (model.target_len or 0)
        inputs = generator.integers(model.vocabulary or 0, size=(batch, tokens))
    else:
        x = (batch, seq_len, model.sizes.d_model)
        inputs = generator.standard_normal(x, dtype=np.float32)
    targets = generator.integers(model.classes, size=(batch, *model.targets_of(seq_len)))
    return Batch(inputs=inputs, targets=targets)
