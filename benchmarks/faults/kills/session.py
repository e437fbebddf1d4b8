"""A run that is started and resumed in one folder, and the processes it consists of."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.faults.forked import BEGUN, Command, start
from benchmarks.faults.judge import complete_lines
from benchmarks.faults.processes import MARKER, children, command_of, patience
from benchmarks.kill_resume import PLUGIN, tiny_suite
from synthbench.store import has_begun

PATIENCE = 60.0  # seconds until something that must happen is taken for a hang
POLL_SECONDS = 0.005


class HangError(Exception):
    """Something that must happen has not happened in time."""


class Session:
    """A tiny run in a folder, launched as often as needed; all its processes have one marker."""

    def __init__(self, folder: Path, rounds: int) -> None:
        folder.mkdir(parents=True)
        self.folder, self.run_dir = folder, folder / "run"
        self.token = f"kills-{folder}"
        (folder / "tiny.yaml").write_text(tiny_suite(rounds))
        self.command: Command | None = None
        self.launches = itertools.count()

    def launch(self) -> Command:
        """Start the run, or resume it."""
        arguments = ["run", "--suite", "tiny.yaml", "--device", "cpu", "--plugin", PLUGIN]
        arguments += ["--out", "run", *["--resume"] * has_begun(self.run_dir)]
        streams = self.folder / f"streams-{next(self.launches)}"
        environment = {MARKER: self.token}
        self.command = start(arguments, self.folder, streams, environment=environment)
        wait_for((streams / BEGUN).exists, [self.command])
        return self.command

    def running(self) -> Command:
        """The running command, started if there is none."""
        if self.command is None or self.command.wait(0) is not None:
            return self.launch()
        return self.command

    def records(self) -> list[bytes]:
        """The complete records."""
        return complete_lines(self.run_dir)

    def wait_for_record(self, known: int) -> bool:
        """Wait until there are more than `known` records; False if the command has ended."""
        command = self.running()
        wait_for(lambda: len(self.records()) > known or command.wait(0) is not None, [])
        return command.wait(0) is None

    def host(self) -> int | None:
        """The running host process."""
        assert self.command is not None
        found = children(self.command.pid)
        return next((pid for pid in found if "synthbench.run.host" in command_of(pid)), None)

    def child(self) -> int | None:
        """The child in which a cell is being measured."""
        host = self.host()
        return next(iter(children(host)), None) if host is not None else None

    def find(self, target: str) -> int | None:
        """The process of this kind as soon as there is one; None if the run ends before."""
        command = self.running()
        find: dict[str, Callable[[], int | None]] = {
            "parent": lambda: command.pid, "host": self.host, "child": self.child,
        }  # fmt: skip
        deadline = time.monotonic() + patience(PATIENCE)
        while time.monotonic() < deadline:
            if command.wait(0) is not None:
                return None
            if (pid := find[target]()) is not None:
                return pid
            time.sleep(POLL_SECONDS / 5)
        raise HangError(f"no {target} process")

    def stop(self) -> None:
        """End the command if it is still running."""
        if self.command is not None and self.command.wait(0) is None:
            self.command.kill()


def wait_for(condition: Callable[[], bool], commands: Iterable[Command]) -> None:
    """Wait until something is true or a command has ended; raises HangError after PATIENCE."""
    deadline = time.monotonic() + patience(PATIENCE)
    watched = list(commands)
    while not condition() and not any(command.wait(0) is not None for command in watched):
        if time.monotonic() > deadline:
            raise HangError("nothing has happened")
        time.sleep(POLL_SECONDS)


def send(pid: int, signals: Iterable[signal.Signals], pause: float) -> bool:
    """Send the signals with a pause between them; False if the process is gone before the first."""
    for number, name in enumerate(signals):
        if number:
            time.sleep(pause)
        try:
            os.kill(pid, name)
        except ProcessLookupError:
            return number > 0
    return True
