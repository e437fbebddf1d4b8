"""The settings of a suite for one kind of device: axes, model, tasks, how to measure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, Field

from synthbench.models.spec import ModelSpec, Size
from synthbench.suites.axes import Axes
from synthbench.suites.measure import Measure
from synthbench.suites.section import Section, Share


class MixerSizes(Section):
    """The heads of one variant, where they are not those of the model."""

    heads: Size = Field(description="Heads of this variant.", examples=[8])
    head_dim: Size | None = Field(
        default=None, description="Channels of each of them; null: d_model / heads.", examples=[128]
    )


class ModelSection(ModelSpec):
    """The model around the mixer, the same in every cell unless an axis replaces a value.

    With `preset`, every other key has the value of the preset unless it is given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    preset: str | None = Field(
        default=None,
        description="A published model that gives the keys which are left out.",
        examples=["t5_base"],
    )
    max_len: Size | None = Field(  # type: ignore[assignment]  # a cell replaces None
        None,
        description="Length that length-dependent parameters are made for; null: the `seq_len` of "
        "each cell.",
        examples=[512],
    )
    mixers: dict[str, MixerSizes] = Field(
        default={},
        description="Variant -> its own `heads` and `head_dim`. Cross-attention keeps those of the "
        "model.",
        examples=[{"R+V": {"heads": 8, "head_dim": 128}}],
    )

    def spec(self, seq_len: int, replaced: Mapping[str, Any], own: MixerSizes | None) -> ModelSpec:
        """The model of a cell.

        `replaced` are values of axes; they come before the `own` sizes of a variant. An axis over
        d_model or heads makes head_dim d_model / heads, unless something else gives it.
        """
        content = {name: getattr(self, name) for name in ModelSpec.model_fields}
        content["max_len"] = self.max_len or seq_len
        kind = replaced.get("kind", self.kind)
        if kind == "encoder_decoder" and self.cross_heads is None:
            content["cross_heads"] = self.heads
            content["cross_head_dim"] = None if "d_model" in replaced else self.head_dim
        if replaced.keys() & {"d_model", "heads"}:
            content["head_dim"] = None
        if own is not None and "heads" not in replaced:
            content |= {"heads": own.heads, "head_dim": own.head_dim}
        return ModelSpec(**content | dict(replaced))


class TaskSection(Section):
    """What one task has instead of the axes and the model of the suite."""

    axes: dict[str, Any] = Field(
        default={},
        description="Axes that replace those of the suite; not `variant`, `framework` and `task`, "
        "which all tasks share.",
        examples=[{"seq_len": [64], "batch": [32]}],
    )
    model: dict[str, Any] = Field(
        default={},
        description="Keys of the model that replace those of the suite.",
        examples=[{"kind": "classifier", "vocabulary": 16, "labels": 10}],
    )


class Settings(Section):
    """All settings of a suite for one kind of device."""

    axes: Axes = Field(
        description="What the cells differ in; every combination is one cell.",
        examples=[{"variant": ["V", "R"], "seq_len": [64]}],
    )
    model: ModelSection = Field(
        description="The model around the mixer.", examples=[{"d_model": 512, "heads": 8}]
    )
    models: dict[str, ModelSection] = Field(
        default={},
        description="Several models instead of `model`, each under a name of your choice.",
        examples=[{"translation": {"preset": "t2t_base"}, "language": {"preset": "lm_base"}}],
    )
    tasks: dict[str, dict[str, Any]] = Field(
        default={},
        description="Task -> its options. A task that is not listed has its default options.",
        examples=[{"cost": {}}],
    )
    by_task: dict[str, TaskSection] = Field(
        default={},
        description="Task -> the axes and keys of the model that it has instead of those above.",
        examples=[{"listops": {"model": {"kind": "classifier"}}}],
    )
    measure: Measure = Field(
        default=Measure(), description="How each cell is measured.", examples=[{"rounds": 3}]
    )
    baseline: str = Field(
        default="V", description="The variant that ratios are relative to.", examples=["R"]
    )
    margin: Share = Field(
        default=0.03,
        description="A ratio this close to 1, or closer, is reported as no relevant difference.",
        examples=[0.05],
    )
    resolution: Share = Field(
        default=0.05,
        description="How well a ratio has to be known. If its interval ends this close to it, and "
        "it is none of `faster`, `slower` and `same`, the verdict is `close` and no rounds are "
        "added. Not where the interval is wholly beyond the margin, or the noise floor is larger "
        "than this and than the margin.",
        examples=[0.02],
    )
