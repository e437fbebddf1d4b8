"""The settings of a suite for one kind of device: axes, model, tasks, how to measure."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    Tag,
    create_model,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from synthbench.models.spec import ModelSpec, Size
from synthbench.suites.cell import Compile, Devices, DType, Form, Framework, Mode

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
Rounds = Annotated[int, Field(ge=1, le=10_000)]
# In errors of pydantic: which of the two kinds of `rounds` was meant.
NUMBER_TAG, SECTION_TAG = "<number>", "<section>"
Gigabytes = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Paired = Literal[True, False, "form"]


class Section(BaseModel):
    """A frozen part of a suite that accepts only the declared keys, with the declared types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


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

    seed: Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)] | None = Field(
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


class RoundsUntil(Section):
    """Rounds of the whole plan, then further rounds of what is undecided."""

    at_least: Rounds = Field(default=2, description="Rounds of the whole plan.", examples=[3])
    at_most: Rounds = Field(
        default=12,
        description="Rounds of a variant whose comparison with the baseline stays undecided.",
        examples=[8],
    )
    until: Literal["decided"] = Field(
        default="decided",
        description="Rounds are added to variants without a verdict other than `undecided`, to "
        "their A/A twin, and to their baseline where it is not timed in their processes.",
        examples=["decided"],
    )

    @property
    def looks(self) -> int:
        """How often verdicts may be asked for while rounds are added."""
        return self.at_most - self.at_least + 1

    @model_validator(mode="after")
    def _in_order(self) -> RoundsUntil:
        if self.at_most < self.at_least:
            raise PydanticCustomError(
                "rounds",
                "at_most of at least {at_least}, its at_least",
                {"at_least": self.at_least},
            )
        return self


def _number_or_section(value: Any) -> str:
    return SECTION_TAG if isinstance(value, dict | RoundsUntil) else NUMBER_TAG


class Measure(Section):
    """How each cell is measured, and how much time and memory it may use."""

    rounds: Annotated[
        Annotated[Rounds, Tag(NUMBER_TAG)] | Annotated[RoundsUntil, Tag(SECTION_TAG)],
        Discriminator(_number_or_section),
    ] = Field(
        default=1,
        description="Times that the whole plan is measured, each time in another order and with "
        "new processes. Ratios are taken within a round. A section: as many as it takes, see "
        "below.",
        examples=[3],
    )
    machines: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1,
        description="Machines of one kind that the rounds of a cell are spread over. Ratios are "
        "taken within a round, on one machine, and their intervals include how machines differ. At "
        "most as many as rounds.",
        examples=[1],
    )
    minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None,
        description="Minutes after which no further round of what is undecided begins, of one call "
        "of `run`: `--resume` has them anew; null: no limit. The rounds of the whole plan are "
        "always measured.",
        examples=[20.0],
    )
    retries: NonNegativeInt = Field(
        default=0,
        description="Times that a disturbed cell is measured again, when the machine is quiet, "
        "at most, with all that `--resume` adds: cells of undecided comparisons before rounds are "
        "added, others at the end.",
        examples=[3],
    )
    aa: bool | None = Field(
        default=None,
        description="Measure the baseline twice in each group (A/A twins), which gives the noise "
        "floor; null: from 2 rounds on.",
        examples=[True],
    )
    paired: Paired = Field(
        default=True,
        description="Time the baseline in the process of each other cell as well, in turn with its "
        "steps, and take the ratio within the process; CPU only. `form`: beside each cell in "
        "another form, the reference form of the same variant instead.",
        examples=[False],
    )
    min_samples: PositiveInt = Field(
        default=10,
        description="Steady-state steps of a cell, at least, if `max_seconds` suffices for them; "
        "there is at least one, and no cell has more than 1000.",
        examples=[20],
    )
    min_seconds: Seconds = Field(
        default=0.5,
        description="Seconds of steady state, at least, if `max_seconds` suffices for them after "
        "the warm-up, and unless 1000 steps take less. Not more than `max_seconds`.",
        examples=[1.0],
    )
    max_seconds: Seconds = Field(
        default=10.0,
        description="Seconds of warm-up and steady state together, at most; no step begins after "
        "them, also where there are fewer than `min_samples`. No step of the warm-up begins after "
        "a third of them. The baseline beside a cell (`paired`) takes as long again.",
        examples=[20.0],
    )
    precision: Share | None = Field(
        default=None,
        description="Take samples until the 95% interval of the median is within this share of it, "
        "at most `max_seconds`; null: stop at `min_samples` and `min_seconds`.",
        examples=[0.02],
    )
    timeout_seconds: Seconds = Field(
        default=300.0,
        description="Seconds of a whole cell, from the start of its process, at most.",
        examples=[120.0],
    )
    memory_limit_gb: Gigabytes | None = Field(
        default=None,
        description="Memory of a cell in GB, CPU only; null: 90% of what is available.",
        examples=[8.0],
    )
    threads: PositiveInt | None = Field(
        default=None, description="Threads of a cell; null: one per usable core.", examples=[4]
    )
    parity: bool = Field(
        default=True,
        description="Compare each variant with its reference before it is timed.",
        examples=[False],
    )
    parity_again: bool = Field(
        default=False,
        description="Also make the checks of parity that passed in an earlier run on this machine, "
        "with the same code of synthbench, versions and kernels. Runs with plug-ins always do.",
        examples=[True],
    )
    force: bool = Field(
        default=False,
        description="Also run cells that are predicted not to fit into memory.",
        examples=[True],
    )
    kernel_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=120.0,
        description="Seconds to choose kernels in, by timing those that each mixer declares, once "
        "per run and shape; 0: do not measure, use the kernel that needs no measurement.",
        examples=[0],
    )
    ceiling: bool = Field(
        default=True,
        description="Measure the fastest matrix product and copy of the device before the cells.",
        examples=[False],
    )
    seed: NonNegativeInt = Field(
        default=0,
        description="Draws start values, batches and the order of the cells.",
        examples=[1],
    )

    @model_validator(mode="after")
    def _a_round_per_machine(self) -> Measure:
        if self.machines > self.least_rounds:
            raise PydanticCustomError(
                "machines",
                "at most {rounds} machines, one per round; give more rounds, or fewer machines",
                {
                    "keys": ["machines", "rounds"],
                    "got": self.machines,
                    "rounds": self.least_rounds,
                },
            )
        return self

    @model_validator(mode="after")
    def _enough_seconds(self) -> Measure:
        if self.min_seconds > self.max_seconds:
            values = {"min_seconds": self.min_seconds, "max_seconds": self.max_seconds}
            least, most = (
                "" if name in self.model_fields_set else f" ({value:g} is its default)"
                for name, value in values.items()
            )
            raise PydanticCustomError(
                "seconds",
                "at most {seconds}, which is max_seconds and includes warm-up; give a smaller "
                "min_seconds{least}, or a larger max_seconds{most}",
                {
                    "keys": [*values],
                    "got": self.min_seconds,
                    "seconds": f"{self.max_seconds:g}",
                    "least": least,
                    "most": most,
                },
            )
        return self

    @property
    def has_twins(self) -> bool:
        """Whether each group contains the A/A twin of its baseline."""
        return self.least_rounds > 1 if self.aa is None else self.aa

    @property
    def least_rounds(self) -> int:
        """Rounds of the whole plan."""
        return self.rounds if isinstance(self.rounds, int) else self.rounds.at_least

    @property
    def most_rounds(self) -> int:
        """Rounds of a cell, at most."""
        return self.rounds if isinstance(self.rounds, int) else self.rounds.at_most


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
        description="A ratio whose interval ends this close to it, or closer, needs no further "
        "rounds: the verdict is `close` where it is none of `faster`, `slower` and `same`, unless "
        "the interval is wholly beyond the margin, or the noise floor is larger than this and "
        "than the margin.",
        examples=[0.02],
    )
