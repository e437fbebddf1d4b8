"""Files of a run's folder: what is written is on disk, and what fails is a ResultsError."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from synthbench.errors import ResultsError

NO_LOCKS = (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
BEING_WRITTEN = ".new"  # suffix of a file that replaces another once it is complete


def make_folder(path: Path) -> None:
    """Make a folder of a run if it is not there; raises ResultsError if that fails."""
    with explained("create", path):
        path.mkdir(parents=True, exist_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a file of a run's folder atomically; raises ResultsError if that fails."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file of a run's folder atomically; raises ResultsError if that fails."""
    make_folder(path.parent)
    replace_file(path, content)


def read_text(path: Path) -> str:
    """Read a file of a run's folder; raises ResultsError if that fails."""
    return content_of(path).decode(errors="replace")


def read_bytes(path: Path, begin: int) -> bytes:
    """Read a file of a run's folder from a byte on; raises ResultsError if that fails."""
    return content_of(path, begin)


def append_line(path: Path, line: str) -> None:
    """Add a line to a file; it is on disk when this returns. Raises ResultsError if that fails."""
    with explained("write", path.parent), open(path, "ab", opener=at_once) as out:
        out.write(line.encode() + b"\n")
        out.flush()
        os.fsync(out.fileno())


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old or the new content; ResultsError if that fails."""
    temporary = path.with_name(path.name + BEING_WRITTEN)
    with explained("write", path.parent):
        with open(temporary, "wb", opener=at_once) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)


def content_if_any(path: Path) -> bytes:
    """The content of a regular file; empty if there is none."""
    with explained("read", path):
        exists = os.path.lexists(path)  # a link to nowhere is damage, not an empty run
    return content_of(path) if exists else b""


def content_of(path: Path, begin: int = 0) -> bytes:
    """The content of a regular file; anything else, such as a pipe, could be read forever."""
    with explained("read", path), open(path, "rb", opener=at_once) as file:
        require_regular(file.fileno(), path)
        file.seek(begin)
        return file.read()


def require_regular(descriptor: int, path: Path) -> None:
    """Raise ResultsError unless an open file is a regular one."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise ResultsError(f"cannot read {path}: it is not a regular file; remove it")


def at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the other end if it is a pipe."""
    return os.open(path, flags | os.O_NONBLOCK, 0o666)


@contextlib.contextmanager
def explained(action: str, path: Path) -> Iterator[None]:
    """Turn an OSError into a message that says what failed and what to do."""
    try:
        yield
    except OSError as error:
        advice = "check that the path and its permissions are right"
        if action != "read":
            advice = (
                "give a folder you may write to with --out, or fix its permissions or disk space"
            )
        raise ResultsError(
            f"cannot {action} {path}: {error.strerror or error}; {advice}"
        ) from error


@contextlib.contextmanager
def locked(run_dir: Path) -> Iterator[None]:
    """Hold a run for this process; raises ResultsError if another one is writing to it.

    Where the file system has no locks of folders, as NFS, nothing is held.
    """
    with explained("open", run_dir):
        folder = os.open(run_dir, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ResultsError(
                f"another synthbench is writing to {run_dir}; wait for it, or give another --out"
            ) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        yield
    finally:
        os.close(folder)
