"""The ceiling of a device: its best rate of large matrix products, and of a copy.

Measured in the same framework and dtype as the cells, and like them without TF32. The ceiling is
the best of several sizes and repetitions.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from synthbench.backends.base import BACKENDS, Backend, Prepare, Work
from synthbench.devices import is_host
from synthbench.errors import UnsupportedError
from synthbench.measure.environment import usable_cores
from synthbench.measure.interference import InterferenceMonitor
from synthbench.measure.timing import least_warmup_seconds, timed
from synthbench.run_info import Ceiling


@dataclass(frozen=True)
class Extent:
    """Sides of the square matrices, and bytes of the copied array: far larger than any cache."""

    sizes: tuple[int, ...]
    copy_bytes: int


ON_HOST = Extent((512, 1024, 2048), 2**28)
ON_ACCELERATOR = Extent((2048, 4096, 8192), 2**30)
ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8}

REPETITIONS = 10  # at most, per size
SECONDS = 0.6  # at most, per size and for the copy; there is at least one repetition
VARIABLE = "SYNTHBENCH_CEILING_SECONDS"  # of the environment: other seconds


def extent_of(device: str) -> Extent:
    """What is multiplied and copied on a device."""
    return ON_HOST if is_host(device) else ON_ACCELERATOR


def measure_ceiling(framework: str, dtype: str, device: str) -> Ceiling:
    """Measure the ceiling of a device in a framework, in this process.

    Raises UnsupportedError if VARIABLE holds anything but seconds above 0.
    """
    backend = cast(Backend, importlib.import_module(BACKENDS[framework]))
    return ceiling_of(backend, dtype, device, most=seconds_of_each())


def seconds_of_each() -> float:
    """The seconds that VARIABLE says, or SECONDS; raises UnsupportedError for anything else."""
    text = os.environ.get(VARIABLE, "")
    with contextlib.suppress(ValueError):
        if 0 < (seconds := float(text or SECONDS)) < math.inf:
            return seconds
    raise UnsupportedError(f"{VARIABLE} is {text!r}; expected seconds above 0, such as 0.6")


def ceiling_of(
    backend: Backend,
    dtype: str,
    device: str,
    clock: Callable[[], float] = time.perf_counter,
    most: float = SECONDS,
) -> Ceiling:
    """Like `measure_ceiling`, for a given back end; `most` seconds per size and for the copy."""
    begin = clock()
    extent = extent_of(device)
    best_rate, best_size = 0.0, 0
    elements = extent.copy_bytes // ITEM_BYTES[dtype]
    with InterferenceMonitor(device) as watch:
        if not is_host(device):
            first = backend.matrix_products(dtype, device, extent.sizes[0])[0]
            raise_clock(first, device, clock)
        for size in extent.sizes:
            products = backend.matrix_products(dtype, device, size)
            seconds = min(best_seconds(product, clock, most) for product in products)
            if (rate := 2 * size**3 / seconds) > best_rate:
                best_rate, best_size = rate, size
            if 8 * seconds > most:  # one product of the next size would take longer than that
                break
        copied = best_seconds(backend.copy(dtype, device, elements), clock, most)
    return Ceiling(
        framework=backend.name,
        dtype=dtype,
        device=device,
        flops_per_second=best_rate,
        matrix_size=best_size,
        bytes_per_second=2 * elements * ITEM_BYTES[dtype] / copied,
        threads=len(usable_cores()),
        seconds=clock() - begin,
        warnings=watch.warnings,
    )


def raise_clock(operation: Work, device: str, clock: Callable[[], float]) -> None:
    """Keep a device busy until its clock is high; ten products last less than that takes."""
    begin = clock()
    while clock() - begin < least_warmup_seconds(device):
        operation.wait(operation())


def best_seconds(
    operation: Work, clock: Callable[[], float] = time.perf_counter, most: float = SECONDS
) -> float:
    """The shortest time of an operation, after one warm-up call, within about `most` seconds."""
    operation.wait(operation())
    best, spent = float("inf"), 0.0
    for _ in range(REPETITIONS):
        seconds = timed(operation, operation.wait, clock)
        best, spent = min(best, seconds), spent + seconds
        if spent > most:
            break
    return best


def smallest_step_seconds(
    backend: Backend,
    device: str,
    clock: Callable[[], float] = time.perf_counter,
    prepare: Prepare | None = None,
) -> float:
    """The shortest time of the smallest possible step, a lower bound for any step.

    `prepare` gets the step with its name, before its first call.
    """
    step = backend.smallest_step(device)
    if prepare is not None:
        prepare(f"smallest step {backend.name} {device}", step)
    step.wait(step())
    return min(timed(step, step.wait, clock) for _ in range(50))
