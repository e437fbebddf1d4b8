"""How a cell is run, and random batches for its model."""

from __future__ import annotations

import numpy as np

from synthbench.backends.base import Batch, Setting
from synthbench.models.model import Model
from synthbench.suites.cell import Cell


def setting_of(cell: Cell) -> Setting:
    """How a cell's model is run."""
    return Setting(dtype=cell.dtype, device=cell.device, form=cell.form, compile=cell.compile)


def random_batch(model: Model, batch: int, seq_len: int, seed: int = 0) -> Batch:
    """One batch without padding: X ~ N(0,1) float32 or token ids, and targets [B,L]."""
    generator = np.random.default_rng(seed)
    shape = (batch, seq_len)
    inputs: np.ndarray
    if model.is_stack:
        inputs = generator.integers(model.classes, size=shape)
    else:
        inputs = generator.standard_normal((*shape, model.sizes.d_model), dtype=np.float32)
    return Batch(inputs=inputs, targets=generator.integers(model.classes, size=shape))
