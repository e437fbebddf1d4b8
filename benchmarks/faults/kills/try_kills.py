"""Kill a run again and again, resume it, let it finish, and judge its records each time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.faults.case import remove
from benchmarks.faults.finding import Report
from benchmarks.faults.forked import Command, preload
from benchmarks.faults.judge import TRACEBACK, judge_end, judge_records
from benchmarks.faults.kills.plan import (
    EXIT_CODES,
    IGNORED_BY_HOSTS,
    LATEST_SECONDS,
    SIGNALS,
    Kill,
)
from benchmarks.faults.kills.session import PATIENCE, HangError, Session, send
from benchmarks.faults.processes import end, left_behind, marked, patience
from benchmarks.kill_resume import PLUGIN, judge_run, tiny_plan
from synthbench.run.extensions import load_plugin

GROUP = "kills"
KILLS_PER_RUN = 16
ROUNDS_PER_KILL = 2  # of four cells
RECORDS_AFTER = 3  # among which the one is that was killed


def try_kills(
    kills: Sequence[Kill],
    folder: Path,
    report: Report,
    advance: Callable[[str], None] = lambda case: None,
) -> None:
    """Try the kills, several per run; adds what is wrong to the report."""
    preload()
    load_plugin(PLUGIN)
    rest = list(kills)
    number = 0
    while rest:
        series = rest[:KILLS_PER_RUN]
        done = _try_series(series, folder / f"run-{number}", report, advance)
        rest = rest[done:]
        number += 1


def _try_series(
    kills: Sequence[Kill], folder: Path, report: Report, advance: Callable[[str], None]
) -> int:
    """Kill one run; returns how many kills were done before it was finished."""
    rounds = len(kills) * ROUNDS_PER_KILL
    session = Session(folder, rounds)
    failures = done = 0
    try:
        for kill in kills:
            advance(kill.title)
            problems, output = try_kill(session, kill)
            if problems is None:
                break
            failures += kill.target != "parent"
            done += 1
            report.add(GROUP, kill.target, kill.title, problems, output)
        advance("let the run finish")
        problems, output = finish(session, rounds, failures)
        report.add(GROUP, "resume to the end", f"{done} kills", problems, output)
    finally:
        session.stop()
        end(marked(session.token))
        remove(folder)
    return max(done, 1)


def try_kill(session: Session, kill: Kill) -> tuple[list[str] | None, str]:
    """What is wrong after a kill, and what was printed; None if the run was finished before it."""
    try:
        if not _wait_for_moment(session, kill):
            return None, ""
        command = session.running()
        before = session.records()
        pid = session.find(kill.target)
        if pid is None or not send(pid, SIGNALS[kill.signals], kill.pause):
            return None, ""
        if kill.target == "parent":
            problems = _judge_parent(session, command, kill)
        else:
            problems = _judge_survival(session, command, kill, pid, before)
        problems += judge_records(before, session.records())
    except HangError as error:
        problems = [f"it hangs: {error}"]
        session.stop()
    command = session.command or session.launch()
    printed = command.text("err")
    if TRACEBACK in printed and "a traceback" not in problems:
        problems.append("a traceback")
    return problems, printed


def finish(session: Session, rounds: int, failures: int) -> tuple[list[str], str]:
    """Resume the run until its end; what is wrong with it, and what was printed."""
    before = session.records()
    command = session.running()
    code = command.wait(patience(PATIENCE + 2.0 * rounds))
    printed = command.text("err")
    if code is None:
        session.stop()
        return ["the resumed run hangs"], printed
    problems = judge_end(code, (0, 1) if failures else (0,), printed)
    problems += judge_records(before, session.records())
    plan = tiny_plan(rounds)
    expected = {(cell.id, number) for number in range(rounds) for cell in plan.cells}
    problems += judge_run(session.run_dir, expected, failures)
    if behind := left_behind(session.token):
        problems.append(f"processes left behind: {behind}")
    return problems, printed


def _wait_for_moment(session: Session, kill: Kill) -> bool:
    """Wait until the process is to be killed; False if the run has ended."""
    begun = time.monotonic()
    if not kill.after_record and session.command is not None:
        session.stop()  # at any time: from the start of a new process
    command = session.running()
    if not kill.after_record:
        longest = max(2.0, 2 * (time.monotonic() - begun))
        return command.wait(0.002 + kill.moment * longest) is None
    if not session.wait_for_record(len(session.records())):
        return False
    return command.wait(kill.moment * LATEST_SECONDS) is None


def _judge_parent(session: Session, command: Command, kill: Kill) -> list[str]:
    """The parent must end, in time, with the right exit code, and everything it has started."""
    code = command.wait(patience(PATIENCE))
    if code is None:
        session.stop()
    finished = (0, 1) if code in (0, 1) and b'"finished": "' in _info(session) else ()
    problems = judge_end(code, (*EXIT_CODES[kill.signals], *finished), command.text("err"))
    if behind := left_behind(session.token):
        problems.append(f"processes left behind: {behind}")
    return problems


def _judge_survival(
    session: Session, command: Command, kill: Kill, pid: int, before: list[bytes]
) -> list[str]:
    """The run goes on by itself, and the cell that was killed is recorded with the reason."""
    known = len(before)
    while len(session.records()) < known + RECORDS_AFTER and command.wait(0) is None:
        session.wait_for_record(len(session.records()))
    new = [json.loads(line) for line in session.records()[known:]]
    if command.wait(0) is not None:
        if b'"finished": "' not in _info(session):
            return [f"the run ended with exit code {command.wait(0)} before it was finished"]
        if not new:
            return []
    if kill.target == "host" and kill.signals in IGNORED_BY_HOSTS:
        failed = [record["reason"] for record in new if record["outcome"] != "ok"]
        return [f"a signal that hosts ignore made cells fail: {failed}"] if failed else []
    killed = [r for r in new if r["outcome"] == "crashed" and "killed by " in r["reason"]]
    survived = [r for r in new if r["host"].get("pid") == pid and r["outcome"] == "ok"]
    if not killed and not survived:
        outcomes = [f"{record['outcome']}: {record['reason']}" for record in new]
        return [f"no record says that its process was killed: {outcomes}"]
    return []


def _info(session: Session) -> bytes:
    path = session.run_dir / "run.json"
    return path.read_bytes() if path.exists() else b""
