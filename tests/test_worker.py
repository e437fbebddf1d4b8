"""The measuring of one cell, with a framework whose every answer is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from synthbench.backends.base import MemoryPlan, TracedFlops
from synthbench.backends.kernel_record import record_kernel
from synthbench.errors import UnsupportedError
from synthbench.measure.memory_prediction import TooLargeError
from synthbench.measure.plausibility import ImplausibleError
from synthbench.mixers.base import Array
from synthbench.record import Measurements
from synthbench.run.worker import run_cell
from synthbench.run_info import Ceiling
from synthbench.suites.cell import Cell, model_of
from synthbench.suites.measure import Measure

MEASURE = Measure(min_samples=4, min_seconds=1e-6, max_seconds=1.0)


def cell(**changes: Any) -> Cell:
    content: dict[str, Any] = {
        "variant": "V", "framework": "torch", "mode": "train", "seq_len": 8, "batch": 2,
        "model": "mixer", "d_model": 8, "heads": 2, "max_len": 8, "compile": "eager",
        "device": "cuda",
    }  # fmt: skip
    return Cell.from_flat(**(content | changes))


FORMULA = model_of(cell()).flops(batch=2, seq_len=8)
assert FORMULA is not None
TRACED = 3 * FORMULA
LOSS = 2.5


class FakeStep:
    """A step that is asked, not run; it writes down what it is asked."""

    form: str | None = "fused"
    parameter_count, constant_count = 256, 3
    parameter_bytes, optimizer_bytes, batch_bytes, gradient_bytes = 1036, 500, 256, 100
    state_bytes = 0
    peak: int | None = 5000
    compiled_bytes: int | None = None

    def __init__(self) -> None:
        self.asked: list[str] = []

    def compile(self) -> None:
        record_kernel("compiled kernel")
        self.asked.append("compile")

    def __call__(self) -> str:
        record_kernel("eager kernel")
        self.asked.append("step")
        return f"step {self.asked.count('step')}"

    @property
    def first_losses(self) -> list[float]:
        return [LOSS]

    def check(self, produced: str) -> None:
        assert produced == "step 1", "what the first step returned is checked"

    def sample(self, produced: str) -> Array:
        return np.array(LOSS)

    def restart(self, start: Callable[[str], Array]) -> None:
        assert start("mixer.query").shape == (8, 2, 4)
        self.asked.append("restart")

    def wait(self, produced: str) -> None:
        assert produced == f"step {self.asked.count('step')}"
        self.asked.append("wait")

    def predict_memory(self) -> MemoryPlan | None:
        size = self.compiled_bytes
        return None if size is None else MemoryPlan("fake compiler", size, size)

    def traced_flops(self) -> TracedFlops:
        self.asked.append("traced_flops")
        return TracedFlops("fake", TRACED, {"sort": 2})

    def compiler_flops(self) -> float | None:
        return None

    def memory_plan(self) -> MemoryPlan | None:
        return MemoryPlan("fake plan", 4000, 3000)

    device_peak_method = "peak of a fake allocator"
    missing_counters: Mapping[str, str] = MappingProxyType({})

    def device_seconds(self, ahead: float) -> float | None:
        return None

    def in_every_process(self, act: Callable[[], Any]) -> Any:
        return act()

    def close(self) -> None:
        self.asked.append("close")

    def reset_device_peak(self) -> None:
        self.asked.append("reset")

    def device_peak_bytes(self) -> int | None:
        self.asked.append("peak")
        return self.peak


class Smallest:
    """The smallest step, in which nothing but `seconds` pass."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self) -> None:
        if self.seconds:
            time.sleep(self.seconds)

    def wait(self, produced: None) -> None:
        pass


