"""Ceilings with kernels of a known rate, and the kernels of both frameworks."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from synthbench.backends.base import BACKENDS, Backend
from synthbench.errors import SynthbenchError, UnsupportedError
from synthbench.measure.ceiling import (
    ON_ACCELERATOR,
    ON_HOST,
    REPETITIONS,
    SECONDS,
    VARIABLE,
    Extent,
    best_seconds,
    ceiling_of,
    seconds_of_each,
    smallest_step_seconds,
)
from synthbench.measure.gpu import GpuMonitor
from synthbench.report.data.frame import record_frame
from synthbench.run.ceilings import ceiling_for, measure_ceilings
from synthbench.run.cell_runner import CellRunner
from synthbench.run.host_client import Host
from synthbench.run.job import Reply
from synthbench.run.progress import Silent
from synthbench.suites.cell import Cell
from synthbench.suites.measure import Measure


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class FakeKernel:
    """Takes so many seconds, of which every other call takes twice as many."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock, self.seconds, self.calls = clock, seconds, 0

    def __call__(self) -> int:
        self.calls += 1
        return self.calls

    def wait(self, produced: int) -> None:
        assert produced == self.calls
        self.clock.now += self.seconds * (1 + produced % 2)


def fake_backend(clock: Clock, rate: float, bandwidth: float, extent: Extent = ON_HOST) -> Backend:
    """Products at `rate` for the middle size and half of it for others."""
    middle = extent.sizes[1]
    return cast(Backend, SimpleNamespace(
        name="torch",
        matrix_products=lambda dtype, device, size: [
            FakeKernel(clock, 2 * size**3 / (rate if size == middle else rate / 2))
        ],
        copy=lambda dtype, device, elements: FakeKernel(
            clock, 2 * elements * np.dtype(dtype).itemsize / bandwidth
        ),
        smallest_step=lambda device: FakeKernel(clock, 3e-6),
    ))  # fmt: skip


def test_the_best_size_and_the_best_repetition_count() -> None:
    clock = Clock()
    ceiling = ceiling_of(fake_backend(clock, 1e12, 5e10), "float64", "cpu", clock)
    assert ceiling.flops_per_second == pytest.approx(1e12)
    assert ceiling.matrix_size == ON_HOST.sizes[1]
    assert ceiling.bytes_per_second == pytest.approx(5e10)
    assert ceiling.seconds == pytest.approx(clock.now)
    assert (ceiling.framework, ceiling.dtype, ceiling.device) == ("torch", "float64", "cpu")


