"""Whether a step that has returned left work behind: threads or processes that still compute."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from synthbench.measure.child_processes import PROC, can_run, cpu_seconds, descendants
from synthbench.measure.environment import usable_cores
from synthbench.measure.plausibility import ImplausibleError

# OpenMP's threads spin before they sleep. Measured after torch steps: at most 3 ms per thread with
# GNU's runtime, which PyTorch ships; XLA's threads 0.2 ms. Intel's spins 200 ms by default.
SPIN_SECONDS = 0.02  # CPU seconds per core
SPIN_SECONDS_INTEL = 0.25
INTEL_RUNTIMES = ("libiomp5", "libomp")
# XLA frees the buffers of a step beside the next one: 21 ms for 400 MB that took 0.3 s to fill.
FREEING_SHARE = 0.2  # of the time of a step that returned its result
SPINS_FOREVER = {  # by the user's own setting: nothing can be concluded from busy threads then
    "OMP_WAIT_POLICY": ("active",),
    "GOMP_SPINCOUNT": ("infinite", "infinity"),
    "KMP_BLOCKTIME": ("infinite",),
}
LOOK_SECONDS = 0.0005  # between two looks
QUIET_LOOKS = 2  # in a row, until nothing is left
QUIET_SECONDS = 0.0001  # CPU seconds between two looks, at most: the process's own bookkeeping
LONGEST_SECONDS = 2.0  # a thread that gets no core for so long is not waited for


@dataclass(frozen=True)
class Activity:
    """What everything but the calling thread does: CPU seconds so far, and what can run now."""

    cpu_seconds: float
    runnable: int  # threads and child processes that run, or wait for a core


def read_activity(proc: Path = PROC) -> Activity:
    """The activity of this process's other threads and of its child processes.

    Without /proc, CPU seconds alone, of threads alone.
    """
    own = f"{os.getpid()}/task/{threading.get_native_id()}/stat"
    children = descendants(os.getpid(), proc)
    paths = [
        path
        for process in (os.getpid(), *children)
        for path in (proc / str(process)).glob("task/*/stat")
        if not str(path).endswith(own)
    ]
    cpu = time.process_time() - time.thread_time() + cpu_seconds(children, proc)
    return Activity(cpu, sum(can_run(path) for path in paths))


def require_idle(
    step_seconds: float = 0.0,
    read: Callable[[], Activity] = read_activity,
    *,
    cores: int | None = None,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.perf_counter,
    environment: Mapping[str, str] = os.environ,
) -> float:
    """CPU seconds that other threads used until they were idle; call it when a step has returned.

    `step_seconds`: what such a step takes. Raises ImplausibleError if they used more than threads
    of OpenMP do that wait for their next task, and more than FREEING_SHARE of the step. A thread
    that waits and works later is not seen.
    """
    before = last = read()
    begin, quiet = clock(), 0
    allowed: float | None = None
    while quiet < QUIET_LOOKS and clock() - begin < LONGEST_SECONDS:
        wait(LOOK_SECONDS)
        now = read()
        idle = not now.runnable and now.cpu_seconds - last.cpu_seconds <= QUIET_SECONDS
        quiet = quiet + 1 if idle else 0
        last = now
        used = now.cpu_seconds - before.cpu_seconds
        if used <= SPIN_SECONDS:
            continue
        if allowed is None:
            spinning = allowed_seconds(cores or len(usable_cores()), environment)
            allowed = max(spinning, FREEING_SHARE * step_seconds)
        if used > allowed:
            raise ImplausibleError(
                "other threads or processes were still computing when the last step had returned: "
                f"{used * 1e3:.0f} ms of CPU time within "
                f"{(clock() - begin) * 1e3:.0f} ms, where idle threads use at most "
                f"{allowed * 1e3:.0f} ms: the steps did not wait for all of their work"
            )
    return last.cpu_seconds - before.cpu_seconds


def allowed_seconds(cores: int, environment: Mapping[str, str], proc: Path = PROC) -> float:
    """CPU seconds that threads may spin, by the runtimes and settings of this process."""
    for name, values in SPINS_FOREVER.items():
        if environment.get(name, "").strip().lower() in values:
            return float("inf")
    try:
        loaded = (proc / "self/maps").read_text(errors="replace")
    except OSError:
        loaded = ""
    intel = any(runtime in loaded for runtime in INTEL_RUNTIMES)
    return cores * (SPIN_SECONDS_INTEL if intel else SPIN_SECONDS)
