"""The executor slurm on a real Slurm: the commands of docs/clusters.md, and what ends jobs early.

Needs root, Debian's slurm-wlm and munge, and the extra `slurm`: `make test-slurm`.
"""

from __future__ import annotations

import re
import shlex
import time
from collections import Counter

import pytest

from synthbench.store import read_jobs, read_run
from tests.page_commands import commands_of, run_command
from tests.slurm_caller import PLACES, Caller, caller, cluster, form

__all__ = ["caller", "cluster"]  # fixtures
NAMES = ("torch", "forward", "train", "V", "R")


def test_the_commands_of_the_page_run_as_written(caller: Caller) -> None:
    def run_line(line: str) -> str:
        assert line.startswith("synthbench ")
        return run_command(line, caller.folder, caller.environment)

    submit, status, wait, cancel = commands_of("A Slurm cluster")
    assert "synthbench status results/smoke/cluster" in run_line(submit)
    assert re.search(r"unfinished, \d of 4 cells and rounds", run_line(status))
    assert "Tables:  results/smoke/cluster/tables" in run_line(wait)
    assert "has no jobs to end" in run_line(cancel)
    printed = run_line(status)
    assert "finished, 4 of 4 cells and rounds" in printed
    assert printed.count("complete") == 2
    run = read_run(caller.folder / "results" / "smoke" / "cluster")
    assert {r.outcome for r in run.records} == {"ok"} and run.info.executor == "slurm"
    parities = [record.measurements.parity for record in run.records]
    assert all(parity is not None and parity.passed for parity in parities)
    assert len({job.machine.id for job in read_jobs(run.path).values() if job.machine}) == 1
    # The same on this machine: tables have the same form.
    local = [word for word in shlex.split(wait)[1:] if word != "--resume"]
    local = [*local[: local.index("--executor")], "--out", "results/smoke/local"]
    caller.call(*local)
    assert form(caller.folder / "results/smoke/local", NAMES) == form(run.path, NAMES)


@pytest.mark.long
def test_nothing_is_lost_or_doubled_when_jobs_end_early(caller: Caller) -> None:
    caller.call(*caller.run("--detach"))
    caller.until(lambda: caller.measured >= 1)
    assert "2 jobs of out are being ended" in caller.call("cancel", "out")
    caller.until(lambda: {caller.state(job) for job in caller.jobs()} == {"CANCELLED"})
    assert 1 <= caller.measured < PLACES
    waiting = caller.begin(*caller.run("--resume"))
    before = caller.measured
    caller.until(lambda: len(caller.workers()) == 2 and caller.measured > before)
    killed, requeued = caller.jobs()
    (worker,) = [p for p in caller.workers() if caller.jobs()[killed] in p.cmdline()]
    worker.suspend()  # so that it does not finish while the controller stops
    caller.cluster.stop_controller()
    worker.kill()
    time.sleep(2)  # longer than the executor waits between two looks
    caller.cluster.start_controller()
    caller.until(lambda: caller.state(killed) == "FAILED")
    if caller.state(requeued) == "RUNNING":
        caller.requeue(requeued)
    printed, _ = waiting.communicate(timeout=600)
    assert waiting.returncode == 2
    assert re.search(rf"1 of the run's shards .*: job {killed} \(failed\); .*--resume", printed)
    assert "Unable to contact" not in printed
    caller.call(*caller.run("--resume"))
    caller.require_complete()


@pytest.mark.long
def test_a_time_limit_and_a_node_that_fails(caller: Caller) -> None:
    waiting = caller.begin(*caller.run("--slurm", "partition=short"))
    caller.until(lambda: (caller.folder / "out/run.json").exists() and len(caller.workers()) == 2)
    caller.until(lambda: caller.measured >= 2)
    first, second = caller.jobs()
    caller.cluster.ask("scancel", "--signal=USR2", first)  # as Slurm does before the time limit
    node = caller.cluster.ask("squeue", "-h", "-o", "%N", "-j", second).strip()
    # The node is cut off: what it runs goes on, and nobody can end it.
    caller.cluster.kill(node)
    caller.cluster.ask("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    caller.until_requeued(second)
    caller.until_requeued(first)
    printed, _ = waiting.communicate(timeout=600)
    for worker in caller.workers():
        worker.kill()
    caller.cluster.start_node(node)
    caller.cluster.ask("scontrol", "update", f"NodeName={node}", "State=RESUME")
    assert waiting.returncode == 0, printed
    caller.require_complete()
    logs = "".join(p.read_text() for p in caller.folder.glob("out/jobs/slurm/*.out"))
    assert "Requeued job" in logs and "already recorded" in logs
    writers = Counter(name.partition(".")[0] for name in read_jobs(caller.folder / "out"))
    assert set(writers.values()) == {2}
