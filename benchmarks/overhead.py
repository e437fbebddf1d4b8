"""The overhead of the harness per cell, beyond building, compiling and measuring.

    python -m benchmarks.overhead [--suite smoke]

Runs a suite on the CPU. The time of each cell, from its start until its record is on disk,
minus the time to build, compile, run the first step and the step whose memory is measured, wake the
cores, warm up, and sample, is the overhead: forking, start values, memory prediction, settling of
memory, counting FLOPs, writing. The parity check, which many cells share, is not included. Exit
code 1: the mean is above the limit, or no cell of a framework is ok.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.whole_run import run_whole
from synthbench.record import Parity, Record
from synthbench.run.progress import Silent
from synthbench.suites.cell import Cell
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import load_suite

LIMITS = {"torch": 0.100, "jax": 0.300}  # seconds per cell
PREPARING = ("timing", "reading memory", "bringing the cores together")  # the whole stage


class Clock(Silent):
    """Measures the runner's time for each cell, without the parity check."""

    def __init__(self) -> None:
        self.begun = 0.0
        self.taken: list[tuple[Record, float]] = []

    def cell_started(self, cell: Cell, round_number: int) -> None:
        self.begun = time.perf_counter()

    def parity_checked(self, cell: Cell, parity: Parity | None, reason: str) -> None:
        self.begun = time.perf_counter()

    def cell_finished(
        self, record: Record, done: int, total: int, seconds_left: float | None
    ) -> None:
        self.taken.append((record, time.perf_counter() - self.begun))


def added(record: Record, seconds: float) -> dict[str, float]:
    """The overhead of an ok cell in seconds, by stage."""
    timing = record.measurements.timing
    assert timing is not None
    stages = dict(record.host["stage_seconds"])
    outside = seconds - sum(stages.values())  # forking, replying, writing
    measured = {
        "building": timing.build_seconds,
        "compiling": timing.compile_seconds,
        "running the first steps": timing.first_step_seconds,
        "reading memory": stages["reading memory"],
        "timing": stages["timing"],
    }
    overhead = {stage: spent - measured.get(stage, 0.0) for stage, spent in stages.items()}
    for stage in PREPARING:
        overhead.pop(stage, None)
    return overhead | {"outside the child's stages": outside}


def main() -> int:
    """Run the suite and print the overhead; 1 if it is above the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", default="smoke")
    options = parser.parse_args()
    clock = Clock()
    with tempfile.TemporaryDirectory(prefix="synthbench-") as folder:
        plan = make_plan(load_suite(options.suite), "cpu")
        run_whole(plan, Path(folder) / "run", observer=clock)
    over = False
    for framework in plan.frameworks:
        limit = LIMITS[framework]
        cells = [
            added(record, seconds)
            for record, seconds in clock.taken
            if record.cell.framework == framework and record.outcome == "ok"
        ]
        if not cells:
            print(f"{framework}: no cell of suite {options.suite} is ok")
            over = True
            continue
        sums = [sum(cell.values()) for cell in cells]
        mean = statistics.fmean(sums)
        over = over or mean > limit
        print(
            f"{framework}: {mean * 1e3:.0f} ms per cell "
            f"(median {statistics.median(sums) * 1e3:.0f}, largest {max(sums) * 1e3:.0f}; "
            f"{len(sums)} cells), limit {limit * 1e3:.0f} ms"
        )
        by_stage: dict[str, float] = defaultdict(float)
        for cell in cells:
            for stage, spent in cell.items():
                by_stage[stage] += spent / len(cells)
        for stage, spent in sorted(by_stage.items(), key=lambda item: -item[1]):
            print(f"    {spent * 1e3:6.1f} ms  {stage}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
