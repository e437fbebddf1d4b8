"""The schema of what is stored: records of cells, and the information of a run."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from synthbench.suites.cell import Cell

SCHEMA_VERSION = 1

Outcome = Literal["ok", "oom", "oom_predicted", "timeout", "crashed", "unsupported", "quarantined"]


class Timing(BaseModel):
    """Seconds. Build, trace/compile, first step and steady state apart; raw samples kept."""

    model_config = ConfigDict(extra="forbid")

    build_seconds: float
    compile_seconds: float
    first_step_seconds: float
    warmup_steps: int
    samples: list[float]  # seconds of each steady-state step, in order
    clock: str  # how a step was timed, e.g. "perf_counter, waited"
    precision_reached: float | None = None  # half of the median's 95% interval, over the median
    stable: bool | None = None  # whether no trend is left in the samples
    dispatch_seconds: float | None = None  # of the smallest step there can be, in the same process
    keeps_memory: bool | None = None  # whether freed memory stayed with the process meanwhile


class Flops(BaseModel):
    """FLOPs of one step, 2 a multiply-accumulate, by each way of counting."""

    model_config = ConfigDict(extra="forbid")

    formula: int | None  # one forward pass of the whole model; None where a mixer gives no formula
    traced: int | None
    traced_tool: str | None
    uncounted: dict[str, int] = {}  # operations the tool did not know -> times met
    compiler: float | None = None


class Memory(BaseModel):
    """Bytes. `peak` = parameters + constants + optimizer + batch + what one step adds at most."""

    model_config = ConfigDict(extra="forbid")

    parameters: int
    optimizer: int
    batch: int
    peak: int
    method: str  # how `peak` was taken
    planned: int | None = None
    planned_tool: str | None = None


class PredictedMemory(BaseModel):
    """Bytes that a step is to take at its peak, before any step was run."""

    model_config = ConfigDict(extra="forbid")

    bytes: int  # as Memory.peak
    tool: str  # what predicted it
    available: int | None = None
    """What was there for it; None: not looked at, the cell is run in any case."""


class Parity(BaseModel):
    """Largest errors relative to the largest value, on a small input, against `against`."""

    model_config = ConfigDict(extra="forbid")

    against: str  # "numpy" or "none: the mixer gives no reference"
    forward: float | None
    gradient: float | None
    tolerance: float
    gradient_tolerance: float | None = None
    choices: list[str] = []  # kernels that were checked
    passed: bool


class Measurements(BaseModel):
    """Everything measured of one cell."""

    model_config = ConfigDict(extra="forbid")

    form: str | None = None  # of the mixer, as built; None for a plug-in's own
    choices: list[str] = []  # kernels that this form chose for this device and these shapes
    parameters: int | None = None  # counted by the framework
    constants: int | None = None
    declared_parameters: int | None = None  # from the declaration
    parity: Parity | None = None
    timing: Timing | None = None
    flops: Flops | None = None
    memory: Memory | None = None
    predicted_memory: PredictedMemory | None = None
    warnings: list[str] = []  # what disturbed the steady state; the numbers stand all the same


class Record(BaseModel):
    """One cell of one round: its outcome, the reason where it is not ok, its measurements."""

    model_config = ConfigDict(extra="forbid")

    schema_version: int = SCHEMA_VERSION
    id: str  # the cell's id
    round: int = 0
    cell: Cell
    outcome: Outcome
    reason: str = ""
    measurements: Measurements = Measurements()
    started: str  # ISO 8601, UTC
    wall_seconds: float
    host: dict[str, Any] = {}  # child process facts: threads, cpus, pid


class Ceiling(BaseModel):
    """What a device gives at best, measured in one framework and dtype before the cells."""

    model_config = ConfigDict(extra="forbid")

    framework: str
    dtype: str
    device: str
    flops_per_second: float  # of square matrix products, 2 FLOPs a multiply-accumulate
    matrix_size: int  # where that rate was reached
    bytes_per_second: float  # of a copy, bytes read plus bytes written
    threads: int | None = None  # of the measuring process
    seconds: float  # that the measuring took
    warnings: list[str] = []  # what disturbed it: the device may give more than was measured


class RunInfo(BaseModel):
    """What `run.json` says of a run: where, with what, and which suite as it was resolved."""

    model_config = ConfigDict(extra="forbid")

    schema_version: int = SCHEMA_VERSION
    suite: str  # its name
    settings: dict[str, Any]  # the suite's content for this kind of device
    device: str
    plugins: list[str] = []
    environment: dict[str, Any] = {}
    ceilings: list[Ceiling] = []
    started: str  # ISO 8601, UTC
    finished: str | None = None  # None: not yet, or interrupted
    resumed: list[dict[str, Any]] = []  # when, and in which environment
