"""Kernels that were chosen on this machine are kept for later runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from synthbench.kernel import Kernel, Purpose
from synthbench.measure.kernel_cache import (
    CODE,
    cache_file,
    read_choices,
    store_choices,
)
from synthbench.measure.source import source_digest
from synthbench.run_info import KernelChoice
from tests.kernel_choices import FAST, SLOW, cell, choice


def test_choices_are_kept_until_something_decisive_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    environment = {"cpu": "one", "cores": [0, 1], "versions": {"torch": "1"}, "load": [3.0]}
    file = cache_file(environment)
    assert file.parent == tmp_path / "synthbench" / "kernels"
    assert cache_file(environment | {"load": [0.0]}) == file
    for name, value in (("cpu", "two"), ("versions", {"torch": "2"}), ("pinned_to", [0])):
        assert cache_file(environment | {name: value}) != file
    assert read_choices(file) == []
    store_choices(file, [choice(cell()), choice(cell(batch=2))])
    store_choices(file, [choice(cell(), SLOW)])
    kept = {found.cell.batch: found.chosen for found in read_choices(file)}
    assert kept == {1: SLOW, 2: FAST}
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert read_choices(cache_file(environment, Purpose.MODULES)) == []  # kept apart
    file.write_text("[{}")
    assert read_choices(file) == []


def test_a_change_of_the_code_makes_old_choices_void(tmp_path: Path) -> None:
    names = (
        "analysis/kernel_race.py", "analysis/paired_ratio.py", "backends/torch/forms.py",
        "kernel.py", "measure/allocator.py", "measure/kernel_choice.py", "measure/new_pages.py",
        "measure/timing.py", "mixers/dense.py", "models/stack.py",
    )  # fmt: skip
    decisive = [tmp_path / name for name in names]
    others = [tmp_path / "cli.py", tmp_path / "analysis" / "scaling.py"]
    for file in (*decisive, *others):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1")
    before = source_digest(CODE, tmp_path)
    for file in others:
        file.write_text("2")
    assert source_digest(CODE, tmp_path) == before
    for file in decisive:
        file.write_text("2")
        changed = source_digest(CODE, tmp_path)
        assert changed != before
        before = changed


def test_the_code_that_decides_is_where_it_is_looked_for() -> None:
    assert source_digest(CODE) != source_digest(CODE[1:])
    with pytest.raises(FileNotFoundError):
        source_digest(["measure/moved_away.py"])


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store_choices(tmp_path / "file" / "choices.json", [choice(cell())])


def test_a_disturbed_choice_never_replaces_a_sure_one(tmp_path: Path) -> None:
    def disturbed(chosen: Kernel) -> KernelChoice:
        return choice(cell(), chosen).model_copy(update={"warnings": ["another process"]})

    file = tmp_path / "choices.json"
    for stored, kept in [
        (disturbed(SLOW), disturbed(SLOW)),
        (disturbed(FAST), disturbed(FAST)),
        (choice(cell(), SLOW), choice(cell(), SLOW)),
        (disturbed(FAST), choice(cell(), SLOW)),
        (choice(cell(), FAST), choice(cell(), FAST)),
    ]:
        store_choices(file, [stored])
        assert read_choices(file) == [kept]
