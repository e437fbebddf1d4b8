"""Measure one cell in its own process: build both sides, compare them, time them alternately."""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from benchmarks.peers.pairs import REFERENCE, SAME_AT_FIRST_ONLY, Pair
from benchmarks.peers.samples import Sample, Side
from synthbench.backends.base import BACKENDS, Backend, Setting, Step
from synthbench.backends.kernel_choice import using_kernel
from synthbench.backends.kernel_record import recording_kernels
from synthbench.devices import is_host
from synthbench.kernel import Kernel
from synthbench.measure.allocator import keep_freed_memory
from synthbench.measure.core_distance import bring_cores_together, core_distance
from synthbench.measure.inputs import random_batch
from synthbench.measure.interference import InterferenceMonitor
from synthbench.measure.kernel_choice import far_cores
from synthbench.measure.memory import mark_resident
from synthbench.measure.timing import timed
from synthbench.mixers.base import Array
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.start_values import start_values
from synthbench.suites.plan import DEFAULT_COMPILE, FRAMEWORKS

SIDES = {"torch": "benchmarks.peers.torch_side", "jax": "benchmarks.peers.jax_side"}
TOLERANCES = {"float32": 1e-4, "bfloat16": 5e-2, "float64": 1e-10}  # of the largest value
# How much more the first Adam update may lower the loss of one side than that of the other. It
# moves a weight by the full learning rate even if its gradient is almost zero, with a random sign.
FALL_TOLERANCE = {"float32": 0.02, "bfloat16": 0.5, "float64": 1e-3}
WARM_SECONDS = 0.1  # warm-up of both sides
FEWEST = 3  # pairs of samples, even if they take long
MOST = 200


@dataclass(frozen=True)
class Budget:
    """At least `pairs` pairs of `seconds` in total; after `limit` seconds, FEWEST are enough."""

    pairs: int = 7
    seconds: float = 0.6
    limit: float = 4.0


def measure(
    framework: str,
    variant: str,
    peer: str,
    mode: str,
    seq_len: int,
    batch: int,
    d_model: int,
    heads: int,
    dtype: str,
    device: str,
    budget: dict[str, Any],
    keep_memory: bool = False,
    head_dim: int | None = None,
    kernel: dict[str, Any] | None = None,
    cores_may_be_near: bool = True,
) -> dict[str, Any]:
    """Measure a cell; returns the content of its `Sample` and raises what a side raises.

    With `keep_memory` the process keeps freed memory while steps are timed. `kernel`: the one that
    was chosen for our side. `cores_may_be_near`: whether far cores are a disturbance, see
    `UsualDistance`.
    """
    pair = Pair(framework, variant, peer, head_dim)
    sample = Sample(
        framework=framework, variant=variant, peer=peer, mode=mode, seq_len=seq_len, batch=batch,
        head_dim=head_dim, dtype=dtype, device=device,
        kernel_choice=None if kernel is None else Kernel(**kernel),
    )  # fmt: skip
    with using_kernel(sample.kernel_choice):
        return compare(
            sample, pair, d_model, heads, Budget(**budget), keep_memory, cores_may_be_near
        )


def compare(
    sample: Sample,
    pair: Pair,
    d_model: int,
    heads: int,
    budget: Budget,
    keep_memory: bool,
    cores_may_be_near: bool,
) -> dict[str, Any]:
    """Measure a cell whose kernel is set."""
    mode, seq_len, batch = sample.mode, sample.seq_len, sample.batch
    dtype, device = sample.dtype, sample.device
    ours, theirs = build(pair, mode, seq_len, batch, d_model, heads, dtype, device)
    steps = (ours, theirs)
    sample.form = ours.form
    with recording_kernels() as used:
        ours.compile()
        first = run(ours)
    sample.kernels = list(used)
    theirs.compile()
    sample.compared = "losses" if mode == "train" else "outputs"
    first_of_theirs = run(theirs)
    sample.difference = difference(first, first_of_theirs)
    if sample.difference > TOLERANCES[dtype]:
        reason = f"{sample.compared} differ by {sample.difference:.1e} of the largest"
        return refused(sample, reason)

    peaks, falls, warm = [], [], 0.0
    for step, other, before in ((ours, theirs, first), (theirs, ours, first_of_theirs)):
        peak, after, seconds, sample.memory_method = memory(step, other, device)
        warm += seconds
        peaks.append(peak)
        falls.append(before - after)
    if mode == "train" and pair.peer not in SAME_AT_FIRST_ONLY:
        sample.fall_difference = difference(*falls)
        if sample.fall_difference > FALL_TOLERANCE[dtype]:
            reason = f"one update lowers the losses by {falls[0]:.3g} and {falls[1]:.3g}"
            return refused(sample, reason)
    del first, first_of_theirs, falls

    sample.keeps_memory = keep_memory and keep_freed_memory()
    watch = InterferenceMonitor(device)
    on_host = is_host(device)
    distance = bring_cores_together(cores_may_be_near) if on_host else None
    samples = time_alternately(steps, budget, watch, warm)
    sample.core_distances = distance, core_distance() if on_host else None
    sample.ours, sample.theirs = (
        Side(samples=seconds, peak_bytes=peak) for seconds, peak in zip(samples, peaks, strict=True)
    )
    largest = max(filter(None, sample.core_distances), default=None)
    sample.warnings = watch.warnings + (far_cores(largest) if cores_may_be_near else [])
    return sample.model_dump()


