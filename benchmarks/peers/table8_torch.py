"""The further synthesizing functions of the Synthesizer paper's Table 8, written plainly."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Weights = Mapping[str, Tensor]


def convolved(x: Tensor, kernel: Tensor, groups: int = 1) -> Tensor:
    """x [B,c,L] with kernel [out, c / groups, w], zeros outside the sequence -> [B,out,L]."""
    width = kernel.shape[-1]
    return F.conv1d(F.pad(x, (width // 2, width - 1 - width // 2)), kernel, groups=groups)


def by_head(y: Tensor, heads: int) -> Tensor:
    """[B,H n,L] -> [B,H,L,n]."""
    return y.unflatten(1, (heads, -1)).transpose(2, 3)


class Convolution(nn.Module):
    """S = conv(X)."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.kernel = nn.Parameter(p["conv.kernel"].flatten(2).permute(2, 1, 0).contiguous())

    def forward(self, x: Tensor) -> Tensor:
        return by_head(convolved(x.transpose(1, 2), self.kernel), self.heads)


class TwoConvolutions(nn.Module):
    """S = conv(relu(conv(X))), the second within each head."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.heads = heads
        first, second = p["conv_relu_conv.first"], p["conv_relu_conv.second"]  # [w,H,k,N]
        self.first = nn.Parameter(first.flatten(2).permute(2, 1, 0).contiguous())
        self.second = nn.Parameter(second.permute(1, 3, 2, 0).flatten(0, 1).contiguous())

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(convolved(x.transpose(1, 2), self.first))
        return by_head(convolved(hidden, self.second, groups=self.heads), self.heads)


class Bottleneck(nn.Module):
    """S = relu(relu(X down) up) logits."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.down = nn.Parameter(p["bottleneck.down"])
        self.up = nn.Parameter(p["bottleneck.up"])
        self.logits = nn.Parameter(p["bottleneck.logits"])

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(torch.relu(x @ self.down) @ self.up)
        return hidden.unflatten(-1, (self.heads, -1)).transpose(1, 2) @ self.logits


class BottleneckConvolution(nn.Module):
    """S = conv(relu(conv(X))) through a few channels."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.heads = heads
        first, second = p["bottleneck_conv.first"], p["bottleneck_conv.second"]
        self.first = nn.Parameter(first.permute(2, 1, 0).contiguous())
        self.second = nn.Parameter(second.flatten(2).permute(2, 1, 0).contiguous())

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(convolved(x.transpose(1, 2), self.first))
        return by_head(convolved(hidden, self.second), self.heads)


class GatedLinear(nn.Module):
    """S = (Xh logits) sigmoid(Xh gate), with Xh the heads of X."""

    def __init__(self, p: Weights, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.logits, self.gate = nn.Parameter(p["glu.logits"]), nn.Parameter(p["glu.gate"])

    def forward(self, x: Tensor) -> Tensor:
        heads = x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return (heads @ self.logits) * torch.sigmoid(heads @ self.gate)


COMPONENTS = {
    "conv": Convolution,
    "conv_relu_conv": TwoConvolutions,
    "bottleneck": Bottleneck,
    "bottleneck_conv": BottleneckConvolution,
    "glu": GatedLinear,
}
