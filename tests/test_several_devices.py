"""Several devices or slots of one machine: what is compared stays together, nothing is shared."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from synthbench.backends.base import DeviceInfo
from synthbench.cli.app import app
from synthbench.devices import device_names
from synthbench.errors import FrameworkMissingError, NotationError
from synthbench.measure.environment import machine_id
from synthbench.record import Record, now
from synthbench.run import devices as run_devices
from synthbench.run import places
from synthbench.run.cell_runner import record_of
from synthbench.run.devices import resolve_device
from synthbench.run.executors import several_places
from synthbench.run.executors.base import Work
from synthbench.run.executors.local import LocalExecutor
from synthbench.run.executors.one_place import OnePlace
from synthbench.run.job import Reply
from synthbench.run.places import places_of
from synthbench.run.planning import plan_suite
from synthbench.run.progress import Silent
from synthbench.run.runner import run_plan
from synthbench.run.shard import split_into_shards
from synthbench.run.spread import deal
from synthbench.run_info import Machine
from synthbench.store import list_runs, read_info, read_records
from synthbench.suites.plan import Plan
from synthbench.suites.suite import parse_suite
from tests.page_commands import ROOT, commands_of, run_command, sections

MANY = """
axes: {variant: [V, R], framework: [torch, jax], seq_len: [8, 16, 32], dtype: [float32, bfloat16]}
model: {d_model: 8, heads: 2}
baseline: V
"""
TINY = """
axes: {variant: [V, R], framework: [torch], mode: [forward], seq_len: [8, 16]}
model: {kind: mixer, d_model: 8, heads: 2}
measure: {rounds: 2, min_samples: 3, min_seconds: 0.001, max_seconds: 2, aa: false, ceiling: false,
          threads: 1, kernel_seconds: 0}
baseline: V
"""
two_cores = pytest.mark.skipif(
    len(places.split_cores(2)) < 2, reason="two slots need two physical cores"
)


def plan(device: str, text: str = MANY) -> Plan:
    return plan_suite(parse_suite(text, name="mine", source="mine.yaml"), device)


def test_what_is_compared_is_on_one_device_and_each_device_has_its_share() -> None:
    alone, several = plan("cuda:0"), plan("cuda:0,cuda:1,cuda:2")
    assert several.devices == ("cuda:0", "cuda:1", "cuda:2")
    assert {cell.changed(device="cuda:0").id for cell in several.cells} == {
        cell.id for cell in alone.cells
    }
    counts = [sum(cell.device == name for cell in several.cells) for name in several.devices]
    assert counts == [len(alone.cells) // 3] * 3
    for shard in split_into_shards(several.cells):
        assert len({cell.device for cell in shard.cells}) == 1
        assert {cell.variant for cell in shard.cells} == {"V", "R"}
    assert len(split_into_shards(several.cells)) == len(split_into_shards(alone.cells))
    assert plan("cuda:0,cuda:1,cuda:2") == several


def test_curves_stay_on_one_device_where_there_are_enough_of_them() -> None:
    found = {(cell.dtype, cell.device) for cell in plan("cuda:0,cuda:1").cells}
    assert len(found) == 2  # of each dtype, all lengths on one


def test_every_device_has_something_to_measure_where_that_is_possible() -> None:
    one_length = MANY.replace("[8, 16, 32]", "[8]").replace("[float32, bfloat16]", "[float32]")
    found = {(cell.mode, cell.device) for cell in plan("cuda:0,cuda:1", one_length).cells}
    assert found == {("forward", "cuda:0"), ("train", "cuda:1")}
    three = plan("cuda:0,cuda:1,cuda:2", one_length)
    assert three.notes[-1].startswith("nothing to measure on cuda:2: ")


def test_a_device_gets_long_and_short_cells() -> None:
    cells = [shard.cells for shard in split_into_shards(plan("cpu").cells)]
    numbers = deal(cells, 2)
    for place in (0, 1):
        assert {c.seq_len for own, n in zip(cells, numbers, strict=True) if n == place
                for c in own} == {8, 16, 32}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"), [("cuda", ("cuda",)), ("cuda,cuda:1", ("cuda:0", "cuda:1")),
                        ("tpu:3,tpu:1", ("tpu:3", "tpu:1"))],
)  # fmt: skip
def test_a_list_of_devices(text: str, found: tuple[str, ...]) -> None:
    assert device_names(text) == found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cuda:0,tpu:0", "not several of one kind"),
        ("cpu,cpu", "not several of one kind"),
        ("cuda,cuda:0", "has one of them twice"),
        ("cuda:0,", "device '' not known"),
        ("cuda:0, cuda:1", "device ' cuda:1' not known"),
    ],
)
def test_a_list_that_cannot_be_is_refused(text: str, problem: str) -> None:
    for read in (device_names, resolve_device):
        with pytest.raises(NotationError, match=problem):
            read(text)


def test_all_devices_of_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    def report(*_: Any) -> dict[str, list[DeviceInfo] | str]:
        names = ["cpu", *(f"cuda:{n}" for n in range(11))]
        return {"torch": [DeviceInfo(name, "") for name in names], "jax": "not installed"}

    monkeypatch.setattr(run_devices, "device_report", report)
    assert device_names(resolve_device("cuda:all"))[9:] == ("cuda:9", "cuda:10")
    with pytest.raises(FrameworkMissingError, match=r"tpu:all: no framework here sees such a dev"):
        resolve_device("tpu:all")
    with pytest.raises(NotationError, match="device 'cpu:all' not known"):
        resolve_device("cpu:all")


def test_cores_are_disjoint_and_threads_of_a_core_stay_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "CPUS", tmp_path)
    monkeypatch.setattr(places, "usable_cores", lambda: list(range(6)))
    assert places.split_cores(4) == [(0,), (1,), (2,), (3,)]
    for core in range(6):
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{core % 3},{core % 3 + 3}\n")
    assert places.split_cores(3) == [(0, 3), (1, 4), (2, 5)]
    assert places.split_cores(2) == [(0, 3), (1, 4)]
    assert places.split_cores(4) == []
    with pytest.raises(NotationError, match=r"--slots 4: give 1 to 3, one per physical core"):
        places_of(plan("cpu"), 4)
    with pytest.raises(NotationError, match=r"--slots 0: give 1 to 3"):
        places_of(plan("cpu"), 0)
    with pytest.raises(NotationError, match="--slots divides the processor, and this run is on cu"):
        places_of(plan("cuda:0,cuda:1"), 2)
    found = places_of(plan("cuda:0,cuda:1"), None)
    assert [(place.name, place.cores) for place in found] == [
        ("cuda:0", (0, 3)),
        ("cuda:1", (1, 4)),
    ]


SHARED = """
axes: {variant: [V, R], framework: [torch], task: [mqar], mode: [train], seq_len: [32, 64],
       batch: [4], devices: [1, 2]}
