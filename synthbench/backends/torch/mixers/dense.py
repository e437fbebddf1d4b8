"""D in PyTorch; the equation is in synthbench/mixers/dense.py."""

from __future__ import annotations

import torch
from torch import Tensor

from synthbench.backends.torch.mixers.numerics import Given, add_bias
from synthbench.mixers.dense import Dense


def logits(component: Dense, given: Given) -> Tensor:
    """S = relu(X hidden) logits [B,H,L,L]."""
    L = given.x.shape[1]
    hidden = torch.relu(given.project(component.hidden_name))
    equation = "blhk,km->bhlm" if component.sharing == "heads" else "blhk,hkm->bhlm"
    rows = torch.einsum(equation, hidden, given.p["dense.logits"][..., :L])
    if "dense.logits_bias" not in given.p:
        return rows
    return add_bias(rows, given.p["dense.logits_bias"][..., None, :L])
