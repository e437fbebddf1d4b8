"""All machines of a run have the same versions and the same code, or the later one is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from synthbench.errors import UnsupportedError
from synthbench.run.orders import Order, node_of, this_node
from synthbench.run.plugin_code import changed_plugins
from synthbench.store import read_jobs


def require_same_code(
    run_dir: Path, name: str, order: Order, environment: Mapping[str, Any]
) -> None:
    """Raise UnsupportedError unless a machine has the code of the order, and others' versions.

    `name`: of the files of the job that asks. Another job that begins at the same moment either
    sees that job's machine or is seen: each writes its own before it looks.
    """
    here = f"node {this_node()}"
    if environment.get("code_sha256") != order.code:
        raise UnsupportedError(
            f"{here} has another code of synthbench (commit {commit_of(environment)}) than the "
            "machine that the run was started from; install the same on both"
        )
    for other, job in read_jobs(run_dir).items():
        if job.machine is None or other == name:
            continue
        machines = order.plan.settings.measure.machines
        found = code_differences(job.machine.environment, environment)
        found += hardware_differences(job.machine.environment, environment, machines)
        if found:
            there = f"node {node_of(run_dir, other)}"
            raise UnsupportedError(
                f"{there} and {here} differ: {'; '.join(found)}; a run needs the same versions "
                f"everywhere: make both equal, or leave one out (--slurm exclude={this_node()})"
            )


def code_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What two environments have different of what numbers depend on: code, Python, versions."""
    versions = [environment.get("versions") or {} for environment in (before, after)]
    pairs = {
        name: (versions[0].get(name), versions[1].get(name))
        for name in sorted({*versions[0], *versions[1]})
    }
    pairs["python"] = (before.get("python"), after.get("python"))
    found = [f"{name} {old} and {new}" for name, (old, new) in pairs.items() if old != new]
    found += [f"the code of plug-in {name}" for name in changed_plugins(before, after)]
    if before.get("code_sha256") != after.get("code_sha256"):
        found.append(f"commits {commit_of(before)} and {commit_of(after)} of synthbench")
    return found


def hardware_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], machines: int
) -> list[str]:
    """What two machines have different that the rounds of a cell are to be spread over.

    Nothing with `machines` of 1: then what is compared stays on one machine, of whatever kind.
    """
    one, other = (_hardware(environment) for environment in (before, after))
    if machines < 2 or one == other:
        return []
    return [f"{one} and {other} (measure.machines needs machines of one kind)"]


def _hardware(environment: Mapping[str, Any]) -> str:
    gpus = sorted({str(gpu.get("name")) for gpu in environment.get("nvidia") or []})
    cores = len(environment.get("cores") or [])
    return ", ".join([str(environment.get("cpu") or "unknown"), f"{cores} cores", *gpus])


def commit_of(environment: Mapping[str, Any]) -> str:
    """The commit of synthbench in an environment, and whether its files had changed since."""
    git = environment.get("git") or {}
    return f"{str(git.get('commit'))[:12]}{' with changes' * bool(git.get('dirty'))}"
