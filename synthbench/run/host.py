"""A host process: it imports one framework once, and forks a child process for each job.

`python -m synthbench.run.host FRAMEWORK [PLUGIN ...]`; the framework may be `none`. Jobs arrive as
lines on standard input, replies leave as lines on standard output; the first reply says whether the
framework can be used.
The host never starts the framework's runtime: only its children do, so that each starts fresh.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import secrets
import select
import signal
import sys
import time
import warnings
from dataclasses import replace
from typing import cast

from synthbench.backends.base import BACKENDS, Backend
from synthbench.errors import SynthbenchError
from synthbench.run import limits
from synthbench.run.child import run_child
from synthbench.run.extensions import load_plugin
from synthbench.run.host_client import NO_FRAMEWORK
from synthbench.run.job import Job, Reply, signed_lines
from synthbench.run.outcome import classify_exit
from synthbench.run.supervise import Ended, supervise

# Modules that a framework and its tools, or NumPy's median, import on first use: imported here, not
# in every child.
PRELOAD: dict[str, tuple[str, ...]] = {
    "torch": (
        "numpy.ma",
        "torch._dynamo",
        "torch._subclasses.schema_check_mode",
        "torch.profiler._cupti_monitor",
        "fvcore.nn",
    ),
    "jax": (
        "numpy.ma",
        "jax.experimental.multihost_utils",
        "jaxlib.mlir.dialects.builtin",
        "jaxlib.mlir.dialects.mhlo",
    ),
}
JOBS_FD, REPLIES_FD, ERRORS_FD = 0, 1, 2


def main(framework: str, plugins: list[str]) -> None:
    """Import the framework, report it, then do jobs until the owner closes the pipe."""
    limits.die_with_parent()
    if _owner_is_gone():  # it died before this process could ask to die with it
        return
    # The owner decides when to stop; schedulers announce to all processes of a job that it ends.
    for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    replies = os.dup(REPLIES_FD)
    os.dup2(ERRORS_FD, REPLIES_FD)  # what a framework prints must not look like a reply
    hello, backend = load(framework, plugins)
    _write(replies, hello)
    if backend is None:
        return
    # From here on the host notices the end of its owner by the end of the jobs, also while a child
    # runs, and can end everything that this child has started.
    limits.die_with_parent(wanted=False)
    limits.adopt_orphans()
    warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork.*")
    gc.collect()
    gc.freeze()  # so that no collection in a child copies the host's pages
    jobs = os.fdopen(JOBS_FD, "rb", closefd=False)
    for line in jobs:
        reply = run_job(backend, Job.decode(line), replies)
        if reply is None:
            return
        _write(replies, reply)


def load(framework: str, plugins: list[str]) -> tuple[Reply, Backend | None]:
    """Import the framework's back end and the plug-ins; the reply says what is missing."""
    if framework == NO_FRAMEWORK:
        return Reply("ok", result=""), cast(Backend, NoFramework())
    try:
        backend = cast(Backend, importlib.import_module(BACKENDS[framework]))
        with warnings.catch_warnings():  # with torch 2.15, fvcore warns as it is imported
            warnings.simplefilter("ignore", FutureWarning)
            for module in PRELOAD[framework]:
                with contextlib.suppress(ImportError):  # another version may have moved it
                    importlib.import_module(module)
        for plugin in plugins:
            load_plugin(plugin)
    except SynthbenchError as error:
        return Reply("unsupported", str(error), error=type(error).__name__), None
    except ModuleNotFoundError as error:
        package = (error.name or framework).partition(".")[0]
        reason = f"{framework} cannot be used: {package} is not installed; pip install {package}"
        return Reply("unsupported", reason, error="FrameworkMissingError"), None
    except Exception as error:  # a broken installation can fail in any way
        reason = f"{framework} cannot be imported: {type(error).__name__}: {error}"
        return Reply("unsupported", reason, error="FrameworkMissingError"), None
    return Reply("ok", result=backend.version()), backend


class NoFramework:
    """What stands for the back end in a host without a framework."""

    name = NO_FRAMEWORK

    def set_threads(self, threads: int) -> None:
        """Nothing here has threads."""


def run_job(backend: Backend, job: Job, replies: int) -> Reply | None:
    """Fork a child for a job and wait for it; None if the owner is gone."""
    begin = time.monotonic()
    kills_before = limits.oom_kills()
    result_read, result_write = os.pipe()
    output_read, output_write = os.pipe()
    host_pid, key = os.getpid(), secrets.token_bytes(16)
    pid = os.fork()
    if pid == 0:
        try:
            for fd in (replies, result_read, output_read):
                os.close(fd)
            run_child(
                backend,
                job,
                host_pid=host_pid,
                result_fd=result_write,
                output_fd=output_write,
                key=key,
            )
        finally:
            os._exit(1)  # a child must never continue as a second host
    os.close(result_write)
    os.close(output_write)
    try:
        ended = supervise(pid, result_read, output_read, JOBS_FD, job.limits.timeout_seconds)
    finally:
        os.close(result_read)
        os.close(output_read)
    if ended.orphaned:
        return None
    lines = signed_lines(ended.lines, key)
    reply = judge(replace(ended, lines=lines), job, limits.oom_kills() - kills_before)
    return replace(reply, wall_seconds=time.monotonic() - begin)


def judge(ended: Ended, job: Job, oom_kills: int) -> Reply:
    """The reply for a child that ended: its last one, or one made from how it ended."""
    last = Reply.decode(ended.lines[-1]) if ended.lines else Reply("crashed")
    if last.finished:
        return last
    stage = f" {last.reason}" if last.reason else ""
    if ended.timed_out:
        seconds = job.limits.timeout_seconds
        return replace(last, outcome="timeout", reason=f"ended after {seconds:g} s{stage}")
    outcome, reason = classify_exit(ended.status, ended.output, oom_kills)
    return replace(last, outcome=outcome, reason=reason + stage)


def _owner_is_gone() -> bool:
    """Whether the owner has closed its end of the pipe of jobs."""
    poll = select.poll()
    poll.register(JOBS_FD, 0)  # a hang-up is always reported
    return bool(poll.poll(0))


def _write(replies: int, reply: Reply) -> None:
    content = reply.encode()
    while content:
        content = content[os.write(replies, content) :]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