def test_the_clock_of_a_gpu_is_raised_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is slow for the first half second, in which all its products could have been timed."""
    clock = Clock()
    backend: Any = fake_backend(clock, 1e15, 3e12, ON_ACCELERATOR)

    class Rising(FakeKernel):
        def wait(self, produced: int) -> None:
            clock.now += self.seconds * (1 if clock.now > 0.45 else 3)

    backend.matrix_products = lambda dtype, device, size: [Rising(clock, 2 * size**3 / 1e15)]
    monkeypatch.setattr(GpuMonitor, "__enter__", lambda self: self)
    monkeypatch.setattr(GpuMonitor, "__exit__", lambda *_: None)
    ceiling = ceiling_of(backend, "float32", "cuda", clock)
    assert ceiling.flops_per_second == pytest.approx(1e15)
    assert clock.now < 2


def test_a_slow_device_is_not_kept_for_long() -> None:
    clock = Clock()
    ceiling = ceiling_of(fake_backend(clock, 2e9, 5e8), "float32", "cpu", clock)
    assert ceiling.flops_per_second == pytest.approx(2e9 / 2)  # the smallest size alone
    assert clock.now < 10
    assert ON_HOST.copy_bytes > 10 * 2**20


def test_repetitions_are_bounded() -> None:
    clock = Clock()
    fast = FakeKernel(clock, 1e-6)
    assert best_seconds(fast, clock) == pytest.approx(1e-6)
    assert fast.calls == 1 + REPETITIONS
    assert smallest_step_seconds(fake_backend(clock, 1, 1), "cpu", clock) == pytest.approx(3e-6)


@pytest.mark.parametrize("framework", ["torch", "jax"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_kernels_compute_what_they_say(framework: str, dtype: str) -> None:
    backend = cast(Backend, importlib.import_module(BACKENDS[framework]))
    results: list[Any] = []
    for kernel in (
        *backend.matrix_products(dtype, "cpu", 64),
        backend.copy(dtype, "cpu", 1000),
        backend.smallest_step("cpu"),
    ):
        for _ in range(3):  # also after it has given its memory away
            produced = kernel()
            kernel.wait(produced)
        results.append(produced)
    *products, copied, one = results
    assert len(products) == 1 + (framework == "torch" and dtype == "float32")  # two libraries
    for product in products:
        assert product.shape == (64, 64)
        assert 5 < float(product.reshape(-1)[0]) < 30  # 64 products of uniform numbers
        assert dtype in str(product.dtype)
    assert copied.shape == (1000,)
    assert np.array_equal(np.array(copied.tolist()), np.ones(1000))
    assert float(one.reshape(-1)[0]) == 1


def cell(framework: str = "torch", dtype: str = "float32") -> Cell:
    return Cell.from_flat(
        variant="V",
        framework=framework,
        mode="train",
        seq_len=8,
        batch=2,
        model="mixer",
        d_model=8,
        heads=2,
        max_len=8,
        compile="compiled",
        dtype=dtype,
    )


def test_each_ceiling_that_is_missing_is_measured_once_in_a_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Watcher(Silent):
        notes: list[str] = []  # noqa: RUF012

        def note(self, text: str) -> None:
            self.notes.append(text)

    cells = [cell(), cell(), cell("jax"), cell(dtype="float64")]
    with Host("torch") as host:
        first, failed = measure_ceilings({"torch": host}, cells, [], Watcher())
        assert failed == {}
        assert [(c.framework, c.dtype) for c in first] == [
            ("torch", "float32"),
            ("torch", "float64"),
        ]
        assert all(c.flops_per_second > 1e8 and c.bytes_per_second > 1e7 for c in first)
        assert measure_ceilings({"torch": host}, cells, first, Watcher()) == ([], {})
        monkeypatch.setattr("synthbench.run.ceilings.MEASURE", "os:abort")
        none, failed = measure_ceilings({"torch": host}, cells, first[:1], Watcher())
    assert none == []
    assert list(failed) == [("torch", "float64", "cpu")]
    assert "no ceiling could be measured: os:abort" in failed["torch", "float64", "cpu"]
    assert "no utilisation for torch float64 on cpu" in Watcher.notes[-1]
    assert ceiling_for(cells[3], first) == first[1]
    faster = first[0].model_copy(update={"framework": "jax", "flops_per_second": 1e15})
    assert ceiling_for(cells[0], [*first, faster]) == faster  # the device is the same
    assert ceiling_for(cells[0], []) is None


def test_a_ceiling_that_failed_is_said_in_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise SynthbenchError("no matrix product there")

    runner = CellRunner(Measure(), "cpu", [], Silent())
    runner.hosts = {"torch": cast(Host, SimpleNamespace(call=refuse))}
    assert not runner.measure_ceilings([cell()])
    monkeypatch.setattr(runner, "reply_for", lambda *_: Reply("ok"))
    found = runner.measure_cell(cell(), 0, "")
    other = runner.measure_cell(cell(dtype="float64"), 0, "")
    assert found is not None and other is not None
    why = "no ceiling could be measured: no matrix product there"
    assert found.measurements.missing == {"utilisation": why}
    assert record_frame([found])["missing"].tolist() == [{"utilisation": why}]
    assert other.measurements.missing == {}


def test_the_environment_may_say_how_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert seconds_of_each() == SECONDS
    monkeypatch.setenv(VARIABLE, "0.25")
    assert seconds_of_each() == 0.25
    for wrong in ("short", "0", "-1", "nan", "inf"):
        monkeypatch.setenv(VARIABLE, wrong)
        with pytest.raises(UnsupportedError, match=f"{VARIABLE} is '{wrong}'; expected seconds"):
            seconds_of_each()


@pytest.mark.parametrize(("most", "seconds"), [(0.05, 0.3), (0.15, 0.5)])
def test_it_takes_no_longer_than_it_may(most: float, seconds: float) -> None:
    clock = Clock()
    tenth = FakeKernel(clock, 0.1)
    best_seconds(tenth, clock, most)
    assert clock.now == pytest.approx(seconds)  # with the first call, which is not timed
