"""Accelerators that this machine does not have, with torch.accelerator and jax.devices made up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
import torch

from synthbench.backends.base import Batch, Setting
from synthbench.backends.jax import backend as jax_backend
from synthbench.backends.jax import placement as jax_placement
from synthbench.backends.torch import backend as torch_backend
from synthbench.backends.torch import placement as torch_placement
from synthbench.backends.torch import step as torch_step
from synthbench.backends.torch.cpu_matmul import libraries
from synthbench.backends.torch.mixers import blocks
from synthbench.errors import FrameworkMissingError
from synthbench.measure import parity
from synthbench.record import Measurements, Record
from synthbench.report.tables.catalog import make_tables
from synthbench.run.worker import run_cell
from synthbench.suites.cell import Cell
from synthbench.suites.measure import Measure
from synthbench.tasks import cost
from tests.test_tables import cell as table_cell
from tests.test_tables import record, run_of, value

MEASURE = Measure(min_samples=3, min_seconds=0.001, max_seconds=0.5, ceiling=False)
ASSERTION = "INTERNAL ASSERT FAILED: Allocator for mps is not a DeviceAllocator."


class Accelerator:
    """What torch.accelerator answers for a kind of device; a counter that is None raises."""

    def __init__(
        self, kind: str | None, count: int = 1, peak: int | None = 700, free: int | None = 900
    ) -> None:
        self.kind, self.count, self.peak, self.free = kind, count, peak, free
        self.asked: list[str] = []

    def current_accelerator(self, check_available: bool = False) -> torch.device | None:
        assert check_available, "a build for a GPU on a machine without one has an accelerator"
        return None if self.kind is None else torch.device(self.kind)

    def device_count(self) -> int:
        return self.count

    def synchronize(self, device: torch.device) -> None:
        self.asked.append(f"synchronize {device}")

    def reset_peak_memory_stats(self, device: torch.device) -> None:
        self.asked.append(f"reset {device}")
        if self.peak is None:
            raise RuntimeError(ASSERTION)

    def memory_stats(self, device: torch.device) -> dict[str, int]:
        if self.peak is None:
            raise RuntimeError(ASSERTION)
        return {"allocated_bytes.all.peak": self.peak} if self.peak else {}

    def get_memory_info(self, device: torch.device) -> tuple[int, int]:
        if self.free is None:
            raise RuntimeError(ASSERTION)
        return self.free, 1000


Install = Callable[[Accelerator], Accelerator]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    def install(accelerator: Accelerator) -> Accelerator:
        for name in dir(accelerator):
            if callable(function := getattr(accelerator, name)) and not name.startswith("_"):
                monkeypatch.setattr(torch.accelerator, name, function)
        return accelerator

    return install


# --- PyTorch --------------------------------------------------------------------------------


def test_torch_lists_its_accelerator(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(Accelerator("xpu", count=2))
    properties = SimpleNamespace(name="Arc", total_memory=16 * 2**30)
    module = SimpleNamespace(get_device_properties=lambda index: properties)
    monkeypatch.setattr(torch, "get_device_module", lambda kind: module)
    found = torch_backend.devices()
    assert [info.name for info in found] == ["cpu", "xpu:0", "xpu:1"]
    assert [info.description for info in found[1:]] == ["Arc, 16 GiB"] * 2
    assert [info.is_default for info in found] == [False, True, True]
    for device in ("cpu", "xpu", "xpu:1"):
        torch_backend.require_device(device)
    with pytest.raises(FrameworkMissingError, match="finds cpu, xpu:0, xpu:1; choose one of these"):
        torch_backend.require_device("xpu:2")
    with pytest.raises(FrameworkMissingError, match=r"no device 'cuda'.*CUDA build of torch"):
        torch_backend.require_device("cuda")
    with pytest.raises(FrameworkMissingError, match=r"no device 'tpu'.*use the framework jax"):
        torch_backend.require_device("tpu")


def test_torch_describes_what_has_no_properties(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(Accelerator("mps"))
    monkeypatch.setattr(torch, "get_device_module", lambda kind: SimpleNamespace())
    assert torch_backend.devices()[1].description == "the GPU of a Mac with Apple silicon"


def test_an_accelerator_without_a_name_here_is_left_out(install: Install) -> None:
    install(Accelerator("hpu"))
    assert [(info.name, info.is_default) for info in torch_backend.devices()] == [("cpu", True)]


def test_torch_waits_and_counts_by_its_accelerator(install: Install) -> None:
    accelerator = install(Accelerator("xpu"))
    device = torch.device("xpu:1")
    torch_placement.synchronize(device)
    torch_placement.reset_peak(device)
    assert accelerator.asked == ["synchronize xpu:1", "reset xpu:1"]
    assert torch_placement.peak_bytes(device) == 700
    assert torch_backend.free_memory("xpu:1") == 900
    (missing,) = torch_placement.missing_counters(device).items()
    assert missing[0] == "device_seconds" and "keeps xpu busy" in missing[1]
    install(Accelerator("cuda"))
    assert torch_placement.missing_counters(torch.device("cuda")) == {}


@pytest.mark.parametrize("peak", [None, 0])
def test_torch_says_what_an_accelerator_does_not_count(peak: int | None, install: Install) -> None:
    """As mps of some versions: its allocator raises; or gives no figure."""
    accelerator = install(Accelerator("mps", peak=peak, free=None))
    device = torch.device("mps")
    torch_placement.reset_peak(device)
    assert accelerator.asked == ["reset mps"]
    assert torch_placement.peak_bytes(device) is None
    assert torch_backend.free_memory("mps") is None
    reason = torch_placement.missing_counters(device)["peak_bytes"]
    assert reason == f"torch {torch.__version__} does not count the memory of mps"


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_on_a_cpu_no_accelerator_is_asked(device: str, install: Install) -> None:
    accelerator = install(Accelerator("xpu"))
    torch_placement.synchronize(torch.device(device))
    torch_placement.reset_peak(torch.device(device))
    assert accelerator.asked == []
    assert torch_placement.peak_bytes(torch.device(device)) is None
    assert torch_placement.missing_counters(torch.device(device)) == {}


def on(kind: str) -> Any:
    """A float32 matrix that says it is on a device."""
    return SimpleNamespace(device=torch.device(kind), dtype=torch.float32)


@pytest.mark.parametrize("kind", ["cuda", "xpu:1", "mps"])
def test_kernels_for_processors_are_not_offered_to_accelerators(kind: str) -> None:
    assert libraries(on(kind)) == ("",)
    assert blocks.sizes(torch.device(kind)) == blocks.BLOCK_SIZES["cuda"]
    assert blocks.sizes(torch.device("meta")) == blocks.BLOCK_SIZES["cpu"]


def test_inputs_get_their_type_before_they_leave_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """mps has no float64, not even for a moment."""
    moved: list[torch.dtype] = []
    to = torch.Tensor.to

    def spy(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if any(isinstance(argument, torch.device) for argument in (*args, *kwargs.values())):
            moved.append(self.dtype)
        return to(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "to", spy)
    batch = Batch(np.zeros((1, 4, 8)), np.zeros((1, 4), np.int64), np.ones((1, 4), bool))
    inputs, targets, mask = torch_step.to_device(batch, Setting(dtype="float32"))
    assert inputs.dtype == torch.float32
    assert mask is not None and targets.dtype == torch.int64
    assert moved == [torch.float32, torch.int64, torch.bool]


# --- JAX ------------------------------------------------------------------------------------


class JaxDevice:
    """A device of a platform; without `statistics`, its plug-in counts nothing."""

    def __init__(self, platform: str, kind: str, statistics: dict[str, int] | None = None) -> None:
        self.platform, self.device_kind, self.statistics = platform, kind, statistics

    def memory_stats(self) -> dict[str, int] | None:
        if self.statistics is None:
            raise jax.errors.JaxRuntimeError("UNIMPLEMENTED: GetMemoryStats")
        return self.statistics


def jax_with(
    monkeypatch: pytest.MonkeyPatch, default: str, **found: list[Any] | list[JaxDevice]
) -> None:
    """JAX with these devices by platform, and the CPU."""
    real = jax.devices

    def devices(platform: str | None = None) -> list[Any]:
        if platform in found:
            return list(found[platform])
        if platform in (None, "cpu"):
            return list(found[default]) if platform is None and default in found else real("cpu")
        raise RuntimeError(f"Unknown backend: '{platform}' requested")

    monkeypatch.setattr(jax, "devices", devices)
    monkeypatch.setattr(jax, "default_backend", lambda: default)


def test_jax_lists_the_devices_of_each_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = {"bytes_limit": 32 * 2**30, "bytes_in_use": 2**30, "peak_bytes_in_use": 7}
    tpus = [JaxDevice("tpu", "TPU v5e", counted), JaxDevice("tpu", "TPU v5e", {})]
    jax_with(monkeypatch, "tpu", tpu=tpus)
    found = jax_backend.devices()
    assert [info.name for info in found] == ["cpu", "tpu:0", "tpu:1"]
    assert [info.description for info in found[1:]] == ["TPU v5e, 32 GiB for JAX", "TPU v5e"]
    assert [info.is_default for info in found] == [False, True, True]
    jax_backend.require_device("tpu:1")
    assert jax_placement.find_device("tpu:1") is tpus[1]
    assert jax_backend.free_memory("tpu") == 31 * 2**30
    assert jax_backend.free_memory("tpu:1") is None
    with pytest.raises(FrameworkMissingError, match="finds cpu, tpu:0, tpu:1; choose one of these"):
        jax_backend.require_device("tpu:2")
    with pytest.raises(FrameworkMissingError, match=r'no device \'cuda\'.*pip install "jax\[cuda'):
        jax_backend.require_device("cuda")


def test_jax_says_what_a_device_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, silent = JaxDevice("tpu", "", {"peak_bytes_in_use": 7}), JaxDevice("METAL", "M4")
    assert jax_placement.peak_bytes(counted) == 7
    assert list(jax_placement.missing_counters(counted)) == ["device_seconds"]
    assert jax_placement.peak_bytes(silent) is None
    missing = jax_placement.missing_counters(silent)
    assert missing["peak_bytes"] == f"jax {jax.__version__} does not count the memory of METAL"
    jax_with(monkeypatch, "METAL", METAL=[silent])
    assert [info.name for info in jax_backend.devices()] == ["cpu", "mps:0"]
    assert jax_backend.devices()[1].is_default
    assert jax_backend.free_memory("mps") is None
    assert jax_placement.missing_counters(jax.devices("cpu")[0]) == {}


@pytest.mark.parametrize(
    ("platform", "present", "kind"),
    [
        ("cpu", [], "cpu"), ("tpu", ["tpu"], "tpu"), ("METAL", ["METAL"], "mps"),
        ("gpu", ["cuda"], "cuda"), ("gpu", ["oneapi"], "xpu"), ("gpu", [], "cuda"),
        ("neuron", [], "neuron"),
    ],
)  # fmt: skip
def test_the_platform_of_a_device_as_suites_name_it(
    platform: str, present: list[str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices of several makers call their platform gpu; without one, JAX compiles for CUDA."""
    jax_with(monkeypatch, platform, **{name: [JaxDevice(platform, "")] for name in present})
    config = SimpleNamespace(jax_default_device=JaxDevice(platform, ""))
    monkeypatch.setattr(jax, "config", config)
    assert jax_placement.platform() == kind


