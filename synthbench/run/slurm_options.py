"""Options of sbatch: those that a user gives, and a whole device, or several, for each job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from synthbench.devices import is_host
from synthbench.errors import NotationError
from synthbench.run.slurm_commands import minutes_of

NOT_OF_SBATCH = ("array_parallelism", "signal_delay_s")  # options that submitit has itself
# Options that say how many cores a node must have for a job.
OF_CORES = ("cpus-per-task", "mincpus", "ntasks-per-node")

OF_GPUS = re.compile(r"(gres[:/])?gpu\b")  # values of gres and tres-per-node


def parse_options(texts: Sequence[str]) -> dict[str, str]:
    """Options of sbatch from partition=a100,gres=gpu:1,exclusive; NotationError for anything else.

    What has no `=` is a flag. An option that is given several times has all its values, by comma.
    """
    found: dict[str, str] = {}
    for text in texts:
        for part in text.split(","):
            name, _, value = part.strip().partition("=")
            name = name.strip().lstrip("-")
            if not name.replace("-", "").replace("_", "").isalnum():
                raise NotationError(
                    f"--slurm {text!r} is not a list of options; write --slurm "
                    "partition=a100,gres=gpu:1,time=02:00:00"
                )
            if name not in NOT_OF_SBATCH:
                name = name.replace("_", "-")
            values = [found.get(name, ""), value.strip()]
            found[name] = ",".join(filter(None, values))
    return found


def of_submitit(given: Mapping[str, str]) -> dict[str, int]:
    """The options that submitit has itself; raises NotationError for what is not an integer."""
    found = {}
    for name in NOT_OF_SBATCH:
        if (text := given.get(name)) is not None:
            if not text.isdecimal():
                raise NotationError(f"--slurm {name}={text} is not an integer; write {name}=8")
            found[name] = int(text)
    return found


def stop_delay(given: Mapping[str, str], cell_seconds: float) -> int:
    """So many seconds before its time limit, a job ends after the cell in progress."""
    return min(int(cell_seconds), minutes_of(given["time"]) * 30)


def of_sbatch(given: Mapping[str, str], device: str, devices: int) -> dict[str, Any]:
    """Options by their long names: those given, and so many whole devices of a node for each job.

    On a processor that is a whole node, with a core for each of the devices. Raises NotationError
    where the options that are given ask for fewer devices.
    """
    own: dict[str, Any] = {
        name: True if text == "" else text
        for name, text in given.items()
        if name not in NOT_OF_SBATCH
    }
    whole: dict[str, Any] = {"requeue": True}
    if is_host(device):
        whole["exclusive"] = True
        if not any(name.startswith("mem") for name in own):
            whole["mem"] = 0  # all that the node has
        if devices > 1 and not own.keys() & set(OF_CORES):
            whole["mincpus"] = devices
    elif not any(_of_gpus(name, text) for name, text in given.items()):
        whole["gpus-per-node"] = devices
    else:
        _require_gpus(given, devices)
    return whole | own


def _require_gpus(given: Mapping[str, str], devices: int) -> None:
    """Raise NotationError where options ask for fewer GPUs than the cells of a shard share."""
    for name, text in given.items():
        counts = [_count(entry) for entry in _of_gpus(name, text)]
        if counts and (number := sum(counts)) < devices:
            raise NotationError(
                f"--slurm {name}={text} gives each job {number} device{'s' * (number != 1)}, but "
                f"cells of this plan share {devices} (axis devices); give {devices}, or leave "
                f"{name} out"
            )


def _of_gpus(name: str, text: str) -> list[str]:
    """The entries of an option that ask for GPUs: a node may have other resources, too."""
    if name.startswith("gpus"):
        return text.split(",")
    if name.startswith(("gres", "tres")):
        return [entry for entry in text.split(",") if OF_GPUS.match(entry)]
    return []  # a partition may be called gpu


def _count(entry: str) -> int:
    """How many GPUs one entry of a list asks for: gpu, gpu:2, gpu:a100:2, a100:2, 2."""
    count = re.search(r"(?:^|:)(\d+)$", entry)
    return int(count[1]) if count else 1
