"""Whether waking the cores of this machine by each other brings them together.

    python -m benchmarks.core_distance [--seconds 60] [--quiet]

Alternates, in random order, between waking the other cores from the first one and keeping both busy
for as long, and looks at the distance between the cores before and after
(synthbench/measure/core_distance.py). Exit code 1: waking leaves them far more often than work does
(Fisher's exact test, one-sided, at 5%). On a machine whose cores never move, nothing is found.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
from scipy.stats import fisher_exact

from synthbench.measure.core_distance import FAR, WAKING_SECONDS, core_distance, wake_cores
from synthbench.measure.environment import usable_cores
from synthbench.measure.quiet import wait_for_quiet

SECONDS = 3 * WAKING_SECONDS  # of each action
LEVEL = 0.05


def wake() -> None:
    """Wake the other cores from the first one."""
    wake_cores(SECONDS)


def keep_busy() -> None:
    """Let each core work for itself."""
    threads = [threading.Thread(target=_work, args=(core,)) for core in usable_cores()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _work(core: int) -> None:
    os.sched_setaffinity(0, {core})
    values = np.linspace(0.0, 1.0, 16384)
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        np.exp(values, out=values)  # without the interpreter's lock
        np.minimum(values, 1.0, out=values)


ACTIONS: dict[str, Callable[[], None]] = {"wake": wake, "keep busy": keep_busy}


def compare(seconds: float) -> dict[str, list[tuple[bool, bool]]]:
    """Action -> whether the cores were near before and after it, each time."""
    found: dict[str, list[tuple[bool, bool]]] = {name: [] for name in ACTIONS}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name in random.sample(list(ACTIONS), len(ACTIONS)):
            before = core_distance() or 0.0
            ACTIONS[name]()
            after = core_distance() or 0.0
            found[name].append((before <= FAR, after <= FAR))
    return found


def main() -> int:
    """Print how often the cores were near after each action, by what they were before."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--quiet", action="store_true", help="wait for a quiet machine first")
    options = parser.parse_args()
    if core_distance() is None:
        print("There is only one core, or a thread cannot choose it: nothing to compare.")
        return 0
    if options.quiet:
        wait_for_quiet()
    counts: dict[str, tuple[int, int]] = {}
    for name, trials in compare(options.seconds).items():
        for before in (True, False):
            after = [now for was, now in trials if was == before]
            print(
                f"{name:9} cores that were {'near' if before else 'far'}: "
                f"near afterwards {sum(after)} of {len(after)}"
            )
        from_far = [now for was, now in trials if not was]
        counts[name] = sum(from_far), len(from_far) - sum(from_far)
    table = [counts["wake"], counts["keep busy"]]
    better = float(fisher_exact(table, alternative="greater").pvalue)
    worse = float(fisher_exact(table, alternative="less").pvalue)
    print(f"Far cores come together more often by waking: p = {better:.2g} (Fisher, one-sided)")
    return int(worse < LEVEL)


if __name__ == "__main__":
    sys.exit(main())
