"""Judge what a command did with a wrong input, and what a kill did to a run's records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from benchmarks.faults.case import Case
from benchmarks.faults.forked import Ended
from synthbench.store import RECORDS

TRACEBACK = "Traceback (most recent call last)"
LONGEST_LINE = 2000  # characters of a message
USAGE = ("Usage: ", "Try ", "╭", "│", "╰")  # what the parser of the command line prints around it


def judge_input(case: Case, ended: Ended, changed: Sequence[str]) -> list[str]:
    """Everything that is wrong with how a command ended; empty if the input was handled."""
    if ended.code is None:
        return ["it hangs"]
    problems = []
    if TRACEBACK in ended.err or TRACEBACK in ended.out:
        problems.append("a traceback")
    if ended.code not in case.codes:
        expected = " or ".join(map(str, case.codes))
        problems.append(f"exit code {ended.code} instead of {expected}")
    message = [
        line for line in ended.err.splitlines() if line.strip() and not line.startswith(USAGE)
    ]
    said = [line for line in ended.err.splitlines() if line.strip()]
    if not said and ended.code != 0:
        problems.append("no message")
    if len(message) > case.lines:
        problems.append(f"a message of {len(message)} lines")
    if any(len(line) > LONGEST_LINE for line in message):
        problems.append(f"a line of {max(map(len, message))} characters")
    if "\x1b" in ended.err:
        problems.append("an escape sequence in the message")
    if case.says and case.says not in ended.err + ended.out:
        problems.append(f"the message does not say {case.says!r}")
    if ended.out.strip() and 0 not in case.codes and not case.prints:
        problems.append("a refused command prints to standard output")
    if changed and not case.writes:
        problems.append(f"files were created or changed: {', '.join(changed[:5])}")
    if ended.loaded:
        problems.append(f"{' and '.join(ended.loaded)} imported by the command itself")
    return problems


def complete_lines(run_dir: Path) -> list[bytes]:
    """The lines of records.jsonl that are complete records."""
    return [line for line in records_content(run_dir).split(b"\n") if _is_record(line)]


def records_content(run_dir: Path) -> bytes:
    """The bytes of records.jsonl; empty if there is no such file."""
    path = run_dir / RECORDS
    return path.read_bytes() if path.exists() else b""


def judge_records(before: Sequence[bytes], after: Sequence[bytes]) -> list[str]:
    """Whether complete records were lost, changed, or stored twice in a round."""
    problems = []
    if list(after[: len(before)]) != list(before):
        lost = len(set(before) - set(after))
        problems.append(f"{lost} complete records were lost or changed" if lost else
                        "complete records changed their order")  # fmt: skip
    keys = Counter((r["id"], r["round"], r["attempt"]) for r in map(json.loads, after))
    if twice := [key for key, count in keys.items() if count > 1]:
        problems.append(f"stored twice: {twice}")
    return problems


def judge_end(ended_code: int | None, codes: Collection[int], printed: str) -> list[str]:
    """What is wrong with how a killed or resumed run ended."""
    if ended_code is None:
        return ["it hangs"]
    problems = []
    if ended_code not in codes:
        problems.append(f"exit code {ended_code} instead of {' or '.join(map(str, codes))}")
    if TRACEBACK in printed:
        problems.append("a traceback")
    return problems


def _is_record(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
