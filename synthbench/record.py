"""The schema of what is stored of a cell; see run_info.py for that of a run."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    model_validator,
)

from synthbench.kernel import Kernel
from synthbench.suites.cell import Cell, Count

SCHEMA_VERSION = 2

Outcome = Literal[
    "ok", "oom", "oom_predicted", "timeout", "crashed", "unsupported", "quarantined", "unchecked",
    "diverged",
]  # fmt: skip

# Those of an attempt that ended without a result.
FAILURES: tuple[Outcome, ...] = (
    "oom", "oom_predicted", "timeout", "crashed", "unsupported", "unchecked",
)  # fmt: skip

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Bytes = Count
Error = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0)]


def now() -> str:
    """This moment, ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Calibration(BaseModel):
    """Fixed work between the steps: how fast the machine was at that time."""

    model_config = ConfigDict(extra="forbid")

    after: list[NonNegativeInt]  # how many samples came before each repetition
    seconds: list[Rate]  # of each repetition

    @model_validator(mode="after")
    def _is_complete(self) -> Calibration:
        if self.after[:1] != [0] or len(self.after) != len(self.seconds):
            raise ValueError(
                f"the fixed work was timed after {self.after} samples and took {self.seconds} "
                "seconds; expected as many numbers as places, the first place 0"
            )
        return self


class PairedBaseline(BaseModel):
    """The baseline's steps in the process of another cell, in turn with that cell's samples."""

    model_config = ConfigDict(extra="forbid")

    id: str  # of the baseline's cell
    kernels: list[str] = []  # that its form used
    kernel_choice: Kernel | None = None
    after: list[NonNegativeInt]  # how many samples came before each step
    seconds: list[Rate]  # of each step

    @model_validator(mode="after")
    def _is_complete(self) -> PairedBaseline:
        if not self.seconds or len(self.after) != len(self.seconds):
            raise ValueError(
                f"the baseline was timed after {self.after} samples and took {self.seconds} "
                "seconds; expected as many numbers as places, at least one"
            )
        return self


class Timing(BaseModel):
    """Seconds. Build, trace/compile, first step and steady state apart; raw samples kept."""

    model_config = ConfigDict(extra="forbid")

    build_seconds: Seconds
    compile_seconds: Seconds | None  # None: an earlier record of the run has it
    compiled_at: str | None = None  # when, if another process compiled it; None: this one did
    first_step_seconds: Seconds
    warmup_steps: NonNegativeInt
    samples: list[Seconds]  # seconds of each steady-state step, in order
    clock: str  # how a step was timed, e.g. "perf_counter, waited"
    precision_reached: Share | None = None  # half of the median's 95% interval, over the median
    stable: bool | None = None  # whether no trend is left in the samples
    dispatch_seconds: Seconds | None = None  # of the smallest possible step, in the same process
    calibration: Calibration | None = None  # None: on an accelerator, and before it existed
    baseline: PairedBaseline | None = None  # None: of the baseline itself, and where not wanted
    # How many times as long a core reads what another wrote as what it wrote itself, before and
    # after the samples. None: not on a host with several cores, and before it existed.
    core_distances: list[Rate] | None = None
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
    checked_at: str = ""  # when, ISO 8601, UTC; empty in older records


class Parity(BaseModel):
    """Largest errors relative to the largest value, on a small input, against `against`."""

    model_config = ConfigDict(extra="forbid")

    against: str  # "numpy" or "none: the mixer gives no reference"
    forward: Error | None
    gradient: Error | None
    tolerance: Error
    gradient_tolerance: Error | None = None
    kernels: list[str] = []  # that were checked
    masks: str = ""  # what the mixer reads although a mask hides it; empty: nothing
    passed: bool  # of all checks
    checked_at: str = ""  # when the small input was, ISO 8601, UTC; empty in older records
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


class Latest(tuple[Record, ...]):
    """Records that `latest` gave: it gives them again as they are."""


def latest(records: Iterable[Record]) -> Latest:
    """The records that count: of each cell and round the last attempt, in order of appearance.

    Where that failed, an earlier one of the same machine that is ok counts on: a failure does not
    make its numbers wrong.
    """
    if isinstance(records, Latest):
        return records
    found: dict[tuple[str, int], Record] = {}
    for record in records:
        place = (record.id, record.round)
        found[place] = attempt_that_counts(found.get(place), record)
    return Latest(found.values())


def attempt_that_counts(known: Record | None, record: Record) -> Record:
    """That of two attempts which counts, as `latest` says."""
    if known is None:
        return record
    earlier, later = (known, record) if record.attempt >= known.attempt else (record, known)
    has_failed = later.outcome in FAILURES and later.machine == earlier.machine
    return earlier if has_failed and earlier.outcome == "ok" else later


def next_attempts(records: Iterable[Record]) -> dict[tuple[str, int], int]:
    """Cell id and round -> the number of the next attempt."""
    found: dict[tuple[str, int], int] = {}
    for record in records:
        place = (record.id, record.round)
        found[place] = max(found.get(place, 0), record.attempt + 1)
    return found


def flattened(content: dict[str, Any], above: str = "") -> dict[str, Any]:
    """The values of nested mappings by dotted key."""
    found: dict[str, Any] = {}
    for name, value in content.items():
        nested = isinstance(value, dict) and value
        found |= flattened(value, f"{above}{name}.") if nested else {f"{above}{name}": value}
    return found
