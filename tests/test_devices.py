"""Devices by name: what suites, plans and counters make of each kind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthbench.backends.base import DeviceInfo
from synthbench.devices import (
    ACCELERATORS,
    HOST,
    KINDS,
    device_kind,
    index_of,
    is_host,
    is_same_kind,
)
from synthbench.errors import FrameworkMissingError, NotationError
from synthbench.measure import interference
from synthbench.measure.energy import energy_counter, why_no_energy
from synthbench.measure.interference import InterferenceMonitor
from synthbench.run import devices as run_devices
from synthbench.run.devices import resolve_device
from synthbench.suites.plan import Plan, make_plan
from synthbench.suites.suite import Suite, load_suite, parse_suite

BASE = "axes: {variant: [V], seq_len: [8]}\nmodel: {d_model: 8, heads: 2}\nmeasure: {aa: false}\n"
FOR_CUDA = "cuda: {axes: {seq_len: [1024]}}"
FOR_TPU = "tpu: {axes: {seq_len: [4096]}}"


def suite(sections: str = "", text: str = BASE) -> Suite:
    devices = f"devices: {{{sections}}}" if sections else ""
    return parse_suite(text + devices, name="mine", source="mine.yaml")


def lengths(plan: Plan) -> set[int]:
    return {cell.seq_len for cell in plan.cells}


@given(st.sampled_from(ACCELERATORS), st.integers(0, 99), st.sampled_from(ACCELERATORS))
def test_one_of_several_is_named_by_its_index(kind: str, index: int, other: str) -> None:
    name = f"{kind}:{index}"
    assert device_kind(name) is device_kind(kind) is KINDS[kind]
    assert (index_of(name), index_of(kind)) == (index, 0)
    assert is_same_kind(name, kind)
    assert is_same_kind(name, other) == (kind == other)
    assert not is_host(name)
    assert not is_same_kind(name, HOST)


def test_the_host_has_no_index() -> None:
    assert is_host(HOST) and device_kind(HOST).name == HOST
    assert not is_host(None)


@pytest.mark.parametrize(
    "wrong",
    ["", "gpu", "CPU", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "tpu:1 ", "cuda:\u0661", "xpu:1:1",
     "mps\n", f"cuda:{'1' * 5000}", None, 3, ["cuda"]],
)  # fmt: skip
def test_what_is_not_a_name_is_refused_with_what_is(wrong: Any) -> None:
    with pytest.raises(NotationError, match="not known; use cpu, cuda, tpu, xpu or mps") as caught:
        device_kind(wrong)
    assert "\n" not in str(caught.value)
    with pytest.raises(NotationError, match="use auto, cpu, cuda"):
        device_kind(wrong, auto=True)


# --- suites ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in ACCELERATORS if KINDS[kind].section])
def test_a_kind_without_a_section_has_that_of_cuda(kind: str) -> None:
    plan = make_plan(suite(FOR_CUDA), f"{kind}:1")
    assert lengths(plan) == {1024}
    assert {cell.device for cell in plan.cells} == {f"{kind}:1"}
    note = f"suite mine has no section devices.{kind}; its settings are those of devices.cuda"
    assert note in plan.notes
    common = make_plan(suite("cpu: {axes: {seq_len: [16]}}"), kind)
    assert lengths(common) == {8}
    assert f"suite mine has no section devices.{kind}; its settings are those at its top" in (
        common.notes
    )


def test_a_section_of_its_own_counts() -> None:
    loaded = suite(f"{FOR_CUDA}, {FOR_TPU}")
    plan = make_plan(loaded, "tpu")
    assert lengths(plan) == {4096}
    assert not [note for note in plan.notes if "section" in note]
    assert lengths(make_plan(loaded, "xpu")) == lengths(make_plan(loaded, "cuda")) == {1024}
    assert list(loaded.devices) == ["cpu", "cuda", "tpu"]


def test_the_usual_devices_need_no_remark() -> None:
    for sections in ("", FOR_CUDA, "cpu: {axes: {seq_len: [16]}}"):
        for device in ("cpu", "cuda"):
            assert not [n for n in make_plan(suite(sections), device).notes if "section" in n]


def test_a_suite_that_is_complete_only_for_the_cpu_runs_nowhere_else() -> None:
    text = "axes: {variant: [V]}\nmodel: {d_model: 8, heads: 2}\n"
    loaded = suite("cpu: {axes: {seq_len: [8]}}", text)
    with pytest.raises(NotationError, match=r"no settings for device tpu; .* devices\.tpu"):
        make_plan(loaded, "tpu")
    for_tpu = suite(FOR_TPU, text)
    assert lengths(make_plan(for_tpu, "tpu")) == {4096}
    with pytest.raises(NotationError, match="no settings for device xpu"):
        make_plan(for_tpu, "xpu")


def test_a_mistake_in_a_section_is_named_with_it() -> None:
    with pytest.raises(NotationError, match=r"devices\.mps\.axes\.seq_len\.0: got 0"):
        suite("mps: {axes: {seq_len: [0]}}")


@pytest.mark.parametrize("device", ACCELERATORS)
@pytest.mark.parametrize("name", ["smoke", "seq_scaling"])
def test_the_suites_of_the_project_can_be_planned_everywhere(name: str, device: str) -> None:
    assert make_plan(load_suite(name), device).cells


def test_what_a_device_cannot_compute_is_skipped_with_the_reason() -> None:
    text = BASE.replace("seq_len:", "dtype: [float16, float32, float64], seq_len:")
    impossible = {"cpu": "float16", "mps": "float64"}
    for device in KINDS:
        plan = make_plan(suite(text=text), device)
        left_out = {skip.cell.dtype: skip.reason for skip in plan.skipped if "float" in skip.reason}
        assert list(left_out) == [dtype for kind, dtype in impossible.items() if kind == device]
        assert all("use " in reason for reason in left_out.values())
        assert {cell.dtype for cell in plan.cells} == {"float16", "float32", "float64"} - set(
            left_out
        )


# --- what frameworks see --------------------------------------------------------------------


def seen(monkeypatch: pytest.MonkeyPatch, **found: list[DeviceInfo] | str) -> None:
    monkeypatch.setattr(run_devices, "device_report", lambda *_: found)


CPU = DeviceInfo("cpu", "2 threads")
ONLY_CPU = DeviceInfo("cpu", "2 threads", is_default=True)


def test_auto_is_the_accelerator_that_a_framework_prefers(monkeypatch: pytest.MonkeyPatch) -> None:
    mps, tpu = (DeviceInfo(f"{kind}:0", "", is_default=True) for kind in ("mps", "tpu"))
    seen(monkeypatch, torch=[ONLY_CPU], jax=[ONLY_CPU])
    assert resolve_device("auto") == "cpu"
    seen(monkeypatch, torch=[CPU, mps], jax=[ONLY_CPU])
    assert resolve_device("auto") == "mps"
    seen(monkeypatch, torch="torch is not installed", jax=[CPU, tpu])
    assert resolve_device("auto") == "tpu"
    cuda = DeviceInfo("cuda:0", "")  # it is there, and JAX was told to prefer the CPU
    seen(monkeypatch, torch="torch is not installed", jax=[ONLY_CPU, cuda])
    assert resolve_device("auto") == "cpu"
    assert resolve_device("tpu:2") == "tpu:2"


# --- counters -------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["tpu", "xpu:1", "mps"])
def test_without_nvml_only_the_cores_are_watched(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(device: str) -> None:
        raise AssertionError(f"NVML was asked about {device}")

    monkeypatch.setattr(interference, "GpuMonitor", refuse)
    monkeypatch.setattr("synthbench.measure.energy.open_nvml", lambda: refuse(device))
    with InterferenceMonitor(device) as watch:
        pass
    assert all("GPU" not in warning for warning in watch.warnings)
    with energy_counter(device) as counter:
        assert counter is None
    kind = device_kind(device).name
    assert why_no_energy(device) == f"no counter of the energy of {kind} is known"


def test_why_there_is_no_energy_on_the_usual_devices() -> None:
    assert "RAPL" in why_no_energy("cpu")
    assert "NVML" in why_no_energy("cuda:1")


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_framework_says_what_it_sees_and_what_to_do(framework: str) -> None:
    from synthbench.api import backend_of

    backend = backend_of(framework)
    names = [info.name for info in backend.devices()]
    assert names[0] == "cpu"
    assert any(info.is_default for info in backend.devices())
    for kind in ACCELERATORS:
        absent = f"{kind}:{len(names)}"
        with pytest.raises(FrameworkMissingError) as caught:
            backend.require_device(absent)
        message = str(caught.value)
        assert message.startswith(f"{framework} {backend.version()} has no device '{absent}'; it")
        assert f"it finds {', '.join(names)}; " in message
        assert "\n" not in message and len(message.rpartition("; ")[2]) > 10
    backend.require_device("cpu")


@pytest.mark.parametrize("page", ["suites", "api", "pytest", "measuring"])
def test_the_pages_name_every_kind(page: str) -> None:
    text = (Path(__file__).resolve().parents[1] / "docs" / f"{page}.md").read_text()
    assert not [kind for kind in KINDS if not re.search(rf"\b{kind}\b", text)]
