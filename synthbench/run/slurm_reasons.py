"""Why a job of Slurm waits, and whether it can ever start without somebody who does something."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from synthbench.run.slurm_commands import Job

# States of jobs in the queue that are held, whatever their reason says.
HELD_STATES = ("REQUEUE_HOLD", "SPECIAL_EXIT")
# Reasons of Slurm ("Job reason codes" in its manual) that do not go away by themselves. Not among
# them is what ends when other jobs end (Resources, AssocGrpCpuLimit, QOSMaxJobsPerUserLimit), when
# nodes come back (ReqNodeNotAvail, PartitionNodeLimit), or when the use of an account decays
# (AssocGrpCPUMinutesLimit).
NEVER = (
    "AccountNotAllowed", "BadConstraints", "DependencyNeverSatisfied", "InvalidAccount",
    "InvalidQOS", "PartitionTimeLimit", "QOSNotAllowed", "ReservationDeleted",
)  # fmt: skip
# What one job asks for, compared with the limits of an account (Assoc) or a QOS.
OF_ONE_JOB = re.compile(r"QOSMin\w+|(Assoc|QOS)Max\w+Per(Job|Node)(Limit)?")


def is_held(job: Job) -> bool:
    """Whether a job waits until somebody releases it."""
    # JobHeldUser, JobHeldAdmin, JobHoldMaxRequeue, launch failed requeued held
    # But no threshold: QOSUsageThreshold passes by itself.
    held = re.search("held|JobHold", job.reason, re.IGNORECASE) is not None
    return job.is_waiting and (job.state in HELD_STATES or held)


def cannot_start(job: Job) -> bool:
    """Whether a job waits for what will not come by itself."""
    never = job.reason in NEVER or OF_ONE_JOB.fullmatch(job.reason) is not None
    return is_held(job) or (job.is_waiting and never)


def what_to_do(jobs: Sequence[Job], run_dir: Path) -> str:
    """One line about the jobs among these that cannot start; empty if there are none."""
    stuck = [job for job in jobs if cannot_start(job)]
    if not stuck:
        return ""
    reasons = ", ".join(sorted({_why(job) for job in stuck}))
    who, them = ("1 job", "it") if len(stuck) == 1 else (f"{len(stuck)} jobs", "them")
    held = sorted({job.id.partition("_")[0] for job in stuck if is_held(job)}, key=int)
    release = f"release {them} with scontrol release {','.join(held)}, or " * bool(held)
    cancel = shlex.join(["synthbench", "cancel", str(run_dir)])
    return (
        f"{who} can never start ({reasons}): {release}end {them} with {cancel} and change --slurm; "
        "then go on with synthbench run --resume"
    )


def _why(job: Job) -> str:
    return job.reason if job.reason not in ("", "None") else job.state
