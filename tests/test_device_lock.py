"""Locks of devices: between processes, users and ways to use the processor."""

from __future__ import annotations

import copy
import errno
import fcntl
import getpass
import itertools
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from synthbench.errors import SynthbenchError
from synthbench.run import device_lock
from synthbench.run.device_lock import VARIABLE, DeviceLock, Part, parts_of
from synthbench.run.progress import Silent

HOLD = """
import sys, time
from synthbench.run.device_lock import DeviceLock
from synthbench.run.progress import Silent
with DeviceLock(sys.argv[1], Silent()).held():
    print("held", flush=True)
    time.sleep(600)
"""
NEVER = 60.0  # seconds that no step of a test takes


class Stages(Silent):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def stage(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of locks that is not there yet."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "locks"))
    monkeypatch.setattr(device_lock, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(device_lock, "PATIENCE_SECONDS", 0.0)
    return tmp_path / "locks"


def use_cores(monkeypatch: pytest.MonkeyPatch, cores: list[int], of: int = 4) -> None:
    monkeypatch.setattr(device_lock, "usable_cores", lambda: cores)
    monkeypatch.setattr(os, "cpu_count", lambda: of)


class InUseError(Exception):
    """The device is not free."""


def is_free(lock: DeviceLock) -> bool:
    """Whether somebody else would get this device at once."""

    class Impatient(Silent):
        def stage(self, text: str) -> None:
            raise InUseError

    impatient = copy.copy(lock)
    impatient.observer, impatient._told = Impatient(), -device_lock.TELL_SECONDS
    try:
        with impatient.held():
            return True
    except InUseError:
        return False


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[str]]:
    """Another process that holds cuda:1."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, "cuda:1"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_another_process_is_waited_for_and_named_and_may_be_killed(
    holder: subprocess.Popen[str],
) -> None:
    observer = Stages()
    threading.Timer(0.5, holder.kill).start()
    begun = time.monotonic()
    with DeviceLock("cuda:1", observer).held():
        assert 0.4 < time.monotonic() - begun < NEVER
    assert observer.said == [
        f"waiting for cuda:1, which process {holder.pid} of {getpass.getuser()} uses, for 0 s"
    ]


def test_other_devices_do_not_wait(holder: subprocess.Popen[str]) -> None:
    assert is_free(DeviceLock("cuda:0", Silent()))
    assert is_free(DeviceLock("cpu", Silent()))
    assert not is_free(DeviceLock("cuda:1", Silent()))


def test_a_cell_on_several_devices_locks_all_of_them() -> None:
    two, others = DeviceLock("cuda:1", Silent(), 2), [f"cuda:{index}" for index in range(4)]
    assert [part.name for part in two.parts] == ["cuda-1", "cuda-2"]
    with two.held():
        free = [is_free(DeviceLock(name, Silent())) for name in others]
    assert free == [True, False, False, True]
    assert len(DeviceLock("cpu", Silent(), 2).parts) == len(parts_of("cpu"))


def test_waiting_can_be_interrupted_and_leaves_nothing_locked(
    holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(event: threading.Event, seconds: float) -> None:
        raise KeyboardInterrupt

    open_before = os.listdir("/proc/self/fd")
    lock = DeviceLock("cuda:1", Silent())
    with monkeypatch.context() as patch:
        patch.setattr(threading.Event, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt), lock.held():
            raise AssertionError("the device is in use")
    assert os.listdir("/proc/self/fd") == open_before
    holder.kill()
    holder.wait()
    assert is_free(lock)


def test_two_runs_take_turns() -> None:
    order: list[str] = []
    both = threading.Barrier(2)

    def measure(name: str) -> None:
        lock = DeviceLock("cuda", Silent())
        both.wait()
        for _ in range(6):
            with lock.held():
                order.append(name)
                time.sleep(0.05)  # a cell; between two cells of a run passes almost no time

    threads = [threading.Thread(target=measure, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(NEVER)
    changes = sum(one != other for one, other in itertools.pairwise(order))
    assert sorted(order) == ["a"] * 6 + ["b"] * 6
    assert changes >= 9  # of 11: the first cells may go to one that came first


def test_all_cores_and_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    use_cores(monkeypatch, [0, 1, 2, 3])
    whole = DeviceLock("cpu", Silent())
    assert whole.parts == [Part("cpu")]
    use_cores(monkeypatch, [0, 1])
    first = DeviceLock("cpu", Silent())
    assert first.parts == [Part("cpu", shared=True), Part("cpu-core-0"), Part("cpu-core-1")]
    use_cores(monkeypatch, [2, 3])
    second = DeviceLock("cpu", Silent())
    use_cores(monkeypatch, [1, 2])
    overlapping = DeviceLock("cpu", Silent())
    with first.held():
        assert is_free(second)
        assert not is_free(whole)
        with second.held():
            pass
    with second.held():
        assert is_free(first)
        assert not is_free(overlapping)
    with whole.held():
        assert not is_free(first)


def test_a_gpu_has_its_uuid_whatever_its_number_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nvml(SimpleNamespace):
        NVMLError = RuntimeError

    nvml: Any = Nvml(
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}",
    )
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert parts_of("cuda") == [Part("GPU-0")]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,2")
    assert parts_of("cuda:1") == [Part("GPU-2")]
    assert parts_of("cuda:2") == [Part("cuda-2")]  # there is none
    assert parts_of("tpu:1") == [Part("tpu-1")]


def test_every_user_may_use_the_files(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        with DeviceLock("cuda", Silent()).held():
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == ["cuda-0", "cuda-0.turn"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o666}
    assert {file.stat().st_size for file in files} == {0}


def test_links_and_other_files_are_refused(folder: Path, tmp_path: Path) -> None:
    lock = DeviceLock("cuda", Silent())
    lock.check()
    (tmp_path / "own").write_text("mine")
    (folder / "cuda-0").symlink_to(tmp_path / "own")
    with pytest.raises(SynthbenchError, match=r"locked with .*cuda-0: .*; remove it, or name"):
        lock.held().__enter__()
    (folder / "cuda-0").unlink()
    os.mkfifo(folder / "cuda-0")
    with pytest.raises(SynthbenchError, match="it is not a regular file"):
        lock.held().__enter__()
    assert (tmp_path / "own").read_text() == "mine"


def test_a_file_system_without_locks_is_one_message(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As some of a network, where a file that is open for reading cannot be locked."""

    def flock(file: int, kind: int) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", flock)
    with (
        pytest.raises(SynthbenchError, match=rf"locked with {folder}/cpu.*: Bad file descriptor; "),
        DeviceLock("cpu", Silent()).held(),
    ):
        pass


def test_a_link_in_place_of_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    folder.symlink_to(tmp_path)
    with pytest.raises(SynthbenchError, match=r"devices cannot be locked with .*locks: "):
        DeviceLock("cuda", Silent()).check()


def test_a_file_that_was_removed_meanwhile_does_not_count(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock
    removed: list[bool] = []

    def flock(file: int, kind: int) -> None:
        real(file, kind)
        if not removed and (folder / "cuda-0").exists():
            removed.append(True)
            (folder / "cuda-0").unlink()

    monkeypatch.setattr(fcntl, "flock", flock)
    with DeviceLock("cuda", Silent()).held():
        assert removed
        assert not is_free(DeviceLock("cuda", Silent()))
