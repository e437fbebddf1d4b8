"""Compare the executors: the same suite through local (twice), Slurm and Ray on this machine.

    python -m benchmarks.executors --out FOLDER [--suite smoke] [--variants V,R] [--framework torch]
    python -m benchmarks.executors --tables FOLDER [--page docs/clusters.md]

Prints three Markdown tables: what each executor needs beside the cells, how far the ratios of each
agree with those of the first local run, and how long the largest ablation would take at these
rates. A cluster of one place is started for Slurm (needs root and Debian's slurm-wlm and munge) and
for Ray; where that is not possible, the table says why. FOLDER keeps the runs and executors.json,
from which --tables makes the same tables; --page writes them into a page. Kernels are not timed,
so that no run pays for choices that the next one finds in the cache.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.executors.measured import NAME, Measured
from benchmarks.executors.page import fill, tables
from benchmarks.executors.runs import RUNS, agreements, run_through
from synthbench.cli.options import split_lengths, split_list
from synthbench.errors import NotationError, ResultsError, SynthbenchError
from synthbench.measure.environment import git_state, machine_id, read_environment
from synthbench.record import now
from synthbench.run.planning import plan_suite
from synthbench.suites.plan import Plan
from synthbench.suites.suite import load_suite


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure or read a comparison, and print its tables; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.executors", description=__doc__.partition("\n")[0]
    )
    folder = parser.add_mutually_exclusive_group(required=True)
    folder.add_argument("--out", type=Path, help="a new folder for the runs; measures")
    folder.add_argument("--tables", type=Path, help="the folder of an earlier call; only prints")
    parser.add_argument("--suite", default="smoke", help="by name, or a file (%(default)s)")
    parser.add_argument("--variants", help="some of them, by comma")
    parser.add_argument("--framework", help="torch or jax; both without it")
    parser.add_argument("--seq-len", help="lengths by comma, in place of the suite's")
    parser.add_argument(
        "--executors", default="local,slurm,ray", help="those to compare (%(default)s)"
    )
    parser.add_argument("--page", type=Path, help="a page to write the tables into")
    asked = parser.parse_args(arguments)
    try:
        measured = Measured.read(asked.tables) if asked.tables else measure(asked)
        sys.stdout.write("\n".join(tables(measured).values()))
        if asked.page is not None:
            page = asked.page.read_text(encoding="utf-8")
            asked.page.write_text(fill(page, measured), encoding="utf-8")
    except (SynthbenchError, OSError) as error:
        sys.stderr.write(f"benchmarks.executors: {error}\n")
        return 2
    return 0


def measure(asked: argparse.Namespace) -> Measured:
    """Run the suite through each executor; every run is kept in the folder."""
    wanted = asked.executors.split(",")
    known = sorted({executor for executor, *_ in RUNS.values()})
    if unknown := [name for name in wanted if name not in known]:
        raise NotationError(f"--executors {unknown[0]}: use some of {', '.join(known)}")
    if (asked.out / NAME).exists():
        raise ResultsError(f"{asked.out} has a comparison already; give another --out")
    plan = plan_of(asked)
    begun = now()
    runs = [run_through(plan, asked.out, name) for name in RUNS if RUNS[name][0] in wanted]
    environment = read_environment(plan.settings.measure.threads)
    count = len({cell.variant for cell in plan.cells})
    git = git_state() or {"commit": "unknown", "dirty": False}
    commit = str(git["commit"])[:12] + " with changes" * bool(git["dirty"])
    found = Measured(
        suite=plan.suite,
        selection=f"{count} variant{'s' * (count > 1)} in {' and '.join(plan.frameworks)}",
        machine=machine_id(environment),
        commit=commit,
        begun=begun,
        runs=tuple(runs),
        agreed=tuple(agreements(asked.out, runs)),
    )
    found.write(asked.out)
    return found


def plan_of(asked: argparse.Namespace) -> Plan:
    """What each executor measures."""
    lengths = None if asked.seq_len is None else split_lengths([asked.seq_len])
    variants = None if asked.variants is None else split_list([asked.variants])
    frameworks = None if asked.framework is None else split_list([asked.framework])
    plan = plan_suite(load_suite(asked.suite), "cpu", frameworks, variants, lengths)
    measure = plan.settings.measure.model_copy(update={"kernel_seconds": 0.0})
    return replace(plan, settings=plan.settings.model_copy(update={"measure": measure}))


if __name__ == "__main__":
    sys.exit(main())
