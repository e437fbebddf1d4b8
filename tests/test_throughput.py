"""Steps with a full queue, their energy, and how both are shown; with devices made up."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from synthbench.measure import throughput as measuring
from synthbench.measure.energy import NvmlCounter, RaplCounter, energy_counter
from synthbench.measure.throughput import Queued, measure_throughput, run_queued
from synthbench.record import DeviceState, Record, Throughput
from synthbench.report.data.table import Table
from synthbench.report.tables.catalog import make_tables
from tests.test_gpu import FakeNvml
from tests.test_tables import cell, record, run_of, value


class Device:
    """Queues a step in 1 ms and works on it for `seconds`; uses 40 watts while it works."""

    def __init__(self, seconds: float, on_device: float | None = None) -> None:
        self.seconds, self.on_device = seconds, on_device
        self.now = self.free_at = self.energy = 0.0
        self.steps, self.waits = 0, 0
        self.ahead: list[float] = []

    def clock(self) -> float:
        return self.now

    def __call__(self) -> int:
        self.steps += 1
        self.now += 0.001
        self.free_at = max(self.free_at, self.now) + self.seconds
        self.energy += 40 * self.seconds
        return self.steps

    def wait(self, produced: int) -> None:
        assert produced == self.steps
        self.waits += 1
        self.now = max(self.now, self.free_at)

    def device_seconds(self, ahead: float) -> float | None:
        self.ahead.append(ahead)
        return self.on_device

    source = "made up"

    def joules(self) -> float | None:
        return self.energy

    def state(self) -> DeviceState | None:
        working = self.free_at > self.now
        return DeviceState(sm_megahertz=1980 if working else 345, watts=40.0 * working)


def test_with_a_full_queue_the_device_does_not_wait_for_python() -> None:
    device = Device(0.004)
    seconds, joules, state = run_queued(device, device.wait, 100, device, device.clock)
    assert seconds == pytest.approx((0.001 + 100 * 0.004) / 100)
    assert joules == pytest.approx(40 * 0.004)
    assert (device.steps, device.waits) == (100, 1)
    assert state == DeviceState(sm_megahertz=1980, watts=40)  # while it works
    slow = Device(0.0004)  # Python is what takes the time
    seconds, joules, state = run_queued(slow, slow.wait, 100, None, slow.clock)
    assert seconds == pytest.approx(0.001, rel=0.01)
    assert joules is None and state is None


def test_a_counter_that_goes_backwards_or_silent_gives_no_negative_energy() -> None:
    readings: Any = iter([5.0, 3.0])
    counter: Any = SimpleNamespace(joules=lambda: next(readings), state=lambda: None)
    device = Device(0.01)
    assert run_queued(device, device.wait, 2, counter, device.clock).joules == 0
    readings = iter([5.0, None])
    assert run_queued(device, device.wait, 2, counter, device.clock).joules is None


@pytest.mark.parametrize(
    ("alone", "queued", "runs"),
    [
        (0.01, 0.01, [5, 50]),
        (0.02, 0.02, [25]),
        (10.0, 10.0, [3]),
        (1e-3, 1e-4, [50, 5000]),  # Python and the device work at the same time
        (1e-5, 1e-5, [5000, 20_000]),
        (0.0, 1e-5, [20_000, 20_000]),
    ],
)
def test_half_a_second_of_steps_are_queued(
    alone: float, queued: float, runs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def run(step: Any, wait: Any, steps: int, counter: Any = None) -> Queued:
        asked.append(steps)
        return Queued(queued, None, None)

    monkeypatch.setattr(measuring, "run_queued", run)
    device: Any = Device(0.01, on_device=0.002)
    found = measure_throughput(device, "cuda", alone)
    assert found == Throughput(steps=runs[-1], seconds=queued, device_seconds=0.002)
    assert asked == runs
    assert device.ahead == [1.5 * alone] * 5


def test_on_a_cpu_without_a_counter_nothing_is_queued(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("synthbench.measure.energy.RAPL", tmp_path)
    device: Any = Device(0.01)
    assert measure_throughput(device, "cpu", 0.01) is None
    assert device.steps == 0


def test_nvml_counts_millijoules(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    assert NvmlCounter(nvml, "device 0").joules() is None  # an older GPU
    counted = {"nvmlDeviceGetTotalEnergyConsumption": lambda handle: 1_234_500}
    for name, answer in counted.items():
        monkeypatch.setattr(nvml, name, answer, raising=False)
    assert NvmlCounter(nvml, "device 0").joules() == 1234.5
    asked = {"nvmlDeviceGetPowerUsage": lambda handle: 312_500}
    for name, answer in asked.items():
        monkeypatch.setattr(nvml, name, answer, raising=False)
    assert NvmlCounter(nvml, "device 0").state() == DeviceState(
        sm_megahertz=1000, memory_megahertz=2000, watts=312.5
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with energy_counter("cuda:1") as counter:
        assert counter is not None and counter.source == "NVML, the whole GPU"
    with energy_counter("cuda:0", 2) as counter:
        assert counter is not None and counter.source == "NVML, 2 whole GPUs"
        assert counter.joules() == 2 * 1234.5
        assert counter.state() is None
    assert nvml.open == 0


def test_a_gpu_that_counts_no_energy_still_tells_its_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    device: Any = Device(0.01)
    found = measure_throughput(device, "cuda:1", 0.25)
    assert found is not None
    assert (found.joules, found.energy_source) == (None, "")
    assert found.state == DeviceState(sm_megahertz=1000, memory_megahertz=2000)


def packages(root: Path, *microjoules: int) -> None:
    for number, count in enumerate(microjoules):
        folder = root / f"intel-rapl:{number}"
        folder.mkdir(exist_ok=True)
        (folder / "energy_uj").write_text(f"{count}\n")
        (folder / "max_energy_range_uj").write_text("1000000\n")
    (root / "intel-rapl:0:0").mkdir(exist_ok=True)  # a part of the package, counted in it


def test_the_packages_of_a_processor_are_added_and_their_counters_wrap(tmp_path: Path) -> None:
    assert RaplCounter(tmp_path).joules() is None
    packages(tmp_path, 900_000, 100_000)
    counter = RaplCounter(tmp_path)
    assert counter.joules() == 1.0
    packages(tmp_path, 950_000, 300_000)
    assert counter.joules() == 1.25
    packages(tmp_path, 50_000, 300_000)
    assert counter.joules() == pytest.approx(1.35)
    (tmp_path / "intel-rapl:1" / "energy_uj").unlink()
    assert counter.joules() is None


def test_the_counter_of_the_whole_computer_is_not_added_to_its_packages(tmp_path: Path) -> None:
    packages(tmp_path, 900_000, 5_000_000)
    for number, name in enumerate(("package-0", "psys")):
        (tmp_path / f"intel-rapl:{number}" / "name").write_text(f"{name}\n")
    assert RaplCounter(tmp_path).joules() == 0.9


def made(*found: Throughput | None) -> dict[str, Table]:
    cells = [cell("V", "torch", "train", 64), cell("R", "torch", "train", 64)]
    records: list[Record] = [
        record(one, 0.010, throughput=measured) for one, measured in zip(cells, found, strict=True)
    ]
    return {table.name: table for table in make_tables(run_of(records))}


def test_the_table_names_what_it_shows() -> None:
    full = Throughput(
        steps=50, seconds=0.008, device_seconds=0.0071, joules=2.5, energy_source="NVML",
        state=DeviceState(sm_megahertz=1980, watts=312.5),
    )  # fmt: skip
    table = made(full, None)["throughput"]
    assert [column.name for column in table.columns] == [
        "framework", "mode", "variant", "length", "steady", "queued", "on device", "busy %",
        "J/step", "W", "MHz", "bound by",
    ]  # fmt: skip
    names = ("steady", "queued", "on device", "busy %", "J/step", "W", "MHz", "bound by")
    assert [value(table, name, variant="V") for name in names] == [
        pytest.approx(10), pytest.approx(8), pytest.approx(7.1), pytest.approx(71), 2.5, 312.5,
        1980, "device",
    ]  # fmt: skip
    assert value(table, "queued", variant="R") == "not measured"
    assert value(table, "bound by", variant="R") == ""
    assert "joules per queued step (NVML)" in table.note
    launches = made(Throughput(steps=50, seconds=0.008, device_seconds=0.0069), None)
    assert value(launches["throughput"], "bound by", variant="V") == "launches"
    without = made(Throughput(steps=50, seconds=0.008), None)["throughput"]
    assert [column.name for column in without.columns][4:] == ["steady", "queued"]
    assert "J/step" not in without.note and "on device" not in without.note
    assert "throughput" not in made(None, None)
