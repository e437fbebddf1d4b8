"""Kill a run with SIGKILL at random moments, resume it each time, and check that nothing is lost.

    python -m benchmarks.kill_resume --tries 20 --seed 0

Each moment is counted from the import of the frameworks, so that it can hit the creation of the
run's folder, the measuring, or the writing of records. Exit code 1: something was lost, measured
twice or skipped.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.faults.judge import complete_lines, judge_records, records_content
from synthbench.run import cell_runner, runner
from synthbench.run.extensions import load_plugin
from synthbench.store import read_info, read_run
from synthbench.suites.plan import Plan, make_plan
from synthbench.suites.suite import parse_suite

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = "tests.plugins.faulty"
VARIANTS = tuple(f"sleeper(seconds={seconds})" for seconds in (0.001, 0.002, 0.003, 0.004))
ROUNDS_PER_TRY = 2  # so that work is left at the last kill
LATEST_SECONDS = 0.8  # of a kill, after the frameworks are imported
READY = "ready"


@dataclass
class Found:
    """The result: records kept at each kill, the number at the end, and problems."""

    total: int
    kept: list[int] = field(default_factory=list)
    torn: int = 0  # kills that cut a record in two
    moments: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def tiny_suite(rounds: int) -> str:
    """A suite of forward cells of mixers that do almost nothing."""
    return f"""
    axes: {{variant: {list(VARIANTS)!r}, framework: [torch], mode: [forward], seq_len: [4]}}
    model: {{kind: mixer, d_model: 4, heads: 1}}
    measure: {{rounds: {rounds}, min_samples: 1, min_seconds: 0.001,
               max_seconds: 0.01, timeout_seconds: 60, threads: 1, parity: false,
               ceiling: false}}
    """


def tiny_plan(rounds: int) -> Plan:
    """The plan of `tiny_suite`; its plug-in has to be loaded."""
    return make_plan(parse_suite(tiny_suite(rounds), name="tiny", source="tiny.yaml"), "cpu")


def kill_and_resume(run_dir: Path, tries: int, seed: int) -> Found:
    """Kill a run `tries` times, resume it each time, then let it finish."""
    moments = random.Random(seed)
    plan = tiny_plan(tries * ROUNDS_PER_TRY)
    expected = {
        (cell.id, n) for n in range(plan.settings.measure.least_rounds) for cell in plan.cells
    }
    found = Found(total=len(expected))
    before: list[bytes] = []
    for number in range(tries + 1):
        killed = number < tries
        moment = moments.uniform(0, LATEST_SECONDS)
        code = _run(run_dir, tries, moment if killed else None, after_record=number % 2 == 1)
        if not killed and code != 0:
            found.problems.append(f"the last run ended with exit code {code}")
        complete = complete_lines(run_dir)
        problems = judge_records(before, complete)
        found.problems += [f"after run {number}: {problem}" for problem in problems]
        before = complete
        if killed:
            found.moments.append(moment)
            found.kept.append(len(complete))
            found.torn += bool(records_content(run_dir).rpartition(b"\n")[2])
    found.problems += judge_run(run_dir, expected)
    return found


def judge_run(run_dir: Path, expected: set[tuple[str, int]], most_failed: int = 0) -> list[str]:
    """What is wrong with a run at its end: `expected` are the cells and rounds of its plan."""
    run = read_run(run_dir)
    problems = []
    times = Counter((record.id, record.round) for record in run.records)
    twice = [record for record, count in times.items() if count > 1]
    if twice:
        problems.append(f"measured twice in a round: {twice}")
    if missing := expected - times.keys():
        problems.append(f"missing: {sorted(missing)}")
    if unexpected := times.keys() - expected:
        problems.append(f"not in the plan: {sorted(unexpected)}")
    if read_info(run_dir).finished is None:
        problems.append("the run is not finished")
    failed = [record.reason for record in run.records if record.outcome != "ok"]
    if len(failed) > most_failed:
        problems.append(f"not ok: {failed}")
    return problems


def _run(run_dir: Path, tries: int, kill_after: float | None, after_record: bool) -> int:
    """Start or resume the run in a new process; kill it after `kill_after` seconds, if given.

    Counted from the import of the frameworks or, with `after_record`, from the first new record.
    """
    already = len(records_content(run_dir))
    command = [sys.executable, "-m", "benchmarks.kill_resume", "--measure", str(run_dir)]
    process = subprocess.Popen(
        [*command, "--tries", str(tries)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        while process.stdout.readline().strip() not in (READY, ""):
            pass
        if kill_after is not None:
            while after_record and process.poll() is None:
                if len(records_content(run_dir)) > already:
                    break
                time.sleep(0.005)
            time.sleep(kill_after)
            process.kill()
        return process.wait()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _measure(run_dir: Path, tries: int) -> None:
    """In the process that is killed: report when the frameworks are imported, then measure."""
    read_environment = cell_runner.read_environment  # type: ignore[attr-defined]

    def announced(threads: int | None = None) -> dict[str, Any]:
        print(READY, flush=True)
        return read_environment(threads)

    cell_runner.read_environment = announced  # type: ignore[attr-defined]
    plan = tiny_plan(tries * ROUNDS_PER_TRY)
    runner.run_plan(plan, run_dir, resume=True, plugins=[PLUGIN])


def main() -> int:
    """Read the options, run the check, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    load_plugin(PLUGIN)
    if options.measure is not None:
        _measure(options.measure, options.tries)
        return 0
    with tempfile.TemporaryDirectory(prefix="synthbench-") as folder:
        found = kill_and_resume(Path(folder) / "run", options.tries, options.seed)
    print(f"seed {options.seed}: killed {len(found.kept)} times")
    for moment, kept in zip(found.moments, found.kept, strict=True):
        print(
            f"  {moment * 1e3:4.0f} ms after the import of the frameworks: {kept} of {found.total}"
        )
    print(f"{found.torn} kills cut a record in two; {len(found.problems)} problems")
    print(*found.problems, sep="\n")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
