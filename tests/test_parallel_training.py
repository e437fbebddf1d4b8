"""A training on several devices: the same numbers as on one, and nothing left behind."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthbench.backends.base import FIRST_MOMENT, VALUE, Batch, Setting
from synthbench.backends.sharing import device_names, shares
from synthbench.backends.torch.replica_process import ReplicaProcess
from synthbench.errors import DeviceLostError, ShapeError, UnsupportedError
from synthbench.measure.kernel_choice import raced_cell
from synthbench.measure.memory_prediction import predict_on_devices
from synthbench.record import Record
from synthbench.report.tables.catalog import make_tables
from synthbench.run.host_client import Host
from synthbench.run.own_length import own_length_key
from synthbench.run.runner import run_plan
from synthbench.run.shard import Shard, split_into_shards
from synthbench.store import read_run
from synthbench.suites.cell import model_of
from synthbench.suites.plan import Plan, make_plan
from synthbench.suites.suite import parse_suite
from synthbench.tasks.base import Task, require_one_device
from synthbench.tasks.catalog import check_task
from tests.parallel_steps import RECIPE, stack, trainer, unequal
from tests.plugins.losing_a_device import replicas

TOLERANCE = 1e-10
STEPS = "tests.parallel_steps"


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, Host]]:
    """A host of each framework: JAX can have several devices on a CPU only in a new process."""
    with Host("torch") as torch, Host("jax") as jax:
        yield {"torch": torch, "jax": jax}


@pytest.mark.long_but("*-V")
@pytest.mark.parametrize(
    ("framework", "variant"),
    [("torch", "D+V"), ("jax", "V"), ("jax", "R"), ("jax", "D+V"), ("jax", "linformer")],
)
def test_two_devices_train_as_one(framework: str, variant: str, hosts: dict[str, Host]) -> None:
    """Gradients and parameters after a step, and ten steps, with unequal weights per share."""
    request = {"framework": framework, "variant": variant}
    two, one = hosts[framework].call(f"{STEPS}:compare", request)
    gradients = [
        {n: m / (1 - RECIPE.b1) for n, m in found["first"].items() if n.startswith(FIRST_MOMENT)}
        for found in (two, one)
    ]
    norm = math.sqrt(sum(float((g**2).sum()) for g in gradients[1].values()))
    assert norm == pytest.approx(RECIPE.clip), "the norm of all gradients was not clipped"
    for name, gradient in gradients[1].items():
        np.testing.assert_allclose(gradients[0][name], gradient, rtol=0, atol=TOLERANCE)
    for when in ("first", "last", "parameters"):
        assert two[when].keys() == one[when].keys()
        for name, value in one[when].items():
            np.testing.assert_allclose(two[when][name], value, rtol=0, atol=TOLERANCE)
    changed = [(one["last"][n] != one["first"][n]).any() for n in one["last"] if VALUE in n]
    assert any(changed), "nothing was learned"
    np.testing.assert_allclose(two["losses"], one["losses"], rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(two["again"], two["losses"][1:])
    np.testing.assert_array_equal(two["predicted"].classes, one["predicted"].classes)
    for field in ("losses", "weights"):
        of_two, of_one = (getattr(found["predicted"], field) for found in (two, one))
        np.testing.assert_allclose(of_two, of_one, rtol=0, atol=TOLERANCE)


@pytest.mark.long
def test_a_mixer_of_a_plug_in_with_a_parameter_that_has_no_gradient() -> None:
    request = {"framework": "torch", "variant": "unused_parameter"}
    with Host("torch", plugins=["tests.plugins.unused_parameter"]) as host:
        two, one = host.call(f"{STEPS}:compare", request)
    unused = [name for name in one["last"] if name.endswith("unused")]
    assert len(unused) == 3  # the value and its moments
    for name, value in one["last"].items():
        np.testing.assert_allclose(two["last"][name], value, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(two["losses"], one["losses"], rtol=0, atol=TOLERANCE)


def test_a_mean_of_the_devices_means_would_be_another_number() -> None:
    """So the test above can fail: the shares of its batches have different weights."""
    parts = shares(unequal(stack("V"), 0), 2)
    weights = [float(part.weights.sum()) for part in parts if part.weights is not None]
    assert weights[1] > 2 * weights[0] > 0


def test_each_jax_device_computes_its_share_only(hosts: dict[str, Host]) -> None:
    two, one = hosts["jax"].call(f"{STEPS}:flops_per_device", {"variant": "FD+V"})
    assert 0.5 <= two / one < 0.6


@given(
    examples=st.integers(1, 4), devices=st.integers(1, 4), masked=st.booleans(), own=st.booleans()
)
def test_shares_are_the_batch_in_order(
    examples: int, devices: int, masked: bool, own: bool
) -> None:
    shape = (examples * devices, 3)
    whole = Batch(
        np.arange(math.prod(shape)).reshape(shape),
        np.arange(math.prod(shape)).reshape(shape) + 1,
        np.arange(math.prod(shape)).reshape(shape) % 3 > 0 if masked else None,
        np.arange(math.prod(shape)).reshape(shape) / 7 if own else None,
    )
    parts = shares(whole, devices)
    assert [len(part.inputs) for part in parts] == [examples] * devices
    for name in ("inputs", "targets", "padding_mask", "weights", "loss_weights"):
        expected, found = getattr(whole, name), [getattr(part, name) for part in parts]
        if expected is None:
            assert found == [None] * devices
        else:
            np.testing.assert_array_equal(np.concatenate(found), expected)


def test_a_batch_that_cannot_be_divided_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"^a batch of 3 cannot be divided by 2 devices; give a"):
        shares(unequal(stack("V"), 0, examples=3), 2)


def test_devices_that_are_not_there_are_refused() -> None:
    assert device_names(Setting(devices=2, device="cuda:1"), 3, "torch") == ["cuda:1", "cuda:2"]
    with pytest.raises(UnsupportedError) as found:
        device_names(Setting(devices=3, device="cuda:1"), 3, "torch 2.13")
    assert str(found.value) == (
        "3 devices are wanted from cuda:1 on, but torch 2.13 finds 3 of cuda; set devices to at "
        "most 2"
    )
    with pytest.raises(UnsupportedError, match="finds 0 of cuda; set devices to at most 1"):
        device_names(Setting(devices=2, device="cuda"), 0, "torch 2.13")
    for framework in ("torch", "jax"):
        with pytest.raises(UnsupportedError, match=r"99 devices .* finds \d+ usable cores; set"):
            trainer(framework, "V", 99)


def test_jax_says_that_it_has_started() -> None:
    trainer("jax", "V", 1)
    with pytest.raises(UnsupportedError, match="JAX has started in this process with 1 devices"):
        trainer("jax", "V", 2)


def test_a_process_that_is_lost_is_an_error_with_its_reason() -> None:
    made: Any = trainer("torch", "V", 2)
    (replica,) = replicas(os.getpid())
    os.kill(replica, signal.SIGKILL)
    with pytest.raises(DeviceLostError) as found:
        made.losses([made.step(unequal(stack("V"), 0), 0.1) for _ in range(3)])
    assert str(found.value) == (
        "the process of device 2 of 2 (cpu) was killed by SIGKILL during the training"
    )
    assert replicas(os.getpid()) == []


@pytest.mark.long
def test_a_process_that_stops_does_not_hang_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    from synthbench.backends.torch import parallel

    monkeypatch.setattr(parallel, "TIMEOUT", timedelta(seconds=8))
    made: Any = trainer("torch", "V", 2)
    (replica,) = replicas(os.getpid())
    os.kill(replica, signal.SIGSTOP)
    with pytest.raises(DeviceLostError, match=r"^the devices of this training lost each other: "):
        made.losses([made.step(unequal(stack("V"), 0), 0.1)])
    assert replicas(os.getpid()) == []


def test_what_another_process_raises_is_raised() -> None:
    """Here only the share of the second device is wrong."""
    made: Any = trainer("torch", "V", 2)
    batch = unequal(stack("V"), 0)
    batch.inputs[-1] = 40  # not in the vocabulary
    with pytest.raises(IndexError, match=r"out of (range|bounds)"):
        made.losses([made.step(batch, 0.1)])
    assert replicas(os.getpid()) == []


def test_a_process_ends_when_the_first_one_is_gone() -> None:
    """Then its pipe is closed, whatever ended the first process."""
    process = ReplicaProcess("device 2 of 2 (cpu)")
    process.close()
    assert process.gone.wait(60)
    assert process.process.returncode == 0


SUITE = """
axes: {{variant: [V], framework: [torch, jax], task: [{task}], mode: [train], seq_len: [8],
        batch: [6], dtype: [float64], devices: {devices}}}
