"""On what a run was measured, with which settings, and the commands that make it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from synthbench.run_info import RunInfo
from synthbench.store import Run

Pairs = list[tuple[str, str]]


def environment(info: RunInfo) -> list[tuple[str, Pairs]]:
    """A label and its names and values: the run, its settings, then each machine."""
    about = {
        "suite": info.suite, "device": info.device, "executor": info.executor,
        "plugins": info.plugins, "options": info.options, "started": info.started,
        "finished": info.finished or "not finished", "resumed": info.resumed,
    }  # fmt: skip
    found = [("Run", _pairs(about)), ("Settings of the suite", _pairs(info.settings))]
    for machine in info.machines:
        found.append((f"Machine {machine.id}", _pairs(machine.environment)))
        if machine.ceilings:
            ceilings = [one.model_dump(mode="json") for one in machine.ceilings]
            found.append((f"Best rates of machine {machine.id}", _pairs({"ceiling": ceilings})))
    return found


def commands(run: Run) -> list[str]:
    """The shell commands that measure the suite again and make the tables and this page."""
    info = run.info
    git = info.environment.get("git") or {}
    lines = []
    if git.get("commit"):
        changed = ", with changes that were not committed" if git.get("dirty") else ""
        lines += [_comment(f"synthbench at commit {git['commit']}{changed}")]
    plugins = [part for plugin in info.plugins for part in ("--plugin", plugin)]
    options = plugins if info.options is None else info.options
    path = run.full_path
    name = f"{path.parent.name}/{path.name}"  # the rest of the path is about this machine
    lines += [
        _command("synthbench", "run", "--suite", info.suite, "--device", info.device, *options),
        _comment("from the records, on any machine:"),
        _command("synthbench", "tables", name),
        _command("synthbench", "report", name, "--out", "report.html", *plugins),
    ]
    return lines


def _command(*parts: str) -> str:
    return shlex.join(parts)


def _comment(text: str) -> str:
    return "# " + " ".join(text.split())


def _pairs(content: Mapping[str, Any]) -> Pairs:
    return list(_flat("", content))


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Nested values with their names joined by dots; lists of plain values as one text."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}".lstrip("."), inner)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        if any(isinstance(one, Mapping) for one in value):
            for number, inner in enumerate(value, 1):
                yield from _flat(f"{name} {number}", inner)
        else:
            yield name, ", ".join(map(str, value))
    elif value not in (None, {}, [], ()):
        yield name, str(value)
