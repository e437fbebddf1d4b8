"""Find a run by its name: a path, `suite/run`, or a suite for its newest run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from synthbench.cli.output import complain
from synthbench.errors import ResultsError, UnknownNameError, quote
from synthbench.run_info import RunInfo
from synthbench.store import INFO, list_runs, read_info


def find_run(text: str, results: Path) -> Path:
    """The folder of a run; UnknownNameError with similar names if there is no such run.

    Of a suite's several runs it says which it takes.
    """
    for folder in (Path(text), results / text):
        if (folder / INFO).exists():
            return folder
    runs = list_runs(results)
    suites = {Path(text).absolute(), (results / text).absolute()}
    below = [run for run in runs if run.parent.absolute() in suites]
    if below:
        newest = _newest(below)
        if len(below) > 1:
            complain(f"{quote(text)} has {len(below)} runs; this is the newest, {newest}")
        return newest
    if text and (Path(text).exists() or (results / text).exists()):
        raise ResultsError(
            f"{quote(text)} is not a run: a run is a folder with a {INFO}; `synthbench list runs` "
            "lists the runs"
        )
    if not runs:
        raise ResultsError(f"run {quote(text)} not found, and {_none_in(results)}")
    names = {run_name(run, results) for run in runs}
    raise UnknownNameError("run", text, names | {run.parent.name for run in runs})


def newest_run(results: Path) -> Path:
    """The newest run in a folder, without damaged ones; ResultsError if there is none."""
    runs = list_runs(results)
    if not runs:
        raise ResultsError(f"no run found: {_none_in(results)}")
    return _newest(runs)


def newest_unfinished(suite: str, device: str, results: Path) -> Path:
    """The newest unfinished run of a suite on a device; ResultsError if there is none."""
    found: list[tuple[str, Path]] = []
    for run in list_runs(results / suite):
        try:
            info = read_info(run)
        except ResultsError:  # other runs may still be readable
            continue
        if info.finished is None and (info.suite, info.device) == (suite, device):
            found.append((info.started, run))
    if not found:
        raise ResultsError(
            f"--resume: no unfinished run of {suite} on {device} in {results / suite}; choose a "
            "run with --out, or start a new one without --resume"
        )
    return max(found)[1]


def run_name(run: Path, results: Path) -> str:
    """The name of a run for `find_run`."""
    whole, folder = run.absolute(), results.absolute()
    return str(whole.relative_to(folder)) if whole.is_relative_to(folder) else str(run)


def state(info: RunInfo) -> str:
    """`finished` or `unfinished`."""
    return "unfinished" if info.finished is None else "finished"


def _newest(runs: Sequence[Path]) -> Path:
    """The newest run; damaged ones are named and left out, unless all are damaged."""
    started: dict[Path, str] = {}
    damaged: list[ResultsError] = []
    for run in runs:
        try:
            started[run] = read_info(run).started
        except ResultsError as error:
            damaged.append(error)
    if not started:
        raise damaged[0]
    for problem in damaged:
        complain(f"synthbench: {problem}")
    return max(started, key=lambda run: (started[run], run.name))


def _none_in(results: Path) -> str:
    return (
        f"{results} has no runs; create one with `synthbench run --suite smoke`, or give another "
        "folder with --results"
    )
