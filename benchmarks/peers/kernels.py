"""Which kernel our side of a pair uses: what a run would choose for its shapes, by timing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.peers.samples import Sample
from synthbench.errors import SynthbenchError
from synthbench.kernel import Kernel
from synthbench.measure.core_distance import UsualDistance
from synthbench.measure.kernel_choice import Timed, raced_cell
from synthbench.run.host_client import Host
from synthbench.run.kernel_choices import CHOOSE
from synthbench.suites import cell as shapes
from synthbench.suites.plan import DEFAULT_COMPILE, FRAMEWORKS

TIMEOUT_SECONDS = 600.0
ATTEMPTS = 3  # a race that something disturbed is run again
STEPS_SECONDS = 30.0  # that two steps of each kernel may take, as after `tune --minutes 30`


def our_shapes(one: Sample, d_model: int, heads: int) -> shapes.Cell:
    """What a kernel is chosen for: our mixer at these sizes."""
    framework = next(name for name in FRAMEWORKS if name == one.framework)
    return raced_cell(
        shapes.Cell.from_flat(
            variant=one.variant, framework=framework, mode=one.mode, seq_len=one.seq_len,
            batch=one.batch, dtype=one.dtype, device=one.device, d_model=d_model, heads=heads,
            head_dim=one.head_dim, max_len=one.seq_len, compile=DEFAULT_COMPILE[framework],
        )
    )  # fmt: skip


def chosen_kernel(
    host: Host,
    cell: shapes.Cell,
    keep_memory: bool,
    usual: UsualDistance,
    report: Callable[[str], object],
) -> Kernel | None:
    """The kernel that is the fastest for our side, as `tune` chooses it; None if there is one only.

    Where its steps take too long to time them, that of half the length counts, as in a run.
    `keep_memory`: whether freed memory is kept, in the race as where the pair is timed. `usual`: of
    the cores of this machine; it counts the races too. In a process of its own: it needs more
    memory than what is measured afterwards. `report` hears why there is no choice.
    """
    for _ in range(ATTEMPTS):
        found = _race(host, cell, keep_memory, usual.is_near)
        if found.choice is not None:
            usual.add(found.choice.core_distance)
        if found.choice is None or not found.choice.warnings:
            break
    if found.is_long and cell.seq_len > 1:
        half = cell.seq_len // 2
        model = cell.model.model_copy(update={"max_len": half})
        shorter = cell.changed(seq_len=half, model=model)
        return chosen_kernel(host, shorter, keep_memory, usual, report)
    if found.problem:
        report(f"no kernel chosen for {found.problem}")
    return None if found.choice is None else found.choice.chosen


def _race(host: Host, cell: shapes.Cell, keep_memory: bool, cores_may_be_near: bool) -> Timed:
    request: dict[str, Any] = {
        "cell": cell.model_dump(mode="json"),
        "memory_bytes": None,
        "cores_may_be_near": cores_may_be_near,
        "most_seconds": STEPS_SECONDS,
        "keep_memory": keep_memory,
    }
    try:
        timed: Timed = host.call(CHOOSE, request, TIMEOUT_SECONDS)
        return timed
    except SynthbenchError as error:
        return Timed(None, is_own=True, problem=f"{cell.variant} at {cell.seq_len}: {error}")
