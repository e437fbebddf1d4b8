"""D in PyTorch; the equation is in synthbench/mixers/dense.py."""

from __future__ import annotations

import torch
from torch import Tensor

from synthbench.backends.torch.mixers.numerics import add_bias, project
from synthbench.mixers.dense import Dense


def logits(
    component: Dense,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """S = relu(X hidden) logits [B,H,L,L]."""
    L = x.shape[1]
    hidden_name = component.hidden_name
    hidden = torch.relu(project(x, p[hidden_name], p.get(f"{hidden_name}_bias")))
    equation = "blhk,km->bhlm" if component.sharing == "heads" else "blhk,hkm->bhlm"
    rows = torch.einsum(equation, hidden, p["dense.logits"][..., :L])
    if "dense.logits_bias" not in p:
        return rows
    return add_bias(rows, p["dense.logits_bias"][..., None, :L])
