"""With plug-ins, the plan is made in another process: their code cannot harm the one that runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from synthbench.cli import main
from synthbench.errors import SynthbenchError
from synthbench.registry import has_installed_extensions
from synthbench.run import planning
from synthbench.run.host_client import Host
from synthbench.run.planning import plan_in_child
from synthbench.store import read_run
from synthbench.suites.plan import Plan, make_plan
from synthbench.suites.suite import parse_suite
from tests.plugin_isolation import isolated_plugins

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the harness's limits are Linux's")

SUITE = """
axes: {variant: [V, fine(width=3), "%s"], framework: [torch], mode: [forward], seq_len: [4, 8]}
model: {d_model: 8, heads: 2}
measure: {ceiling: false}
"""

MODULE = """
import os, resource, sys
from dataclasses import dataclass
from typing import ClassVar

import synthbench

print("printed on import")
if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
    raise MemoryError("nothing limits this process")


@dataclass(frozen=True)
class Fine(synthbench.Mixer):
    name: ClassVar[str] = "fine"
    width: int = 1

    def parameters(self, sizes): return {}
    def torch(self, sizes): return lambda p, x, padding_mask, causal: x
    def check(self, sizes, *, causal=False):
        if sizes.max_len > 4:
            raise synthbench.ShapeError(f"{self.name} takes up to 4 positions")


@dataclass(frozen=True)
class Loops(Fine):
    name: ClassVar[str] = "loops"
    def check(self, sizes, *, causal=False):
        while True:
            pass


@dataclass(frozen=True)
class Ends(Fine):
    name: ClassVar[str] = "ends"
    def check(self, sizes, *, causal=False):
        os._exit(0)


@dataclass(frozen=True)
class Leaves(Fine):
    name: ClassVar[str] = "leaves"
    def __post_init__(self):
        raise SystemExit("no")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with the plug-in `harmful`, in a process that knows no plug-in."""
    (tmp_path / "harmful.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    with isolated_plugins():
        yield tmp_path
    assert "harmful" not in sys.modules


def planned(variant: str) -> Plan:
    suite = parse_suite(SUITE % variant, name="mine", source="mine.yaml")
    return plan_in_child(suite, "cpu", plugins=["harmful"])


def test_the_plan_comes_back_as_data(capfd: pytest.CaptureFixture[str]) -> None:
    plan = planned("R")
    assert sorted((cell.variant, cell.seq_len) for cell in plan.cells) == [
        ("R", 4), ("R", 8), ("V", 4), ("V", 8), ("fine(width=3)", 4),
    ]  # fmt: skip
    (skip,) = plan.skipped
    assert (skip.cell.variant, skip.cell.seq_len) == ("fine(width=3)", 8)
    assert skip.reason == "fine takes up to 4 positions"
    assert capfd.readouterr().out == ""


@pytest.mark.long
def test_a_plug_in_can_be_the_baseline(folder: Path, capsys: Any) -> None:
    """However the suite writes it; a process that knows no plug-in cannot read it."""
    suite = SUITE.replace("false}", "false, rounds: 1, min_samples: 1, min_seconds: 0.001}")
    suite = suite.replace("seq_len: [4, 8]", "seq_len: [4]")
    (folder / "mine.yaml").write_text(suite % "R" + "baseline: fine( width = 3 )\n")
    limited = 'raise MemoryError("nothing limits this process")'
    module = MODULE.replace(limited, "pass").replace("max_len > 4", "max_len > 64")
    (folder / "of_mine.py").write_text(module)
    for command in (("run", "--out", "of_run"), ("tune",)):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--suite", "mine.yaml", "--device", "cpu", "--plugin", "of_mine"])
        assert not ended.value.code, "".join(capsys.readouterr())
    run = read_run(folder / "of_run")
    assert run.info.settings["baseline"] == "fine(width=3)"
    own, *others = sorted(run.records, key=lambda record: record.cell.variant != "fine(width=3)")
    assert {record.cell.variant for record in others} == {"V", "R"}
    for timing in (record.measurements.timing for record in others):
        assert timing is not None and timing.baseline is not None
        assert timing.baseline.id == own.id


def test_dump_and_load_keep_a_plan() -> None:
    suite = parse_suite(SUITE.replace(", fine(width=3)", "") % "R", name="mine", source="m.yaml")
    plan = make_plan(suite, "cpu", variants=["R", "D"], force=True)
    assert plan.notes
    assert Plan.load(plan.dump()) == plan


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("loops", "timeout: ended after 3 s"),
        ("ends", "crashed: ended with exit code 0"),
    ],
)
def test_a_plug_in_that_does_not_answer_is_refused(
    variant: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "PLAN_SECONDS", 3.0)
    with pytest.raises(SynthbenchError) as caught:
        planned(variant)
    assert str(caught.value).startswith("suite mine cannot be planned with its plug-ins: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_error_of_a_class_is_named_with_its_line() -> None:
    with pytest.raises(SynthbenchError) as caught:
        planned("leaves")
    assert "Leaves.__init__() of harmful failed: SystemExit: no (harmful.py:" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_answer_that_is_not_a_plan_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Answer:
        outcome, result = "ok", {"suite": "mine"}

    monkeypatch.setattr(Host, "run", lambda self, job: Answer())
    with pytest.raises(SynthbenchError, match="did not answer with a plan"):
        planned("R")


def dry_run(capsys: Any, folder: Path, variant: str, *options: str) -> tuple[int, str]:
    (folder / "mine.yaml").write_text(SUITE % variant)
    code: Any = 0
    try:
        main(["run", "--suite", "mine.yaml", "--device", "cpu", "--dry-run", *options])
    except SystemExit as ended:
        code = ended.code or 0
    return code, "".join(capsys.readouterr())


def test_run_imports_no_plug_in_into_its_own_process(folder: Path, capsys: Any) -> None:
    code, printed = dry_run(capsys, folder, "ends", "--plugin", "harmful")
    assert code == 2
    assert "crashed: ended with exit code 0" in printed and "while checking ends" in printed
    assert "Traceback" not in printed


def test_run_imports_no_installed_extension_into_its_own_process(
    folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from synthbench.run.extensions import REGISTRIES

    info = folder / "site" / "fine-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[synthbench.mixers]\nfine = installed:Fine\n")
    code = f"import os\nassert os.getpid() != {os.getpid()}\n{MODULE}"
    (folder / "site" / "installed.py").write_text(code)
    assert not has_installed_extensions()
    monkeypatch.syspath_prepend(folder / "site")
    assert has_installed_extensions()
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "_entry_points_read", False)
    ended, printed = dry_run(capsys, folder, "R")
    assert ended == 0, printed
    assert "fine takes up to 4 positions" in " ".join(printed.split())
    assert "installed" not in sys.modules
