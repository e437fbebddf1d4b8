"""What a GPU's driver tells, with a driver made up; no machine without one can try the real one."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from synthbench.measure.gpu import (
    GpuMonitor,
    GpuReading,
    handle_of,
    judge_gpu,
    nvidia_devices,
    read_gpu,
)
from synthbench.run.host_client import Host

QUIET = GpuReading(10.0, {"its power limit": 0, "its heat": 0}, 0, frozenset({1}))


class FakeError(Exception):
    pass


class FakeNvml:
    """Two devices; what it cannot tell it refuses as NVML does."""

    NVMLError = FakeError
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def __init__(self) -> None:
        self.heat_nanoseconds = 0
        self.open = 0

    def nvmlInit(self) -> None:  # noqa: N802  the names are NVML's
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Any] = {
            "nvmlDeviceGetCount": lambda: 2,
            "nvmlDeviceGetHandleByIndex": lambda index: f"device {index}",
            "nvmlDeviceGetHandleByUUID": lambda uuid: f"part {uuid}",
            "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda part: (
                f"whole device of {part.removeprefix('part ')}"
            ),
            "nvmlDeviceGetUUID": lambda handle: {"device 0": "GPU-a0", "device 1": "GPU-a1bc"}[
                handle
            ],
            "nvmlDeviceGetName": lambda handle: f"name of {handle}",
            "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=80),
            "nvmlDeviceGetViolationStatus": self._violation,
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 0x1,  # idle
            "nvmlDeviceGetComputeRunningProcesses": lambda handle: [
                SimpleNamespace(pid=os.getpid())
            ],
            "nvmlDeviceGetClockInfo": lambda handle, kind: 1000 * kind,
        }
        return answers.get(name, self._refuse)

    def _violation(self, handle: str, policy: int) -> SimpleNamespace:
        return SimpleNamespace(violationTime=self.heat_nanoseconds if policy == 1 else 0)

    def _refuse(self, *arguments: object) -> None:
        raise FakeError("not supported")


def test_a_quiet_device_gives_no_warning() -> None:
    assert judge_gpu(QUIET, GpuReading(11.0, dict(QUIET.slowed), 0x1, frozenset({1})), 1) == []


def test_a_clock_held_down_is_told_with_its_share_or_its_reason() -> None:
    hot = GpuReading(12.0, {"its power limit": 0, "its heat": 500_000_000}, 0x40, frozenset({1}))
    assert judge_gpu(QUIET, hot, 1) == [
        "the GPU's clock was held down by its heat for 25% of the time"
    ]
    now = GpuReading(12.0, {}, 0x04, frozenset({1}))
    assert judge_gpu(QUIET, now, 1) == ["the GPU's clock was held down by its power limit"]


def test_others_on_the_device_are_counted_also_where_pids_are_the_hosts() -> None:
    def seen(*pids: int) -> list[str]:
        return judge_gpu(QUIET, GpuReading(11.0, {}, 0, frozenset({1, *pids})), own_pid=own)

    own = 1
    assert seen(2, 3) == ["2 other processes used the GPU"]
    own = 999  # not among them: one of them is this process
    assert seen() == []
    assert seen(2) == ["1 other process used the GPU"]


def test_a_watch_reads_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    watch = GpuMonitor("cuda:1")
    with watch:
        nvml.heat_nanoseconds = 10**12
    assert [warning.partition(" for ")[0] for warning in watch.warnings] == [
        "the GPU's clock was held down by its heat"
    ]
    assert nvml.open == 0


def test_without_a_driver_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    monkeypatch.setattr(nvml, "nvmlInit", nvml._refuse, raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    with GpuMonitor("cuda") as watch:
        pass
    assert watch.warnings == []
    assert nvidia_devices() == []


def test_devices_are_described_as_far_as_they_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    first, second = nvidia_devices()
    assert (first["name"], second["name"]) == ("name of device 0", "name of device 1")
    assert (first["sm_megahertz"], first["memory_megahertz"]) == (1000, 2000)
    assert first["power_limit_watts"] is None


def test_the_device_is_the_one_that_cuda_means(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert handle_of(nvml, "cuda:1") == "device 1"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,GPU-a0,MIG-5f,MIG-GPU-a1bc/3/0,GPU-,GPU-b")
    found = [handle_of(nvml, f"cuda:{n}") for n in range(7)]
    assert found == [
        "device 1",
        "device 0",  # by the beginning of its UUID
        "whole device of MIG-5f",
        "device 1",  # a part of it, as older drivers write it
        None,  # two devices begin so
        None,  # none does
        None,  # not visible
    ]
    assert handle_of(nvml, "cuda") == "device 1"
    assert handle_of(MuteNvml(), "cuda") is None
    assert read_gpu(nvml, "device 0").reasons == 1


@pytest.mark.parametrize(("order", "named"), [("FASTEST_FIRST", False), ("PCI_BUS_ID", True)])
def test_unlike_devices_are_told_apart_only_in_the_order_of_the_bus(
    order: str, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = FakeNvml()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", order)
    assert handle_of(nvml, "cuda:1") == ("device 1" if named else None)
    monkeypatch.setattr(nvml, "nvmlDeviceGetName", lambda handle: "the same", raising=False)
    assert handle_of(nvml, "cuda:1") == "device 1"


def test_hosts_number_devices_as_the_driver_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    assert Host("torch")._environment()["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    assert Host("torch")._environment()["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"


def test_a_driver_that_fails_at_the_end_or_in_between_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nvml = FakeNvml()
    monkeypatch.setattr(nvml, "nvmlShutdown", nvml._refuse, raising=False)
    monkeypatch.setattr(nvml, "nvmlDeviceGetCount", nvml._refuse, raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert nvidia_devices() == []
    with GpuMonitor("cuda") as watch:
        pass
    assert watch.warnings == []


class MuteNvml:
    """A driver that refuses every question."""

    NVMLError = FakeError

    def __getattr__(self, name: str) -> Any:
        return FakeNvml()._refuse


def test_a_reading_has_what_the_driver_reports() -> None:
    nvml = FakeNvml()
    nvml.heat_nanoseconds = 7
    reading = read_gpu(nvml, "device 0")
    assert reading.slowed == {"its power limit": 0, "its heat": 7}
    assert reading.reasons == 1
    assert reading.processes == frozenset({os.getpid()})
    mute = read_gpu(MuteNvml(), "device 0")
    assert (mute.slowed, mute.reasons, mute.processes) == ({}, None, frozenset())


@pytest.mark.parametrize(
    ("bits", "reason"),
    [(0x04, "its power limit"), (0x08, "a hardware slowdown"), (0x20, "its heat (driver)"),
     (0x40, "its heat (hardware)"), (0x80, "the power supply")],
)  # fmt: skip
def test_each_bit_of_a_reduced_clock_has_its_reason(bits: int, reason: str) -> None:
    held = [f"the GPU's clock was held down by {reason}"]
    for before, after in ((bits, None), (None, bits), (bits | 1, bits)):
        first, second = (GpuReading(1.0, {}, found, frozenset()) for found in (before, after))
        assert judge_gpu(first, second, 1) == held


def test_a_reduction_counts_from_its_share_of_the_time() -> None:
    def judged(nanoseconds: int, seconds: float = 10.0) -> list[str]:
        before = GpuReading(10.0, {"its heat": 10**9}, None, frozenset())
        after = GpuReading(10.0 + seconds, {"its heat": 10**9 + nanoseconds}, None, frozenset())
        return judge_gpu(before, after, 1)

    assert judged(500_000_000) == []
    assert judged(600_000_000) == ["the GPU's clock was held down by its heat for 6% of the time"]
    assert judged(600_000_000, seconds=0.0) == []


def test_processes_of_both_readings_count() -> None:
    before = GpuReading(1.0, {}, None, frozenset({1, 2}))
    after = GpuReading(2.0, {}, None, frozenset({1, 3}))
    assert judge_gpu(before, after, 1) == ["2 other processes used the GPU"]
    nobody = GpuReading(1.0, {}, None, frozenset())
    assert judge_gpu(nobody, nobody, 1) == []


def test_a_device_is_described_by_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    answers = {
        "nvmlSystemGetDriverVersion": lambda: "570.1",
        "nvmlSystemGetCudaDriverVersion": lambda: 12080,
        "nvmlDeviceGetMaxClockInfo": lambda handle, kind: 1500 * kind,
        "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 350_000,
        "nvmlDeviceGetPersistenceMode": lambda handle: 1,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(nvml, name, answer, raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert nvidia_devices()[0] == {
        "name": "name of device 0", "memory_bytes": 80, "driver": "570.1", "cuda_driver": 12080,
        "sm_megahertz": 1000, "sm_megahertz_max": 1500, "memory_megahertz": 2000,
        "memory_megahertz_max": 3000, "power_limit_watts": 350.0, "persistence": True,
    }  # fmt: skip
    assert nvml.open == 0
