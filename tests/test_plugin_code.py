"""The digest of a plug-in's code: what changes it, and where it is stored."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from synthbench.run.cell_runner import CellRunner
from synthbench.run.plugin_code import changed_plugins, plugin_code
from synthbench.run.progress import Silent
from synthbench.run.same_code import code_differences
from synthbench.suites.measure import Measure


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    modules = ("one_file", "package", "package.part", "helper", "parts", "parts.inner",
               "parts.outer", "foreign_to_all", "beside")  # fmt: skip
    for name in modules:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_a_module_has_the_digest_of_its_file(folder: Path) -> None:
    (folder / "one_file.py").write_text("a = 1")
    assert plugin_code(["one_file"]) == {}  # not imported
    __import__("one_file")
    (before,) = plugin_code(["one_file"]).values()
    (folder / "beside.py").write_text("b = 1")
    assert plugin_code(["one_file", "sys"]) == {"one_file": before}
    (folder / "one_file.py").write_text("a = 2")
    (after,) = plugin_code(["one_file"]).values()
    assert before != after
    (folder / "one_file.py").unlink()
    assert plugin_code(["one_file"]) == {}


def test_what_a_module_imports_from_its_folder_is_its_code_too(folder: Path) -> None:
    """Modules and packages, in turn; not what is installed below it, as in a .venv."""
    installed = folder / ".venv" / "site-packages"
    for place in (folder / "parts", installed):
        place.mkdir(parents=True)
    sys.path.append(str(installed))
    (folder / "one_file.py").write_text("import helper, foreign_to_all, json, numpy as np")
    caught = "try:\n    from . import inner\nexcept ImportError:\n    from parts import inner\n"
    (folder / "helper.py").write_text(caught)
    (folder / "parts" / "inner.py").write_text("from . import outer\nfrom .outer import a")
    files = [folder / "helper.py", *(folder / "parts" / f"{n}.py" for n in ("inner", "outer"))]
    unused, other = folder / "beside.py", installed / "foreign_to_all.py"
    for file in (files[-1], unused, other):
        file.write_text("a = 1")
    __import__("one_file"), __import__("beside")
    known = [plugin_code(["one_file"])]
    for file in files:
        file.write_text(file.read_text() + "  # changed")
        known.append(plugin_code(["one_file"]))
    assert len({each["one_file"] for each in known}) == 4
    for file in (unused, other):
        file.write_text("a = 2")
    assert plugin_code(["one_file", "beside"])["one_file"] == known[-1]["one_file"]


def test_an_installed_module_is_its_file_alone(folder: Path) -> None:
    installed = folder / "site-packages"
    installed.mkdir()
    sys.path.append(str(installed))
    (installed / "foreign_to_all.py").write_text("a = 1")
    (installed / "one_file.py").write_text("import foreign_to_all")
    __import__("one_file")
    before = plugin_code(["one_file"])
    (installed / "foreign_to_all.py").write_text("a = 2")
    assert plugin_code(["one_file"]) == before != {}


def test_a_package_has_the_digest_of_all_its_files(folder: Path) -> None:
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "part.py").write_text("a = 1")
    __import__("package")
    before = plugin_code(["package"])
    (folder / "package" / "part.py").write_text("a = 2")
    assert changed_plugins({"plugin_code": before}, {"plugin_code": plugin_code(["package"])}) == [
        "package"
    ]


def test_code_that_is_not_known_of_both_is_no_change() -> None:
    known, unknown = {"plugin_code": {"a": "1", "b": "1"}}, {"plugin_code": {"a": "1"}}
    assert changed_plugins(known, unknown) == changed_plugins(unknown, known) == []
    assert changed_plugins(known, {}) == changed_plugins({}, known) == []
    other = {"plugin_code": {"a": "2", "b": "1"}}
    assert code_differences(known, other) == ["the code of plug-in a"]


def test_the_environment_of_a_run_has_the_code_of_its_plugins() -> None:
    module = "tests.plugins.counting"
    runner = CellRunner(Measure(), "cpu", [module], Silent())
    try:
        runner.start(["torch"])
        __import__(module)
        assert runner.environment()["plugin_code"] == plugin_code([module])
    finally:
        runner.stop()
