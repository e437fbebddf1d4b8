"""Runs with real child processes: every way a cell can end, and what stays when a run is cut."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from synthbench.errors import FrameworkMissingError, ResultsError, ShapeError, SynthbenchError
from synthbench.record import Parity, Record
from synthbench.run.devices import device_report, resolve_device
from synthbench.run.extensions import load_plugin
from synthbench.run.host_client import Host, call_in_child
from synthbench.run.progress import PlainProgress, Silent
from synthbench.run.runner import Summary, run_plan
from synthbench.store import DAMAGED, RECORDS, read_info, read_records, read_run
from synthbench.suites.cell import Cell
from synthbench.suites.plan import Plan, make_plan
from synthbench.suites.suite import parse_suite
from tests.plugin_isolation import isolated_plugins

PLUGIN = "tests.plugins.faulty"
ROOT = Path(__file__).resolve().parents[1]
ALLOWED = 300_000_000  # bytes, as in plan()
SLEEP = 0.01  # seconds of a step of `sleeper`
ENOUGH = 300  # seconds that no cell needs, however slow the machine is

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the harness's limits are Linux's")


@pytest.fixture(scope="module", autouse=True)
def plugin() -> Iterator[None]:
    """The faulty mixers, in the catalogue for this module only."""
    with isolated_plugins():
        load_plugin(PLUGIN)
        yield


def plan(*variants: str, **changes: Any) -> Plan:
    """A plan of tiny forward cells in torch."""
    options: dict[str, Any] = {"rounds": 1, "timeout": ENOUGH, "framework": "torch"}
    options |= {"kind": "mixer", "device": "cpu", "aa": "false", "ceiling": "false"}
    options |= {"parity": "true"} | changes
    text = f"""
    axes: {{variant: {list(variants)!r}, framework: [{options["framework"]}], mode: [forward],
            seq_len: [8]}}
    model: {{kind: {options["kind"]}, d_model: 8, heads: 2, vocabulary: 11}}
    measure: {{rounds: {options["rounds"]}, min_samples: 3, min_seconds: 0.001, max_seconds: 4,
               aa: {options["aa"]}, ceiling: {options["ceiling"]}, parity: {options["parity"]},
               timeout_seconds: {options["timeout"]}, memory_limit_gb: {ALLOWED / 1e9}, threads: 1}}
    """
    return make_plan(parse_suite(text, name="mine", source="mine.yaml"), options["device"])


class Watcher(Silent):
    """Keeps what it is told, and does something when a cell begins."""

    def __init__(self, deed: Callable[[Cell], None] = lambda cell: None) -> None:
        self.deed = deed
        self.notes: list[str] = []
        self.parities: list[Parity | None] = []
        self.progress: list[tuple[int, int]] = []
        self.left: list[float | None] = []

    def cell_started(self, cell: Cell, round_number: int) -> None:
        self.deed(cell)

    def parity_checked(self, cell: Cell, parity: Parity | None, reason: str) -> None:
        self.parities.append(parity)

    def cell_finished(
        self, record: Record, done: int, total: int, seconds_left: float | None
    ) -> None:
        self.progress.append((done, total))
        self.left.append(seconds_left)

    def note(self, text: str) -> None:
        self.notes.append(text)


def below(pid: int) -> list[psutil.Process]:
    """Every process that descends from another."""
    return psutil.Process(pid).children(recursive=True)


def by_variant(run_dir: Path) -> dict[str, Record]:
    return {record.cell.variant: record for record in read_records(run_dir)}


# --- every way a cell can end ---------------------------------------------------------------

ENDS = ("V", "sleeper", "allocator(megabytes=4000)", "allocator", "aborter", "printer",
        "killed", "exiter", "raiser", "liar")  # fmt: skip
JAX_ENDS = ("V", "sleeper", "allocator(megabytes=4000)", "allocator", "aborter", "printer",
            "killed", "exiter", "raiser")  # fmt: skip

Ends = tuple[Summary, Watcher, dict[str, Record]]


def run_ends(run_dir: Path, framework: str, variants: tuple[str, ...]) -> Ends:
    watcher = Watcher()
    planned = plan(*variants, framework=framework)
    summary = run_plan(planned, run_dir, plugins=[PLUGIN], observer=watcher)
    return summary, watcher, by_variant(run_dir)


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> tuple[Summary, Watcher, dict[str, Record]]:
    """One run of all of them."""
    return run_ends(tmp_path_factory.mktemp("runs") / "mine" / "ends", "torch", ENDS)


def test_the_suite_finishes_whatever_its_cells_do(
    ends: tuple[Summary, Watcher, dict[str, Record]],
) -> None:
    summary, watcher, records = ends
    assert set(records) == set(ENDS)
    assert summary.recorded == len(ENDS)
    assert not summary.interrupted
    assert not summary.missing
    assert watcher.progress[-1] == (len(ENDS), len(ENDS))
    assert all(left is not None and left > 0 for left in watcher.left[:-1])
    assert watcher.left[-1] == 0
    assert read_info(summary.run_dir).finished is not None
    assert below(os.getpid()) == []


@pytest.mark.parametrize(
    ("variant", "outcome", "reason"),
    [
        ("allocator(megabytes=4000)", "oom", "MemoryError"),
        ("aborter", "crashed", "killed by SIGABRT; its last output: about to abort"),
        ("killed", "crashed", "killed by SIGKILL"),
        ("exiter", "crashed", "exit code 3"),
        ("raiser", "crashed", "ValueError: a mistake of its own"),
        ("liar", "quarantined", "parity failed against numpy"),
    ],
)
def test_each_end_has_its_outcome_and_reason(
    ends: tuple[Summary, Watcher, dict[str, Record]], variant: str, outcome: str, reason: str
) -> None:
    record = ends[2][variant]
    assert record.outcome == outcome
    assert reason in record.reason
    assert record.measurements.timing is None
    if variant != "liar":  # it was never built
        assert record.measurements.declared_parameters == 0
        assert record.host["pid"] > 0


@pytest.mark.parametrize("variant", ["V", "sleeper", "allocator", "printer"])
def test_what_ends_well_is_measured(
    ends: tuple[Summary, Watcher, dict[str, Record]], variant: str
) -> None:
    record = ends[2][variant]
    assert record.outcome == "ok", record.reason
    measured = record.measurements
    assert measured.timing is not None
    assert len(measured.timing.samples) >= 3
    assert min(measured.timing.samples) > (SLEEP if variant == "sleeper" else 0)
    assert measured.parity is not None
    assert measured.parity.passed
    own = measured.parity.own_length
    assert own is not None
    if variant == "V":
        assert (own.seq_len, own.against, own.passed) == (8, "numpy", True), own.reason
    else:
        assert own.reason == "not checked at its own length: the mixer gives no reference"
    assert record.id == record.cell.id


def test_a_cell_that_fails_parity_is_not_timed_and_keeps_its_errors(
    ends: tuple[Summary, Watcher, dict[str, Record]],
) -> None:
    parity = ends[2]["liar"].measurements.parity
    assert parity is not None
    assert not parity.passed
    assert parity.forward is not None
    assert parity.forward > parity.tolerance


def test_counts_and_memory_of_a_known_mixer(
    ends: tuple[Summary, Watcher, dict[str, Record]],
) -> None:
    measured = ends[2]["V"].measurements
    assert measured.parameters == measured.declared_parameters == 4 * 8 * 8
    assert measured.flops is not None
    assert measured.flops.formula == measured.flops.traced
    assert measured.memory is not None
    assert measured.memory.parameters == 4 * 4 * 8 * 8
    assert measured.memory.batch == 4 * 8 * 8
    assert measured.memory.peak is not None
    assert measured.memory.peak >= measured.memory.parameters + measured.memory.batch


def test_a_known_allocation_is_the_measured_peak(
    ends: tuple[Summary, Watcher, dict[str, Record]],
) -> None:
    memory = ends[2]["allocator"].measurements.memory
    assert memory is not None and memory.peak is not None
    known = memory.parameters + memory.optimizer + memory.batch + 64 * 10**6
    assert abs(memory.peak - known) <= max(2 * 10**6, 0.03 * known)


def test_each_cell_has_a_process_of_its_own_without_the_other_framework(
    ends: tuple[Summary, Watcher, dict[str, Record]],
) -> None:
    records = ends[2].values()
    pids = [record.host["pid"] for record in records if record.cell.variant != "liar"]
    assert len(set(pids)) == len(pids)
    for record in records:
        if record.outcome == "ok":
            assert record.host["other_framework_loaded"] is False
            assert record.host["threads"] == 1
            assert len(record.host["cores"]) == 1
            assert record.host["memory_limit"] == ALLOWED


@pytest.fixture(scope="module")
def jax_ends(tmp_path_factory: pytest.TempPathFactory) -> Ends:
    """The same in jax, where the deed is done by a callback while the compiled program runs."""
    return run_ends(tmp_path_factory.mktemp("runs") / "mine" / "jax_ends", "jax", JAX_ENDS)


@pytest.mark.parametrize(
    ("variant", "outcome", "reason"),
    [
        ("V", "ok", ""),
        ("sleeper", "ok", ""),
        ("allocator", "ok", ""),
        ("printer", "ok", ""),
        ("allocator(megabytes=4000)", "oom", "while running the first steps: "),
        ("aborter", "crashed", "killed by SIGABRT; its last output: about to abort"),
        ("killed", "crashed", "killed by SIGKILL while running the first steps"),
        ("exiter", "crashed", "ended with exit code 3 while running the first steps"),
        ("raiser", "crashed", "ValueError: a mistake of its own"),
    ],
)
def test_each_end_in_jax_has_its_outcome_and_reason(
    jax_ends: Ends, variant: str, outcome: str, reason: str
) -> None:
    record = jax_ends[2][variant]
    assert record.outcome == outcome, record.reason
    assert reason in record.reason
    timing = record.measurements.timing
    assert (timing is not None) == (outcome == "ok")
    if variant == "sleeper":  # which returns before it has slept
        assert timing is not None
        assert min(*timing.samples, timing.first_step_seconds) > SLEEP


def test_the_suite_finishes_in_jax_whatever_its_cells_do(jax_ends: Ends) -> None:
    summary, watcher, records = jax_ends
    assert set(records) == set(JAX_ENDS)
    assert summary.recorded == len(JAX_ENDS)
    assert watcher.progress[-1] == (len(JAX_ENDS), len(JAX_ENDS))
    assert read_info(summary.run_dir).finished is not None
    assert below(os.getpid()) == []


# --- two frameworks, rounds, cells that cannot be -------------------------------------------


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Summary, list[Record]]:
    """Two rounds in both frameworks of a decoder, in which linformer cannot be."""
    run_dir = tmp_path_factory.mktemp("runs") / "both"
    planned = plan("V", "linformer", framework="torch, jax", kind="decoder", rounds=2)
    return run_plan(planned, run_dir), read_records(run_dir)


def test_rounds_measure_each_cell_anew(both: tuple[Summary, list[Record]]) -> None:
    measured = [r for r in both[1] if r.cell.variant == "V"]
    assert [r.outcome for r in measured] == ["ok"] * 4
    assert sorted((r.cell.framework, r.round) for r in measured) == [
        ("jax", 0), ("jax", 1), ("torch", 0), ("torch", 1),
    ]  # fmt: skip
    assert len({r.host["pid"] for r in measured}) == 4
    assert all(r.host["other_framework_loaded"] is False for r in measured)


def test_the_twin_of_the_baseline_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    run_plan(plan("V", "R", rounds=2, aa="true"), tmp_path / "run")
    found = read_records(tmp_path / "run")
    assert [record.outcome for record in found] == ["ok"] * 6
    assert sorted((r.round, r.cell.variant, r.cell.replica) for r in found) == [
        (number, *cell) for number in (0, 1) for cell in (("R", 0), ("V", 0), ("V", 1))
    ]
    assert len({record.id for record in found}) == 3
    assert len({record.host["pid"] for record in found}) == 6


def test_cells_that_cannot_be_are_recorded_as_unsupported(
    both: tuple[Summary, list[Record]],
) -> None:
    impossible = [r for r in both[1] if r.cell.variant == "linformer"]
    assert [(r.outcome, r.round) for r in impossible] == [("unsupported", 0)] * 2
    assert all("cannot be causal" in r.reason for r in impossible)
    assert both[0].outcomes == {"ok": 4, "unsupported": 2}


@pytest.mark.long
def test_a_timeout_is_not_waited_for_again_in_the_next_round(tmp_path: Path) -> None:
    """The cell never ends, and nothing else runs within the limit: slowness changes nothing."""
    planned = plan("looper", framework="torch, jax", rounds=2, timeout=2, parity="false")
    run_plan(planned, tmp_path / "run", plugins=[PLUGIN])
    found = {(r.cell.framework, r.round): r for r in read_records(tmp_path / "run")}
    assert len(found) == 4
    for framework in ("torch", "jax"):
        first, second = found[framework, 0], found[framework, 1]
        assert (first.outcome, second.outcome) == ("timeout", "timeout")
        assert first.reason.startswith("ended after 2 s while ")
        assert first.measurements.timing is None
        assert first.host["pid"] > 0
        assert second.reason == f"as in round 0: {first.reason}"
        assert second.wall_seconds == 0


# --- cut short, and resumed -----------------------------------------------------------------


@pytest.mark.long
def test_interrupt_keeps_what_was_measured_and_resume_does_what_is_missing(
    tmp_path: Path,
) -> None:
    run_dir = tmp_path / "run"
    planned = plan("V", "R", "FR", "looper", rounds=2)
    seen: list[str] = []
    timers: list[threading.Timer] = []

    def interrupt(cell: Cell) -> None:
        seen.append(cell.id)
        if cell.variant == "looper":
            timers.append(threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)))
            timers[-1].start()

    try:
        summary = run_plan(planned, run_dir, plugins=[PLUGIN], observer=Watcher(interrupt))
    finally:
        for timer in timers:
            timer.cancel()
    kept = read_records(run_dir)
    assert summary.interrupted
    assert summary.recorded == len(kept) == len(seen) - 1 < 8
    assert below(os.getpid()) == []
    assert read_info(run_dir).finished is None

    with pytest.raises(ResultsError, match="--resume"):
        run_plan(planned, run_dir, plugins=[PLUGIN])

    with open(run_dir / RECORDS, "ab") as file:
        file.write(b'{"schema_version":1,"id":"half')
    watcher = Watcher()
    fewer = plan("V", "R", "FR", rounds=2)  # the suite has lost a variant meanwhile
    with pytest.raises(
        ResultsError, match=r"axes\.variant was .*looper.* and is .*--allow-changed"
    ):
        run_plan(fewer, run_dir, resume=True, plugins=[PLUGIN])
    run_plan(fewer, run_dir, resume=True, plugins=[PLUGIN], observer=watcher, allow_changed=True)
    run = read_run(run_dir)
    assert run.info.resumed[0]["changed"] == ["axes.variant"]
    assert run.records[: len(kept)] == kept
    pairs = [(record.cell.variant, record.round) for record in run.records]
    assert sorted(pairs) == [(v, n) for v in ("FR", "R", "V") for n in (0, 1)]
    assert not run.damaged
    assert (run_dir / DAMAGED).read_bytes() == b'{"schema_version":1,"id":"half\n'
    assert any("damaged" in note for note in watcher.notes)
    assert any("has changed" in note for note in watcher.notes)
    assert run.info.finished is not None
    assert len(run.info.resumed) == 1

    watcher = Watcher()
    only_one = plan("V", rounds=2)
    summary = run_plan(
        only_one, run_dir, resume=True, plugins=[PLUGIN], observer=watcher, allow_changed=True
    )
    assert summary.recorded == 0
    assert any("4 records belong to no cell" in note for note in watcher.notes)


def test_a_host_that_is_killed_is_started_again(tmp_path: Path) -> None:
    killed: list[int] = []

    def kill(cell: Cell) -> None:
        if not killed:
            (host,) = psutil.Process().children()
            killed.append(host.pid)
            host.kill()

    summary = run_plan(plan("V", "R", "FR"), tmp_path / "run", observer=Watcher(kill))
    outcomes = [record.outcome for record in read_records(tmp_path / "run")]
    assert outcomes == ["unchecked", "ok", "ok"]  # it died during the parity check
    assert "host process was killed by signal 9" in read_records(tmp_path / "run")[0].reason
    assert not summary.missing


def test_a_run_that_lost_a_framework_on_the_way_is_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where its host does not start again for want of memory: `--resume` finds the run."""

    begun: list[Cell] = []

    def kill(cell: Cell) -> None:
        begun.append(cell)
        if len(begun) == 2:
            for host in psutil.Process().children():
                host.kill()
            monkeypatch.setattr(Host, "start", refuse)

    def refuse(host: Host) -> None:
        raise FrameworkMissingError("torch: its host process was killed by signal 9")

    summary = run_plan(plan("V", "R"), tmp_path / "run", observer=Watcher(kill))
    assert list(summary.missing) == ["torch"]
    assert len(read_records(tmp_path / "run")) == 1
    assert read_run(tmp_path / "run").info.finished is None
    monkeypatch.undo()
    run_plan(plan("V", "R"), tmp_path / "run", resume=True)
    assert [one.outcome for one in read_records(tmp_path / "run")][1:] == ["ok"]
    assert read_run(tmp_path / "run").info.finished is not None


