"""What a model is, as suites, cells and records hold it: one nested value.

To add a property of models, add a field with a default here, and use it in the two back ends.
Suites then accept it, cells and records contain it, tables distinguish cells by it, and the ids of
cells that do not set it stay the same.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

ModelKind = Literal["mixer", "encoder", "decoder", "classifier", "encoder_decoder"]
LARGEST_SIZE = 10**9  # of an axis
MOST_LAYERS = 10_000
Size = Annotated[int, Field(gt=0, le=LARGEST_SIZE)]
Layers = Annotated[int, Field(gt=0, le=MOST_LAYERS)]

NormKind = Literal["layer", "rms"]
PositionKind = Literal["learned", "sinusoidal", "relative"]

KINDS: tuple[ModelKind, ...] = get_args(ModelKind)


class ModelSpec(BaseModel):
    """A model around one mixer: its kind, and everything that this kind needs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ModelKind = Field(
        "mixer",
        description="The bare `mixer`, or a stack around it: `encoder`, `decoder` (causal), "
        "`classifier`, `encoder_decoder`.",
        examples=["encoder", "decoder"],
    )
    d_model: Size = Field(description="Channels of each position.", examples=[512, 1024])
    heads: Size = Field(description="Heads of the mixer.", examples=[8, 16])
    head_dim: Size | None = Field(
        None,
        description="Channels of each head; null: d_model / heads.",
        examples=[128, 64],
    )
    max_len: Size = Field(
        description="Length that length-dependent parameters are made for.", examples=[512, 1024]
    )
    layers: Layers = Field(1, description="Blocks of each stack.", examples=[6, 12])
    feed_forward: Size | None = Field(
        None,
        description="Hidden channels of the feed-forward; null: 4 d_model.",
        examples=[2048, 4096],
    )
    vocabulary: Size | None = Field(
        None,
        description="Tokens of the embedding; required for a stack.",
        examples=[32000, 64000],
    )
    norm: NormKind = Field(
        "layer",
        description="`layer` (Ba et al. 2016: scale and bias) or `rms` (Zhang and Sennrich 2019: "
        "scale).",
        examples=["rms", "layer"],
    )
    positions: PositionKind = Field(
        "learned",
        description="`learned` [N,d]; `sinusoidal` (Vaswani et al. 2017, no parameters); "
        "`relative`: a bias of the attention logits by distance (Raffel et al. 2020), shared by "
        "the layers of a stack.",
        examples=["relative", "learned"],
    )
    bias: bool = Field(
        True, description="Whether the feed-forward has biases.", examples=[False, True]
    )
    cross_heads: Size | None = Field(
        None,
        description="Heads of cross-attention in an `encoder_decoder`; null: the model's heads.",
        examples=[12, 16],
    )
    cross_head_dim: Size | None = Field(
        None,
        description="Channels of each of them; null: d_model / cross_heads.",
        examples=[64, 128],
    )
    target_len: Size | None = Field(
        None,
        description="Tokens of the target; required for `encoder_decoder`.",
        examples=[114, 228],
    )
    labels: Size | None = Field(
        None,
        description="Classes; required for `classifier`.",
        examples=[4, 8],
    )

    @property
    def has_own_head_dim(self) -> bool:
        """Whether the heads of the mixer are of another size than d_model / heads."""
        return self.head_dim is not None and self.head_dim * self.heads != self.d_model

    @property
    def architecture(self) -> dict[str, Any]:
        """What decides which code runs: all fields but the sizes."""
        return self.model_dump(mode="json", exclude=set(SIZES)) | {
            "has_own_head_dim": self.has_own_head_dim,
            "sized_fields": sorted(name for name in OPTIONAL_SIZES if getattr(self, name)),
        }

    def small(self, bare: ModelSpec, target_len: int) -> ModelSpec:
        """The same architecture at small sizes, around a mixer of the sizes of `bare`."""
        if self.kind == "mixer":
            return bare
        small = {name: getattr(bare, name) for name in ("d_model", "heads", "head_dim", "max_len")}
        small |= {"layers": 2, "feed_forward": 24, "vocabulary": 40, "cross_heads": 2}
        small |= {
            "cross_head_dim": None,
            "target_len": target_len if self.target_len else None,
            "labels": 3 if self.labels else None,
        }
        return self.model_copy(update=small)


OPTIONAL_SIZES = ("target_len", "labels")
SIZES = (
    "d_model", "heads", "head_dim", "max_len", "layers", "feed_forward", "vocabulary",
    "cross_heads", "cross_head_dim", *OPTIONAL_SIZES,
)  # fmt: skip