# --- a whole cell ---------------------------------------------------------------------------


def one(framework: str, device: str, **content: Any) -> Cell:
    fields = {
        "variant": "V", "framework": framework, "mode": "train", "seq_len": 8, "batch": 2,
        "model": "mixer", "d_model": 8, "heads": 2, "max_len": 8, "device": device,
        "compile": "eager" if framework == "torch" else "compiled",
    }  # fmt: skip
    return Cell.from_flat(**(fields | content))


@contextmanager
def stand_in(
    framework: str, monkeypatch: pytest.MonkeyPatch, install: Install
) -> Iterator[tuple[Any, str]]:
    """A back end and a device of it without counters, whose work the CPU does."""
    if framework == "jax":
        jax_with(monkeypatch, "cpu", tpu=list(jax.devices("cpu")))
        monkeypatch.setattr(jax_placement, "is_accelerator", lambda device: True)
        yield jax_backend, "tpu"
    else:
        install(Accelerator("mps", peak=None, free=None))
        cpu = torch.device("cpu")
        for module in (torch_backend, torch_placement):
            monkeypatch.setattr(module, "find_device", lambda device: cpu)
        for name in ("microbenchmarks", "prediction"):
            path = f"synthbench.backends.torch.{name}.find_device"
            monkeypatch.setattr(path, lambda device: cpu)
        monkeypatch.setattr(torch_placement, "missing_counters", lambda device: MISSING_OF_MPS)
        yield torch_backend, "mps"


