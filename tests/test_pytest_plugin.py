"""The pytest plugin, in sessions of pytest of their own; most of them with made-up times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, cast

import pytest

from synthbench.measure.kernel_cache import read_choices
from synthbench.pytest_plugin.collection import Suites
from synthbench.record import Measurements, Record, Timing
from synthbench.report.export.pytest_benchmark import pytest_benchmark_text
from synthbench.run_info import Machine, RunInfo
from synthbench.store import Run
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import load_suite

ROOT = Path(__file__).resolve().parents[1]
SUITE = """
axes:
  variant: [%s]
  framework: [torch]
  mode: [forward]
  seq_len: [8]
model: {kind: %s, d_model: 8, heads: 2, vocabulary: 11}
measure: {rounds: 2, aa: false, min_samples: 3, min_seconds: 0.001, max_seconds: 0.1, threads: 1,
          ceiling: false, kernel_seconds: 0}
"""

MACHINE = """
def pytest_benchmark_generate_machine_info():  # to find out takes two seconds
    return {"python_version": "3.11.7", "cpu": {"brand_raw": "Some CPU", "count": 4}, "hz": 1}
"""

LOADED = """
import sys

def pytest_unconfigure(config):
    names = ("torch", "jax", "synthbench")
    loaded = sorted(name for name in sys.modules if name.partition(".")[0] in names)
    print("LOADED", *loaded, file=sys.__stderr__)
"""

# In place of the harness: an outcome a variant, and times of which only SECONDS is not fixed.
MADE_UP = """
import os
from synthbench.run.cell_runner import CellRunner
from synthbench.run.job import Reply

OUTCOMES = {"Fix": "oom", "FR": "oom_predicted", "D": "timeout", "FD": "quarantined"}
TIMING = {"build_seconds": 1, "compile_seconds": 1, "first_step_seconds": 1, "warmup_steps": 2,
          "clock": "none"}

def note(text):
    with open("hosts.txt", "a") as file:
        file.write(text + " ")

class FakeHost:
    version = "0.0"
    def stop(self):
        note("stopped")

def start(self, frameworks):
    note("started")
    assert set(frameworks) == {"torch"}
    self.hosts["torch"] = FakeHost()

def reply_for(self, cell, round_number):
    if os.environ.get("BREAK") == cell.variant:
        raise KeyboardInterrupt
    outcome = OUTCOMES.get(cell.variant, "ok")
    seconds = float(os.environ.get("SECONDS", 0.01))
    timing = TIMING | {"samples": [seconds * n for n in (0.9, 1.0, 1.1)]}
    assert cell.task != "walks"
    timed = outcome == "ok" and cell.task == "cost"
    told = {"timing": timing if timed else None, "warnings": ["it was busy"]}
    assert self.measure.min_samples == (1 if os.environ.get("OFF") else 3)
    return Reply(outcome, f"so it was with {cell.variant}", {"measurements": told})

