"""Convolution along length, the same for every mixer: y[t] = sum_j w[j] x[t - P + j]."""

from __future__ import annotations

import numpy as np

from synthbench.mixers.base import Array


def padding(width: int, causal: bool) -> tuple[int, int]:
    """Zeros before and after the sequence: P = w // 2 before (encoder) or w - 1 (causal)."""
    before = width - 1 if causal else width // 2
    return before, width - 1 - before


def zero_padded(x: Array, padding_mask: Array | None) -> Array:
    """X [B,L,...] with zeros at padded positions (padding_mask [B,L], True = a real token)."""
    if padding_mask is None:
        return x
    return np.where(padding_mask.reshape(*padding_mask.shape, *[1] * (x.ndim - 2)), x, 0)


def windows(x: Array, width: int, causal: bool) -> Array:
    """X [B,L,...] -> [B,L,...,K], window t holding x[t - P] to x[t - P + K - 1], zeros outside."""
    padded = np.pad(x, [(0, 0), padding(width, causal), *[(0, 0)] * (x.ndim - 2)])
    return np.lib.stride_tricks.sliding_window_view(padded, width, axis=1)
