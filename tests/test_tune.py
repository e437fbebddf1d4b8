"""`synthbench tune`: which choices are kept for later runs, and what it says of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from synthbench.cli import main
from synthbench.kernel import Kernel, Purpose
from synthbench.measure.kernel_cache import read_choices, store_choices
from synthbench.run import tune
from synthbench.run.kernel_choices import Race
from synthbench.run.places import split_cores
from synthbench.run.progress import Silent
from synthbench.run_info import KernelChoice
from synthbench.suites.measure import Measure
from synthbench.suites.plan import Plan
from tests.kernel_choices import FAST, SLOW, cell
from tests.test_kernel_search import FakeHost

COMMAND = ("tune", "--device", "cpu", "--framework", "torch", "--variants", "V", "--minutes", "1")
FOR_RUNS = ("--for", "runs")


def chosen(kernel: Kernel, warnings: tuple[str, ...] = ()) -> KernelChoice:
    return KernelChoice(cell=cell(), chosen=kernel, warnings=list(warnings))


def runner_of(host: FakeHost, environment: Callable[[], dict[str, Any]] = dict) -> Any:
    """What `tune` needs of a CellRunner."""
    return SimpleNamespace(
        hosts={"torch": host}, missing={}, lock=SimpleNamespace(held=nullcontext),
        start=lambda frameworks: None, stop=lambda: None, environment=environment,
        limits=lambda: SimpleNamespace(memory_bytes=None), observer=Silent(),
    )  # fmt: skip


class PlugIn(FakeHost):
    """Times code that may change without a trace."""

    def call(self, *request: Any) -> Any:
        answer = super().call(*request)
        return answer if isinstance(answer, list) else answer._replace(is_own=False)


@pytest.mark.parametrize(
    ("host", "earlier", "stored", "printed"),
    [
        (FakeHost(), [], chosen(FAST), ["choices.json: 1"]),
        (FakeHost(), [chosen(SLOW)], chosen(FAST), ["choices.json: 1"]),
        (
            FakeHost(disturbed={("V", 8): 2}), [], chosen(SLOW, ("far cores",)),
            ["choices.json: 1", "disturbed while they were timed: 1;"],
        ),
        (
            FakeHost(disturbed={("V", 8): 2}), [chosen(FAST)], chosen(FAST),
            ["choices.json: 0", "Choices not kept: 1; they were disturbed"],
        ),
        (PlugIn(), [chosen(SLOW)], chosen(SLOW), ["choices.json: 0", "Choices not kept: 1;"]),
    ],
)  # fmt: skip
def test_it_says_what_later_runs_will_find(
    host: FakeHost,
    earlier: list[KernelChoice],
    stored: KernelChoice,
    printed: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "choices.json"
    store_choices(file, earlier)
    runner = runner_of(host)
    tune_plan = tune.tune_plan
    monkeypatch.setattr(tune, "CellRunner", lambda *given: runner)
    monkeypatch.setattr(tune, "cache_file", lambda environment, purpose: file)

    def tune_one(plan: Plan, *rest: Any) -> tune.Tuned:
        return tune_plan(replace(plan, cells=(cell(),)), *rest)

    monkeypatch.setattr(tune, "tune_plan", tune_one)
    with pytest.raises(SystemExit, match=r"^0$"):
        main([*COMMAND, *FOR_RUNS])
    assert read_choices(file) == [stored]
    out = " ".join(capsys.readouterr().out.split())
    for text in printed:
        assert text in out
    _, _, end = out.partition("choices.json")
    assert end.count(";") == len(printed) - 1


@pytest.mark.parametrize(
    ("options", "purposes"),
    [
        ([], [Purpose.RUNS, Purpose.MODULES]),
        (["--for", "runs"], [Purpose.RUNS]),
        (["--for", "modules"], [Purpose.MODULES]),
    ],
)
def test_modules_have_choices_of_their_own_made_without_keeping_memory(
    options: list[str],
    purposes: list[Purpose],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each purpose has an equal part of the time, and what the one before it leaves."""
    host, seconds = FakeHost(), list[float]()
    runner = runner_of(host)

    def race(*given: Any, **named: Any) -> Race:
        seconds.append(given[2])
        return Race(*given, **named)

    tune_plan = tune.tune_plan
    monkeypatch.setattr(tune, "CellRunner", lambda *given: runner)
    monkeypatch.setattr(tune, "Race", race)
    monkeypatch.setattr(tune, "cache_file", lambda environment, purpose: tmp_path / purpose)
    monkeypatch.setattr(
        tune, "tune_plan", lambda plan, *rest: tune_plan(replace(plan, cells=(cell(),)), *rest)
    )
    with pytest.raises(SystemExit, match=r"^0$"):
        main([*COMMAND, *options])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(purposes)
    kept = [request["keep_memory"] for request in host.requests]
    assert kept == [purpose is Purpose.RUNS for purpose in purposes]
    assert seconds[0] == pytest.approx(60 / len(purposes), abs=1)
    assert seconds[1:] == pytest.approx([60.0] * (len(purposes) - 1), abs=5)
    out = " ".join(capsys.readouterr().out.split())
    for purpose in Purpose:
        assert (f"Kernels chosen by their times, for {purpose}" in out) == (purpose in purposes)
    assert f": {len(purposes)}" in out.partition("Choices kept in")[2]


