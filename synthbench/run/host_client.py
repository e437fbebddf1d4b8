"""The runner's side of a host: start it, send it jobs one at a time, stop it."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from synthbench import errors
from synthbench.backends.base import BACKENDS, DeviceInfo
from synthbench.devices import HOST, is_host
from synthbench.errors import FrameworkMissingError, SynthbenchError, UnknownNameError
from synthbench.measure.allocator import ONE_ARENA
from synthbench.measure.environment import usable_cores
from synthbench.measure.gpu import BUS_ORDER
from synthbench.run.job import Job, Limits, Reply
from synthbench.run.limits import thread_variables
from synthbench.run.outcome import shortened
from synthbench.run.supervise import LONGEST_POLL

START_SECONDS = 300.0
STOP_SECONDS = 10.0
GRACE_SECONDS = 30.0  # after a job's time-out, for the host to end its child and reply
DEVICES_SECONDS = 120.0
WATCH_SECONDS = 2.0
NO_FRAMEWORK = "none"  # the name of a host that imports no framework


class HostDiedError(Exception):
    """The host process died while it was running a job."""


class Host:
    """A process with one framework, or with none; a context manager that starts and stops it.

    `device`: where all its jobs run; None: on any.
    """

    def __init__(
        self,
        framework: str,
        *,
        plugins: Sequence[str] = (),
        threads: int | None = None,
        device: str | None = None,
    ) -> None:
        if framework not in (*BACKENDS, NO_FRAMEWORK):
            raise UnknownNameError("framework", framework, BACKENDS)
        self.framework = framework
        self.plugins = list(plugins)
        self.threads = threads
        self.device = device
        self.version = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None
        self._greeted = False
        self._interrupted = False

    def launch(self) -> None:
        """Start the host process without waiting for its framework."""
        if self._interrupted:
            raise FrameworkMissingError(f"{self.framework}: interrupted")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed in stop()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "synthbench.run.host", self.framework, *self.plugins],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            env=self._environment(),
            start_new_session=True,  # Ctrl-C is for the runner, which stops its hosts
        )
        self._greeted = False

    def start(self) -> Host:
        """Start the host; raises FrameworkMissingError if its framework cannot be used."""
        if self._process is None:
            self.launch()
        if not self._greeted:
            try:
                hello = self._receive(START_SECONDS)
            except HostDiedError as error:
                raise FrameworkMissingError(f"{self.framework}: {error}") from error
            if hello.outcome != "ok":
                self.stop()
                raise error_of(hello)
            self.version = hello.result
            self._greeted = True
        return self

    def run(self, job: Job, watch: Callable[[], None] | None = None) -> Reply:
        """Run a job and wait for it; raises HostDiedError if the host dies while running it.

        `watch` is called every WATCH_SECONDS meanwhile.
        """
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(job.encode())
        except (OSError, ValueError) as error:  # ValueError: it was interrupted
            raise self._died() from error
        return self._receive(job.limits.timeout_seconds + GRACE_SECONDS, watch)

    def call(self, target: str, kwargs: Mapping[str, Any], timeout_seconds: float = 600.0) -> Any:
        """The result of "module:function" with JSON-able keywords, called in a child of this host.

        The result must be picklable. Raises the function's own SynthbenchError unchanged, and
        SynthbenchError for anything else that ended the child.
        """
        with tempfile.TemporaryDirectory(prefix="synthbench-") as folder:
            answer = Path(folder) / "answer.pickle"
            content = {"target": target, "kwargs": dict(kwargs), "answer": str(answer)}
            try:
                reply = self.run(Job("call", content, Limits(timeout_seconds, self.threads)))
            except HostDiedError as error:
                raise SynthbenchError(f"{target} in {self.framework}: {error}") from error
            if reply.outcome != "ok":
                raise error_of(reply, f"{target} in {self.framework}: {reply.outcome}: ")
            return pickle.loads(answer.read_bytes())

    def devices(self, require: str | None = None) -> list[DeviceInfo]:
        """The devices the framework sees; raises FrameworkMissingError if `require` is missing."""
        job = Job("devices", {"require": require}, Limits(DEVICES_SECONDS, self.threads))
        try:
            reply = self.run(job)
        except HostDiedError as error:
            raise FrameworkMissingError(f"{self.framework}: {error}") from error
        if reply.outcome != "ok":
            if reply.error:
                raise error_of(reply)
            raise FrameworkMissingError(
                f"{self.framework} cannot list its devices: {reply.outcome}: {reply.reason}"
            )
        return [DeviceInfo(**device) for device in reply.result]

    def interrupt(self) -> None:
        """End the host from another thread: who waits for it gets HostDiedError, once for all."""
        self._interrupted = True
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()  # the host ends its child, then itself
            if not self._greeted:
                process.kill()  # it is still importing and has no child

    def stop(self) -> None:
        """End the host and everything below it."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()  # the host exits when its input ends
        if not self._greeted:
            process.kill()  # it is still importing and has no child
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        self._errors.close()

    def __enter__(self) -> Host:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _receive(self, timeout_seconds: float, watch: Callable[[], None] | None = None) -> Reply:
        """The next reply; a host that gives none in time is killed."""
        deadline = time.monotonic() + timeout_seconds
        assert self._process is not None
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        content = bytearray()
        while not content.endswith(b"\n"):
            longest = LONGEST_POLL if watch is None else WATCH_SECONDS
            ready = poll.poll(max(0.0, min(deadline - time.monotonic(), longest)) * 1000)
            if not ready:
                if time.monotonic() < deadline:
                    if watch is not None:
                        watch()
                    continue
                self._process.kill()  # also where it was stopped
            chunk = os.read(fd, 2**16)
            if not chunk:
                raise self._died()
            content += chunk
        return Reply.decode(bytes(content))

    def _died(self) -> HostDiedError:
        assert self._process is not None
        code = self._process.wait()
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 4096))
        said = shortened(self._errors.read().decode(errors="replace"))
        self.stop()
        how = f"its host process ended with code {code}" if code >= 0 else (
            f"its host process was killed by signal {-code}"
        )  # fmt: skip
        return HostDiedError(f"{how}; its last output: {said}" if said else how)

    def _environment(self) -> dict[str, str]:
        """The runner's environment; the host finds modules where the runner finds them."""
        cores = len(usable_cores())
        variables = dict(os.environ) | thread_variables(min(self.threads or cores, cores))
        variables |= ONE_ARENA
        here = str(Path(__file__).resolve().parents[2])
        variables["PYTHONPATH"] = os.pathsep.join([here, *module_folders()])
        variables.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        variables.setdefault("CUDA_DEVICE_ORDER", BUS_ORDER)
        if is_host(self.device):
            variables.setdefault("JAX_PLATFORMS", HOST)  # no context on an accelerator
        return variables


def module_folders() -> list[str]:
    """The runner's sys.path without the working directory, unless PYTHONPATH names it.

    Python puts the working directory there by itself, and a `random.py` in it would be imported in
    place of the standard library. Plug-ins are still found in it: `load_plugin` looks there last.
    """
    asked = {os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    here = os.getcwd()
    folders = [path for path in sys.path if path]
    return [path for path in folders if os.path.abspath(path) != here or here in asked]


def call_in_child(
    framework: str,
    target: str,
    kwargs: Mapping[str, Any],
    plugins: Sequence[str] = (),
    timeout_seconds: float = 600.0,
) -> Any:
    """`Host.call` on a new host that is started and stopped for this call."""
    with Host(framework, plugins=plugins) as host:
        return host.call(target, kwargs, timeout_seconds)


def error_of(reply: Reply, prefix: str = "") -> SynthbenchError:
    """The error that ended a job, with its own class if it is one of the project's."""
    cls = getattr(errors, reply.error, None)
    if cls is None or cls is UnknownNameError:  # that one is made from a name, not from a message
        return SynthbenchError(prefix + reply.reason if not reply.error else reply.reason)
    error = cls(reply.reason)
    assert isinstance(error, SynthbenchError)
    return error
