"""Which changes of a suite keep a run from being continued."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from synthbench.errors import ResultsError
from synthbench.run.progress import Silent
from synthbench.run.resume import add_machine, changed_settings, continue_run, require_own
from synthbench.run_info import Machine, RunInfo
from synthbench.store import create_run, read_info
from tests.kernel_choices import cell, choice
from tests.test_kernel_search import Notes
from tests.test_runner import plan


def begun(folder: Path, **settings: Any) -> Path:
    """A run of `plan("V", "R")` without records, with some of its settings replaced."""
    content = plan("V", "R").settings.model_dump(mode="json")
    for name, value in settings.items():
        content["measure"][name] = value
    info = RunInfo(suite="mine", settings=content, device="cpu", started="2026-01-01T00:00:00")
    create_run(folder / "run", info)
    return folder / "run"


def test_the_same_settings_are_not_a_change(tmp_path: Path) -> None:
    require_own(plan("V", "R"), begun(tmp_path))
    require_own(plan("V", "R"), tmp_path / "nothing")


def test_force_may_be_added(tmp_path: Path) -> None:
    require_own(plan("V", "R"), begun(tmp_path, force=True))


def test_a_setting_that_is_newer_than_the_run_is_not_a_change() -> None:
    settings = plan("V", "R").settings
    content = settings.model_dump(mode="json")
    del content["margin"], content["measure"]["precision"]
    assert changed_settings(content, settings) == {}
    content["measure"]["gone"] = 3  # of a version whose settings cannot be read any more
    assert changed_settings(content, settings).keys() == {
        "margin", "measure.precision", "measure.gone",
    } - {"measure.precision"}  # whose default is no value  # fmt: skip


def test_changed_settings_are_refused_with_their_keys(tmp_path: Path) -> None:
    run_dir = begun(tmp_path, rounds=3, min_samples=5)
    with pytest.raises(ResultsError) as caught:
        require_own(plan("V", "R", "FR"), run_dir)
    message = str(caught.value)
    assert "axes.variant was ['V', 'R'] and is ['V', 'R', 'FR']" in message
    assert "measure.rounds was 3 and is 1; measure.min_samples was 5 and is 3." in message
    assert "--allow-changed" in message
    assert "\n" not in message
    require_own(plan("V", "R", "FR"), run_dir, allow_changed=True)


def test_changes_that_are_allowed_are_recorded(tmp_path: Path) -> None:
    run_dir = begun(tmp_path, rounds=3)
    assert continue_run(plan("V", "R"), run_dir, Silent()) == []
    info = read_info(run_dir)
    assert info.settings["measure"]["rounds"] == 1
    assert info.resumed[0]["changed"] == ["measure.rounds"]
    assert info.resumed[0]["settings_before"]["measure"]["rounds"] == 3


def test_what_was_known_of_a_machine_stays(tmp_path: Path) -> None:
    """Its environment is that in which the run began; choices of kernels are added."""
    run_dir = begun(tmp_path)
    one, other = choice(cell(variant="V")), choice(cell(variant="R"))
    for memory, chosen in ((1, [one]), (2, [other])):
        machine = Machine(id="a", environment={"memory": memory}, choices=chosen)
        add_machine(run_dir, machine, Silent())
    (known,) = read_info(run_dir).machines
    assert (known.environment, known.choices) == ({"memory": 1}, [one, other])


def test_a_change_of_code_is_told_once_in_each_call(tmp_path: Path) -> None:
    """A place stores its machine several times: with ceilings, choices, and for each round."""
    run_dir, notes = begun(tmp_path), Notes()

    def measured(code: str, cpu: str) -> None:
        environment = {"plugin_code": {"mine": code}, "cpu": cpu}
        add_machine(run_dir, Machine(id="a", environment=environment), notes)

    measured("1", "old")
    for code in ("1", "2"):
        continue_run(plan("V", "R"), run_dir, Silent())
        for _ in range(3):
            measured(code, "new")
    cpu = "cpu differs from when this run began: old -> new"
    code = "the code of mine has changed since this run began, and its records are of the code"
    assert notes.notes[:2] == [cpu, cpu]
    (told,) = notes.notes[2:]
    assert told.startswith(code)
    assert read_info(run_dir).resumed[-1]["environment"]["plugin_code"] == {"mine": "2"}


def test_other_code_of_synthbench_is_told_and_stored(tmp_path: Path) -> None:
    """Its records are then of two codes, which a mixer's speed may depend on."""
    run_dir, notes = begun(tmp_path), Notes()
    for code, commit in (("1", "a" * 40), ("2", "b" * 40)):
        environment = {"code_sha256": code, "git": {"commit": commit, "dirty": code == "2"}}
        continue_run(plan("V", "R"), run_dir, Silent())
        add_machine(run_dir, Machine(id="a", environment=environment), notes)
    (told,) = notes.notes
    assert told.startswith(
        "the code of synthbench has changed since this run began (aaaaaaaaaaaa -> bbbbbbbbbbbb "
        "with changes), and its records are of the code before"
    )
    before, after = read_info(run_dir).resumed
    assert "environment" not in before and after["environment"]["code_sha256"] == "2"


def test_another_device_is_a_change(tmp_path: Path) -> None:
    """Its cells are others: all of them would be measured again, beside the records there are."""
    run_dir, other = begun(tmp_path), plan("V", "R", device="cuda:1")
    with pytest.raises(ResultsError) as caught:
        require_own(other, run_dir)
    message = str(caught.value)
    assert "began on cpu, and this call measures on cuda:1" in message
    assert "write --device cpu" in message and "--allow-changed" in message
    require_own(other, run_dir, allow_changed=True)


def test_a_device_that_is_allowed_to_change_is_recorded_and_told(tmp_path: Path) -> None:
    run_dir, watcher = begun(tmp_path), Notes()
    assert continue_run(plan("V", "R", device="cuda:1"), run_dir, watcher) == []
    info = read_info(run_dir)
    assert info.device == "cuda:1"
    assert (info.resumed[0]["changed"], info.resumed[0]["device_before"]) == (["device"], "cpu")
    assert "settings_before" not in info.resumed[0]
    assert watcher.notes[0].startswith("this run began on cpu, and continues on cuda:1")