def measure(
    step: FakeStep,
    report: Callable[[str, Measurements], None] = lambda stage, measured: None,
    ceiling: Ceiling | None = None,
    dispatch: float = 0.0,
    available_memory: int | None = None,
    of: Cell | None = None,
) -> tuple[Measurements, list[str]]:
    smallest = Smallest(dispatch)
    backend: Any = SimpleNamespace(
        build=lambda *_: step,
        predict_memory=lambda *_: MemoryPlan("fake shapes", 4500, 3500),
        smallest_step=lambda device: smallest,
    )
    return run_cell(backend, of or cell(), MEASURE, None, report, ceiling, available_memory)


def test_everything_is_measured_once_and_in_order() -> None:
    step = FakeStep()
    measured, notes = measure(step)
    assert notes == []
    assert step.asked[:7] == ["compile", "step", "wait", "reset", "step", "wait", "peak"]
    assert step.asked[-2:] == ["traced_flops", "close"]  # counting allocates, so it is last
    assert step.asked.count("reset") == 1
    assert measured.timing is not None
    assert len(measured.timing.samples) >= 4
    assert measured.throughput is not None
    warm = measured.timing.warmup_steps
    queued = measured.throughput.steps
    trial = step.asked.count("step") - (1 + warm + len(measured.timing.samples) + queued)
    assert trial == pytest.approx(0.05 / np.median(measured.timing.samples), abs=1)
    assert (measured.form, measured.kernels) == ("fused", ["compiled kernel", "eager kernel"])
    assert (measured.parameters, measured.constants) == (256, 3)
    assert measured.declared_parameters == 4 * 8 * 8
    assert measured.memory is not None
    assert measured.memory.peak == 5000
    assert measured.memory.method == "peak of a fake allocator"
    assert (measured.memory.planned, measured.memory.planned_tool) == (4500, "fake shapes")
    assert measured.flops is not None
    assert (measured.flops.traced, measured.flops.uncounted) == (TRACED, {"sort": 2})
    assert measured.flops.compiler is None


@pytest.mark.parametrize("peak", [0, None])
def test_a_peak_of_zero_is_implausible(peak: int | None) -> None:
    step = FakeStep()
    step.peak = peak
    with pytest.raises(ImplausibleError, match="peak memory reads zero"):
        measure(step)


def test_a_count_that_fails_takes_nothing_from_what_was_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(self: FakeStep) -> TracedFlops:
        raise ValueError("an operation of its own")

    monkeypatch.setattr(FakeStep, "traced_flops", fails)
    measured, notes = measure(FakeStep())
    assert notes == ["tracing FLOPs failed: ValueError: an operation of its own"]
    assert measured.timing is not None
    assert measured.flops is not None
    assert measured.flops.traced is None
    assert measured.memory is not None
    assert measured.memory.planned == 4500


def test_each_stage_is_told_with_what_is_known_by_then() -> None:
    told: dict[str, Measurements] = {}
    measure(FakeStep(), lambda stage, m: told.update({stage: m.model_copy(deep=True)}))
    stages = list(told)
    assert stages[:8] == [
        "predicting memory", "building", "compiling", "running the first steps", "settling memory",
        "reading memory", "bringing the cores together", "timing",
    ]  # fmt: skip
    assert told["predicting memory"].predicted_memory is not None
    assert told["building"].declared_parameters == 4 * 8 * 8
    assert told["building"].parameters is None
    assert told["compiling"].parameters == 256
    assert told["timing"].memory is not None
    assert told["timing"].timing is None
    assert told[stages[8]].timing is not None


def test_a_prediction_is_stored_beside_what_was_there() -> None:
    step = FakeStep()
    predicted = measure(step, available_memory=4500)[0].predicted_memory
    assert predicted is not None
    assert (predicted.bytes, predicted.tool, predicted.available) == (4500, "fake shapes", 4500)
    step = FakeStep()
    step.compiled_bytes = 4400
    predicted = measure(step)[0].predicted_memory
    assert predicted is not None
    assert (predicted.bytes, predicted.tool, predicted.available) == (4400, "fake compiler", None)


