"""What a run takes from the kernels that were chosen on this machine before it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from synthbench.measure.core_distance import ASSUMED_NEAR, FAR
from synthbench.measure.kernel_cache import read_choices, store_choices
from synthbench.measure.kernel_choice import raced_cell
from synthbench.run.cell_runner import CellRunner
from synthbench.run.executors.base import Work
from synthbench.run.executors.one_place import OnePlace
from synthbench.run.host_client import Host
from synthbench.run.progress import Silent
from synthbench.run_info import KernelChoice
from synthbench.suites.cell import Cell
from synthbench.suites.settings import Measure
from tests.kernel_choices import FAST, SLOW, cell
from tests.test_kernel_search import FakeHost


def runner_after(cache: Path, seconds: float, host: FakeHost, cells: list[Cell]) -> CellRunner:
    """What a run on this machine has when its kernels are chosen."""
    place, measure = OnePlace(), Measure(kernel_seconds=seconds)
    place.runner = CellRunner(measure, "cpu", [], Silent())
    place.runner.hosts["torch"] = cast(Host, host)
    settings = SimpleNamespace(measure=measure)
    work = SimpleNamespace(
        plan=SimpleNamespace(settings=settings), earlier=[], observer=Silent()
    )  # fmt: skip
    place._choose_kernels(cast(Work, work), cells, cache)
    return place.runner


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
