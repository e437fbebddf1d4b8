"""A train step of the task `cost` on several devices: that of one device, and its time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from synthbench.backends.base import MemoryPlan, Setting
from synthbench.backends.sharing import of_devices, real_targets, shares
from synthbench.errors import DeviceLostError, ShapeError, UnsupportedError
from synthbench.report.tables.catalog import make_tables
from synthbench.run.host_client import Host
from synthbench.store import read_run
from tests.parallel_steps import padded, stack, train_step
from tests.plugins.losing_a_device import replicas

TOLERANCE = 1e-10
STEPS = "tests.parallel_steps"
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, Host]]:
    """A host of each framework: JAX can have several devices on a CPU only in a new process."""
    with Host("torch") as torch, Host("jax") as jax:
        yield {"torch": torch, "jax": jax}


@pytest.mark.long_but("D-True-*")
@pytest.mark.parametrize("framework", ["torch", "jax"])
@pytest.mark.parametrize(
    ("variant", "masked"),
    [("V", True), ("D", True), ("FR", True), ("light_conv", True), ("V", False)],
)
def test_two_devices_step_as_one(
    framework: str, variant: str, masked: bool, hosts: dict[str, Host]
) -> None:
    """Losses and every parameter after two steps, with unequal padding per share."""
    request = {"framework": framework, "variant": variant, "masked": masked}
    two, one = hosts[framework].call(f"{STEPS}:compare_steps", request)
    np.testing.assert_allclose(two["losses"], one["losses"], rtol=0, atol=TOLERANCE)
    assert one["losses"][1] < one["losses"][0]
    assert two["values"].keys() == one["values"].keys()
    for name, value in one["values"].items():
        np.testing.assert_allclose(two["values"][name], value, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(two["again"], two["losses"], rtol=0, atol=TOLERANCE)
    for name in ("parameters", "parameter_bytes", "optimizer_bytes", "batch_bytes", "traced"):
        assert two[name] == one[name] > 0, name


def test_a_mean_of_the_devices_means_would_be_another_number() -> None:
    """So the tests above can fail: the shares of a padded batch have unequal counts."""
    first, last = map(real_targets, shares(padded(stack("V")), 2))
    assert last > 2 * first > 0
    assert real_targets(padded(stack("V"))) == first + last


@pytest.mark.parametrize(
    ("framework", "missing"), [("torch", ["peak_bytes"]), ("jax", ["peak_bytes", "compiler_flops"])]
)
def test_what_one_device_would_say_of_all_is_empty_with_the_reason(
    framework: str, missing: list[str], hosts: dict[str, Host]
) -> None:
    request = {"framework": framework, "variant": "V", "masked": False}
    two, one = hosts[framework].call(f"{STEPS}:compare_steps", request)
    assert sorted(two["missing"]) == sorted(missing)
    assert two["missing"]["peak_bytes"] == (
        "the peak is known of one device only, and this step used 2"
    )
    assert one["missing"] == {}
    assert two["peak"] is None
    assert two["compiler"] is None
    if framework == "torch":
        assert two["plan"] is None
    else:  # two copies of the parameters and moments, and the whole batch
        held = 2 * (one["parameter_bytes"] + one["optimizer_bytes"]) + one["batch_bytes"]
        assert two["plan"].peak_bytes > held
        assert two["plan"].peak_bytes < 2 * one["plan"].peak_bytes


def test_a_plan_is_for_a_device_and_on_a_cpu_for_all() -> None:
    plan = MemoryPlan("tool", 100, 30)
    assert of_devices(plan, Setting(devices=4, device="cuda:1")) == plan
    assert of_devices(plan, Setting(devices=4)) == MemoryPlan("tool", 400, 120)


@pytest.mark.long
def test_a_plug_in_without_a_reference_has_no_traced_flops() -> None:
    request = {"framework": "torch", "variant": "unused_parameter", "masked": False}
    with Host("torch", plugins=["tests.plugins.unused_parameter"]) as host:
        two, one = host.call(f"{STEPS}:compare_steps", request)
    np.testing.assert_allclose(two["losses"], one["losses"], rtol=0, atol=TOLERANCE)
    assert (one["traced"] > 0, two["traced"]) == (True, None)
    assert one["missing"] == {}
    assert two["missing"]["traced_flops"] == (
        "the count for a plug-in's module is known of one device only, and this step used 2"
    )


def test_a_process_that_is_lost_is_an_error_with_its_reason() -> None:
    model = stack("V")
    step: Any = train_step("torch", model, padded(model), 2)
    step.wait(step())
    (replica,) = replicas(os.getpid())
    os.kill(replica, signal.SIGKILL)

    def go_on() -> None:
        for _ in range(3):
            step.wait(step())

    with pytest.raises(DeviceLostError) as found:
        go_on()
    assert str(found.value) == (
        "the process of device 2 of 2 (cpu) was killed by SIGKILL during the training"
    )
    assert replicas(os.getpid()) == []


@pytest.mark.long
def test_what_is_done_in_every_process_is_done_in_all_and_they_end() -> None:
    model = stack("V")
    step: Any = train_step("torch", model, padded(model), 2)
    assert len(replicas(os.getpid())) == 1
    assert step.in_every_process(os.getpid) == os.getpid()

    def end_others() -> None:
        step.in_every_process(EndOthers(os.getpid()))
        step.wait(step())

    with pytest.raises(DeviceLostError, match=r"device 2 of 2 \(cpu\) ended with exit code 7"):
        end_others()
    assert replicas(os.getpid()) == []


@pytest.mark.long
def test_a_step_ends_when_the_slowest_device_is_done() -> None:
    """Here the second device is late with its update, after the gradients were exchanged."""
    model = stack("V")
    step: Any = train_step("torch", model, padded(model), 2)
    step.wait(step())
    step.in_every_process(LateUpdates(os.getpid()))
    step.wait(step())  # imports this file there
    time.sleep(2 * LATE_SECONDS)
    begin = time.perf_counter()
    step.wait(step())
    seconds = time.perf_counter() - begin
    step.close()
    assert seconds >= LATE_SECONDS


def test_close_ends_the_other_processes() -> None:
    model = stack("V")
    step: Any = train_step("torch", model, padded(model), 2)
    step.wait(step())
    assert len(replicas(os.getpid())) == 1
    step.close()
    assert replicas(os.getpid()) == []


class EndOthers:
    """Ends every process that calls it but one."""

    def __init__(self, spared: int) -> None:
        self.spared = spared

    def __call__(self) -> None:
        if os.getpid() != self.spared:
            os._exit(7)


LATE_SECONDS = 0.5


class LateUpdates:
    """Adam waits before each update in every process that calls it but one."""

    def __init__(self, spared: int) -> None:
        self.spared = spared

    def __call__(self) -> None:
        from torch.optim import Adam

        update = Adam.step

        def late(self: Adam) -> Any:
            time.sleep(LATE_SECONDS)
            return update(self)

        if os.getpid() != self.spared:
            Adam.step = late  # type: ignore[method-assign, assignment]


def test_what_has_no_meaning_on_several_devices_is_refused() -> None:
    from synthbench.backends.jax import backend as jax
    from synthbench.backends.torch import backend as torch

    model = stack("V")
    for backend in (torch, jax):
        for mode in ("forward", "decode"):
            with pytest.raises(UnsupportedError) as found:
                backend.build(model, {}, Setting(devices=2), mode, padded(model))
            assert str(found.value) == (
                f"a step of mode {mode} uses one device; got devices 2: use mode train, or set "
                "devices to 1"
            )
    with pytest.raises(UnsupportedError, match="a CUDA graph has the step of one device; use"):
        train_step("torch", model, padded(model), 2, "cuda_graph")
    with pytest.raises(ShapeError, match="a batch of 3 cannot be divided by 2 devices"):
        train_step("torch", model, padded(model, examples=3), 2)
    with pytest.raises(UnsupportedError, match=r"99 devices .* finds \d+ usable cores; set"):
        train_step("torch", model, padded(model, examples=99), 99)
    assert replicas(os.getpid()) == []


@pytest.mark.long
def test_the_suite_of_the_page_is_measured_on_two_devices(tmp_path: Path) -> None:
    """With its settings for a CPU: all cells are right, and the table has their efficiency."""
    page = (ROOT / "docs" / "clusters.md").read_text()
    (suite,) = re.findall(r"a file `devices\.yaml`, .*?```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "devices.yaml").write_text(suite)
    out = tmp_path / "scaling"
    command = ["run", "--suite", str(tmp_path / "devices.yaml"), "--device", "cpu"]
    done = subprocess.run(
        [sys.executable, "-m", "synthbench", *command, "--out", str(out)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = read_run(out)
    assert {(r.outcome, r.reason) for r in found.records} == {("ok", "")}
    assert len([r for r in found.records if not r.cell.replica]) == 8
    for record in found.records:
        own = record.measurements
        assert own.timing is not None and own.memory is not None and own.flops is not None
        assert own.parity is not None and own.parity.passed
        assert own.flops.traced == 3 * (own.flops.formula or 0)
        assert (
            (own.memory.peak is None) == (record.cell.devices == 2) == ("peak_bytes" in own.missing)
        )
    by_key = {(r.cell.framework, r.cell.devices): r.measurements for r in found.records}
    for framework in ("torch", "jax"):
        one, two = by_key[framework, 1], by_key[framework, 2]
        assert one.parameters == two.parameters == one.declared_parameters
        assert one.flops is not None and two.flops is not None
        assert one.flops.traced == two.flops.traced
    (table,) = (t for t in make_tables(found) if t.name == "devices")
    assert [row[:4] for row in table.rows] == [
        (framework, "V", 16, devices) for framework in ("torch", "jax") for devices in (1, 2)
    ]
    for row in table.rows[1::2]:
        rate, ratio, efficiency, low, high = map(float, row[4:])
        assert rate > 0
        assert efficiency == pytest.approx(ratio / 2)
        assert low < efficiency < high