model: {kind: decoder, d_model: 8, heads: 2, layers: 1, vocabulary: 32}
baseline: V
"""


def test_a_cell_that_shares_devices_needs_as_many_cores_in_a_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(places, "CPUS", Path("/nowhere"))
    monkeypatch.setattr(places, "usable_cores", lambda: list(range(4)))
    assert len(places_of(plan("cpu", SHARED), 2)) == 2
    message = (
        r"^--slots 3 gives each slot 1 core, but cells of this plan share 2 devices .*; give f"
    )
    with pytest.raises(NotationError, match=message):
        places_of(plan("cpu", SHARED), 3)


def test_cells_that_share_devices_have_them_for_themselves() -> None:
    several = plan("cuda:3,cuda:0,cuda:1,cuda:2", SHARED)
    assert several.device == "cuda:3,cuda:0,cuda:1,cuda:2"
    assert {cell.device for cell in several.cells} == {"cuda:0", "cuda:2"}
    assert [place.device for place in places_of(several, None)] == ["cuda:0", "cuda:2"]
    assert several.notes[-1].endswith("one cell at a time from each of cuda:0, cuda:2 on")
    assert {cell.device for cell in plan("cuda:0,cuda:2,cuda:3", SHARED).cells} == {"cuda:2"}
    message = r"^--device cuda:0,cuda:2: cells of this plan share 2 devices that follow each other "
    with pytest.raises(NotationError, match=message):
        plan("cuda:0,cuda:2", SHARED)


def test_a_part_of_a_plan_uses_the_devices_of_its_cells() -> None:
    several = plan("cuda:0,cuda:1")
    shard = split_into_shards(several.cells)[0]
    (place,) = places_of(replace(several, cells=shard.cells), None)
    assert place.device == shard.cells[0].device


def test_an_option_of_another_executor_is_refused() -> None:
    words = ["run", "--suite", "smoke", "--device", "cpu", "--executor", "ray", "--slots", "2"]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 2 or isinstance(shown.exception, NotationError)
    assert (
        "--slots is an option of the executor local, not of ray"
        in str(shown.exception) + shown.output
    )


def test_a_dry_run_shows_the_device_of_each_cell(tmp_path: Path) -> None:
    words = ["run", "--suite", "smoke", "--device", "cuda:0,cuda:1", "--dry-run"]
    shown = CliRunner().invoke(app, [*words, "--results", str(tmp_path)])
    assert shown.exit_code == 0
    for mode, device in (("forward", "cuda:0"), ("train", "cuda:1")):
        assert f"torch, {mode}, float32, model mixer, device {device}:" in shown.output


def test_places_of_one_machine_are_told_apart() -> None:
    one, other = (machine_id({"cpu": "a", "place": f"slot {n} of 2"}) for n in (1, 2))
    assert one.removesuffix("-slot-1-of-2") == other.removesuffix("-slot-2-of-2")
    assert machine_id({"cpu": "a"}) == one.removesuffix("-slot-1-of-2")


class MadeUp(OnePlace):
    """A place with a device that is not there: each cell waits until both devices have one."""

    both = threading.Barrier(2)
    devices: set[tuple[str, str]]

    def start(self, work: Work) -> Mapping[str, str]:
        return {}

    def measure(self, work: Work) -> Iterator[Machine | Record]:
        environment: dict[str, Any] = {"cpu": "made up", "place": self.place}
        own = machine_id(environment)
        yield Machine(id=own, environment=environment)
        for number, cell in work.pending():
            assert cell.device == self.place == work.plan.device
            self.both.wait(60)
            yield record_of(cell, number, now(), Reply("timeout", "made up"), own)


def test_devices_measure_at_the_same_time_each_its_own_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(several_places, "OnePlace", MadeUp)
    planned = plan("cuda:0,cuda:1")
    summary = run_plan(planned, tmp_path / "run")
    records = read_records(tmp_path / "run")
    assert not summary.interrupted
    info = read_info(tmp_path / "run")
    assert info.device == "cuda:0,cuda:1"
    rounds = planned.settings.measure.least_rounds
    assert sorted(r.id for r in records) == sorted(
        c.id for c in planned.cells for _ in range(rounds)
    )
    machines = {machine.id: machine.environment["place"] for machine in info.machines}
    assert {(machines[r.machine], r.cell.device) for r in records} == {
        ("cuda:0", "cuda:0"),
        ("cuda:1", "cuda:1"),
    }


class Interrupts(Silent):
    """Ctrl-C at the second record."""

    def __init__(self) -> None:
        self.finished_cells = 0
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def cell_finished(self, record: Record, *_: Any) -> None:
        self.finished_cells += 1
        if self.finished_cells == 2:
            raise KeyboardInterrupt


@pytest.mark.long
@two_cores
def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    (line,) = commands_of("Slots of a processor")
    shown = run_command(line, tmp_path)
    assert "2 slots with" in shown
    (run,) = list_runs(tmp_path / "results")
    assert {record.outcome for record in read_records(run)} == {"ok"}
    assert len(read_info(run).machines) == 2


@pytest.mark.long
@two_cores
def test_slots_have_cores_of_their_own_and_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    planned, run_dir = plan("cpu", TINY), tmp_path / "run"
    observer, threads = Interrupts(), threading.active_count()
    summary = run_plan(planned, run_dir, observer=observer, executor=LocalExecutor(slots=2))
    assert summary.interrupted
    assert len(read_records(run_dir)) == 2
    assert psutil.Process(os.getpid()).children(recursive=True) == []
    assert threading.active_count() == threads
    assert observer.notes[0].startswith("2 slots with 1 core each: cells that are measured at the")

    summary = run_plan(planned, run_dir, resume=True, executor=LocalExecutor(slots=2))
    records = read_records(run_dir)
    assert [record.outcome for record in records] == ["ok"] * 8
    assert len({record.key for record in records}) == 8
    used: dict[int, set[tuple[int, ...]]] = {}  # length -> cores, of all cells in all rounds
    for record in records:
        used.setdefault(record.cell.seq_len, set()).add(tuple(record.host["cores"]))
    assert [len(cores) for cores in used.values()] == [1, 1]
    assert used[8] != used[16]
    assert len(read_info(run_dir).machines) == 2


def test_the_commands_of_every_section_are_run_by_a_test() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").glob("test_*.py"))
    assert sections() == [
        "Slots of a processor",
        "A Slurm cluster",
        "A Ray cluster",
        "Very large runs",
    ]
    for section in sections():
        assert f'commands_of("{section}")' in tests
    # What needs GPUs is in blocks of another kind: only that.
    page = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
    run_here = [line for section in sections() for line in commands_of(section)]
    others = {line for line in page.splitlines() if line.startswith(("synthbench ", "ray "))}
    assert {line.partition(" --device ")[2].partition(":")[0] for line in others - {*run_here}} == {
        "cuda"
    }
