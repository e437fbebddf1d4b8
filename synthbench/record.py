"""The schema of what is stored: records of cells, and the information of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    model_validator,
)

from synthbench.kernel import Kernel
from synthbench.suites.cell import Cell, Count

SCHEMA_VERSION = 2

Outcome = Literal[
    "ok", "oom", "oom_predicted", "timeout", "crashed", "unsupported", "quarantined", "unchecked",
    "diverged",
]  # fmt: skip

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Bytes = Count
Error = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0)]


class Timing(BaseModel):
    """Seconds. Build, trace/compile, first step and steady state apart; raw samples kept."""

    model_config = ConfigDict(extra="forbid")

    build_seconds: Seconds
    compile_seconds: Seconds
    first_step_seconds: Seconds
    warmup_steps: NonNegativeInt
    samples: list[Seconds]  # seconds of each steady-state step, in order
    clock: str  # how a step was timed, e.g. "perf_counter, waited"
    precision_reached: Share | None = None  # half of the median's 95% interval, over the median
    stable: bool | None = None  # whether no trend is left in the samples
    dispatch_seconds: Seconds | None = None  # of the smallest possible step, in the same process
    keeps_memory: bool | None = None  # whether the process kept freed memory while it was timed


class DeviceState(BaseModel):
    """What a device reports while it works; None where it does not."""

    model_config = ConfigDict(extra="forbid")

    sm_megahertz: Count | None = None
    memory_megahertz: Count | None = None
    watts: Share | None = None
    celsius: int | None = None


class Throughput(BaseModel):
    """A step with a full queue: only the last of `steps` is waited for."""

    model_config = ConfigDict(extra="forbid")

    steps: PositiveInt
    seconds: Seconds  # per step
    device_seconds: Seconds | None = None  # of a step on the device itself; None: not known
    joules: Seconds | None = None  # per step; None: no counter
    energy_source: str = ""  # what counted it
    state: DeviceState | None = None  # read while the queue was full


class Flops(BaseModel):
    """FLOPs of one step, 2 per multiply-accumulate, by each way of counting."""

    model_config = ConfigDict(extra="forbid")

    formula: Count | None  # one forward pass of the model; None without a formula
    traced: Count | None
    traced_tool: str | None
    uncounted: dict[str, int] = {}  # operations the tool did not know -> times met
    compiler: Share | None = None


class Memory(BaseModel):
    """Bytes. `peak`: all that is named here, constants, and what one step adds at most."""

    model_config = ConfigDict(extra="forbid")

    parameters: Bytes
    optimizer: Bytes
    batch: Bytes
    state: Bytes = 0  # what decoding keeps of earlier positions
    peak: Bytes | None  # None: not counted on this device; `Measurements.missing` says why
    method: str  # how `peak` was measured; empty: it was not
    planned: Bytes | None = None
    planned_tool: str | None = None


class PredictedMemory(BaseModel):
    """Predicted peak of a step in bytes, before any step has run."""

    model_config = ConfigDict(extra="forbid")

    bytes: Bytes  # as Memory.peak
    tool: str  # what predicted it
    available: Bytes | None = None
    """Memory that was available; None: not checked, the cell runs in any case."""


class OwnLength(BaseModel):
    """The second parity check: at the length and width of the cell, with a batch of one."""

    model_config = ConfigDict(extra="forbid")

    seq_len: PositiveInt
    against: str = ""  # "numpy", "reference form", which for the gradients; empty: not checked
    forward: Error | None = None
    gradient: Error | None = None  # None for a forward cell
    gradient_tolerance: Error | None = None
    passed: bool | None = None  # None: not checked
    reason: str = ""  # why it was not checked, or why it failed


class Parity(BaseModel):
    """Largest errors relative to the largest value, on a small input, against `against`."""

    model_config = ConfigDict(extra="forbid")

    against: str  # "numpy" or "none: the mixer gives no reference"
    forward: Error | None
    gradient: Error | None
    tolerance: Error
    gradient_tolerance: Error | None = None
    kernels: list[str] = []  # that were checked
    passed: bool  # of all checks
    own_length: OwnLength | None = None  # None in older records, and where the small check failed


class Evaluation(BaseModel):
    """What a model could do after some steps of training."""

    model_config = ConfigDict(extra="forbid")

    step: Count  # steps done; 0: the start values
    tokens: Count  # of the inputs of these steps
    seconds: Seconds  # of these steps: without evaluations, and without making their batches
    flops: Count | None  # of these steps, by formula; None without one
    train_loss: (
        Finite | None
    )  # mean since the evaluation before, in nats; None before the first step
    loss: Finite  # of held-out examples, in nats
    metrics: dict[str, Finite]


class Training(BaseModel):
    """A training: what it learned from, and what it could do on the way."""

    model_config = ConfigDict(extra="forbid")

    metric: str  # which of `Evaluation.metrics` variants are compared by
    data: dict[str, str]  # split -> SHA-256 of the data, or of what generates it
    steps: PositiveInt  # planned
    evaluations: list[Evaluation]
    diverged_step: PositiveInt | None = None  # the first whose loss was not finite
    stopped_early: bool = False  # the metric no longer became better, and the suite asked for it
    resumed: Count = 0  # times that it went on from a checkpoint


class Measurements(BaseModel):
    """Everything measured of one cell."""

    model_config = ConfigDict(extra="forbid")

    form: str | None = None  # of the mixer, as built; None for a plug-in's own
    kernels: list[str] = []  # that this form used for this device and these shapes
    kernel_choice: Kernel | None = None  # of the form; None: it has only one
    parameters: Count | None = None  # counted by the framework
    constants: Count | None = None
    declared_parameters: Count | None = None  # from the declaration
    parity: Parity | None = None
    timing: Timing | None = None
    throughput: Throughput | None = None  # where steps can be queued, or their energy is counted
    flops: Flops | None = None
    memory: Memory | None = None
    predicted_memory: PredictedMemory | None = None
    training: Training | None = None  # of a learning task
    values: dict[str, float | None] = {}  # of a task that measures something else: metric -> value
    missing: dict[str, str] = {}  # metric -> why this device or framework has no counter for it
    warnings: list[str] = []  # what disturbed the steady state; the numbers are kept


class Record(BaseModel):
    """One cell of one round: its outcome, the reason if it is not ok, its measurements."""

    model_config = ConfigDict(extra="forbid")

    schema_version: int = SCHEMA_VERSION
    id: str  # the cell's id
    round: Count = 0
    attempt: Count = 0  # counts up where a cell of a round is measured again
    cell: Cell
    outcome: Outcome
    reason: str = ""
    measurements: Measurements = Measurements()
    machine: str = ""  # which machine of run.json measured it; empty: nothing was measured
    started: str  # ISO 8601, UTC
    wall_seconds: Seconds
    host: dict[str, Any] = {}  # child process facts: threads, cores, pid

    @model_validator(mode="after")
    def _id_is_that_of_the_cell(self) -> Record:
        if self.id != self.cell.id:
            raise ValueError(f"id {self.id} is not that of its cell, which is {self.cell.id}")
        return self

    @property
    def key(self) -> tuple[str, int, int]:
        """Which measurement this is: cell, round, attempt."""
        return self.id, self.round, self.attempt

    # What tables ask of every record; a packed run answers it without parsing (`PackedRecord`).

    @property
    def built_form(self) -> str | None:
        """The form of the mixer, as built."""
        return self.measurements.form

    @property
    def has_training(self) -> bool:
        """Whether a training stored anything."""
        return self.measurements.training is not None

    @property
    def missing(self) -> dict[str, str]:
        """Metric -> why there is no counter for it."""
        return self.measurements.missing

    @property
    def warnings(self) -> list[str]:
        """What disturbed the steady state."""
        return self.measurements.warnings


class Ceiling(BaseModel):
    """The best rates of a device, measured in one framework and dtype before the cells."""

    model_config = ConfigDict(extra="forbid")

    framework: str
    dtype: str
    device: str
    flops_per_second: Rate  # of square matrix products, 2 FLOPs a multiply-accumulate
    matrix_size: PositiveInt  # at which that rate was reached
    bytes_per_second: Rate  # of a copy, bytes read plus bytes written
    threads: int | None = None  # of the measuring process
    seconds: Seconds  # that the measuring took
    warnings: list[str] = []  # what disturbed it: the true rate may be higher


class KernelTime(BaseModel):
    """Steps of one kernel, timed in turn with those of the others for the same cell."""

    model_config = ConfigDict(extra="forbid")

    kernel: Kernel
    samples: list[Seconds]


class KernelChoice(BaseModel):
    """Which kernel all cells of the same shapes use in a run, and the times that decided it."""

    model_config = ConfigDict(extra="forbid")

    cell: Cell  # a small model with the mixer: what the choice is for
    chosen: Kernel
    kernels: list[KernelTime] = []  # the one that needs no measurement first; empty: as at `like`
    failed: dict[str, str] = {}  # name of a kernel -> why it cannot run
    warnings: list[str] = []  # what disturbed the timing
    like: list[str] = []  # the mixers and lengths that were timed instead, as in "V at 512"

    @model_validator(mode="after")
    def _chosen_was_timed(self) -> KernelChoice:
        if self.kernels and self.chosen not in [timed.kernel for timed in self.kernels]:
            raise ValueError(f"the chosen kernel, {self.chosen.name}, is not among those timed")
        return self


class _Environment(BaseModel):
    """The types of what tables and exports read of an environment; it may hold more."""

    cpu: str | None = None
    python: str | None = None
    platform: str | None = None
    cores: list[int] | None = None
    cpu_count: Count | None = None
    memory_bytes: Count | None = None
    versions: dict[str, str | None] = {}
    frameworks: dict[str, dict[str, Any]] = {}
    git: dict[str, Any] | None = None
    nvidia: list[dict[str, Any]] | None = None


class _Axes(BaseModel):
    """As `_Environment`, of the axes of a suite."""

    variant: list[str] = []


class _Settings(BaseModel):
    """As `_Environment`, of the settings of a suite."""

    axes: _Axes = _Axes()
    baseline: str | None = None
    margin: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0
    measure: dict[str, Any] = {}


class _Session(BaseModel):
    """As `_Environment`, of a session that continued a run."""

    environment: _Environment = _Environment()


def _has_types_of(model: type[BaseModel]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A check that keeps the content as it is; raises ValueError with the first problem."""

    def check(content: dict[str, Any]) -> dict[str, Any]:
        try:
            model.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise ValueError(f"{where}: {first['msg']}") from None
        return content

    return check


