"""Each mixer in PyTorch written down from its paper; the weights have our names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.peers import table8_torch
from benchmarks.peers.pairs import parts

Weights = Mapping[str, Tensor]


def linear(weight: Tensor, inputs: int, bias: Tensor | None = None) -> nn.Linear:
    """A linear map; `inputs` axes of the weight's first axes are its input."""
    rows = weight.shape[:inputs].numel()
    layer = nn.Linear(rows, weight.numel() // rows, bias=bias is not None)
    layer.weight = nn.Parameter(weight.reshape(rows, -1).T.contiguous())
    if bias is not None:
        layer.bias = nn.Parameter(bias.flatten())
    return layer


def projection(p: Weights, name: str, inputs: int = 1) -> nn.Linear:
    """The linear map of that name, with its bias if it has one."""
    return linear(p[name], inputs, p.get(f"{name}_bias"))


def layer(variant: str, p: Weights, heads: int) -> nn.Module:
    """The plain layer for a variant of ours, with its weights."""
    names = parts(variant)
    if (special := BY_VARIANT.get(variant) or BY_MIXER.get(names[0])) is not None:
        return special(p, heads)
    return Synthesizer(tuple(COMPONENTS[name] for name in names), p, heads)


def split(x: Tensor, heads: int) -> Tensor:
    """[B,L,H k] -> [B,H,L,k]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class DotProduct(nn.Module):
    """S = Q K^T / sqrt(k)."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = projection(p, "dot_product.query")
        self.key = projection(p, "dot_product.key")

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


class FixedRandom(nn.Module):
    """S is a constant [H,L,L]."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.logits: Tensor
        self.register_buffer("logits", p["fixed_random.logits"])

    def forward(self, x: Tensor) -> Tensor:
        return self.logits


class Dense(nn.Module):
    """S = relu(X W1) W2, one W2 [k,L] per head, or one for all."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.hidden = projection(p, "dense.hidden")
        self.logits = nn.Parameter(p["dense.logits"])
        self.bias = nn.Parameter(p["dense.logits_bias"]) if "dense.logits_bias" in p else None

    def forward(self, x: Tensor) -> Tensor:
        logits = split(torch.relu(self.hidden(x)), self.heads) @ self.logits
        return logits if self.bias is None else logits + self.bias[:, None]


class FactorizedDense(nn.Module):
    """S_ij = A_i[j // b] B_i[j % b]: both tiled to length a b, then multiplied."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.hidden = projection(p, "factorized_dense.hidden")
        self.a = nn.Parameter(p["factorized_dense.a"])
        self.b = nn.Parameter(p["factorized_dense.b"])

    def forward(self, x: Tensor) -> Tensor:
        hidden = split(torch.relu(self.hidden(x)), self.heads)
        return outer(hidden @ self.a, hidden @ self.b)


class SeparateFactorizedDense(nn.Module):
    """The same with a hidden layer for each factor."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.hidden_a = projection(p, "factorized_dense.hidden_a")
        self.hidden_b = projection(p, "factorized_dense.hidden_b")
        self.a = nn.Parameter(p["factorized_dense.a"])
        self.b = nn.Parameter(p["factorized_dense.b"])

    def forward(self, x: Tensor) -> Tensor:
        hidden_a = split(torch.relu(self.hidden_a(x)), self.heads)
        hidden_b = split(torch.relu(self.hidden_b(x)), self.heads)
        return outer(hidden_a @ self.a, hidden_b @ self.b)


def outer(a: Tensor, b: Tensor) -> Tensor:
    """[..,m] and [..,n] -> [..,m n]: every product of both."""
    return a.repeat_interleave(b.shape[-1], dim=-1) * b.repeat(1, 1, 1, a.shape[-1])


class Synthesizer(nn.Module):
    """Y = softmax(S) V, heads side by side; several S are mixed by a softmax over their weights.

    Without weights they are added.
    """

    def __init__(self, kinds: tuple[Kind, ...], p: Weights, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.parts = nn.ModuleList(kind(p, heads) for kind in kinds)
        self.mixing = nn.Parameter(p["alpha"]) if "alpha" in p else None
        self.value, self.output = projection(p, "value"), projection(p, "output", 2)

    def logits(self, x: Tensor) -> list[Tensor]:
        return [part(x) for part in self.parts]

    def forward(self, x: Tensor) -> Tensor:
        logits = self.logits(x)
        if self.mixing is not None:
            weights = torch.softmax(self.mixing, dim=0)[..., None, None]
            logits = [w * s for w, s in zip(weights, logits, strict=True)]
        attention = torch.softmax(sum(logits[1:], logits[0]), dim=-1)
        y = attention @ split(self.value(x), self.heads)
        return self.output(y.transpose(1, 2).flatten(2))


class TiedSynthesizer(Synthesizer):
    """D+V in which the hidden layer of D is the query of V."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__((), p, heads)
        self.query = projection(p, "dot_product.query")
        self.key = projection(p, "dot_product.key")
        self.dense = nn.Parameter(p["dense.logits"])

    def logits(self, x: Tensor) -> list[Tensor]:
        query, key = split(self.query(x), self.heads), split(self.key(x), self.heads)
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        return [torch.relu(query) @ self.dense, scores]


class LightConv(nn.Module):
    """GLU, softmax-normalised depthwise convolution over unfolded windows, output."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.input, self.output = projection(p, "input"), projection(p, "output")
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
        return self.after((windows * kernel[:, :, :, None]).sum(dim=-1).flatten(2))

    def after(self, y: Tensor) -> Tensor:
        return self.output(y)


class DynamicConv(LightConv):
    """The same with a kernel predicted at each position."""

    def make_kernel(self, p: Weights) -> None:
        self.generator = linear(p["generator"], 1)

    def kernel(self, u: Tensor) -> Tensor:
        return self.generator(u).unflatten(-1, (self.heads, -1)).softmax(dim=-1)  # [B,L,H,K]


class MeshLightConv(LightConv):
    """A kernel for each channel, a bias on every map, one more map after the convolution."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__(p, p["output"].shape[0])
        self.bias = nn.Parameter(p["kernel_bias"])
        self.pointwise = projection(p, "pointwise")

    def after(self, y: Tensor) -> Tensor:
        return self.output(self.pointwise(y + self.bias))


class MeshDynamicConv(MeshLightConv, DynamicConv):
    """The same with a kernel predicted at each position."""


class Linformer(nn.Module):
    """softmax(Q (E K)^T / sqrt(k)) (F V), E and F compressing the length."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = projection(p, "query"), projection(p, "key")
        self.value, self.output = projection(p, "value"), projection(p, "output", 2)
        self.e = nn.Parameter(p["key_projection"])
        self.f = nn.Parameter(p["value_projection"]) if "value_projection" in p else self.e

    def forward(self, x: Tensor) -> Tensor:
        query = split(self.query(x), self.heads)
        key = split(self.e.T @ self.key(x), self.heads)
        value = split(self.f.T @ self.value(x), self.heads)
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        y = scores.softmax(dim=-1) @ value
        return self.output(y.transpose(1, 2).flatten(2))


Kind = Callable[[Weights, int], nn.Module]

COMPONENTS: dict[str, Kind] = {
    "V": DotProduct,
    "R": Random,
    "Fix": FixedRandom,
    "FR": FactorizedRandom,
    "D": Dense,
    "FD": FactorizedDense,
    **table8_torch.COMPONENTS,
}
BY_MIXER: dict[str, Kind] = {
    "linformer": Linformer,
    "light_conv": LightConv,
    "dynamic_conv": DynamicConv,
}
# What an option changes; other options change only the shapes of the weights.
BY_VARIANT: dict[str, Kind] = {
    "FD(hidden=separate)": partial(Synthesizer, (SeparateFactorizedDense,)),
    "D(tie_query=true)+V": TiedSynthesizer,
    "light_conv(layout=mesh)": MeshLightConv,
    "dynamic_conv(layout=mesh)": MeshDynamicConv,
}