model: {{kind: decoder, d_model: 16, heads: 2, vocabulary: 31}}
{tasks}
measure: {{ceiling: false, kernel_seconds: 0, parity: false}}
"""
COST = """
axes: {variant: [V], framework: [torch], mode: [forward, train, decode], seq_len: [8], batch: [6],
       devices: [1, 2]}
model: {kind: decoder, d_model: 16, heads: 2, vocabulary: 31}
"""


def plan_of(task: str, devices: str) -> Plan:
    options = "steps: 12, evaluations: 2, held_out: 20"
    tasks = "" if task == "losing_a_step" else f"tasks: {{{task}: {{{options}}}}}"
    text = SUITE.format(task=task, tasks=tasks, devices=devices)
    return make_plan(parse_suite(text, name="mine", source="mine.yaml"), "cpu")


def replicas_with(mark: str) -> list[int]:
    """Every process for a further device whose environment has this text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            started_here = mark.encode() in (folder / "environ").read_bytes()
            if started_here and b"torch.replica" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has ended
            continue
    return found


def run(plan: Plan, folder: Path, plugin: str) -> list[Record]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SYNTHBENCH_OF_TEST", str(folder))  # other tests have replicas, too
        run_plan(plan, folder, plugins=[plugin])
        assert not replicas_with(str(folder)), "processes were left behind"
    return list(read_run(folder).records)