Environment = Annotated[dict[str, Any], AfterValidator(_has_types_of(_Environment))]
SuiteSettings = Annotated[dict[str, Any], AfterValidator(_has_types_of(_Settings))]
Session = Annotated[dict[str, Any], AfterValidator(_has_types_of(_Session))]


class Machine(BaseModel):
    """A machine that measured cells of a run: what it is, its best rates, its kernels."""

    model_config = ConfigDict(extra="forbid")

    id: str  # derived from what the machine is; does not reveal its host name
    environment: Environment = {}
    ceilings: list[Ceiling] = []
    choices: list[KernelChoice] = []


def merged_machines(machines: Iterable[Machine]) -> list[Machine]:
    """One entry per machine, with all its ceilings and choices; of two equal ones the first."""
    found: dict[str, Machine] = {}
    for machine in machines:
        known = found.setdefault(machine.id, Machine(id=machine.id))
        ceilings = {(c.framework, c.dtype, c.device): c for c in known.ceilings}
        choices = {choice.cell.id: choice for choice in known.choices}
        for ceiling in machine.ceilings:
            ceilings.setdefault((ceiling.framework, ceiling.dtype, ceiling.device), ceiling)
        for choice in machine.choices:
            choices.setdefault(choice.cell.id, choice)
        found[machine.id] = Machine(
            id=machine.id,
            environment=known.environment or machine.environment,
            ceilings=list(ceilings.values()),
            choices=list(choices.values()),
        )
    return list(found.values())