MISSING_OF_MPS = {"peak_bytes": "mps counts nothing", "device_seconds": "mps has no such kernel"}


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_cell_on_a_device_without_counters(
    framework: str, monkeypatch: pytest.MonkeyPatch, install: Install
) -> None:
    monkeypatch.setattr(cost, "require_idle", lambda seconds: None)  # the CPU is the device
    with stand_in(framework, monkeypatch, install) as (backend, device):
        cell = one(framework, device)
        checked = parity.check_cell(backend, cell)
        assert checked.passed and checked.against == "numpy"
        measured, notes = run_cell(backend, cell, MEASURE, checked)
    assert notes == []
    assert measured.timing is not None and measured.throughput is not None
    assert measured.timing.clock == "perf_counter, device synchronised"
    assert measured.memory is not None
    assert (measured.memory.peak, measured.memory.method) == (None, "")
    assert measured.memory.parameters == 4 * 4 * 8 * 8
    assert measured.throughput.device_seconds is None
    assert list(measured.missing) == ["joules", "peak_bytes", "device_seconds"]
    assert measured.missing["joules"] == f"no counter of the energy of {device} is known"
    assert measured.flops is not None and measured.flops.traced is not None
    again = Measurements.model_validate_json(measured.model_dump_json())
    assert again == measured


