"""Each mixer in PyTorch written down from its paper; the weights have our names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Weights = Mapping[str, Tensor]


def linear(weight: Tensor, inputs: int) -> nn.Linear:
    """A linear map without bias; `inputs` axes of the weight's first axes are its input."""
    rows = weight.shape[:inputs].numel()
    layer = nn.Linear(rows, weight.numel() // rows, bias=False)
    layer.weight = nn.Parameter(weight.reshape(rows, -1).T.contiguous())
    return layer


def split(x: Tensor, heads: int) -> Tensor:
    """[B,L,H k] -> [B,H,L,k]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class DotProduct(nn.Module):
    """S = Q K^T / sqrt(k)."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = linear(p["dot_product.query"], 1)
        self.key = linear(p["dot_product.key"], 1)

    def forward(self, x: Tensor) -> Tensor:
        query, key = split(self.query(x), self.heads), split(self.key(x), self.heads)
        return query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5


class Random(nn.Module):
    """S is a parameter [H,L,L], the same for every example."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(p["random.logits"])

    def forward(self, x: Tensor) -> Tensor:
        return self.logits


class FactorizedRandom(nn.Module):
    """S = left right^T."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.left = nn.Parameter(p["factorized_random.left"])
        self.right = nn.Parameter(p["factorized_random.right"])

    def forward(self, x: Tensor) -> Tensor:
        return self.left @ self.right.transpose(-1, -2)


class Dense(nn.Module):
    """S = relu(X W1) W2, one W2 [k,L] per head."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.hidden = linear(p["dense.hidden"], 1)
        self.logits = nn.Parameter(p["dense.logits"])

    def forward(self, x: Tensor) -> Tensor:
        return split(torch.relu(self.hidden(x)), self.heads) @ self.logits


class FactorizedDense(nn.Module):
    """S_ij = A_i[j // b] B_i[j % b]: both tiled to length a b, then multiplied."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.hidden = linear(p["factorized_dense.hidden"], 1)
        self.a = nn.Parameter(p["factorized_dense.a"])
        self.b = nn.Parameter(p["factorized_dense.b"])

    def forward(self, x: Tensor) -> Tensor:
        hidden = split(torch.relu(self.hidden(x)), self.heads)
        a, b = hidden @ self.a, hidden @ self.b
        return a.repeat_interleave(b.shape[-1], dim=-1) * b.repeat(1, 1, 1, a.shape[-1])


class Synthesizer(nn.Module):
    """Y = softmax(S) V, heads side by side; several S are mixed by a softmax over their weights."""

    def __init__(self, kinds: tuple[Kind, ...], p: Weights, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.parts = nn.ModuleList(kind(p, heads) for kind in kinds)
        self.mixing = nn.Parameter(p["alpha"]) if len(kinds) > 1 else None
        self.value, self.output = linear(p["value"], 1), linear(p["output"], 2)

    def forward(self, x: Tensor) -> Tensor:
        logits = [part(x) for part in self.parts]
        if self.mixing is not None:
            weights = torch.softmax(self.mixing, dim=0)[:, :, None, None]
            logits = [w * s for w, s in zip(weights, logits, strict=True)]
        attention = torch.softmax(sum(logits[1:], logits[0]), dim=-1)
        y = attention @ split(self.value(x), self.heads)
        return self.output(y.transpose(1, 2).flatten(2))


class LightConv(nn.Module):
    """GLU, softmax-normalised depthwise convolution over unfolded windows, output."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.input, self.output = linear(p["input"], 1), linear(p["output"], 1)
        self.heads = heads
        self.make_kernel(p)

    def make_kernel(self, p: Weights) -> None:
        self.weight = nn.Parameter(p["kernel"])

    def kernel(self, u: Tensor) -> Tensor:
        return self.weight.softmax(dim=-1)[None, None]  # [1,1,H,K]

    def forward(self, x: Tensor) -> Tensor:
        u = F.glu(self.input(x), dim=-1)
        kernel = self.kernel(u)
        width = kernel.shape[-1]
        windows = F.pad(u, (0, 0, width // 2, width - 1 - width // 2)).unfold(1, width, 1)
        windows = windows.unflatten(2, (self.heads, -1))  # [B,L,H,d/H,K]
        y = (windows * kernel[:, :, :, None]).sum(dim=-1)
        return self.output(y.flatten(2))


class DynamicConv(LightConv):
    """The same with a kernel predicted at each position."""

    def make_kernel(self, p: Weights) -> None:
        self.generator = linear(p["generator"], 1)

    def kernel(self, u: Tensor) -> Tensor:
        return self.generator(u).unflatten(-1, (self.heads, -1)).softmax(dim=-1)  # [B,L,H,K]


class Linformer(nn.Module):
    """softmax(Q (E K)^T / sqrt(k)) (F V), E and F compressing the length."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = linear(p["query"], 1), linear(p["key"], 1)
        self.value, self.output = linear(p["value"], 1), linear(p["output"], 2)
        self.e = nn.Parameter(p["key_projection"])
        self.f = nn.Parameter(p["value_projection"])

    def forward(self, x: Tensor) -> Tensor:
        query = split(self.query(x), self.heads)
        key = split(self.e.T @ self.key(x), self.heads)
        value = split(self.f.T @ self.value(x), self.heads)
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        y = scores.softmax(dim=-1) @ value
        return self.output(y.transpose(1, 2).flatten(2))


Kind = Callable[[Weights, int], nn.Module]

BY_VARIANT: dict[str, Kind] = {
    "V": partial(Synthesizer, (DotProduct,)),
    "R": partial(Synthesizer, (Random,)),
    "FR": partial(Synthesizer, (FactorizedRandom,)),
    "D": partial(Synthesizer, (Dense,)),
    "FD": partial(Synthesizer, (FactorizedDense,)),
    "R+V": partial(Synthesizer, (Random, DotProduct)),
    "FR+V": partial(Synthesizer, (FactorizedRandom, DotProduct)),
    "D+V": partial(Synthesizer, (Dense, DotProduct)),
    "linformer": Linformer,
    "light_conv": LightConv,
    "dynamic_conv": DynamicConv,
}
