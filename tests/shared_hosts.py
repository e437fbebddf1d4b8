"""Hosts that serve the runs of many tests: each start imports PyTorch or JAX for seconds.

A host does nothing itself but fork a child per job, so a run finds the same in a used one as in a
new one. `tests/test_runner.py` and the tests that start `synthbench` as a process have their own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from synthbench.run.host_client import NO_FRAMEWORK, Host
from synthbench.run.job import Job, Reply

MOST = 4  # idle hosts per test process; each keeps some 300 MB
CHANGES = {"PYTEST_CURRENT_TEST"}  # of the environment, with each test


class Idle(NamedTuple):
    """A host process between two runs."""

    process: subprocess.Popen[bytes]
    errors: Any
    version: str


class SharedHosts:
    """In place of three methods of Host: what it launches, runs and stops."""

    def __init__(self) -> None:
        self.launch, self.run, self.stop = Host.launch, Host.run, Host.stop
        self.idle: dict[str, Idle] = {}  # what it was started with -> it; the oldest first
        self.used: dict[int, str] = {}  # process of a host in use between jobs -> the same

    def launched(self, host: Host) -> None:
        """Take an idle process that was started in the same way; start one if there is none."""
        key = key_of(host)
        found = self.idle.pop(key, None)
        if found is None or host._interrupted or found.process.poll() is not None:
            self.launch(host)
        else:
            host._process, host._errors = found.process, found.errors
            host.version, host._greeted = found.version, True
        assert host._process is not None
        self.used[host._process.pid] = key

    def ran(self, host: Host, job: Job, watch: Callable[[], None] | None = None) -> Reply:
        """Run a job; a host that does not reply to it is not used again."""
        host.start()
        assert host._process is not None
        pid = host._process.pid
        key = self.used.pop(pid, None)
        reply = self.run(host, job, watch)
        if key is not None:
            self.used[pid] = key
        return reply

    def stopped(self, host: Host) -> None:
        """Keep the process for another run, unless something may be wrong with it."""
        process = host._process
        key = None if process is None else self.used.pop(process.pid, None)
        fit = host._greeted and not host._interrupted and not host.plugins
        if (
            process is None
            or process.poll() is not None
            or key is None
            or key in self.idle
            or not fit
            or host.framework == NO_FRAMEWORK
        ):
            self.stop(host)
            return
        self.idle[key] = Idle(process, host._errors, host.version)
        host._process = None
        while len(self.idle) > MOST:
            self.end(next(iter(self.idle)))

    def end(self, key: str) -> None:
        """End an idle process."""
        host = Host(NO_FRAMEWORK)
        host._process, host._errors, _ = self.idle.pop(key)
        host._greeted = True
        self.stop(host)


def key_of(host: Host) -> str:
    """What a host process is started with, where, and by which process."""
    variables = sorted((k, v) for k, v in host._environment().items() if k not in CHANGES)
    return repr((os.getpid(), host.framework, host.plugins, os.getcwd(), variables))


@contextmanager
def shared_hosts() -> Iterator[SharedHosts]:
    """Inside the block, hosts without plug-ins outlive the runs that started them."""
    shared = SharedHosts()
    methods = {"launch": shared.launched, "run": shared.ran, "stop": shared.stopped}
    for name, method in methods.items():
        setattr(Host, name, lambda host, *args, _method=method: _method(host, *args))
    try:
        yield shared
    finally:
        Host.launch, Host.run, Host.stop = (  # type: ignore[method-assign]
            shared.launch,
            shared.run,
            shared.stop,
        )
        for key in list(shared.idle):
            shared.end(key)
