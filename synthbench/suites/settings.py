"""What a suite says for one kind of device: axes, model, how to measure."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from synthbench.models.spec import ModelSpec
from synthbench.suites.cell import Compile, DType, Form, Framework, Mode

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
Rounds = Annotated[int, Field(ge=1, le=10_000)]
Gigabytes = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Section(BaseModel):
    """A frozen part of a suite in which only declared keys of the declared types may stand."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Axes(Section):
    """What the cells differ in; every combination is one cell."""

    variant: Annotated[tuple[str, ...], Field(min_length=1)]
    task: Annotated[tuple[str, ...], Field(min_length=1)] = ("cost",)
    framework: Annotated[tuple[Framework, ...], Field(min_length=1)] = ("torch", "jax")
    mode: Annotated[tuple[Mode, ...], Field(min_length=1)] = ("forward", "train")
    seq_len: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    heads: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] | None = None
    """Of the mixer; None: as the model says."""
    batch: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (1,)
    dtype: Annotated[tuple[DType, ...], Field(min_length=1)] = ("float32",)
    form: Annotated[tuple[Form, ...], Field(min_length=1)] = ("auto",)
    compile: Annotated[tuple[Compile, ...], Field(min_length=1)] | None = None
    """None: torch eager, jax compiled."""


class MixerSizes(Section):
    """The heads of one variant, where they are not the model's."""

    heads: PositiveInt
    head_dim: PositiveInt | None = None  # None: d_model / heads


class ModelSection(ModelSpec):
    """The model around the mixer, the same in every cell.

    With `preset`, every other key has the preset's value unless it is given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    preset: str | None = None
    max_len: PositiveInt | None = None  # type: ignore[assignment]  # None: the cell's seq_len
    mixers: dict[str, MixerSizes] = Field(default={})
    """Variant -> heads of its own; cross-attention keeps the model's."""

    def spec(self, seq_len: int, heads: int | None, own: MixerSizes | None) -> ModelSpec:
        """The model of a cell: `heads` of an axis, or a variant's `own`, replace the model's."""
        content = {name: getattr(self, name) for name in ModelSpec.model_fields}
        content["max_len"] = self.max_len or seq_len
        if self.kind == "encoder_decoder" and self.cross_heads is None:
            content |= {"cross_heads": self.heads, "cross_head_dim": self.head_dim}
        if heads is not None:
            content |= {"heads": heads, "head_dim": None}
        elif own is not None:
            content |= {"heads": own.heads, "head_dim": own.head_dim}
        return ModelSpec(**content)


class Measure(Section):
    """How each cell is measured, and what it may take."""

    rounds: Rounds = 1  # each the whole plan, shuffled, every cell in a new process
    aa: bool | None = None  # measure the baseline twice in each group; None: from 2 rounds on
    min_samples: PositiveInt = 10
    min_seconds: Seconds = 0.5  # of steady state, at least
    max_seconds: Seconds = 10.0  # of warm-up and steady state together, at most
    precision: Share | None = None  # sample until the median's 95% interval is +- this share of it
    timeout_seconds: Seconds = 300.0  # a whole cell, from its process's start
    memory_limit_gb: Gigabytes | None = None  # CPU only; None: 90% of what is available
    threads: PositiveInt | None = None  # None: all usable cores
    parity: bool = True  # check before timing
    force: bool = False  # run also what is predicted not to fit into memory
    ceiling: bool = True  # measure what the device gives at best, before the cells
    seed: NonNegativeInt = 0  # start values, batches and the order of the cells

    @property
    def has_twins(self) -> bool:
        """Whether each group holds the A/A twin of its baseline."""
        return self.rounds > 1 if self.aa is None else self.aa


class Settings(Section):
    """Everything a suite says for one kind of device."""

    axes: Axes
    model: ModelSection
    models: dict[str, ModelSection] = {}
    """Several, each under a name of the suite's choice, instead of `model`, which is the first."""
    tasks: dict[str, dict[str, Any]] = Field(default={})
    """Task -> its options; a task that is not listed has the options' defaults."""
    measure: Measure = Measure()
    baseline: str = "V"  # the variant ratios are taken to
    margin: Share = 0.03  # a ratio this near to 1, or nearer, is no difference that matters
