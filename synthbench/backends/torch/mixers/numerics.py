"""Operations that several mixers use: projections, masks, softmax, convolution along length."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from synthbench.backends import kernel_record
from synthbench.errors import UnsupportedError
from synthbench.mixers.convolution import padding

Times = Callable[[Tensor, Tensor], Tensor]  # a matrix product


def require_first_gradients() -> None:
    """Raise UnsupportedError in the backward pass of a function if its graph is to be made too.

    Its result would be taken for a constant: gradients of gradients would be wrong, without a word.
    """
    if torch.is_grad_enabled():
        raise UnsupportedError(
            "the fused form has no gradients of its gradients (create_graph=True); "
            'make the module with form="reference"'
        )


class ForwardInputs:
    """Parameters p, X [B,L,d], padding_mask [B,L] and causal of one forward pass."""

    def __init__(
        self,
        p: dict[str, Tensor],
        x: Tensor,
        padding_mask: Tensor | None,
        causal: bool,
        times: Times = torch.matmul,
    ) -> None:
        self.p, self.x, self.padding_mask, self.causal = p, x, padding_mask, causal
        self.times = times
        self._projected: dict[str, Tensor] = {}

    @property
    def keys(self) -> int:
        """How many keys a row of logits has."""
        return self.x.shape[1]

    def project(self, name: str) -> Tensor:
        """X times the projection `name` [d,H,k], plus its bias if any; computed once per pass."""
        if name not in self._projected:
            weight, bias = self.p[name], self.p.get(f"{name}_bias")
            self._projected[name] = project(self.x, weight, bias, self.times)
        return self._projected[name]


def project(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, times: Times = torch.matmul
) -> Tensor:
    """X [B,L,d] times weight [d,H,k] plus bias [H,k] -> [B,L,H,k]."""
    flat = None if bias is None else bias.flatten()
    return affine(x, weight.flatten(1), flat, times).unflatten(-1, weight.shape[1:])


def affine(x: Tensor, weight: Tensor, bias: Tensor | None, times: Times = torch.matmul) -> Tensor:
    """X [B,L,d] times weight [d,n] plus bias [n] if any -> [B,L,n]."""
    if bias is None or times is not torch.matmul:
        return add_bias(times(x, weight), bias)
    # In the product itself: adding would take another [B,L,n].
    return torch.addmm(bias, x.flatten(0, 1), weight).unflatten(0, x.shape[:2])


def add_bias(x: Tensor, bias: Tensor | None) -> Tensor:
    """x + bias, or x if there is no bias."""
    return x if bias is None else x + bias


def split_heads(x: Tensor, heads: int) -> Tensor:
    """X [B,L,d] -> [B,L,H,d/H], contiguous groups of channels."""
    return x.reshape(*x.shape[:2], heads, -1)


def zero_padded(x: Tensor, padding_mask: Tensor | None) -> Tensor:
    """X [B,L,...] with zeros at padded positions (padding_mask [B,L], True = a real token)."""
    if padding_mask is None:
        return x
    mask = padding_mask.reshape(*padding_mask.shape, *[1] * (x.ndim - 2))
    return torch.where(mask, x, 0)


def attention_mask(x: Tensor, padding_mask: Tensor | None, causal: bool) -> Tensor | None:
    """[B or 1, 1, L or 1, L], True where query l may see key m; None if every query sees all."""
    L = x.shape[1]
    mask = None
    if causal:
        mask = torch.ones(L, L, dtype=torch.bool, device=x.device).tril()[None, None]
    if padding_mask is not None:
        keys = padding_mask[:, None, None, :]
        mask = keys if mask is None else mask & keys
    return mask


def softmax(x: Tensor, axis: int) -> Tensor:
    """Softmax along `axis`, computed in float32 or float64."""
    if axis == -1 and has_heads_first(x):  # PyTorch copies what is not in the order of its axes
        return torch.softmax(x.transpose(0, 1), dim=axis).transpose(0, 1)
    return torch.softmax(x, dim=axis)


def has_heads_first(x: Tensor) -> bool:
    """Whether X [B,H,..] has its heads before its examples in memory, as a product per head has."""
    return x.ndim == 4 and not x.is_contiguous() and x.transpose(0, 1).is_contiguous()


def weighted(weights: Tensor, value: Tensor) -> Tensor:
    """Weights [B,H,L,M] times values [B,M,H,k] -> [B,L,H,k]; weights are not copied."""
    if has_heads_first(weights):
        return (weights.transpose(0, 1) @ value.permute(2, 0, 1, 3)).permute(1, 2, 0, 3)
    return torch.einsum("bhlm,bmhk->blhk", weights, value)


def masked_softmax(logits: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the keys; a masked key has weight 0, so a query with no key is all 0."""
    if mask is None:
        return softmax(logits, axis=-1)
    lowest = torch.finfo(logits.dtype).min
    return torch.where(mask, softmax(torch.where(mask, logits, lowest), axis=-1), 0)


def mix(logits: list[Tensor], alpha: Tensor | None) -> Tensor:
    """sum_n w[n,h] S_n, with w = softmax(alpha) over n; alpha [n,H], [n], or None (weights 1)."""
    mixed = logits[0]
    if alpha is None:
        for s in logits[1:]:
            mixed = mixed + s
        return mixed
    w = softmax(alpha, axis=0).reshape(len(logits), 1, -1, 1, 1)
    mixed = w[0] * logits[0]
    for n, s in enumerate(logits[1:], start=1):
        # One pass without gradients; with them, those of addcmul take one more than these.
        mixed = mixed + w[n] * s if torch.is_grad_enabled() else torch.addcmul(mixed, w[n], s)
    return mixed


def glu(x: Tensor) -> Tensor:
    """X [B,L,2d] -> first half * sigmoid(second half) [B,L,d] (Dauphin et al. 2017)."""
    first, gate = torch.tensor_split(x, 2, dim=-1)
    return first * torch.sigmoid(gate)


def windows(x: Tensor, width: int, causal: bool) -> Tensor:
    """X [B,L,d] -> [B,L,d,K]: window t is x[t - P] to x[t - P + K - 1], with zeros outside."""
    before, after = padding(width, causal)
    return F.pad(x, (0, 0, before, after)).unfold(1, width, 1)


def convolve(x: Tensor, kernel: Tensor, causal: bool, groups: int = 1) -> Tensor:
    """Y[t] = sum_j X[t - P + j] kernel[j]; X [B,L,c], kernel [K,c/groups,o] -> [B,L,o]."""
    before, after = padding(kernel.shape[0], causal)
    channels_first = F.pad(x, (0, 0, before, after)).swapaxes(1, 2)
    y = F.conv1d(channels_first, kernel.permute(2, 1, 0), groups=groups)
    return y.swapaxes(1, 2)


def record_kernel(kernel: str) -> None:
    """Record that a kernel is used, except while torch.compile traces, which cannot follow it."""
    if not torch.compiler.is_compiling():
        kernel_record.record_kernel(kernel)
