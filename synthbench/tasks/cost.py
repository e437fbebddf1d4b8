"""The task `cost`: time, count and measure the memory of a step."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from synthbench.backends.base import Backend, Prepare, Step
from synthbench.backends.kernel_choice import taken_kernel
from synthbench.backends.kernel_record import recording_kernels
from synthbench.devices import is_host
from synthbench.errors import SynthbenchError, UnsupportedError
from synthbench.measure.allocator import keep_freed_memory
from synthbench.measure.background import require_idle
from synthbench.measure.calibration import calibration_product
from synthbench.measure.ceiling import smallest_step_seconds
from synthbench.measure.core_distance import bring_cores_together, core_distance
from synthbench.measure.decoding_parity import check_decoding, check_decoding_own_length
from synthbench.measure.interference import InterferenceMonitor
from synthbench.measure.memory import mark_resident
from synthbench.measure.memory_limit import raise_memory_limit
from synthbench.measure.memory_prediction import declared_state, predict_on_devices
from synthbench.measure.new_pages import new_pages
from synthbench.measure.plausibility import (
    ImplausibleError,
    require_formula,
    require_plausible,
)
from synthbench.measure.repetition import affordable_steps, require_same, require_same_losses
from synthbench.measure.throughput import measure_throughput
from synthbench.measure.timing import (
    SteadyState,
    clock_of,
    least_warmup_seconds,
    time_steps,
    timed_result,
)
from synthbench.metrics import Metric
from synthbench.mixers.base import Array
from synthbench.mixers.decoding import recomputes
from synthbench.models.model import Model
from synthbench.models.start_values import start_values
from synthbench.models.state import decode_flops, decoding_stack
from synthbench.record import (
    Calibration,
    Flops,
    OwnLength,
    Parity,
    Timing,
)
from synthbench.suites.cell import Cell, Mode, model_of
from synthbench.tasks.base import Task, TaskContext
from synthbench.tasks.cost_counts import count, kernels_not_checked, measure_memory, why_missing
from synthbench.tasks.cost_metrics import COST_METRICS
from synthbench.tasks.paired import PairedStep, build_paired
from synthbench.tasks.programs import (
    Compiled,
    compile_operation,
    compile_or_load,
    counted_once,
)

# Address space for freed memory that is kept, in units of a step's peak: gaps that small buffers
# leave are too small for large ones, which then need new space.
ROOM_FOR_KEPT = 3

UNSTABLE = "the time of a step still changed from the first sample to the last"


@dataclass(frozen=True)
class Cost(Task):
    """Time, count and measure the memory of a step: forward pass, train step, or decoded token."""

    name: ClassVar[str] = "cost"
    description: ClassVar[str] = "time, FLOPs and memory of a forward pass, train step or token"
    metrics: ClassVar[Mapping[str, Metric]] = COST_METRICS
    modes: ClassVar[tuple[Mode, ...]] = ("forward", "train", "decode")
    on_several_devices: ClassVar[bool] = True  # in mode train

    def check(self, cell: Cell) -> None:
        """Raise UnsupportedError where a cell decodes with a model that is not causal.

        Also for several devices in another mode than train, and in a CUDA graph.
        """
        require_parallel(cell)
        if cell.mode == "decode":
            decoding_stack(model_of(cell))

    def check_parity(self, backend: Backend, cell: Cell) -> Parity:
        """As any task; a decoded position is compared with the full forward pass."""
        check = check_decoding if cell.mode == "decode" else super().check_parity
        return check(backend, cell)

    def check_own_length(self, backend: Backend, cell: Cell, available: int | None) -> OwnLength:
        """As any task; a decoded position is compared with the full forward pass."""
        decodes = cell.mode == "decode"
        check = check_decoding_own_length if decodes else super().check_own_length
        return check(backend, cell, available)

    def run(self, context: TaskContext) -> list[str]:
        """Build, compile, measure memory, time and count; returns a note per count that failed.

        Raises what the framework raises, UnsupportedError or ShapeError for a cell that cannot be
        built, TooLargeError for one that is predicted not to fit, and ImplausibleError for a
        result that cannot be true: a median above the ceiling or below the time of the smallest
        step, a peak of zero.
        """
        backend, cell, measured = context.backend, context.cell, context.measured
        model = context.model
        declared = model.parameters()
        formula = formula_of(model, cell)
        measured.declared_parameters = sum(p.size for p in declared.values() if p.trainable)
        measured.flops = Flops(formula=formula, traced=None, traced_tool=None)

        context.stage("predicting memory")
        predicted = partial(predict_on_devices, backend, model, cell)
        context.require_memory(
            counted_once(context.programs, "memory", cell, context.kernel, predicted)
        )

        context.stage("building")
        batch = context.batch()
        begin = time.perf_counter()
        start = context.start_values()
        draw_seconds = time.perf_counter() - begin
        begin = time.perf_counter()
        step = backend.build(model, start, context.setting, cell.mode, batch)
        build_seconds = time.perf_counter() - begin
        del start
        with closing(step):
            return measure_step(context, step, draw_seconds, build_seconds)


def measure_step(
    context: TaskContext, step: Step, draw_seconds: float, build_seconds: float
) -> list[str]:
    """All of `Cost.run` once the step is built."""
    backend, cell, measured = context.backend, context.cell, context.measured
    model = context.model
    measured.parameters, measured.constants = step.parameter_count, step.constant_count
    measured.form = step.form
    require_declared_state(step, model, cell)

    context.stage("compiling")
    with recording_kernels() as compiling:
        compiled = compile_step(context, step)
    if (plan := step.predict_memory()) is not None:
        context.require_memory(plan)

    context.stage("running the first steps")
    with recording_kernels() as running:
        first_seconds, produced = timed_result(step, step.wait)
    measured.kernels = list(compiling | running)
    measured.kernel_choice = taken_kernel()
    step.check(produced)
    first = step.sample(produced)
    del produced

    context.stage("settling memory")
    mark = mark_resident()
    context.stage("reading memory")
    second_seconds = measure_memory(step, cell, model, measured, mark)

    notes: list[str] = []
    paired = paired_step(context, notes)
    on_host = is_host(cell.device)
    context.stage("bringing the cores together")
    before = bring_cores_together(context.cores_may_be_near) if on_host else None
    context.stage("timing")
    with nullcontext() if paired is None else closing(paired.step):
        steady, keeps_memory = time_step(context, step, second_seconds, first, paired)
    after = core_distance() if before is not None else None
    measured.timing = Timing(
        build_seconds=build_seconds,
        compile_seconds=None if compiled is None else compiled.seconds,
        compiled_at=None if compiled is None else compiled.at,
        first_step_seconds=first_seconds,
        warmup_steps=steady.warmup_steps,
        samples=[round(seconds, 9) for seconds in steady.samples],
        clock=clock_of(cell.device),
        precision_reached=steady.precision,
        stable=steady.stable,
        calibration=calibration_of(steady),
        baseline=paired.measured(steady.baseline) if paired and steady.baseline else None,
        core_distances=None if before is None or after is None else [before, after],
        keeps_memory=keeps_memory,
        dispatch_seconds=smallest_step_seconds(backend, cell.device, prepare=prepare_of(context)),
    )
    context.stage("filling the queue")
    median = float(np.median(steady.samples))
    measured.throughput = measure_throughput(step, cell.device, median, cell.devices)
    measured.missing |= why_missing(step, cell, measured)
    if cell.mode == "train":
        context.stage("repeating the first steps")
        repeat_first_steps(context, step, draw_seconds)
    measured.warnings += kernels_not_checked(measured)
    del paired  # counting needs memory
    notes += count(step, context)
    context.stage("checking plausibility")
    assert measured.flops is not None
    require_formula(cell.mode, measured.flops)
    measured.warnings += require_plausible(
        cell.mode,
        measured.timing,
        measured.flops,
        context.ceiling,
        needed_share=needed_share_of(model, cell),
        devices=cell.devices,
    )
    return notes


def compile_step(context: TaskContext, step: Step) -> Compiled | None:
    """Compile the cell's step, or load its program; how long compiling took.

    None for a loaded program whose compile time an earlier record of this run has.
    """
    programs = context.programs
    if programs is None:
        return compile_or_load(step, None)
    found = compile_or_load(step, programs.file(context.cell, context.kernel))
    return None if found.at is not None and programs.is_known else found


def prepare_of(context: TaskContext) -> Prepare | None:
    """What compiles operations of the harness once for all processes; None: each does it itself."""
    programs = context.programs
    return None if programs is None else partial(compile_operation, programs)


def require_parallel(cell: Cell) -> None:
    """Raise UnsupportedError for a cell on several devices that they cannot do together."""
    if cell.devices == 1:
        return
    if cell.mode != "train":
        raise UnsupportedError(
            f"task cost uses one device in mode {cell.mode}; got devices {cell.devices}: use mode "
            "train, whose devices exchange gradients, or set devices to 1"
        )
    if cell.compile == "cuda_graph":
        raise UnsupportedError(
            f"a CUDA graph has the step of one device; got devices {cell.devices}: use compile: "
            "eager or compiled, or set devices to 1"
        )


def formula_of(model: Model, cell: Cell) -> int | None:
    """FLOPs of a forward pass, or of the token that a cell decodes; None without a formula."""
    sizes = {"batch": cell.batch, "seq_len": cell.seq_len}
    if cell.mode == "decode":
        return decode_flops(model, cell.framework, **sizes)
    return model.flops(**sizes)


def needed_share_of(model: Model, cell: Cell) -> float:
    """The share of the formula that no exact implementation can do without."""
    if cell.mode == "decode" and not recomputes(model.mixer, model.sizes, cell.framework):
        return 1.0  # one position has no masked keys
    return model.needed_share


def require_declared_state(step: Step, model: Model, cell: Cell) -> None:
    """Raise ImplausibleError if the state has other bytes than declared."""
    declared = declared_state(model, cell) if cell.mode == "decode" else 0
    if step.state_bytes != declared:
        raise ImplausibleError(
            f"the state of decoding takes {step.state_bytes} bytes, and {declared} by the mixer's "
            "declaration; correct state() of the mixer, or its program"
        )


def paired_step(context: TaskContext, notes: list[str]) -> PairedStep | None:
    """The baseline's step in this process; None if there is none, or with a note if it fails.

    Whatever is wrong with the baseline is no fault of the cell.
    """
    if context.baseline is None:
        return None
    context.stage("building the baseline beside it")
    try:
        return build_paired(context, context.baseline)
    except Exception as error:
        shown = str(error) if isinstance(error, SynthbenchError) else f"{error!r:.200}"
        other = context.baseline.cell
        name = other.variant if other.form == context.cell.form else f"the form {other.form}"
        notes.append(f"{name} is not timed in this process: {shown}")
        return None


def time_step(
    context: TaskContext,
    step: Step,
    second_seconds: float,
    first: Array,
    paired: PairedStep | None = None,
) -> tuple[SteadyState, bool]:
    """Time the steady state; also whether the process kept freed memory during that time.

    `paired`: the baseline's step, whose times are taken in turn with those of the cell's.

    Raises ImplausibleError if the last step left work behind, or if the outputs of a forward step
    are not those of the `first`.
    """
    measure, measured = context.measure, context.measured
    assert measured.memory is not None
    if keeps_memory := bool(step.in_every_process(keep_freed_memory)):
        # A buffer that does not fit into a gap left by an earlier one needs new address space.
        predicted = measured.predicted_memory
        peak = measured.memory.peak or (0 if predicted is None else predicted.bytes)
        step.in_every_process(partial(raise_memory_limit, ROOM_FOR_KEPT * peak))
    monitor = InterferenceMonitor(context.cell.device, context.cell.devices)

    def inspect(produced: Any) -> None:
        last = step.sample(produced)  # before anything that still runs can change it
        require_idle(second_seconds)
        if context.cell.mode != "train":
            require_same(first, last, context.cell.dtype, "the output of the last timed step")

    steady = time_steps(
        step,
        step.wait,
        min_samples=measure.min_samples,
        min_seconds=measure.min_seconds,
        max_seconds=measure.max_seconds,
        precision=measure.precision,
        before=[second_seconds],
        least_warmup=least_warmup_seconds(context.cell.device),
        watch=monitor,
        inspect=inspect,
        calibrate=calibration_product(context.backend, context.cell.device, prepare_of(context)),
        beside=None if paired is None else paired.beside,
        pages=new_pages if is_host(context.cell.device) else lambda: 0,
    )
    measured.warnings = monitor.warnings + [UNSTABLE] * (not steady.stable)
    return steady, keeps_memory


def calibration_of(steady: SteadyState) -> Calibration | None:
    """What a record has of the fixed work between the steps."""
    found = steady.calibration
    if found is None:
        return None
    return Calibration(after=found.after, seconds=[round(seconds, 9) for seconds in found.seconds])


def repeat_first_steps(context: TaskContext, step: Step, draw_seconds: float) -> None:
    """Repeat the first train steps from the start values; raises ImplausibleError for other losses.

    Only as many as REPEATED_SHARE of the cell's time allows. `draw_seconds`: of all start values.
    """
    timing = context.measured.timing
    assert timing is not None
    compiling = timing.compile_seconds if timing.compiled_at is None else None  # in this process
    spent = timing.build_seconds + (compiling or 0.0) + sum(timing.samples)
    # Each start value is drawn again, and copied.
    steps = affordable_steps(
        statistics.median(timing.samples), 2 * draw_seconds, spent, len(step.first_losses)
    )
    if not steps:
        return
    declared, seed = context.model.parameters(), context.cell.seed
    step.restart(lambda name: start_values({name: declared[name]}, seed)[name])

    def repeat() -> float:
        _, produced = timed_result(step, step.wait)
        return float(step.sample(produced).item())

    require_same_losses(step.first_losses, repeat, context.cell.dtype, steps)
