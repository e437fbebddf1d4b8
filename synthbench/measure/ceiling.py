"""What a device gives at best: the rate of large matrix products, and of a copy.

Each in the framework that is to be compared with it, in float32 without TF32 as its cells have it.
The best of several sizes and repetitions counts: a ceiling is what was reached once.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import cast

from synthbench.backends.base import BACKENDS, Backend, Kernel
from synthbench.measure.environment import usable_cores
from synthbench.measure.interference import InterferenceMonitor
from synthbench.measure.timing import timed
from synthbench.record import Ceiling

# Side of the square matrices, and bytes of the array that is copied: far more than any cache.
SIZES = {"cpu": (512, 1024, 2048), "cuda": (2048, 4096, 8192)}
COPY_BYTES = {"cpu": 2**28, "cuda": 2**30}
ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8}

REPETITIONS = 10  # at most, of each size
SECONDS = 0.6  # for each size and for the copy, at most; one repetition is made in any case


def measure_ceiling(framework: str, dtype: str, device: str) -> Ceiling:
    """Measure the ceiling of a device in a framework, in this process."""
    backend = cast(Backend, importlib.import_module(BACKENDS[framework]))
    return ceiling_of(backend, dtype, device)


def ceiling_of(
    backend: Backend, dtype: str, device: str, clock: Callable[[], float] = time.perf_counter
) -> Ceiling:
    """`measure_ceiling` with the framework's back end."""
    begin = clock()
    kind = device.partition(":")[0]
    best_rate, best_size = 0.0, 0
    elements = COPY_BYTES[kind] // ITEM_BYTES[dtype]
    with InterferenceMonitor(device) as watch:
        for size in SIZES[kind]:
            seconds = best_seconds(backend.matrix_product(dtype, device, size), clock)
            if (rate := 2 * size**3 / seconds) > best_rate:
                best_rate, best_size = rate, size
            if 8 * seconds > SECONDS:  # the next size would take longer than all repetitions may
                break
        copied = best_seconds(backend.copy(dtype, device, elements), clock)
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


def best_seconds(kernel: Kernel, clock: Callable[[], float] = time.perf_counter) -> float:
    """The shortest time of a kernel, after one call that is not counted."""
    kernel.wait(kernel())
    best, spent = float("inf"), 0.0
    for _ in range(REPETITIONS):
        seconds = timed(kernel, kernel.wait, clock)
        best, spent = min(best, seconds), spent + seconds
        if spent > SECONDS:
            break
    return best


def smallest_step_seconds(
    backend: Backend, device: str, clock: Callable[[], float] = time.perf_counter
) -> float:
    """The shortest time of the smallest step there is: a lower bound for any step."""
    kernel = backend.smallest_step(device)
    kernel.wait(kernel())
    return min(timed(kernel, kernel.wait, clock) for _ in range(50))