def build(
    pair: Pair,
    mode: str,
    seq_len: int,
    batch: int,
    d_model: int,
    heads: int,
    dtype: str,
    device: str,
) -> tuple[Step, Step]:
    """A step of our mixer and one of the peer, with the same weights and the same batch."""
    sizes = Sizes.of(d_model=d_model, heads=heads, head_dim=pair.head_dim, max_len=seq_len)
    model = Model.of("mixer", parse(pair.variant), sizes)
    start, data = start_values(model.parameters()), random_batch(model, batch, seq_len)
    framework = next(name for name in FRAMEWORKS if name == pair.framework)
    setting = Setting(dtype=dtype, device=device, compile=DEFAULT_COMPILE[framework])
    backend = cast(Backend, importlib.import_module(BACKENDS[pair.framework]))
    ours = backend.build(model, start, setting, mode, data)
    if pair.peer == REFERENCE:
        return ours, backend.build(model, start, replace(setting, form="reference"), mode, data)
    side = importlib.import_module(SIDES[pair.framework])
    return ours, side.build(pair, model, start, setting, mode, data)


def run(step: Step) -> Array:
    """The result of a step as an array: outputs, or the loss of a train step."""
    produced = step()
    step.wait(produced)
    found: Any = produced[0] if isinstance(produced, tuple) else produced
    found = found.detach().cpu().float() if hasattr(found, "detach") else found
    return np.asarray(found, dtype=np.float32)


def difference(one: Array, other: Array) -> float:
    """The largest difference over the largest value; infinite for values that are not finite."""
    largest = float(np.abs(other).max())
    absolute = float(np.abs(one - other).max())
    return absolute / largest if np.isfinite(absolute) and largest > 0 else float("inf")


def refused(sample: Sample, reason: str) -> dict[str, Any]:
    """The sample of two sides that do not compute the same result."""
    return sample.model_copy(update={"outcome": "differs", "reason": reason}).model_dump()


def memory(step: Step, other: Step, device: str) -> tuple[int | None, Array, float, str]:
    """Peak bytes of one step, its result, its seconds, and how the peak was measured.

    It must not be the first step. The memory of the other side in this process is subtracted.
    """
    mark = mark_resident() if is_host(device) else None
    step.reset_device_peak()
    begin = time.perf_counter()
    produced = run(step)
    seconds = time.perf_counter() - begin
    if mark is not None:
        return held(step) + mark.rise(), produced, seconds, mark.description
    if (
        plan := step.predict_memory()
    ) is not None:  # jax: the peak of its allocator cannot be reset
        return plan.peak_bytes, produced, seconds, plan.tool
    peak = step.device_peak_bytes()
    own = None if peak is None else peak - held(other)
    method = "peak of the device's allocator, minus the memory of the other side"
    return own, produced, seconds, method


def held(step: Step) -> int:
    """Bytes that stay allocated between steps."""
    return step.parameter_bytes + step.optimizer_bytes + step.batch_bytes + step.gradient_bytes


def time_alternately(
    steps: Sequence[Step], budget: Budget, watch: InterferenceMonitor, warm: float
) -> tuple[list[float], list[float]]:
    """Seconds of the steps of each side, in pairs; the side that goes first alternates.

    `warm`: seconds of warm-up already done.
    """
    gc.collect()
    gc.disable()
    samples: tuple[list[float], list[float]] = ([], [])
    spent, begin = 0.0, time.perf_counter()
    try:
        while warm < WARM_SECONDS:
            warm += sum(timed(step, step.wait) for step in steps)
        with watch:
            for pair in range(1, MOST + 1):
                for side in (0, 1) if pair % 2 else (1, 0):
                    seconds = timed(steps[side], steps[side].wait)
                    samples[side].append(round(seconds, 9))
                    spent += seconds
                enough = pair >= budget.pairs and spent >= budget.seconds
                late = pair >= FEWEST and time.perf_counter() - begin >= budget.limit
                if enough or late:
                    break
    finally:
        gc.enable()
    return samples
