"""A further process for one of several devices, as seen from the first one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import wait
from typing import Any

from synthbench.errors import DeviceLostError

MODULE = "synthbench.backends.torch.replica"
READY = "ready"
# Seconds: for a failed process to say why; for the first process to notice by itself that another
# one is gone; for a process to end when it is told to.
TO_EXPLAIN, TO_NOTICE, TO_END = 2.0, 15.0, 10.0


@dataclass(frozen=True)
class Failure:
    """What a process says before it ends for a reason of its own."""

    error: Exception
    moment: float  # time.monotonic(), which all processes of a machine share


class ReplicaProcess:
    """A process that trains a copy of the model until its pipe is closed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pipe, theirs = Pipe()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", MODULE, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self.is_wanted = True
        self.gone, self.noticed = threading.Event(), threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def send(self, message: Any) -> None:
        """Give it something to do; DeviceLostError if it has ended."""
        try:
            self.pipe.send(message)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise self.failure() from error

    def wait_until_ready(self) -> None:
        """Block until it has built its model; raises what it raised instead."""
        with contextlib.suppress(EOFError, ConnectionResetError):
            answer = self.pipe.recv()
            if answer == READY:
                return
            raise answer.error
        raise self.failure()

    def failure(self) -> DeviceLostError:
        """The error for a process that ended without a word."""
        self.gone.wait(TO_EXPLAIN)
        code = self.process.returncode
        how = f"ended with exit code {code}"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        elif code is None:
            how = "closed its pipe"
        return DeviceLostError(f"the process of {self.name} {how} during the training")

    def close(self) -> None:
        """Tell it to end."""
        self.is_wanted = False
        self.noticed.set()
        self.pipe.close()

    def kill(self) -> None:
        """End it at once."""
        self.is_wanted = False
        self.process.kill()

    def end(self) -> None:
        """Wait until it has ended; kill it if it does not."""
        if not self.gone.wait(TO_END):
            self.kill()
            self.gone.wait()

    def _watch(self) -> None:
        """End this process too where it would wait for one that is gone: NCCL may, for ever."""
        self.process.wait()
        self.gone.set()
        if self.is_wanted and not self.noticed.wait(TO_NOTICE):
            sys.stderr.write(f"{self.failure()}\n")
            sys.stderr.flush()
            os._exit(1)


def ended(processes: Sequence[ReplicaProcess]) -> Iterator[Exception]:
    """The errors of processes that have ended, the first cause first.

    One that was killed said nothing; the others fail because of it, or of the earliest failure.
    """
    pipes = {process.pipe: process for process in processes if not process.pipe.closed}
    failures: list[tuple[float, Exception]] = []
    for pipe in wait(list(pipes), timeout=TO_EXPLAIN):
        process = pipes[pipe]  # type: ignore[index]
        try:
            said = process.pipe.recv()
        except (EOFError, ConnectionResetError):
            failures.append((0.0, process.failure()))
        else:
            failures.append((said.moment, said.error))
    for _, error in sorted(failures, key=lambda pair: pair[0]):
        yield error
