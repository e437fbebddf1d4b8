"""Call the command line in a forked child of this process, which has imported it already.

A fresh interpreter takes about a second to import the commands; a fork takes milliseconds. The
child gets its own process group, streams, working directory and environment.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from synthbench.cli import main

FRAMEWORKS = ("torch", "jax")
# Modules that commands import on first use, imported once here.
PRELOADED = (
    "synthbench.cli.app",
    "synthbench.cli.dry_run",
    "synthbench.checkpoint",
    "synthbench.report.data.frame",
    "synthbench.report.export.frames",
    "synthbench.report.export.pytest_benchmark",
    "synthbench.report.figures.length_plot",
    "synthbench.report.figures.weights",
    "synthbench.report.paper.tables",
    "synthbench.report.tables.catalog",
    "synthbench.report.text.files",
    "synthbench.report.text.terminal",
    "synthbench.run.devices",
    "synthbench.run.estimate",
    "synthbench.run.planning",
    "synthbench.run.runner",
    "synthbench.run.verify",
    "synthbench.suites.suite",
)
MOST_MEMORY = 4 * 10**9  # bytes of a command that `call` runs
BEGUN = "begun"  # file that a child makes just before its command
LOADED = "frameworks-loaded"  # file in which a child says which frameworks it has imported


@dataclass(frozen=True)
class Ended:
    """How a command ended; `code` is negative for a signal, None for a time-out."""

    code: int | None
    out: str
    err: str
    loaded: tuple[str, ...] = ()  # frameworks that the command itself has imported


class Command:
    """A command that runs in a forked child; its streams are files in `streams`."""

    def __init__(self, pid: int, streams: Path) -> None:
        self.pid, self.streams = pid, streams
        self.begun = time.monotonic()
        self.code: int | None = None

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None if the command is still running after so many seconds."""
        if self.code is None:
            pidfd = os.pidfd_open(self.pid)
            try:
                if not select.select([pidfd], [], [], seconds)[0]:
                    return None
            finally:
                os.close(pidfd)
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code

    def kill(self) -> None:
        """End the command and its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait(60)

    def text(self, stream: str) -> str:
        """What it has printed to `out` or `err`."""
        return (self.streams / stream).read_bytes().decode(errors="replace")


def preload() -> None:
    """Import what the commands import, so that forked children need not."""
    for module in PRELOADED:
        importlib.import_module(module)


def call(
    arguments: list[str],
    folder: Path,
    streams: Path,
    *,
    environment: Mapping[str, str | None] | None = None,
    seconds: float = 20.0,
) -> Ended:
    """Call `synthbench ARGUMENTS` in a folder and wait for it; it is killed after `seconds`.

    It may use MOST_MEMORY.
    """
    command = start(arguments, folder, streams, environment=environment, prepare=_limit_memory)
    code = None
    try:
        code = command.wait(seconds)
    finally:
        if code is None:  # out of time, or this process is being ended
            command.kill()
    loaded = streams / LOADED
    names = tuple(loaded.read_text().split()) if loaded.exists() else ()
    return Ended(code, command.text("out"), command.text("err"), names)


def _limit_memory() -> None:
    """A command that reads without end must fail before the machine is out of memory."""
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))


def start(
    arguments: list[str],
    folder: Path,
    streams: Path,
    *,
    environment: Mapping[str, str | None] | None = None,
    prepare: Callable[[], object] | None = None,
) -> Command:
    """Start `synthbench ARGUMENTS` in a folder; None in `environment` unsets a variable.

    `prepare` runs in the child before the command.
    """
    streams.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    # An exception of a signal's handler in the middle of a fork would be lost.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of NumPy's BLAS are idle
        warnings.simplefilter("ignore", RuntimeWarning)  # so are JAX's, where tests have loaded it
        pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if pid == 0:
        try:
            _run(arguments, folder, streams, environment or {}, prepare)
        finally:
            os._exit(70)
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)  # as the child does: whoever is first
    return Command(pid, streams)


def _run(
    arguments: list[str],
    folder: Path,
    streams: Path,
    environment: Mapping[str, str | None],
    prepare: Callable[[], object] | None,
) -> NoReturn:
    """In the child: become a process of its own, run the command, exit with its code."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _redirect(streams)
    os.chdir(folder)
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    before = {name for name in FRAMEWORKS if name in sys.modules}
    code = 0
    try:
        warnings.resetwarnings()
        warnings.simplefilter("ignore")  # nearly as a fresh interpreter: others show in its tests
        if prepare is not None:
            prepare()
        (streams / BEGUN).touch()
        main(arguments)
    except SystemExit as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # what the interpreter would print
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    loaded = [name for name in FRAMEWORKS if name in sys.modules and name not in before]
    (streams / LOADED).write_text(" ".join(loaded))
    os._exit(code)


def _redirect(streams: Path) -> None:
    """Read nothing; print to files in `streams`."""
    new = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for fd, path in enumerate((Path(os.devnull), streams / "out", streams / "err")):
        opened = os.open(path, new if fd else os.O_RDONLY)
        os.dup2(opened, fd)
        os.close(opened)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(
        2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1
    )