class JobInfo(BaseModel):
    """What a job that measures a shard says of itself, in a file beside its records."""

    model_config = ConfigDict(extra="forbid")

    order: str  # which order of its shard it carries out
    machine: Machine | None = None  # None: it has not begun to measure
    missing: dict[str, str] = {}  # framework -> why none of its cells ran
    refused: str = ""  # why this machine must not measure cells of this run
    finished: bool = False  # nothing of the order is left
    overhead_seconds: Seconds | None = None  # what a finished job took beside its cells


class RunInfo(BaseModel):
    """What `run.json` says of a run: where, with what, and which suite as it was resolved."""

    model_config = ConfigDict(extra="forbid")

    schema_version: int = SCHEMA_VERSION
    suite: str  # its name
    settings: SuiteSettings  # the suite's content for this kind of device
    device: str
    executor: str = "local"
    plugins: list[str] = []
    machines: list[Machine] = []  # in the order in which they began to measure
    started: str  # ISO 8601, UTC
    finished: str | None = None  # None: not yet, or interrupted
    resumed: list[Session] = []  # when, and what was different then

    @property
    def environment(self) -> dict[str, Any]:
        """The environment of the first machine; empty if none has measured yet."""
        return self.machines[0].environment if self.machines else {}

    @property
    def ceilings(self) -> list[Ceiling]:
        """The ceilings of all machines."""
        return [ceiling for machine in self.machines for ceiling in machine.ceilings]


def latest(records: Iterable[Record]) -> list[Record]:
    """The records that count: of each cell and round the last attempt, in order of appearance."""
    found: dict[tuple[str, int], Record] = {}
    for record in records:
        known = found.get((record.id, record.round))
        if known is None or record.attempt >= known.attempt:
            found[record.id, record.round] = record
    return list(found.values())


def flattened(content: dict[str, Any], above: str = "") -> dict[str, Any]:
    """The values of nested mappings by dotted key."""
    found: dict[str, Any] = {}
    for name, value in content.items():
        nested = isinstance(value, dict) and value
        found |= flattened(value, f"{above}{name}.") if nested else {f"{above}{name}": value}
    return found
