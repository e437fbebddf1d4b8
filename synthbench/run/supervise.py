"""The host's side of a child process: wait for it without spinning, end it in time, reap it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OUTPUT_KEPT = 16 * 2**10  # bytes of what a child printed last
CHUNK = 2**16
LONGEST_POLL = 86_400.0  # seconds; poll() takes at most 2^31 milliseconds


@dataclass(frozen=True)
class Ended:
    """How a child ended: its wait status, its replies, and the end of what it printed."""

    status: int
    lines: list[bytes]  # complete lines of the result pipe
    output: str
    timed_out: bool
    orphaned: bool  # the host's owner is gone


def supervise(
    pid: int, result_fd: int, output_fd: int, owner_fd: int, timeout_seconds: float
) -> Ended:
    """Wait until a child ends, its time is up or the owner has closed `owner_fd`; then reap it.

    Its process group and all its other descendants are ended too.
    """
    result, output = bytearray(), bytearray()
    deadline = time.monotonic() + timeout_seconds
    timed_out = orphaned = False
    with _pidfd(pid) as pidfd:
        poll = select.poll()
        poll.register(owner_fd, 0)  # a hang-up is always reported
        for fd in (result_fd, output_fd, pidfd):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        open_pipes = {result_fd: result, output_fd: output}
        ended = False
        while not ended:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                timed_out = True
                break
            for fd, _ in poll.poll(min(remaining, LONGEST_POLL) * 1000):
                if fd == owner_fd:
                    orphaned = ended = True
                elif fd == pidfd:
                    ended = True
                elif not (chunk := os.read(fd, CHUNK)):
                    poll.unregister(fd)
                    del open_pipes[fd]
                    # Without a pidfd, a closed result pipe means that the child has ended.
                    ended = ended or (pidfd is None and fd == result_fd)
                else:
                    open_pipes[fd] += chunk
                    del output[:-OUTPUT_KEPT]
        if timed_out or orphaned:
            _kill(pid)
        _, status = os.waitpid(pid, 0)
        _kill_group(pid)
        end_descendants()
        for fd, buffer in open_pipes.items():
            _drain(fd, buffer, keep=OUTPUT_KEPT if fd == output_fd else None)
    *lines, _ = bytes(result).split(b"\n")
    return Ended(status, lines, output.decode(errors="replace"), timed_out, orphaned)


def end_descendants() -> None:
    """End and reap every process that descends from this one."""
    while children := _children():
        for child in children:
            _kill(child)
        for child in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


def _children() -> list[int]:
    found: list[int] = []
    for listing in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, listing.read_text().split())
    return found


def _drain(fd: int, buffer: bytearray, keep: int | None) -> None:
    """Read what is left in a pipe that has no writer any more."""
    os.set_blocking(fd, False)
    with contextlib.suppress(BlockingIOError):
        while chunk := os.read(fd, CHUNK):
            buffer += chunk
            if keep is not None:
                del buffer[:-keep]


def _kill(pid: int) -> None:
    _kill_group(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


@contextlib.contextmanager
def _pidfd(pid: int) -> Iterator[int | None]:
    """A descriptor that becomes readable when the process ends; None if the system has none."""
    if not hasattr(os, "pidfd_open"):
        yield None
        return
    fd = os.pidfd_open(pid)
    try:
        yield fd
    finally:
        os.close(fd)
