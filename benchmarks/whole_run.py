"""Run a plan for a benchmark, which has no use for a part of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from synthbench.errors import FrameworkMissingError
from synthbench.run.runner import run_plan
from synthbench.suites.plan import Plan


def run_whole(plan: Plan, run_dir: Path, **options: Any) -> None:
    """Run a plan as `run_plan` does, which keeps what it has measured when something ends it.

    Raises KeyboardInterrupt after Ctrl-C, and FrameworkMissingError if a framework is missing.
    """
    summary = run_plan(plan, run_dir, **options)
    if summary.interrupted:
        raise KeyboardInterrupt
    if summary.missing:
        raise FrameworkMissingError("; ".join(summary.missing.values()))
