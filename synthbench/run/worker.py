"""Measure one cell in this process: build, compile, memory, steady state, counts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from synthbench.backends.base import Backend, MemoryPlan, Step
from synthbench.backends.kernel_record import recording_kernels
from synthbench.measure.allocator import keep_freed_memory
from synthbench.measure.ceiling import smallest_step_seconds
from synthbench.measure.inputs import random_batch, setting_of
from synthbench.measure.interference import InterferenceMonitor
from synthbench.measure.memory import ResidentMark, mark_resident
from synthbench.measure.memory_prediction import DECLARATION, predict, require_memory
from synthbench.measure.plausibility import ImplausibleError, require_plausible
from synthbench.measure.timing import clock_of, time_steps, timed
from synthbench.models.model import Model
from synthbench.models.start_values import start_values
from synthbench.record import (
    Ceiling,
    Flops,
    Measurements,
    Memory,
    Parity,
    PredictedMemory,
    Timing,
)
from synthbench.run.limits import raise_memory_limit
from synthbench.suites.cell import Cell, model_of
from synthbench.suites.settings import Measure

T = TypeVar("T")
Report = Callable[[str, Measurements], None]

# Below this a step may find room in pages it has already.
SMALLEST_RISE_BYTES = 2**20

# How often the peak of a step may lie in address space when what it frees is kept: the holes that
# small buffers leave are too small for the large ones, and are filled by others later.
ROOM_FOR_KEPT = 3

UNSTABLE = "the time of a step still changed from the first sample to the last"


def measure_cell(
    backend: Backend,
    cell: Cell,
    measure: Measure,
    parity: Parity | None = None,
    report: Report = lambda stage, measured: None,
    ceiling: Ceiling | None = None,
    available: int | None = None,
) -> tuple[Measurements, list[str]]:
    """Measure a cell; returns the measurements, and a note for each count that failed.

    `report` is told each stage before it begins, with what is measured so far. `available` is how
    many bytes a step may take; None runs it however many it is predicted to take. Raises what
    the framework raises, UnsupportedError or ShapeError for a cell that cannot be, TooLargeError
    for one that is predicted not to fit, and ImplausibleError for a number that cannot be true:
    a median above `ceiling` or below the time of the smallest step, a peak of nothing.
    """
    model = model_of(cell)
    declared = model.parameters()
    formula = model.flops(batch=cell.batch, seq_len=cell.seq_len)
    measured = Measurements(
        declared_parameters=sum(p.size for p in declared.values() if p.trainable),
        parity=parity,
        flops=Flops(formula=formula, traced=None, traced_tool=None),
    )

    report("predicting memory", measured)
    batch = random_batch(model, cell.batch, cell.seq_len, cell.seed)
    check_memory_prediction(predict(backend, model, cell, batch), available, measured, report)

    report("building", measured)
    start = start_values(declared, cell.seed)
    begin = time.perf_counter()
    step = backend.build(model, start, setting_of(cell), cell.mode, batch)
    build_seconds = time.perf_counter() - begin
    del start
    measured.parameters, measured.constants = step.parameter_count, step.constant_count
    measured.form = step.form

    report("compiling", measured)
    with recording_kernels() as compiling:
        begin = time.perf_counter()
        step.compile()
        compile_seconds = time.perf_counter() - begin
    if (plan := step.predict_memory()) is not None:
        check_memory_prediction(plan, available, measured, report)

    report("running the first steps", measured)
    with recording_kernels() as running:
        first_seconds = timed(step, step.wait)
    measured.choices = list(compiling | running)

    report("settling memory", measured)
    mark = mark_resident()
    report("reading memory", measured)
    second_seconds = measure_memory(step, cell, model, measured, mark)

    report("timing", measured)
    assert measured.memory is not None
    if keeps_memory := keep_freed_memory():
        # A buffer that no longer fits where the last step's lay is made beside it.
        raise_memory_limit(ROOM_FOR_KEPT * measured.memory.peak)
    watch = InterferenceMonitor(cell.device)
    steady = time_steps(
        step,
        step.wait,
        min_samples=measure.min_samples,
        min_seconds=measure.min_seconds,
        max_seconds=measure.max_seconds,
        precision=measure.precision,
        before=[second_seconds],
        watch=watch,
    )
    measured.warnings = watch.warnings + [UNSTABLE] * (not steady.stable)
    measured.timing = Timing(
        build_seconds=build_seconds,
        compile_seconds=compile_seconds,
        first_step_seconds=first_seconds,
        warmup_steps=steady.warmup_steps,
        samples=[round(seconds, 9) for seconds in steady.samples],
        clock=clock_of(cell.device),
        precision_reached=steady.precision,
        stable=steady.stable,
        keeps_memory=keeps_memory,
        dispatch_seconds=smallest_step_seconds(backend, cell.device),
    )
    measured.warnings += unchecked(measured)
    notes = count(step, measured, report)
    report("judging what was measured", measured)
    measured.warnings += require_plausible(
        cell.mode, measured.timing, measured.flops, ceiling, needed_share=model.needed_share
    )
    return measured, notes


def unchecked(measured: Measurements) -> list[str]:
    """A warning where a kernel was timed that the parity check did not come by."""
    if measured.parity is None or measured.parity.forward is None:
        return []
    missing = [choice for choice in measured.choices if choice not in measured.parity.choices]
    told = ", ".join(missing)
    return [f"parity was checked with other kernels than: {told}"] if missing else []


def check_memory_prediction(
    plan: MemoryPlan, available: int | None, measured: Measurements, report: Report
) -> None:
    """Store a prediction and tell of it; raises TooLargeError where it does not fit."""
    measured.predicted_memory = PredictedMemory(
        bytes=plan.peak_bytes, tool=plan.tool, available=available
    )
    report("predicting memory", measured)
    require_memory(measured.predicted_memory)


def measure_memory(
    step: Step, cell: Cell, model: Model, measured: Measurements, mark: ResidentMark
) -> float:
    """Run one step, fill in `memory`, and return its seconds.

    It must not be the first: that one makes what is made once (optimizer state, thread pools).
    Raises ImplausibleError for a peak that reads zero.
    """
    held = step.parameter_bytes + step.optimizer_bytes + step.batch_bytes + step.gradient_bytes
    step.reset_device_peak()
    seconds = timed(step, step.wait)
    if cell.device == "cpu":
        rise = mark.rise()
        targets = cell.batch * math.prod(model.targets_of(cell.seq_len))
        outputs = targets * model.classes * np.dtype(np.float32).itemsize
        if rise == 0 and outputs >= SMALLEST_RISE_BYTES and not mark.zero_is_possible:
            raise ImplausibleError(
                f"the resident set did not rise in a step whose outputs take {outputs} bytes"
            )
        peak, method = held + rise, mark.description
    else:
        peak, method = step.device_peak_bytes() or 0, "peak of the device's allocator"
    if peak == 0:
        raise ImplausibleError(f"peak memory reads zero ({method})")
    measured.memory = Memory(
        parameters=step.parameter_bytes,
        optimizer=step.optimizer_bytes,
        batch=step.batch_bytes,
        peak=peak,
        method=method,
    )
    return seconds


def count(step: Step, measured: Measurements, report: Report) -> list[str]:
    """Fill in FLOPs and the memory plan, last since they allocate; notes on what failed.

    A count that fails takes nothing from what was measured.
    """
    notes: list[str] = []

    def attempt(what: str, make: Callable[[], T]) -> T | None:
        report(what, measured)
        try:
            return make()
        except Exception as error:  # a tool may fail on an operation in any way
            notes.append(f"{what} failed: {type(error).__name__}: {error}")
            return None

    assert measured.flops is not None
    assert measured.memory is not None
    if (traced := attempt("tracing FLOPs", step.traced_flops)) is not None:
        measured.flops.traced = traced.flops
        measured.flops.traced_tool = traced.tool
        measured.flops.uncounted = dict(traced.uncounted)
    measured.flops.compiler = attempt("reading the compiler's FLOPs", step.compiler_flops)
    predicted = measured.predicted_memory
    if predicted is not None and predicted.tool != DECLARATION:  # it was the plan
        measured.memory.planned, measured.memory.planned_tool = predicted.bytes, predicted.tool
    elif (plan := attempt("planning memory", step.memory_plan)) is not None:
        measured.memory.planned = plan.peak_bytes
        measured.memory.planned_tool = plan.tool
    return notes
