"""Find processes by what they have inherited, and end those that a case has left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

MARKER = "SYNTHBENCH_FAULTS"  # an environment variable: processes that a case starts inherit it


def patience(seconds: float) -> float:
    """A time limit that is right for an idle machine, made longer where others use its cores."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def marked(token: str) -> list[int]:
    """The processes that were started with this token in their environment."""
    wanted = f"{MARKER}={token}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0") and _is_alive(folder):
                found.append(int(folder.name))
    return found


def children(pid: int) -> list[int]:
    """The children of a process, those of all its threads."""
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, listing.read_text().split())
    return found


def command_of(pid: int) -> str:
    """The command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def left_behind(token: str, seconds: float = 30.0) -> list[str]:
    """The commands of marked processes that are still there after so many seconds; ends them."""
    deadline = time.monotonic() + patience(seconds)
    while (pids := marked(token)) and time.monotonic() < deadline:
        time.sleep(0.02)
    commands = [f"{pid}: {command_of(pid)}" for pid in pids]
    end(pids)
    return commands


def end(pids: list[int]) -> None:
    """Kill these processes."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _is_alive(folder: Path) -> bool:
    return (folder / "stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