def test_nothing_outlives_a_runner_that_is_killed(tmp_path: Path) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.test_runner import PLUGIN, plan\n"
        "from synthbench.run.extensions import load_plugin\n"
        "from synthbench.run.runner import run_plan\n"
        "load_plugin(PLUGIN)\n"
        f"run_plan(plan('V', 'looper', 'R'), {str(tmp_path / 'run')!r}, plugins=[PLUGIN])\n"
    )
    runner = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    everything: list[psutil.Process] = []
    try:
        wait_for(lambda: "sleep" in [process.name() for process in below(runner.pid)])
        everything = below(runner.pid)
        assert len(everything) == 3  # host, cell, and the process the cell started
    finally:
        runner.kill()
        runner.wait()
    wait_for(lambda: not any(is_alive(process) for process in everything))


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def wait_for(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something holds; fail where it does not in good time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if holds():
                return
        except psutil.NoSuchProcess:
            pass  # it ended between being listed and being asked
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.05)


# --- frameworks and devices that are not there ----------------------------------------------


def test_without_one_framework_the_cells_of_the_other_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jax.py").write_text("raise ModuleNotFoundError('No module', name='jax')\n")
    monkeypatch.syspath_prepend(tmp_path)
    watcher = Watcher()
    summary = run_plan(plan("V", framework="torch, jax"), tmp_path / "run", observer=watcher)
    assert list(summary.missing) == ["jax"]
    assert "jax is not installed; pip install jax" in summary.missing["jax"]
    assert watcher.notes == [summary.missing["jax"]]
    assert [r.cell.framework for r in read_records(tmp_path / "run")] == ["torch"]

    report = device_report(["jax"])
    assert report == {"jax": summary.missing["jax"]}
    with pytest.raises(FrameworkMissingError, match="pip install jax"), Host("jax"):
        pass
    summary = run_plan(plan("V", framework="jax"), tmp_path / "none")
    assert list(summary.missing) == ["jax"]
    assert not (tmp_path / "none").exists()