# --- tables ---------------------------------------------------------------------------------


def test_tables_say_why_a_number_is_missing() -> None:
    cells = [table_cell("V", f, "train", 64) for f in ("torch", "jax")]
    why = {
        "peak_bytes": "mps counts nothing", "device_seconds": "no such kernel",
        "joules": "no counter", "utilisation": "no ceiling could be measured: no matmul",
    }  # fmt: skip
    records: list[Record] = []
    for each in cells:
        made = record(each, 0.010)
        memory = made.measurements.memory
        assert memory is not None
        made.measurements.memory = memory.model_copy(update={"peak": None, "method": ""})
        made.measurements.missing = why
        records.append(made)
    tables = {table.name: table for table in make_tables(run_of(records))}
    assert "MB of torch and jax: not measured, mps counts nothing." in tables["memory"].note
    assert value(tables["memory"], "L=64 MB", framework="torch") == "not measured"
    assert "MB of torch and jax: not measured" in tables["memory_parts"].note
    assert "util % of torch and jax: not measured, no ceiling could" in tables["utilisation"].note
    counted = [record(each, 0.010) for each in cells]
    plain = {table.name: table for table in make_tables(run_of(counted))}
    for name in ("memory", "memory_parts", "utilisation"):
        assert "not measured" not in plain[name].note.replace("not measured in this run", "")
