"""What is asked of Slurm's own commands: partitions, the queue, the end of jobs."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from synthbench.errors import SynthbenchError, UnknownNameError

ANSWER_SECONDS = 60.0
ENDED = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "REVOKED", "TIMEOUT",
)  # fmt: skip
WAITING = ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT")
UNLIMITED_MINUTES = 365 * 24 * 60
# The limits that are printed as such where there is none.
NO_LIMIT = {"infinite", "unlimited", "n/a", "not_set"}


class Job(NamedTuple):
    """A job in the queue, or one that has just ended."""

    id: str  # of an array: 12_3
    state: str
    node: str
    time_left: str  # until its time limit
    reason: str  # why it waits, or why it has ended

    @property
    def has_ended(self) -> bool:
        """Whether it will not run again."""
        return self.state in ENDED

    @property
    def is_waiting(self) -> bool:
        """Whether it has not begun, or is to begin again."""
        return self.state in WAITING


def require_slurm() -> None:
    """Raise SynthbenchError where there is no Slurm."""
    if shutil.which("sbatch") is None:
        raise SynthbenchError(
            "there is no Slurm here: the command sbatch is not found; start this on a node of the "
            "cluster from which jobs are submitted, or leave --executor slurm out"
        )


def time_limit(partition: str | None) -> str:
    """The time that a partition gives to jobs that ask for none; by default of the default one.

    Raises UnknownNameError for a partition that there is not.
    """
    lines = _answer(["sinfo", "--noheader", "--format=%P|%L|%l"]).splitlines()
    rows = [line.strip().split("|") for line in lines if line.count("|") == 2]
    known = {name.rstrip("*"): (name, default, longest) for name, default, longest in rows}
    if partition is not None:
        for name in partition.split(","):
            if name not in known:
                raise UnknownNameError("partition", name, known)
    wanted = (partition or "").split(",")[0]
    for name, (shown, default, longest) in known.items():
        if name == wanted or (not wanted and shown.endswith("*")):
            return longest if default.lower() in NO_LIMIT else default
    return "infinite"


def require_accepted(options: Mapping[str, Any], devices: int = 1) -> None:
    """Raise SynthbenchError where Slurm would not take a job with these options of sbatch.

    `devices`: how many of one node the job needs, for the advice.
    """
    flags = [f"--{name}" if text is True else f"--{name}={text}" for name, text in options.items()]
    try:
        _answer(["sbatch", "--test-only", *flags, "--wrap=true"])
    except SynthbenchError as error:
        room = f", and whether a node has {devices} devices (axis devices)" if devices > 1 else ""
        raise SynthbenchError(
            f"Slurm does not take these jobs: {error}; check --slurm{room}"
        ) from error


def minutes_of(limit: str) -> int:
    """A time limit in minutes, as Slurm writes it; raises SynthbenchError for anything else.

    90, 90:00, 1:30:00, 1-12, 1-12:30 or 1-12:30:00.
    """
    if limit.lower() in NO_LIMIT:
        return UNLIMITED_MINUTES
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", limit)
    if found is None:
        raise SynthbenchError(
            f"time={limit} is not a time limit; write minutes, hours:minutes:seconds or "
            "days-hours:minutes, as in --slurm time=02:00:00"
        )
    days, *numbers = (None if text is None else int(text) for text in found.groups())
    first, second, third = (number or 0 for number in numbers)
    if days is not None:
        seconds = days * 86400 + first * 3600 + second * 60 + third
    elif numbers[2] is not None:
        seconds = first * 3600 + second * 60 + third
    else:
        seconds = first * 60 + second
    return max(1, -(-seconds // 60))


def queued(ids: Iterable[str]) -> list[Job] | None:
    """The jobs of these ids (of an array: of all its tasks) that Slurm still knows.

    None while the controller does not answer, as when it is restarted: nothing is known then.
    """
    ids = sorted(ids)
    if not ids:
        return []
    command = ["squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%N|%L|%r"]
    try:
        text = _answer([*command, f"--jobs={','.join(ids)}"])
    except SynthbenchError as error:
        return [] if "Invalid job id" in str(error) else None
    return [Job(*line.strip().split("|", 4)) for line in text.splitlines() if line.count("|") >= 4]


# States of `sinfo --format=%T`, and what may follow: powered off, rebooting, planned. A node that
# does not respond (*) is none of them.
TAKES_JOBS = ("idle", "mixed", "allocated", "completing", "planned", "reserved")
FLAGS = "~#!%$@^-"


def can_run(node: str) -> bool:
    """Whether a node takes jobs, now or when those that it has are done."""
    try:
        states = _answer(["sinfo", "--noheader", f"--nodes={node}", "--format=%T"]).split()
    except SynthbenchError:
        return False
    return any(state.rstrip(FLAGS) in TAKES_JOBS for state in states)


def cancel(ids: Sequence[str]) -> None:
    """End jobs; raises SynthbenchError where Slurm does not do it."""
    if ids:
        _answer(["scancel", *ids])


def _answer(command: Sequence[str]) -> str:
    """What a command prints; raises SynthbenchError with what it says if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SynthbenchError(f"{command[0]} gives no answer: {error}") from error
    if done.returncode != 0:
        raise SynthbenchError(f"{command[0]} failed: {first_error(done.stderr)}")
    return done.stdout


def first_error(text: str) -> str:
    """What a command of Slurm says went wrong, on one line."""
    lines = [re.sub(r"^\w+: (error: )?", "", line).strip() for line in text.splitlines()]
    return "; ".join(dict.fromkeys(line for line in lines if line)) or "it says nothing"