@pytest.mark.parametrize("spread", [False, True])
def test_each_device_of_a_list_is_tuned_as_a_run_measures_on_it(
    spread: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With its cells, its cores and a file of its own: a run looks for choices there."""
    devices, hosts, seconds = ["cuda:0", "cuda:1"], [FakeHost(), FakeHost()], list[float]()
    before, used = os.sched_getaffinity(0), list[set[int]]()

    def runner(measure: Measure, device: str, *_: object) -> Any:
        def environment() -> dict[str, Any]:
            used.append(os.sched_getaffinity(0))
            return {"asked": device}

        return runner_of(hosts[devices.index(device)], environment)

    def race(*given: Any, **named: Any) -> Race:
        seconds.append(given[2])
        return Race(*given, **named)

    def file(environment: dict[str, Any], purpose: Purpose) -> Path:
        assert purpose is Purpose.RUNS  # the memory of a GPU is kept in any case
        assert environment["place"] == environment["asked"]
        return tmp_path / environment["place"]

    tune_plan = tune.tune_plan

    def tune_some(plan: Plan, *rest: Any) -> tune.Tuned:
        cells = [cell(device="cuda")] if spread else [cell(device=name) for name in devices]
        return tune_plan(replace(plan, cells=tuple(cells)), *rest)

    monkeypatch.setattr(tune, "CellRunner", runner)
    monkeypatch.setattr(tune, "Race", race)
    monkeypatch.setattr(tune, "cache_file", file)
    monkeypatch.setattr(tune, "tune_plan", tune_some)
    call = [*COMMAND[:2], "cuda:0,cuda:1", *COMMAND[3:]]
    with pytest.raises(SystemExit, match=r"^0$"):
        main(call)
    for name, host in zip(devices, hosts, strict=True):
        assert host.raced == [("V", 8)]
        (stored,) = read_choices(tmp_path / name)
        assert (stored.cell.device, stored.chosen) == (name, FAST)
    assert seconds == pytest.approx([30.0, 30.0], abs=1)
    assert used == [set(cores) or before for cores in split_cores(2) or [(), ()]]
    assert os.sched_getaffinity(0) == before
    out = " ".join(capsys.readouterr().out.split())
    assert f"Choices kept in {tmp_path / 'cuda:0'}, {tmp_path / 'cuda:1'}: 2" in out


@pytest.mark.skipif(not split_cores(2), reason="needs two cores")
def test_each_slot_is_tuned_as_a_run_measures_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On its cores, and kept where a run with these slots looks for it."""
    used: list[tuple[str, set[int]]] = []

    def file(environment: dict[str, Any], purpose: Purpose) -> Path:
        used.append((environment["place"], os.sched_getaffinity(0)))
        return tmp_path / environment["place"]

    runner = runner_of(FakeHost())
    tune_plan = tune.tune_plan
    monkeypatch.setattr(tune, "CellRunner", lambda *given: runner)
    monkeypatch.setattr(tune, "cache_file", file)
    monkeypatch.setattr(
        tune, "tune_plan", lambda plan, *rest: tune_plan(replace(plan, cells=(cell(),)), *rest)
    )
    with pytest.raises(SystemExit, match=r"^0$"):
        main([*COMMAND, *FOR_RUNS, "--slots", "2"])
    names = [f"slot {number} of 2" for number in (1, 2)]
    assert used == list(zip(names, map(set, split_cores(2)), strict=True))
    for name in names:
        (stored,) = read_choices(tmp_path / name)
        assert stored.chosen == FAST
