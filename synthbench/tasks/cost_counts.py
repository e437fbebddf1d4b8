"""What the task `cost` counts beside time: memory, FLOPs, and why a count is missing."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np

from synthbench.backends.base import Step
from synthbench.devices import is_host
from synthbench.measure.energy import why_no_energy
from synthbench.measure.memory import ResidentMark
from synthbench.measure.memory_prediction import DECLARATION
from synthbench.measure.plausibility import ImplausibleError
from synthbench.measure.timing import timed
from synthbench.models.model import Model
from synthbench.record import Measurements, Memory
from synthbench.suites.cell import Cell
from synthbench.tasks.base import TaskContext
from synthbench.tasks.programs import counted_once

T = TypeVar("T")

# A smaller rise may fit into pages that the process has already.
SMALLEST_RISE_BYTES = 2**20

PEAK = "peak_bytes"  # the metric
OF_EACH_DEVICE = ("sm_megahertz", "watts")  # metrics


def kernels_not_checked(measured: Measurements) -> list[str]:
    """A warning where a kernel was timed that the parity check did not run."""
    if measured.parity is None or measured.parity.forward is None:
        return []
    missing = [kernel for kernel in measured.kernels if kernel not in measured.parity.kernels]
    if not missing:
        return []
    return [f"parity was checked with other kernels than: {', '.join(missing)}"]


def measure_memory(
    step: Step, cell: Cell, model: Model, measured: Measurements, mark: ResidentMark
) -> float:
    """Run one step, fill in `memory`, and return its seconds.

    It must not be the first step, which also creates optimizer state and thread pools. There is no
    peak where nothing counts it for all devices. Raises ImplausibleError for a peak of zero.
    """
    peak: int | None
    held = step.parameter_bytes + step.optimizer_bytes + step.batch_bytes + step.gradient_bytes
    held += step.state_bytes
    step.reset_device_peak()
    seconds = timed(step, step.wait)
    if PEAK in step.missing_counters:
        peak, method = None, ""
    elif is_host(cell.device):
        rise = mark.rise()
        targets = cell.batch
        if cell.mode != "decode":
            targets *= math.prod(model.targets_of(cell.seq_len))
        outputs = targets * model.classes * np.dtype(np.float32).itemsize
        if rise == 0 and outputs >= SMALLEST_RISE_BYTES and not mark.zero_is_possible:
            raise ImplausibleError(
                f"the resident set did not rise in a step whose outputs take {outputs} bytes"
            )
        peak, method = held + rise, mark.description
    else:
        peak, method = step.device_peak_bytes(), step.device_peak_method
    if not peak and PEAK not in step.missing_counters:
        raise ImplausibleError(f"peak memory reads zero ({method})")
    measured.memory = Memory(
        parameters=step.parameter_bytes,
        optimizer=step.optimizer_bytes,
        batch=step.batch_bytes,
        state=step.state_bytes,
        peak=peak,
        method=method,
    )
    return seconds


def why_missing(step: Step, cell: Cell, measured: Measurements) -> dict[str, str]:
    """Metric -> why it is empty, where the device or the framework has no counter for it."""
    throughput, found = measured.throughput, {}
    if throughput is None or throughput.joules is None:
        found["joules"] = why_no_energy(cell.device)
    if cell.devices > 1 and not is_host(cell.device):
        found |= dict.fromkeys(OF_EACH_DEVICE, f"each of the {cell.devices} devices has its own")
    empty = {"traced_flops", "compiler_flops"}
    if measured.memory is not None and measured.memory.peak is None:
        empty.add(PEAK)
    if throughput is not None and throughput.device_seconds is None:
        empty.add("device_seconds")
    return found | {name: why for name, why in step.missing_counters.items() if name in empty}


def count(step: Step, context: TaskContext) -> list[str]:
    """Fill in FLOPs and the memory plan, last since they allocate; notes on what failed.

    A count that fails does not affect what was measured.
    """
    notes: list[str] = []
    measured = context.measured

    def attempt(what: str, make: Callable[[], T]) -> T | None:
        context.stage(what)
        try:
            return make()
        except Exception as error:  # a tool may fail on an operation in any way
            notes.append(f"{what} failed: {type(error).__name__}: {error}")
            return None

    assert measured.flops is not None
    assert measured.memory is not None
    traced = None
    if "traced_flops" not in step.missing_counters:
        trace = partial(
            counted_once, context.programs, "flops", context.cell, context.kernel, step.traced_flops
        )
        traced = attempt("tracing FLOPs", trace)
    if traced is not None:
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
