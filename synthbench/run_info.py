"""The schema of what is stored of a run: its machines, its suite, its jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    model_validator,
)

from synthbench.kernel import Kernel
from synthbench.record import SCHEMA_VERSION, Rate, Seconds
from synthbench.suites.cell import Cell, Count


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


Compared = Literal["medians", "faster halves"]


class KernelChoice(BaseModel):
    """Which kernel all cells of the same shapes use in a run, and the times that decided it."""

    model_config = ConfigDict(extra="forbid")

    cell: Cell  # a small model with the mixer: what the choice is for
    chosen: Kernel
    kernels: list[KernelTime] = []  # the one that needs no measurement first; empty: as at `like`
    compared: Compared = "medians"  # of the times; earlier versions wrote nothing
    failed: dict[str, str] = {}  # name of a kernel -> why it cannot run
    warnings: list[str] = []  # what disturbed the timing
    core_distance: Rate | None = None  # the larger one before and after; None: not known
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
    options: list[str] | None = None  # of the command that measured it, as --variants=V,R
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
