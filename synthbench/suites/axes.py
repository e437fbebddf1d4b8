"""The axes of a suite: what its cells differ in."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args

from pydantic import (
    Field,
    PositiveInt,
    SerializerFunctionWrapHandler,
    create_model,
    model_serializer,
)

from synthbench.models.spec import ModelSpec, Size
from synthbench.suites.cell import Compile, Count, Devices, DType, Form, Framework, Mode
from synthbench.suites.section import Section


class CellAxes(Section):
    """The axes that are not properties of the model."""

    variant: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        description="Variants in notation. A list as the value of an option stands for one variant "
        "per value.",
        examples=[["V", "R+V", "FR(rank=[8, 16, 32])"]],
    )
    task: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        default=("cost",),
        description="What each cell does; `cost` measures time, FLOPs and memory of a step.",
        examples=[["cost"]],
    )
    framework: Annotated[tuple[Framework, ...], Field(min_length=1)] = Field(
        default=("torch", "jax"), description="Frameworks to measure.", examples=[["torch"]]
    )
    mode: Annotated[tuple[Mode, ...], Field(min_length=1)] = Field(
        default=("forward", "train"),
        description="`forward`: a forward pass. `train`: forward, backward and optimizer step. "
        "`decode`: the last of `seq_len` tokens, with the state of those before it; needs a causal "
        "model.",
        examples=[["train"], ["decode"]],
    )
    seq_len: Annotated[tuple[Size, ...], Field(min_length=1)] = Field(
        description="Sequence lengths in tokens.", examples=[[128, 256, 512]]
    )
    batch: Annotated[tuple[Size, ...], Field(min_length=1)] = Field(
        default=(1,), description="Sequences per step.", examples=[[1, 8]]
    )
    tokens_at_most: PositiveInt | None = Field(
        default=None,
        description="Combinations with more tokens per step, `seq_len` times `batch`, are left "
        "out; null: none.",
        examples=[4096],
    )
    dtype: Annotated[tuple[DType, ...], Field(min_length=1)] = Field(
        default=("float32",),
        description="Number format of parameters and activations; `float16` only on accelerators.",
        examples=[["float32", "bfloat16"]],
    )
    form: Annotated[tuple[Form, ...], Field(min_length=1)] = Field(
        default=("auto",),
        description="`reference`: the equations as written. `fused`: the optimized form. `auto`: "
        "fused where the mixer has that form.",
        examples=[["reference", "fused"]],
    )
    compile: Annotated[tuple[Compile, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="How a step runs; null: `eager` in torch, `compiled` in jax, which is always "
        "compiled. `cuda_graph`: all kernels of an eager step in torch, started without Python.",
        examples=[["eager", "compiled"]],
    )

    seed: Annotated[tuple[Count, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="Seeds of start values, batches and generated data; null: that of `measure`. "
        "A learning task needs several: its verdicts are over seeds.",
        examples=[[0, 1, 2]],
    )
    devices: Annotated[tuple[Devices, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="Devices that share each batch of a learning task, or of a train step of the "
        "task cost, counted from the run's device on; null: 1. On a CPU, shares of its cores.",
        examples=[[1, 2, 4]],
    )

    def of_model(self) -> dict[str, tuple[Any, ...]]:
        """The axes that replace a value of the model, by the name of its field."""
        given = {name: getattr(self, name) for name in MODEL_AXES}
        return {name: values for name, values in given.items() if values is not None}

    @model_serializer(mode="wrap")
    def _without_unused_model_axes(self, serialize: SerializerFunctionWrapHandler) -> Any:
        content = serialize(self)
        return {n: v for n, v in content.items() if v is not None or n not in MODEL_AXES}


def _axis_of(name: str) -> tuple[Any, Any]:
    """Type and declaration of the axis over one field of ModelSpec."""
    field = ModelSpec.model_fields[name]
    options = tuple(option for option in get_args(field.annotation) if option is not NoneType)
    is_optional = NoneType in get_args(field.annotation)
    value: Any = Union[options] if is_optional else field.annotation  # noqa: UP007
    if field.metadata:
        value = Annotated[value, *field.metadata]
    axis = Annotated[tuple[value, ...], Field(min_length=1)]
    examples = [field.examples] if field.examples else None  # one list of all of them
    description = f"Replaces `model.{name}`. {field.description}"
    return axis | None, Field(default=None, description=description, examples=examples)


# Any field of a model may be an axis, and no list of them has to be kept.
MODEL_AXES = tuple(ModelSpec.model_fields)

if TYPE_CHECKING:

    class Axes(CellAxes):
        """What the cells differ in; every combination is one cell."""

else:
    Axes = create_model(
        "Axes",
        __base__=CellAxes,
        __doc__="What the cells differ in; every combination is one cell.",
        __module__=__name__,
        **{name: _axis_of(name) for name in MODEL_AXES},
    )
