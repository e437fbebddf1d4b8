"""The peers in PyTorch: packages and textbook code with our weights, as a step like ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.peers import textbook_torch
from benchmarks.peers.pairs import TEXTBOOK, Pair
from synthbench.backends.base import Batch, Setting
from synthbench.backends.torch.module import DTYPES
from synthbench.backends.torch.step import TorchStep, to_device
from synthbench.mixers.base import Array
from synthbench.models.model import Model

Weights = Mapping[str, Tensor]


class Unmasked(nn.Module):
    """A layer called like a model in a step, whose mask is always None."""

    def __init__(self, layer: nn.Module, call: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, x: Tensor, padding_mask: None = None) -> Tensor:
        return self.call(self.layer, x)


def build(
    pair: Pair, model: Model, start: Mapping[str, Array], setting: Setting, mode: str, batch: Batch
) -> TorchStep:
    """A step of the peer on the same batch, from the same weights."""
    # Copies, because each side trains its own weights.
    p = {name.removeprefix("mixer."): torch.tensor(value) for name, value in start.items()}
    module = layer_of(pair, p, model.sizes.heads)
    module.to(device=setting.device, dtype=DTYPES[setting.dtype])
    module.train(mode == "train")
    return TorchStep(module, mode, setting, *to_device(batch, setting))


def layer_of(pair: Pair, p: Weights, heads: int) -> Unmasked:
    """The peer of a pair with these weights."""
    if pair.peer == TEXTBOOK:
        return Unmasked(textbook_torch.layer(pair.variant, p, heads), called)
    return PACKAGES[pair.peer](p, heads)


def called(layer: Any, x: Tensor) -> Tensor:
    """Call the layer with its inputs."""
    y: Tensor = layer(x)
    return y


def set_linear(layer: nn.Linear, weight: Tensor, inputs: int) -> None:
    """Set the weight of a linear layer and remove its bias."""
    layer.weight = textbook_torch.linear(weight, inputs).weight
    layer.register_parameter("bias", None)


def linformer(p: Weights, heads: int) -> Unmasked:
    """PyPI linformer."""
    from linformer import LinformerSelfAttention

    length, rank = p["key_projection"].shape
    layer = LinformerSelfAttention(p["query"].shape[0], length, k=rank, heads=heads)
    for linear, name in ((layer.to_q, "query"), (layer.to_k, "key"), (layer.to_v, "value")):
        set_linear(linear, p[name], 1)
    set_linear(layer.to_out, p["output"], 2)
    layer.proj_k = nn.Parameter(p["key_projection"])
    layer.proj_v = nn.Parameter(p["value_projection"])
    return Unmasked(layer, called)


def fill_attention(layer: nn.MultiheadAttention, p: Weights) -> None:
    """Set the packed input projection (query, key, value) and the output projection."""
    d = p["value"].shape[0]
    inward = [p["dot_product.query"], p["dot_product.key"], p["value"]]
    packed = torch.cat([weight.reshape(d, -1).T for weight in inward])
    layer.in_proj_weight = nn.Parameter(packed)
    layer.out_proj.weight = textbook_torch.linear(p["output"], 2).weight


def multihead_attention(p: Weights, heads: int) -> Unmasked:
    """torch.nn.MultiheadAttention, called as by default."""
    layer = nn.MultiheadAttention(p["value"].shape[0], heads, bias=False, batch_first=True)
    fill_attention(layer, p)
    return Unmasked(layer, lambda attention, x: attention(x, x, x)[0])


def encoder_layer(p: Weights, heads: int) -> Unmasked:
    """The self-attention of torch.nn.TransformerEncoderLayer."""
    whole = nn.TransformerEncoderLayer(
        p["value"].shape[0], heads, 1, dropout=0.0, batch_first=True, bias=False
    )
    fill_attention(whole.self_attn, p)
    return Unmasked(whole.self_attn, lambda attention, x: attention(x, x, x, need_weights=False)[0])


def t5_attention(p: Weights, heads: int) -> Unmasked:
    """The self-attention of a T5 layer of transformers that has no position bias."""
    from transformers import T5Config, T5EncoderModel

    d, _, k = p["value"].shape
    config = T5Config(
        vocab_size=2, d_model=d, d_kv=k, d_ff=1, num_layers=2, num_heads=heads, dropout_rate=0.0
    )
    model: Any = T5EncoderModel(config)  # whose types do not name its parts
    layer = model.encoder.block[1].layer[0].SelfAttention
    set_linear(layer.q, p["dot_product.query"] * k**-0.5, 1)
    set_linear(layer.k, p["dot_product.key"], 1)
    set_linear(layer.v, p["value"], 1)
    set_linear(layer.o, p["output"], 2)
    return Unmasked(layer, lambda attention, x: attention(x)[0])


PACKAGES: dict[str, Callable[[Weights, int], Unmasked]] = {
    "linformer.LinformerSelfAttention": linformer,
    "nn.MultiheadAttention": multihead_attention,
    "nn.TransformerEncoderLayer": encoder_layer,
    "transformers T5Attention": t5_attention,
}
