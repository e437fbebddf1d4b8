"""What a train step is, in both frameworks: cross-entropy, backward, Adam with these settings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthbench.mixers.base import Array


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba 2015) without weight decay, as torch.optim and optax have it."""

    learning_rate: float = 1e-3
    b1: float = 0.9
    b2: float = 0.999
    epsilon: float = 1e-8


ADAM = Adam()


def cross_entropy(logits: Array, targets: Array, padding_mask: Array | None = None) -> float:
    """Mean of -log softmax(logits)[target]; logits [B,L,C] and targets [B,L], or [B,C] and [B].

    Only targets that are real tokens count; a longer mask is cut to its last positions.
    """
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(axis=-1))
    losses = log_sum - np.take_along_axis(shifted, targets[..., None], axis=-1)[..., 0]
    if padding_mask is None or targets.ndim == 1:
        return float(losses.mean())
    weights = padding_mask[:, -targets.shape[1] :]
    return float((losses * weights).sum() / weights.sum())