@pytest.mark.long
def test_devices_are_listed_and_a_missing_one_is_named(tmp_path: Path) -> None:
    report = device_report(["torch"])
    assert isinstance(report["torch"], list)
    names = [info.name for info in report["torch"]]
    assert names[0] == "cpu"
    assert resolve_device("auto", ["torch"]) == ("cuda" if len(names) > 1 else "cpu")
    assert resolve_device("cuda:3") == "cuda:3"
    with pytest.raises(SynthbenchError, match="use auto, cpu, cuda, tpu, xpu or mps"):
        resolve_device("npu")
    absent = f"cuda:{len(names)}"
    summary = run_plan(plan("V", device=absent), tmp_path / "run")
    assert absent in summary.missing["torch"]
    assert "it finds cpu" in summary.missing["torch"]
    assert not (tmp_path / "run").exists()


# --- calls in a child -----------------------------------------------------------------------


def test_functions_are_called_in_children_of_one_host() -> None:
    with Host("torch") as host:
        first = host.call(f"{PLUGIN}:answer", {"number": 21})
        second = host.call(f"{PLUGIN}:answer", {"number": 1})
        assert (first["doubled"], second["doubled"]) == (42, 2)
        assert first["pid"] != second["pid"]
        assert first["loaded"] == ["torch"]
        with pytest.raises(ShapeError, match=r"^7 is not divisible by 2$"):
            host.call(f"{PLUGIN}:refuse", {})
        with pytest.raises(SynthbenchError, match=r"os:abort in torch: .*SIGABRT"):
            host.call("os:abort", {})
        with pytest.raises(SynthbenchError, match=r"timeout: .*ended after 0\.2 s"):
            host.call(f"{PLUGIN}:doze", {}, 0.2)
        with pytest.raises(SynthbenchError, match="is not a function"):
            host.call("os:nothing", {})
    assert call_in_child("torch", f"{PLUGIN}:answer", {"number": 3})["doubled"] == 6


def test_plain_progress_prints_a_line_a_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_plan(plan("V", "raiser"), tmp_path / "run", plugins=[PLUGIN], observer=PlainProgress())
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "suite mine on cpu: 2 records"
    assert lines[1] == "listing the kernels of torch for these cells"
    assert [line[:5] for line in lines[-2:]] == ["[1/2]", "[2/2]"]
    assert any("torch V forward L=8" in line and "ms/step" in line for line in lines)
    assert any("raiser" in line and "crashed" in line for line in lines)
