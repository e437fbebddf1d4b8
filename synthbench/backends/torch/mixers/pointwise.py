"""bottleneck and glu in PyTorch; the equations are in synthbench/mixers/pointwise.py."""

from __future__ import annotations

import torch
from torch import Tensor

from synthbench.backends.torch.mixers.convolutional import cut_bias
from synthbench.backends.torch.mixers.numerics import ForwardInputs, affine, split_heads
from synthbench.mixers.pointwise import Bottleneck, Glu


def bottleneck(component: Bottleneck, inputs: ForwardInputs) -> Tensor:
    """S = relu(relu(X down) up), split by heads, times logits [B,H,L,L]."""
    p = inputs.p
    hidden, weight = bottleneck_hidden(inputs), p["bottleneck.logits"]
    return rows(hidden, weight, p.get("bottleneck.logits_bias"), inputs.keys)


def bottleneck_hidden(inputs: ForwardInputs) -> Tensor:
    """relu(relu(X down) up), split by heads [B,L,H,k]."""
    p, x = inputs.p, inputs.x
    down = torch.relu(affine(x, p["bottleneck.down"], p.get("bottleneck.down_bias")))
    up = torch.relu(affine(down, p["bottleneck.up"], p.get("bottleneck.up_bias")))
    return split_heads(up, p["bottleneck.logits"].shape[0])


def glu(component: Glu, inputs: ForwardInputs) -> Tensor:
    """S = (Xh logits) * sigmoid(Xh gate), Xh = X split by heads [B,H,L,L]."""
    p, x = inputs.p, inputs.x
    split = split_heads(x, p["glu.logits"].shape[0])
    gate = torch.sigmoid(rows(split, p["glu.gate"], p.get("glu.gate_bias"), inputs.keys))
    logits = rows(split, p["glu.logits"], p.get("glu.logits_bias"), inputs.keys)
    return logits * gate


def rows(split: Tensor, weight: Tensor, bias: Tensor | None, keys: int) -> Tensor:
    """Split [B,L,H,k] times weight [H,k,N] cut to the keys, plus bias -> [B,H,L,keys]."""
    product = torch.einsum("blhk,hkm->blhm", split, weight[..., :keys])
    return cut_bias(product, bias).swapaxes(1, 2)