@pytest.mark.long
def test_cells_on_several_devices(tmp_path: Path) -> None:
    """Both frameworks learn the same on one and on two devices; a table compares their speed."""
    records = run(plan_of("counting", "[1, 2]"), tmp_path / "run", "tests.plugins.counting")
    assert [(r.outcome, r.reason) for r in records] == [("ok", "")] * 4
    curves = {(r.cell.framework, r.cell.devices): r.measurements.training for r in records}
    reference = curves["torch", 1]
    assert reference is not None
    for training in curves.values():
        assert training is not None
        for found, expected in zip(training.evaluations, reference.evaluations, strict=True):
            assert found.loss == pytest.approx(expected.loss, abs=TOLERANCE)
    assert reference.evaluations[-1].loss < reference.evaluations[0].loss
    (table,) = (t for t in make_tables(read_run(tmp_path / "run")) if t.name == "devices")
    assert [row[:4] for row in table.rows] == [
        ("torch", "V", 8, 1), ("torch", "V", 8, 2), ("jax", "V", 8, 1), ("jax", "V", 8, 2),
    ]  # fmt: skip
    for alone, both in (table.rows[:2], table.rows[2:]):
        speed, shared = float(alone[4]), float(both[4])
        assert alone[5:] == (1, 1, 1, 1)
        assert both[5:7] == pytest.approx((shared / speed, shared / speed / 2))
        assert both[7:] == ("one round", "one round")


@pytest.mark.long
@pytest.mark.parametrize("task", ["losing_a_device", "losing_a_step"])
def test_a_cell_that_loses_a_device_ends_with_the_reason(task: str, tmp_path: Path) -> None:
    plan = plan_of(task, "[2]")
    plan = replace(plan, cells=tuple(cell for cell in plan.cells if cell.framework == "torch"))
    (record,) = run(plan, tmp_path / "run", "tests.plugins.losing_a_device")
    assert record.outcome == "crashed"
    assert record.reason.endswith(
        "the process of device 2 of 2 (cpu) was killed by SIGKILL during the training"
    )


def test_a_plan_says_which_cells_cannot_use_several_devices() -> None:
    plan = plan_of("counting", "[1, 4]")
    assert [cell.devices for cell in plan.cells] == [1, 1]
    assert {skip.reason for skip in plan.skipped} == {
        "batch 6 cannot be divided by 4 devices; give a multiple of 4, or other devices"
    }
    cost = make_plan(parse_suite(COST, name="mine", source="mine.yaml"), "cpu", check=check_task)
    assert sorted((cell.mode, cell.devices) for cell in cost.cells) == [
        ("decode", 1), ("forward", 1), ("train", 1), ("train", 2)
    ]  # fmt: skip
    assert {skip.reason for skip in cost.skipped} == {
        f"task cost uses one device in mode {mode}; got devices 2: use mode train, whose devices "
        "exchange gradients, or set devices to 1"
        for mode in ("forward", "decode")
    }


class Alone(Task):
    """A task that says nothing of several devices."""

    name = "alone"


def test_a_task_says_whether_it_can_use_several_devices() -> None:
    cell = plan_of("counting", "[2]").cells[0].changed(task="alone", options={})
    with pytest.raises(UnsupportedError) as found:
        require_one_device(Alone(), cell)
    assert str(found.value) == (
        "task alone uses one device; got devices 2: learning tasks, and train steps of task cost, "
        "can share their batches among several"
    )


def test_a_cuda_graph_is_of_one_device() -> None:
    cell = plan_of("counting", "[2]").cells[0].changed(task="cost", options={}, device="cuda")
    with pytest.raises(UnsupportedError, match="a CUDA graph has the step of one device; got dev"):
        check_task(cell.changed(compile="cuda_graph"))


def test_the_number_of_devices_is_part_of_a_cell_and_of_nothing_else() -> None:
    """Old cells keep their ids, and checks and kernels are shared between numbers of devices."""
    alone = plan_of("counting", "[1]").cells[0]
    shared = alone.changed(devices=2)
    assert "devices" not in alone.model_dump(exclude_defaults=True)
    assert alone.id != shared.id
    assert own_length_key(alone, None) == own_length_key(shared, None)
    assert raced_cell(shared) == raced_cell(alone.changed(batch=3))
    assert split_into_shards([alone, shared]) == [Shard((alone, shared))]


def test_memory_is_predicted_for_what_each_device_holds() -> None:
    """On a CPU for all devices together; batches of halves hold half of the activations each."""
    from synthbench.backends.torch import backend

    alone = plan_of("counting", "[1]").cells[0].changed(compile="eager", framework="torch")
    half = alone.changed(batch=3)
    shared, halved = (
        predict_on_devices(backend, model_of(cell), cell)  # type: ignore[arg-type]
        for cell in (alone.changed(devices=2), half)
    )
    assert shared.peak_bytes == 2 * halved.peak_bytes > 0
