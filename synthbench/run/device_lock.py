"""One lock per device: two cells never measure on it at the same time, whoever started them.

Every synthbench on a machine uses the files of one folder, whatever executor or user it belongs to.
The kernel releases a lock (flock) when its process ends, also when that was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from synthbench.devices import device_kind, index_of, is_host
from synthbench.errors import SynthbenchError
from synthbench.measure.environment import usable_cores
from synthbench.measure.gpu import uuid_of
from synthbench.run.progress import Observer, duration

# Not the folder that TMPDIR names: users have their own, and all must use the same locks.
FOLDER = "/tmp/synthbench-locks"
VARIABLE = "SYNTHBENCH_LOCKS"  # names another folder
# A process that waits looks this often: a few microseconds each time, on any core.
LOOK_SECONDS = 0.25
PATIENCE_SECONDS = 2.0  # a shorter wait is not reported
TELL_SECONDS = 60.0  # between two reports
LOCKS = Path("/proc/locks")


class Part(NamedTuple):
    """A lock file by name, and whether several may hold it together."""

    name: str
    shared: bool = False


def parts_of(device: str) -> list[Part]:
    """The lock files of a device, in the order in which to lock them.

    A process that may use all cores locks the processor as a whole. One that may use some of them
    locks these: others may measure on other cores, but nobody on all of them.
    """
    if is_host(device):
        cores = usable_cores()
        if len(cores) >= (os.cpu_count() or 1):
            return [Part(device)]
        return [Part(device, shared=True), *(Part(f"{device}-core-{core}") for core in cores)]
    kind = device_kind(device)
    uuid = uuid_of(device) if kind.has_nvml else None
    return [Part(uuid or f"{kind.name}-{index_of(device)}")]


class DeviceLock:
    """The lock of a device; waiting is reported to the observer.

    It is meant to be held for one cell: nothing of a cell stays on the device, and so a short run
    waits for one cell of a long run, not for all of them. Two runs take turns, because a process
    that has waited is the next one. Ceilings, and choices of kernels, hold it as a whole: who has
    waited for them finds the choices made.
    """

    def __init__(self, device: str, observer: Observer, devices: int = 1) -> None:
        """Of a device and those that follow it, `devices` in all."""
        self.device, self.observer = device, observer
        names = [device]
        if not is_host(device):
            first = index_of(device)
            names = [f"{device_kind(device).name}:{first + place}" for place in range(devices)]
        # In one order everywhere, so that no two processes wait for each other.
        self.parts = sorted(part for name in names for part in parts_of(name))
        self._told = -TELL_SECONDS
        self._interrupted = threading.Event()

    def check(self) -> None:
        """Raise SynthbenchError if the folder of the locks cannot be used."""
        os.close(_open_folder())

    def interrupt(self) -> None:
        """Make another thread that waits for the device give up, with SynthbenchError."""
        self._interrupted.set()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the device and keep it; raises SynthbenchError where there can be no lock."""
        begun = time.monotonic()
        with contextlib.ExitStack() as stack:
            folder = _open_folder()
            stack.callback(os.close, folder)
            for part in self.parts:
                # Who waits holds the turn. A process that has just released the device and wants it
                # again must get the turn first, so it cannot overtake those who wait.
                turn = self._lock(folder, Part(f"{part.name}.turn"), part, begun)
                try:
                    stack.callback(os.close, self._lock(folder, part, part, begun))
                finally:
                    os.close(turn)
            yield

    def _lock(self, folder: int, part: Part, wanted: Part, begun: float) -> int:
        """An open file whose lock this process holds; while waiting, who has the one `wanted`."""
        kind = fcntl.LOCK_SH if part.shared else fcntl.LOCK_EX
        while True:
            with contextlib.ExitStack() as opened:
                file = _open_file(folder, part.name)
                opened.callback(os.close, file)
                try:
                    fcntl.flock(file, kind | fcntl.LOCK_NB)
                except BlockingIOError:
                    self._report(folder, wanted, time.monotonic() - begun)
                except OSError as error:  # a file system without such locks, as some of a network
                    raise _unusable(_path_of(part.name), error) from error
                else:
                    if _is_still(folder, part.name, file):
                        opened.pop_all()
                        return file
            if self._interrupted.wait(LOOK_SECONDS):
                raise SynthbenchError(f"interrupted while waiting for {self.device}")

    def _report(self, folder: int, part: Part, waited: float) -> None:
        now = time.monotonic()
        if waited < PATIENCE_SECONDS or now - self._told < TELL_SECONDS:
            return
        self._told = now
        file = _open_file(folder, part.name)
        try:
            who = _names(_holders(file))
        finally:
            os.close(file)
        self.observer.stage(f"waiting for {self.device}, which {who}, for {duration(waited)}")


def _open_folder() -> int:
    """The folder of the locks, made if it is not there: every user may add files, none remove."""
    path = os.environ.get(VARIABLE) or FOLDER
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
            os.chmod(path, 0o1777)  # mkdir obeys the umask
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise _unusable(path, error) from error


def _open_file(folder: int, name: str) -> int:
    """A lock file, made if it is not there; links and anything but a file are refused.

    Locking needs no right to write, and nothing is ever written. A new file gets its name when
    every user may open it.
    """
    try:
        with contextlib.suppress(FileNotFoundError):
            return _opened(folder, name)
        new = f".{name}-{os.getpid()}-{time.monotonic_ns()}"
        file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, dir_fd=folder)
        try:
            os.fchmod(file, 0o666)
            with contextlib.suppress(FileExistsError):  # another process was faster
                os.link(new, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        finally:
            os.close(file)
            os.unlink(new, dir_fd=folder)
        return _opened(folder, name)
    except OSError as error:
        raise _unusable(_path_of(name), error) from error


def _path_of(name: str) -> str:
    return os.path.join(os.environ.get(VARIABLE) or FOLDER, name)


def _opened(folder: int, name: str) -> int:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(None, "it is not a regular file")
    return file


def _unusable(path: str, error: OSError) -> SynthbenchError:
    return SynthbenchError(
        f"devices cannot be locked with {path}: {error.strerror or error}; remove it, or name a "
        f"folder that all users of this machine can write to in the variable {VARIABLE}"
    )


def _is_still(folder: int, name: str, file: int) -> bool:
    """Whether a name is still that of an open file: somebody may have cleaned the folder."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(file))


def _holders(file: int) -> list[int]:
    """The processes that hold the lock of a file, as far as the system shows them."""
    inode = os.fstat(file).st_ino
    found: set[int] = set()
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in LOCKS.read_text().splitlines():
            # 7: FLOCK  ADVISORY  WRITE 1234 fd:01:262153 0 EOF
            words = line.split()
            if words[1] == "FLOCK" and int(words[5].rpartition(":")[2]) == inode:
                found.add(int(words[4]))
    return sorted(found)


def _names(processes: list[int]) -> str:
    """What uses a device, in words."""
    if not processes:
        return "another process uses"
    found = []
    for process in processes:
        user = _user_of(process)
        found.append(f"process {process}{f' of {user}' if user else ''}")
    return f"{' and '.join(found)} {'uses' if len(found) == 1 else 'use'}"


def _user_of(process: int) -> str:
    """The user of a process by name; empty if the system does not say."""
    import pwd

    with contextlib.suppress(OSError, KeyError):
        return pwd.getpwuid(os.stat(f"/proc/{process}").st_uid).pw_name
    return ""
