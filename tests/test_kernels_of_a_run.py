"""What a run takes from the kernels that were chosen on this machine before it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from synthbench.measure.core_distance import ASSUMED_NEAR, FAR, UsualDistance
from synthbench.measure.kernel_cache import read_choices, store_choices
from synthbench.measure.kernel_choice import Timed, raced_cell
from synthbench.record import Measurements, Record
from synthbench.run.cell_runner import CellRunner
from synthbench.run.choosing_kernels import choose_kernels
from synthbench.run.device_lock import DeviceLock
from synthbench.run.host_client import Host
from synthbench.run.kernel_choices import OFFERS, Made, Race
from synthbench.run.progress import Silent
from synthbench.run.runner import run_plan
from synthbench.run.tune import tune_plan
from synthbench.run_info import KernelChoice
from synthbench.store import INFO, RECORDS, read_info, read_run
from synthbench.suites.cell import Cell
from synthbench.suites.measure import Measure
from tests.kernel_choices import FAST, SLOW, cell
from tests.test_kernel_search import FakeHost
from tests.test_runner import plan


def runner_after(
    cache: Path,
    seconds: float,
    host: FakeHost,
    cells: list[Cell],
    waiting: Callable[[], object] = lambda: None,
    times: int = 1,
    earlier: Sequence[Record] = (),
) -> CellRunner:
    """What a run on this machine has when its kernels have been chosen, in `times` rounds.

    `waiting`: what happens while another run holds the device. `earlier`: what it has measured.
    """

    @contextmanager
    def held() -> Iterator[None]:
        waiting()
        yield

    runner = CellRunner(Measure(kernel_seconds=seconds), "cpu", [], Silent())
    runner.hosts["torch"] = cast(Host, host)
    runner.lock = cast(DeviceLock, SimpleNamespace(held=held))
    for _ in range(times):
        choose_kernels(runner, cells, cache, earlier)
    return runner


def test_a_reference_form_that_was_measured_decides_nothing_for_the_fused_one(
    tmp_path: Path,
) -> None:
    fused, reference = (cell(variant="V", form=form) for form in ("auto", "reference"))
    for measured, races in ((reference, 1), (fused, 0)):
        host = FakeHost()
        runner_after(tmp_path / measured.form, 60.0, host, [fused], earlier=[made(measured)])
        assert len(host.raced) == races


def made(of: Cell) -> Record:
    return Record(id=of.id, cell=of, outcome="ok", measurements=Measurements(), started="2026",
                  wall_seconds=1.0)  # fmt: skip


def test_a_run_times_what_was_disturbed_before_and_nothing_else(tmp_path: Path) -> None:
    cells = [cell(variant=variant) for variant in ("V", "R")]
    sure, doubtful = (KernelChoice(cell=raced_cell(one), chosen=SLOW) for one in cells)
    doubtful = doubtful.model_copy(update={"warnings": ["another process"]})
    cache = tmp_path / "choices.json"
    store_choices(cache, [sure, doubtful])

    hurried = FakeHost()
    assert runner_after(cache, 1e-9, hurried, cells).choices == [sure, doubtful]
    assert hurried.raced == [] and read_choices(cache) == [sure, doubtful]

    host = FakeHost()
    again = KernelChoice(cell=doubtful.cell, chosen=FAST)
    assert runner_after(cache, 60.0, host, cells).choices == [sure, again]
    assert host.raced == [("R", 8)] and read_choices(cache) == [sure, again]


def test_a_run_that_waited_for_another_takes_what_that_one_has_chosen(tmp_path: Path) -> None:
    cache, host = tmp_path / "choices.json", FakeHost()
    theirs = KernelChoice(cell=raced_cell(cell()), chosen=SLOW)
    runner = runner_after(
        cache, 60.0, host, [cell()], waiting=lambda: store_choices(cache, [theirs])
    )
    assert (runner.choices, host.raced) == ([theirs], [])


def test_waiting_for_another_run_takes_no_time_from_the_choice(tmp_path: Path) -> None:
    host = FakeHost()
    runner_after(tmp_path / "choices.json", 1.0, host, [cell()], lambda: time.sleep(1.2))
    assert host.raced == [("V", 8)]


def test_a_choice_is_one_reading_however_many_rounds_there_are(tmp_path: Path) -> None:
    """Both those of earlier runs, disturbed or not, and those of this one."""

    class Far(FakeHost):
        def call(self, target: str, request: dict[str, Any], seconds: float) -> Any:
            answer = super().call(target, request, seconds)
            if target == OFFERS:
                return answer
            far = answer.choice.model_copy(update={"core_distance": 2 * FAR})
            return Timed(far, is_own=True)

    def readings(known: int, warnings: list[str], new: int, times: int) -> UsualDistance:
        cells = [cell(batch=number) for number in range(1, known + new + 1)]
        far = [
            KernelChoice(cell=raced_cell(c), chosen=FAST, core_distance=2 * FAR, warnings=warnings)
            for c in cells[:known]
        ]
        cache = tmp_path / "choices.json"
        cache.unlink(missing_ok=True)
        store_choices(cache, far)
        return runner_after(cache, 60.0, Far(), cells, times=times).usual_distance

    assert readings(ASSUMED_NEAR, [], 0, times=3).is_near
    assert readings(ASSUMED_NEAR - 1, [], 1, times=3).is_near
    assert not readings(ASSUMED_NEAR, [], 1, times=1).is_near
    # Each disturbed one is read anew as well.
    assert readings(ASSUMED_NEAR // 2, ["far cores"], 0, times=3).is_near
    assert not readings(ASSUMED_NEAR // 2 + 1, ["far cores"], 0, times=1).is_near


def test_a_run_learns_from_earlier_choices_that_cores_are_never_near(tmp_path: Path) -> None:
    cells = [cell(batch=number) for number in range(1, ASSUMED_NEAR + 2)]
    far = [KernelChoice(cell=raced_cell(c), chosen=FAST, core_distance=2 * FAR) for c in cells]
    cache = tmp_path / "choices.json"
    for known, is_near in ((far[1:], True), (far, False)):
        cache.unlink(missing_ok=True)
        store_choices(cache, known)
        host = FakeHost()
        runner = runner_after(cache, 60.0, host, [*cells, cell(variant="R")])
        assert {request["cores_may_be_near"] for request in host.requests} == {is_near}
        assert runner.usual_distance.is_near == is_near


@pytest.mark.long
@pytest.mark.parametrize("baseline", ["V", "R"])
def test_a_run_and_tune_time_the_baseline_of_the_suite_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, baseline: str
) -> None:
    seen: list[str] = []

    def choose(race: Race, *_: object, **__: object) -> list[Made]:
        seen.append(race.baseline)
        return []

    monkeypatch.setattr(Race, "choose", choose)
    small = plan("V", "R")
    settings = small.settings.model_copy(update={"baseline": baseline})
    small = replace(small, settings=settings)
    run_plan(small, tmp_path / "run")
    tune_plan(small, 1.0, [], Silent())
    assert seen == [baseline] * 3  # a run, and `tune` for runs and for modules


@pytest.mark.long
def test_a_run_that_goes_on_elsewhere_chooses_and_tries_anew(tmp_path: Path) -> None:
    """Another machine has its own kernels, and may have the memory that the first one lacked."""
    run_dir = tmp_path / "run"
    run_plan(plan("V", "R"), run_dir)
    (own,) = read_info(run_dir).machines
    info = (run_dir / INFO).read_text()
    (run_dir / INFO).write_text(info.replace(own.id, "another-2-abcdef"))
    lines = [json.loads(line) for line in (run_dir / RECORDS).read_text().splitlines()]
    for line in lines:
        line["machine"] = "another-2-abcdef"
        line["measurements"]["kernel_choice"] = {"path": "a kernel of the other machine"}
        if line["cell"]["variant"] == "R":
            line |= {"outcome": "oom", "reason": "a small machine", "measurements": {}}
    (run_dir / RECORDS).write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    run_plan(plan("V", "R", rounds=2), run_dir, resume=True, allow_changed=True)
    run = read_run(run_dir)
    second = {r.cell.variant: (r.outcome, r.machine) for r in run.records if r.round == 1}
    assert second == {"V": ("ok", own.id), "R": ("ok", own.id)}
    (here,) = (machine for machine in run.info.machines if machine.id == own.id)
    assert {choice.cell.variant for choice in here.choices} == {"V", "R"}