CellRunner.start = start
CellRunner.reply_for = reply_for
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a suite, a test of its own, and the plugin installed as pip would do it."""
    (tmp_path / "suites").mkdir()
    suite = SUITE % ("V, R, Fix, FR, D, FD, linformer", "decoder")
    (tmp_path / "suites" / "tiny.yaml").write_text(suite)
    (tmp_path / "test_own.py").write_text("def test_own(): pass\n")
    (tmp_path / "conftest.py").write_text(MADE_UP + MACHINE + LOADED)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    with open(ROOT / "pyproject.toml", "rb") as file:
        points = tomllib.load(file)["project"]["entry-points"]["pytest11"]
    installed = tmp_path / "site" / "synthbench-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: synthbench\nVersion: 0\n")
    lines = [f"{name} = {module}" for name, module in points.items()]
    (installed / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines]))
    return tmp_path


def run_pytest(folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """Exit code and everything printed by a session of pytest in the folder."""
    # What the session around this one tells its workers is not for this one.
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    inherited["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(folder / "site")])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder, env=inherited | {"COLUMNS": "200"} | variables,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout


def hosts(folder: Path) -> list[str]:
    """What happened to the made-up hosts."""
    return (folder / "hosts.txt").read_text().split()


def test_a_suite_is_measured_for_real(folder: Path) -> None:
    (folder / "conftest.py").write_text(MACHINE)
    suite = SUITE % ("V, liar, raiser", "mixer")
    suite = suite.replace("kernel_seconds: 0", "kernel_seconds: 20")
    (folder / "suites" / "tiny.yaml").write_text(suite)
    code, out = run_pytest(
        folder, "--synthbench", "suites/tiny.yaml", "--benchmark-only", "--benchmark-json=out.json",
        "--synthbench-plugin", "tests.plugins.faulty", XDG_CACHE_HOME=str(folder / "cache"),
    )  # fmt: skip
    assert code == 1, out
    assert "1 passed" in out
    assert "2 failed" in out
    assert "quarantined: parity failed against numpy" in out
    assert "ValueError: a mistake of its own" in out
    assert "Traceback" not in out
    assert "measuring.py" not in out  # the reason stands alone
    (benchmark,) = json.loads((folder / "out.json").read_text())["benchmarks"]
    info, stats = benchmark["extra_info"], benchmark["stats"]
    assert info["outcome"] == "ok"
    assert info["rounds"] == 2
    assert info["framework_version"].startswith("2.")
    assert info["parity_forward"] < 1e-5
    assert stats["rounds"] == len(stats["data"]) >= 6
    assert stats["median"] > 0
    (kept,) = (folder / "cache" / "synthbench" / "kernels").iterdir()
    assert [choice.cell.variant for choice in read_choices(kept)] == ["V"]


def test_outcomes_decide_and_what_is_ok_is_a_benchmark(folder: Path) -> None:
    call = ["--synthbench", "suites/tiny.yaml", "--benchmark-only", "-rs"]
    code, out = run_pytest(folder, *call, "--benchmark-json=out.json")
    assert code == 1, out
    assert "2 failed, 2 passed, 3 skipped" in out
    for reason in ("timeout: so it was with D", "quarantined: so it was with FD",
                   "oom: so it was with Fix", "oom_predicted: so it was with FR",
                   "unsupported: linformer cannot be causal"):  # fmt: skip
        assert reason in out
    assert "test_own" not in out
    assert "Traceback" not in out
    assert "V-torch-forward-8: it was busy" in out
    assert hosts(folder) == ["started", "stopped"]
    loaded = next(line for line in out.splitlines() if line.startswith("LOADED")).split()
    assert "synthbench.pytest_plugin.measuring" in loaded
    assert not {"torch", "jax"} & set(loaded)
    saved = {b["name"]: b for b in json.loads((folder / "out.json").read_text())["benchmarks"]}
    assert saved.keys() == {"V-torch-forward-8", "R-torch-forward-8"}
    v = saved["V-torch-forward-8"]
    assert v["fullname"] == "tiny::V-torch-forward-8"  # as `synthbench export` has it
    assert v["group"] == "torch-forward-8"
    assert v["params"]["variant"] == "V"
    assert v["stats"]["data"] == [0.01 * n for n in (0.9, 1.0, 1.1)] * 2  # two rounds, exactly
    assert v["options"]["timer"] == "synthbench"
    assert v["options"]["min_rounds"] == 3


@pytest.mark.long_but("False")
@pytest.mark.parametrize("timed", [True, False])
def test_what_times_no_steps_is_skipped_and_a_training_does_not_run(
    timed: bool, folder: Path
) -> None:
    suite = (SUITE % ("V", "decoder")).replace("[forward]", "[train]")
    (folder / "suites" / "tiny.yaml").write_text(
        suite.replace("axes:", "axes:\n  task: [cost, walks, counting]", 1)
    )
    code, out = run_pytest(
        folder, "--synthbench", "suites/tiny.yaml", "-rs",
        "--benchmark-only" if timed else "--benchmark-disable",
        "--synthbench-plugin", "tests.plugins.counting", OFF="" if timed else "1",
    )  # fmt: skip
    assert code == 0, out
    assert "1 passed, 2 skipped" in out
    for task in ("walks", "counting"):
        assert f"unsupported: task {task} has no times of steps; measure it with" in out
    assert "Traceback" not in out


def test_a_device_that_cannot_be_locked_is_the_reason_of_every_cell(folder: Path) -> None:
    broken = "\ndef start(self, frameworks):\n    self.lock.check()\nCellRunner.start = start\n"
    (folder / "conftest.py").write_text(MADE_UP + broken + MACHINE)
    (folder / "no_folder").write_text("")
    code, out = run_pytest(
        folder, "--synthbench", "suites/tiny.yaml", "--benchmark-only", "-k", "V- or Fix-",
        SYNTHBENCH_LOCKS=str(folder / "no_folder"),
    )  # fmt: skip
    assert code == 1, out
    assert "2 failed" in out
    assert out.count("devices cannot be locked with") >= 2
    assert "Traceback" not in out and "KeyError" not in out
    assert "measuring.py" not in out  # the reason stands alone


@pytest.mark.long
def test_a_regression_fails_the_session(folder: Path) -> None:
    call = ["--synthbench", "suites/tiny.yaml", "--benchmark-only", "-k", "V-"]
    code, out = run_pytest(folder, *call, "--benchmark-save=first")
    assert code == 0, out
    assert len(list(folder.glob(".benchmarks/*/0001_first.json"))) == 1
    call += ["--benchmark-compare", "--benchmark-compare-fail=median:10%"]
    code, out = run_pytest(folder, *call, SECONDS="0.012")
    assert code == 1, out
    assert "Performance has regressed" in out
    assert "V-torch-forward-8" in out
    assert "20.000000000 > 10.000000000" in out


def test_an_exported_run_is_compared_with(folder: Path) -> None:
    """Its file says less of the machine than pytest-benchmark asks for: that is no warning."""
    call = ["--synthbench", "suites/tiny.yaml", "--benchmark-only", "-k", "V-"]
    timing = Timing(
        build_seconds=1, compile_seconds=1, first_step_seconds=1, warmup_steps=2, clock="none",
        samples=[0.0105],
    )  # fmt: skip
    (cell,) = make_plan(load_suite(folder / "suites" / "tiny.yaml"), "cpu", None, ["V"]).cells
    record = Record(
        id=cell.id, cell=cell, outcome="ok", measurements=Measurements(timing=timing),
        started="2026-01-01", wall_seconds=1,
    )  # fmt: skip
    environment = {"python": "3.11.7", "cpu": "Some CPU", "cpu_count": 4}
    machines = [Machine(id="some-cpu", environment=environment)]
    info = RunInfo(suite="tiny", settings={}, device="cpu", machines=machines, started="2026-01-01")
    text = pytest_benchmark_text(Run(folder, info, [record], []))
    (folder / "exported.json").write_text(text)
    call += ["--benchmark-compare=exported.json", "--benchmark-compare-fail=median:10%"]
    code, out = run_pytest(folder, *call)
    assert code == 0, out
    assert "V-torch-forward-8 (exporte" in out
    assert "Warning" not in out


@pytest.mark.long
def test_cells_are_chosen_as_tests_are(folder: Path) -> None:
    suite = ["--synthbench", "suites/tiny.yaml"]
    listing = ["--collect-only", "-q"]
    code, out = run_pytest(folder, *suite, *listing, "-k", "R-torch and not (FR or linformer)")
    assert code == 0, out
    assert "suites/tiny.yaml::R-torch-forward-8\n" in out
    assert "1/7 tests collected" in out
    code, out = run_pytest(folder, *suite, *listing, "suites/tiny.yaml::V-torch-forward-8", ".")
    assert "8 tests collected" in out, out  # every cell once, and the project's own
    code, out = run_pytest(folder, *suite, "suites/tiny.yaml::V-torch-forward-8", "-q")
    assert code == 0, out
    assert "1 passed" in out
    code, out = run_pytest(folder, *suite, "-x", "-q")
    assert code == 1, out
    assert "1 failed, 2 passed, 2 skipped" in out
    code, out = run_pytest(folder, *suite, "--benchmark-skip", "-q")
    assert (code, "7 skipped" in out) == (0, True), out
    assert hosts(folder) == ["started", "stopped"] * 2  # not for listing, nor for skipping


def test_ctrl_c_ends_the_session_and_the_hosts(folder: Path) -> None:
    code, out = run_pytest(folder, "--synthbench", "suites/tiny.yaml", BREAK="R")
    assert code == pytest.ExitCode.INTERRUPTED, out
    assert "1 passed" in out
    assert hosts(folder) == ["started", "stopped"]


@pytest.mark.long
def test_without_times_a_cell_is_only_run(folder: Path) -> None:
    suite = ["--synthbench", "suites/tiny.yaml", "-k", "V- or R-"]
    code, out = run_pytest(folder, *suite, "-n", "1", OFF="1")
    assert code == 0, out
    assert "benchmarks are disabled: each cell is checked and run" in out
    assert "2 passed" in out
    assert "Median" not in out
    assert hosts(folder) == ["started", "stopped"]


def test_without_a_suite_next_to_nothing_is_imported(folder: Path) -> None:
    (folder / "conftest.py").write_text(LOADED)
    code, out = run_pytest(folder, "-q", "--durations=0")
    assert code == 0, out
    assert "1 passed" in out
    assert "LOADED synthbench synthbench.pytest_plugin\n" in out


def test_a_wrong_suite_is_an_error_of_the_call(folder: Path) -> None:
    (folder / "suites" / "tiny.yaml").write_text("axes: {variant: [V], seq_len: [8]}\n")
    code, out = run_pytest(folder, "--synthbench", "suites/tiny.yaml")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: --synthbench: suites/tiny.yaml: model: missing" in out
    assert "Traceback" not in out


class Config:
    """What `Suites` asks of pytest's."""

    def __init__(self, **options: Any) -> None:
        self.options: dict[str, Any] = {
            "synthbench": ["suites/tiny.yaml"], "synthbench_device": "cpu",
            "synthbench_framework": [], "synthbench_plugin": [], "benchmark_disable": False,
            "file_or_dir": [],
        } | options  # fmt: skip
        self.args = ["tests"]

    def getoption(self, name: str, default: Any = None) -> Any:
        return self.options[name]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"synthbench": ["smok"]}, ["'smok' not known", "Did you mean smoke"]),
        ({"synthbench": ["no.yaml"]}, ["'no.yaml' does not exist"]),
        ({"synthbench": ["suites/tiny.yaml", "tiny.yaml"]}, ["two suites have the name tiny"]),
        ({"synthbench_device": "npu"}, ["use auto, cpu, cuda, tpu"]),
        ({"synthbench_device": "cuda:0,cuda:1"}, ["cuda:0,cuda:1: a session measures on one"]),
        ({"synthbench_framework": ["torch,jx"]}, ["Did you mean jax"]),
        ({"synthbench_framework": ["jax"]}, ["has no cells for jax"]),
        ({"synthbench_plugin": ["no_such_module"]}, ["cannot be imported"]),
        ({"benchmark_disable": None}, ["needs pytest-benchmark"]),
    ],
)
def test_a_mistake_in_the_call_is_one_clear_message(
    options: dict[str, Any], parts: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "tiny.yaml").write_text((folder / "suites" / "tiny.yaml").read_text())
    with pytest.raises(pytest.UsageError) as error:
        Suites(cast(pytest.Config, Config(**options)))
    for part in parts:
        assert part in str(error.value)
