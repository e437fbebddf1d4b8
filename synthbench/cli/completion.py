"""What the shell offers for an unfinished word; found without importing a framework or pandas."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import typer

from synthbench.devices import AUTO, KINDS
from synthbench.errors import SynthbenchError

FRAMEWORKS = ("torch", "jax")
MODES = ("forward", "train", "decode")
GPU_FILES = Path("/dev")  # a GPU of NVIDIA's is /dev/nvidia0
TABLE_CATALOG = "synthbench.report.tables.catalog"


def complete_suite(incomplete: str) -> list[str]:
    """The built-in suites, and suite files below what was typed."""
    from synthbench.suites.find import ENDINGS, list_suites

    folder, _, beginning = incomplete.rpartition("/")
    files = [
        os.path.join(folder, name) + "/" * is_folder
        for name, is_folder in _entries(Path(folder or ("/" if incomplete[:1] == "/" else ".")))
        if name.startswith(beginning) and not name.startswith(".")
        and (is_folder or name.endswith(ENDINGS))
    ]  # fmt: skip
    return [*_starting(incomplete, list_suites()), *(files if "/" in incomplete else [])]


def complete_run(context: typer.Context, incomplete: str) -> list[str]:
    """The suites that have runs, and the runs, as `find_run` takes them: by name or by path."""
    from synthbench.cli.runs import run_name
    from synthbench.store import list_runs

    results = Path(context.params.get("results") or "results")
    try:
        found = list_runs(results)
    except SynthbenchError:
        return []
    suites = dict.fromkeys(run.parent.name for run in found if run.parent != results)
    names = [*suites, *(run_name(run, results) for run in found)]
    if incomplete.startswith(f"{results}/"):
        names = [str(run) for run in found]
    return _starting(incomplete, dict.fromkeys(names))


def complete_measured_suite(context: typer.Context, incomplete: str) -> list[str]:
    """The suites that have runs, by what their runs say: a folder may have another name."""
    from synthbench.store import INFO, list_runs

    results = Path(context.params.get("results") or "results")
    found: dict[str, None] = {}
    with suppress(SynthbenchError):
        for run in list_runs(results):
            with suppress(OSError, ValueError, TypeError, KeyError):  # of a damaged run
                content = json.loads((run / INFO).read_text(encoding="utf-8"))
                found[str(content["suite"])] = None
    return _starting(incomplete, found)


def complete_device(incomplete: str) -> list[str]:
    """auto, every kind, and one name per GPU of NVIDIA's."""
    numbers = [name.removeprefix("nvidia") for name, _ in _entries(GPU_FILES)
               if name.startswith("nvidia")]  # fmt: skip
    counted = sorted(filter(str.isdecimal, numbers), key=int)
    gpus = [f"{kind.name}:{n}" for kind in KINDS.values() if kind.has_nvml for n in counted]
    return _starting(incomplete, [AUTO, *KINDS, *gpus])


def complete_variant(incomplete: str) -> list[str]:
    """The built-in variants."""
    from synthbench.mixers.catalog import SHOWCASE

    return _starting(incomplete, SHOWCASE)


def complete_variants(incomplete: str) -> list[str]:
    """Variants separated by commas: the last of them is completed."""
    return _completed(incomplete, complete_variant)


def complete_frameworks(incomplete: str) -> list[str]:
    """Frameworks separated by commas."""
    return _completed(incomplete, lambda last: _starting(last, FRAMEWORKS))


def complete_modes(incomplete: str) -> list[str]:
    """Modes separated by commas."""
    return _completed(incomplete, lambda last: _starting(last, MODES))


def complete_table(incomplete: str) -> list[str]:
    """The tables of a run.

    Their names are read from the source of their catalog: to import it would import pandas, which
    takes a second.
    """
    return _starting(incomplete, table_names())


def table_names() -> list[str]:
    """The keys of TABLES in the catalog."""
    spec = find_spec(TABLE_CATALOG)
    source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.value, ast.Dict):
            target = statement.target
            if isinstance(target, ast.Name) and target.id == "TABLES":
                return [str(ast.literal_eval(key)) for key in statement.value.keys if key]
    return []


def _split_last(text: str) -> tuple[str, str]:
    """What stands before the last entry, and the entry; commas in parentheses separate nothing."""
    depth, start = 0, 0
    for at, character in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if character == "," and depth <= 0:
            start = at + 1
    return text[:start], text[start:]


def _completed(text: str, complete: Callable[[str], Iterable[str]]) -> list[str]:
    """What `complete` gives for the last entry of a list, without what stands before it."""
    before, last = _split_last(text)
    given, rest = set[str](), before[:-1]
    while rest:
        rest, entry = _split_last(rest)
        given.add(entry)
        rest = rest[:-1]
    return [before + name for name in complete(last) if name not in given]


def _starting(beginning: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(beginning)]


def _entries(folder: Path) -> list[tuple[str, bool]]:
    """The names in a folder, and whether each is a folder; none where it cannot be read."""
    try:
        with os.scandir(folder) as found:
            return sorted((entry.name, entry.is_dir()) for entry in found)
    except OSError:
        return []
