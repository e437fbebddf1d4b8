"""Standard streams that are closed, full, or cannot encode what is printed: fresh interpreters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.faults.case import write_files
from benchmarks.faults.conditions.condition import interpreter
from benchmarks.faults.inputs.examples import RUN, RUN_FILES, SUITE
from benchmarks.faults.judge import judge_end

ASCII: dict[str, str | None] = {
    "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0",
}  # fmt: skip
COMMANDS = (
    ("list", "variants"),
    ("show", "V"),
    ("tables", RUN),
    ("run", "--suite", "tiny.yaml", "--device", "cpu", "--dry-run"),
    ("show", "nonsense"),
    ("--help",),
)
Check = Callable[[Path], tuple[list[str], str]]


def _try(shell: str, **variables: str | None) -> Check:
    def check(folder: Path) -> tuple[list[str], str]:
        write_files({**RUN_FILES, "tiny.yaml": SUITE}, folder)
        problems, printed = [], ""
        for command in COMMANDS:
            ended = interpreter(command, folder, shell=shell, **variables)
            found = judge_end(ended.returncode, (0, 1, 2), ended.stderr + ended.stdout)
            found += ["an exception that was ignored"] * ("Exception ignored" in ended.stderr)
            problems += [f"{' '.join(command)}: {problem}" for problem in found]
            printed += ended.stderr if found else ""
        return problems, printed

    return check


def _imports_of_folder(folder: Path) -> tuple[list[str], str]:
    """Modules in the working directory are not executed."""
    write_files({**RUN_FILES, "tiny.yaml": SUITE}, folder)
    for name in ("random.py", "json.py", "torch.py", "typer.py", "sitecustomize.py"):
        (folder / name).write_text("raise SystemExit('executed')\n")
    ended = interpreter(("tables", RUN), folder)
    problems = judge_end(ended.returncode, (0,), ended.stderr)
    return problems + ["a file was executed"] * ("executed" in ended.stderr), ended.stderr


STREAMS: dict[str, Check] = {
    "standard output closed": _try('"$@" >&-'),
    "standard error closed": _try('"$@" 2>&-'),
    "standard input closed": _try('"$@" <&-'),
    "all three closed": _try('"$@" <&- >&- 2>&-'),
    "standard output full": _try('"$@" >/dev/full'),
    "standard error full": _try('"$@" 2>/dev/full'),
    "a reader that leaves": _try('set -o pipefail; "$@" | true; exit 0'),
    "ASCII streams": _try('"$@"', **ASCII),
    "files of other modules in the working directory": _imports_of_folder,
}
