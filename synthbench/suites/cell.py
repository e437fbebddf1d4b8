"""A cell: one point of a suite, everything that decides what is measured."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from synthbench.mixers.declaration import sizes_for
from synthbench.mixers.notation import parse
from synthbench.models.model import Model
from synthbench.models.style import NormKind, PositionKind, Style

Framework = Literal["torch", "jax"]
ModelKind = Literal["mixer", "encoder", "decoder", "classifier", "encoder_decoder"]
Mode = Literal["forward", "train"]
DType = Literal["float32", "bfloat16", "float64"]
Form = Literal["auto", "fused", "reference"]
Compile = Literal["eager", "compiled"]

# Fields younger than the first records: at its default, such a field leaves an id what it was.
ADDED = (
    "replica", "label", "norm", "positions", "bias", "cross_heads", "cross_head_dim", "target_len",
    "labels",
)  # fmt: skip


# What a suite's model says; its label stands for them where there is one.
MODEL_FIELDS = (
    "model", "d_model", "heads", "head_dim", "max_len", "layers", "feed_forward", "vocabulary",
    "norm", "positions", "bias", "cross_heads", "cross_head_dim", "target_len", "labels",
)  # fmt: skip


class Cell(BaseModel):
    """One point of a suite; two cells with the same content have the same id."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str  # canonical notation
    framework: Framework
    mode: Mode
    seq_len: PositiveInt
    batch: PositiveInt
    model: ModelKind
    d_model: PositiveInt
    heads: PositiveInt
    head_dim: PositiveInt | None = None
    max_len: PositiveInt
    layers: PositiveInt = 1
    feed_forward: PositiveInt | None = None  # this and what follows: of stacks only
    vocabulary: PositiveInt | None = None
    norm: NormKind = "layer"
    positions: PositionKind = "learned"
    bias: bool = True  # of the feed-forward
    cross_heads: PositiveInt | None = None  # encoder_decoder
    cross_head_dim: PositiveInt | None = None
    target_len: PositiveInt | None = None
    labels: PositiveInt | None = None  # classifier
    dtype: DType = "float32"
    device: str = "cpu"  # cpu, cuda or cuda:N
    form: Form = "auto"
    compile: Compile
    seed: int = 0
    label: str = ""  # the name of the model, in a suite that has several
    replica: NonNegativeInt = 0  # 1: the A/A twin of the cell that is equal in all else

    @cached_property
    def id(self) -> str:
        """Twelve hex digits of the SHA-256 of the cell's canonical JSON."""
        content = self.model_dump(mode="json")
        for name in ADDED:
            if content[name] == type(self).model_fields[name].default:
                del content[name]
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def model_of(cell: Cell) -> Model:
    """The model a cell measures; raises what is wrong with its sizes or its variant."""
    mixer = parse(cell.variant)
    sizes = sizes_for(
        mixer,
        d_model=cell.d_model,
        heads=cell.heads,
        max_len=cell.max_len,
        head_dim=cell.head_dim,
    )
    model = Model(
        kind=cell.model,
        mixer=mixer,
        sizes=sizes,
        layers=cell.layers,
        feed_forward=cell.feed_forward,
        vocabulary=cell.vocabulary,
        style=Style(cell.norm, cell.positions, cell.bias),
        cross_heads=cell.cross_heads,
        cross_head_dim=cell.cross_head_dim,
        target_len=cell.target_len,
        labels=cell.labels,
    )
    sizes.require_length(cell.seq_len)
    model.check()
    return model
