"""What differs between the environments, the settings and the ceilings of two runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from synthbench.record import flattened
from synthbench.run_info import RunInfo

# Of an environment: they change from minute to minute.
VOLATILE = ("taken", "load", "memory_available_bytes", "git")
GIGA = 1e9


class Change(NamedTuple):
    """A fact about two runs that differs; None where a run does not know it."""

    name: str
    first: Any
    second: Any


def environment_changes(first: RunInfo, second: RunInfo) -> list[Change]:
    """What differs between two runs, and the ceilings of both, in the order of importance.

    Ceilings are there even if they are equal: they say how fast the machine itself was.
    """
    pairs = zip(_facts(first), _facts(second), strict=True)
    found: list[Change] = []
    for one, other in pairs:
        for name in dict.fromkeys([*one, *other]):
            if one.get(name) != other.get(name):
                found.append(Change(name, one.get(name), other.get(name)))
    ceilings = [dict(_ceilings(info)) for info in (first, second)]
    found += [Change(name, ceilings[0][name], ceilings[1][name])
              for name in ceilings[0] if name in ceilings[1]]  # fmt: skip
    return found


def short_commit(info: RunInfo) -> str | None:
    """The commit of a run in seven digits, with a plus if files had changed since."""
    git = info.environment.get("git") or {}
    commit = git.get("commit")
    return f"{str(commit)[:7]}{'+' if git.get('dirty') else ''}" if commit else None


def _facts(info: RunInfo) -> Iterator[dict[str, Any]]:
    """The facts of a run by name, in groups whose order is that of the changes."""
    environment = info.environment
    yield {
        "suite": info.suite,
        "device": info.device,
        "machine": ", ".join(machine.id for machine in info.machines) or None,
        "commit": short_commit(info),
        "executor": info.executor,
        "plugins": ", ".join(info.plugins) or None,
    }
    yield flattened({k: v for k, v in environment.items() if k not in VOLATILE})
    yield flattened({"settings": info.settings})


def _ceilings(info: RunInfo) -> Iterator[tuple[str, float]]:
    for one in info.ceilings:
        name = f"ceiling {one.framework} {one.dtype} {one.device}"
        yield f"{name}, GFLOP/s", one.flops_per_second / GIGA
        yield f"{name}, GB/s", one.bytes_per_second / GIGA