@pytest.mark.parametrize(("compiled", "asked"), [(None, []), (9000, ["compile", "close"])])
def test_what_is_predicted_not_to_fit_is_not_run(compiled: int | None, asked: list[str]) -> None:
    step = FakeStep()
    step.compiled_bytes = compiled
    told: list[Measurements] = []
    there = 4000 if compiled is None else 5000
    with pytest.raises(TooLargeError, match=f"{there / 1e6:,.0f} MB available"):
        measure(step, lambda stage, m: told.append(m.model_copy(deep=True)), available_memory=there)
    assert step.asked == asked
    assert told[-1].predicted_memory is not None
    assert told[-1].predicted_memory.bytes == (compiled or 4500)


def test_what_several_devices_do_not_know_is_empty_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    why = {name: f"no {name}" for name in ("peak_bytes", "traced_flops", "compiler_flops")}
    monkeypatch.setattr(FakeStep, "missing_counters", why)
    step = FakeStep()
    measured, notes = measure(step, of=cell(batch=4, devices=2))
    assert "traced_flops" not in step.asked
    assert notes == []
    assert measured.memory is not None and measured.flops is not None
    assert (measured.memory.peak, measured.memory.method) == (None, "")
    assert measured.flops.traced is None
    assert measured.missing.items() >= why.items()
    of_each = "each of the 2 devices has its own"
    assert (measured.missing["watts"], measured.missing["sm_megahertz"]) == (of_each, of_each)


def test_a_median_that_cannot_be_is_refused_with_everything_measured() -> None:
    told: list[Measurements] = []
    with pytest.raises(ImplausibleError, match="less than half of the smallest possible step"):
        measure(FakeStep(), lambda stage, m: told.append(m), dispatch=0.002)
    assert told[-1].timing is not None
    assert told[-1].timing.dispatch_seconds is not None
    assert told[-1].timing.dispatch_seconds >= 0.002
    slow = Ceiling(
        framework="torch", dtype="float32", device="cuda", flops_per_second=1.0, matrix_size=8,
        bytes_per_second=1.0, seconds=1.0,
    )  # fmt: skip
    with pytest.raises(ImplausibleError, match="best matrix-product rate"):
        measure(FakeStep(), ceiling=slow)
    measured, _ = measure(FakeStep(), ceiling=slow.model_copy(update={"flops_per_second": 1e18}))
    assert measured.flops is not None


def test_what_disturbed_the_steady_state_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Disturbed:
        warnings = ["another process was busy"]  # noqa: RUF012

        def __init__(self, device: str, devices: int) -> None:
            assert (device, devices) == ("cuda", 1)

        def __enter__(self) -> None: ...
        def __exit__(self, *exception: object) -> None: ...

    monkeypatch.setattr("synthbench.tasks.cost.InterferenceMonitor", Disturbed)
    measured, _ = measure(FakeStep())
    assert measured.warnings[0] == "another process was busy"
    assert measured.timing is not None
    assert measured.timing.precision_reached is not None
    assert measured.timing.clock == "perf_counter, device synchronised"


def test_a_cell_that_cannot_be_is_unsupported() -> None:
    backend: Any = SimpleNamespace()
    impossible = cell(variant="linformer", model="decoder", vocabulary=9)
    with pytest.raises(UnsupportedError, match="cannot be causal"):
        run_cell(backend, impossible, MEASURE)


@pytest.mark.parametrize(("device", "is_counted"), [("cpu", True), ("cuda", False)])
def test_new_pages_are_counted_where_steps_run_on_the_host(
    monkeypatch: pytest.MonkeyPatch, device: str, is_counted: bool
) -> None:
    """By `time_steps`, whose first sample may wait for memory."""
    asked: list[int] = []

    def pages() -> int:
        asked.append(0)
        return 0

    monkeypatch.setattr("synthbench.tasks.cost.new_pages", pages)
    monkeypatch.setattr("synthbench.tasks.cost.calibration_product", lambda *_: None)
    measure(FakeStep(), of=cell(device=device))
    assert bool(asked) == is_counted
