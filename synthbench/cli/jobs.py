"""`synthbench status` and `synthbench cancel`: the jobs of a run on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from synthbench.cli.completion import complete_run
from synthbench.cli.options import Results
from synthbench.cli.output import print_columns, say
from synthbench.cli.runs import find_run, state

if TYPE_CHECKING:
    from synthbench.run.slurm_commands import Job

Run = Annotated[
    str, typer.Argument(metavar="RUN", help="A path, or a name.", autocompletion=complete_run)
]


def status(run: Run, results: Results = Path("results")) -> None:
    """Show the shards of a run, their jobs, and how much of each is measured."""
    from synthbench.run.executors.slurm import SlurmExecutor, queue, shards_of_jobs
    from synthbench.run.job_status import status_of
    from synthbench.run.progress import duration
    from synthbench.run.slurm_reasons import what_to_do
    from synthbench.store import read_info

    folder = find_run(run, results)
    info = read_info(folder)
    found = status_of(folder)
    ids = {shard: job for job, shard in shards_of_jobs(folder).items()}
    jobs = queue(folder) if ids else {}
    if not found:
        why = f"its executor is {info.executor}"
        if info.executor == SlurmExecutor.name:
            why = "none were ordered yet, or its folder jobs/ was removed"
        say(f"{folder}: {state(info)}\nNo jobs of it are known: {why}.")
        return
    say(f"{folder}: {state(info)}, {sum(f.done for f in found)} of "
        f"{sum(f.total for f in found)} cells and rounds measured by jobs")  # fmt: skip
    rows = [["shard", "cells", "job", "state", "node", "time limit in", "left"]]
    for each in found:
        job = None if jobs is None else jobs.get(each.shard)
        left = "" if each.seconds_left is None else duration(each.seconds_left)
        rows.append(
            [each.shard, f"{each.done}/{each.total}", ids.get(each.shard, ""),
             _state(job, each.done == each.total), *_place(job), left]
        )  # fmt: skip
    print_columns(rows[0], rows[1:])
    if jobs is None:
        say("The controller of Slurm does not answer: the states of jobs are not known.")
    elif advice := what_to_do(list(jobs.values()), folder):
        say(advice)


def cancel(run: Run, results: Results = Path("results")) -> None:
    """End the jobs of a run; what they have measured is kept, and --resume goes on from it."""
    from synthbench.run.executors.slurm import cancel as cancel_jobs

    folder = find_run(run, results)
    count = cancel_jobs(folder)
    say(f"{count} jobs of {folder} are being ended" if count else f"{folder} has no jobs to end")


def _state(job: Job | None, done: bool) -> str:
    if job is not None and not (done and job.has_ended):
        reason = "" if job.reason in ("", "None") else f" ({job.reason})"
        return job.state.lower() + reason
    return "complete" if done else "ended"


def _place(job: Job | None) -> tuple[str, str]:
    """Node and time left until the limit, of a job that runs."""
    return (job.node, job.time_left) if job is not None and job.state == "RUNNING" else ("", "")
