"""Runs that are damaged: each is named in one line, and the others are still processed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from synthbench.errors import ResultsError
from synthbench.report.paper.measured import Measured
from synthbench.store import INFO, RECORDS, append_record, list_runs, read_info, read_run
from tests.command_line import Captured, cell, made_run, refused, synthbench
from tests.test_tables import record

Damage = Callable[[Path], object]


def twice(run: Path) -> None:
    (run / RECORDS).write_text((run / RECORDS).read_text() * 2)


def as_pipe(name: str) -> Damage:
    def damage(run: Path) -> None:
        (run / name).unlink()
        os.mkfifo(run / name)

    return damage


def as_device(name: str) -> Damage:
    def damage(run: Path) -> None:
        (run / name).unlink()
        (run / name).symlink_to("/dev/zero")

    return damage


def as_folder(name: str) -> Damage:
    def damage(run: Path) -> None:
        (run / name).unlink()
        (run / name).mkdir()

    return damage


DAMAGES: dict[str, Damage] = {
    "no JSON": lambda run: (run / INFO).write_text("{"),
    "another type": lambda run: (run / INFO).write_text('{"suite": 3}'),
    "digits": lambda run: (run / INFO).write_text('{"suite": ' + "9" * 5000 + "}"),
    "the same twice": twice,
    **{f"{name} is a pipe": as_pipe(name) for name in (INFO, RECORDS)},
    **{f"{name} is a device": as_device(name) for name in (INFO, RECORDS)},
    **{f"{name} is a folder": as_folder(name) for name in (INFO, RECORDS)},
}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs; the second is the newer one."""
    monkeypatch.chdir(tmp_path)
    for name in ("1", "2"):
        made_run(Path("results/smoke") / name)
        append_record(Path("results/smoke") / name, record(cell("R")))
    return Path("results/smoke")


@pytest.mark.long_but("no JSON", "another type", "digits")
@pytest.mark.parametrize("kind", DAMAGES)
def test_one_damaged_run_does_not_stop_the_others(
    kind: str, capsys: Captured, results: Path
) -> None:
    DAMAGES[kind](results / "2")
    code, out, err = synthbench(capsys, "tables")
    assert (code, out) == (1, "results/smoke/1/tables\n")
    assert len(err.splitlines()) == 1
    assert "smoke/2" in err
    code, out, err = synthbench(capsys, "tables", "--check")
    assert (code, out) == (1, "")
    assert [line for line in err.splitlines() if "smoke/2" in line] == [err.splitlines()[0]]
    assert err.splitlines()[1:] == ["the tables of 1 of 2 runs could not be checked"]
    message = refused(capsys, "tables", "smoke/2", "--check")
    assert len(message.splitlines()) == 1
    assert "smoke/2" in message
    code, out, _ = synthbench(capsys, "list", "runs")
    assert code == 0
    assert out.splitlines()[1].startswith("smoke/1")


def test_a_damaged_run_does_not_hide_tables_that_differ(capsys: Captured, results: Path) -> None:
    synthbench(capsys, "tables")
    (results / "1" / "tables" / "cost.md").unlink()
    (results / "2" / INFO).write_text("{")
    code, out, err = synthbench(capsys, "tables", "--check")
    assert code == 1
    assert out.splitlines() == ["results/smoke/1/tables/cost.md: missing"]
    assert "1 files do not match" in err
    assert "1 of 2 runs could not be checked" in err


def test_the_newest_run_that_can_be_read_is_exported(capsys: Captured, results: Path) -> None:
    (results / "2" / INFO).write_text("{")
    for arguments in (["export"], ["export", "smoke"]):
        code, out, err = synthbench(capsys, *arguments, "--format", "csv")
        assert code == 0
        assert len(out.splitlines()) == 3
        assert "smoke/2/run.json cannot be read" in err.splitlines()[0]
        assert "results/smoke/1: 2 records exported" in err
    (results / "1" / INFO).write_text("{")
    message = refused(capsys, "export", "--format", "csv")
    assert "run.json cannot be read" in message


def test_the_tables_of_the_paper_pass_over_damaged_runs(capsys: Captured, results: Path) -> None:
    for name in ("1", "2"):
        found = Measured.find("smoke", Path("results")).run
        assert found is not None
        DAMAGES["no JSON" if name == "1" else "the same twice"](found.path)
    assert Measured.find("smoke", Path("results")).run is None
    code, out, err = synthbench(capsys, "tables", "--paper", "--format", "csv")
    assert code == 0
    assert out
    assert [line.partition(" ")[0] for line in err.splitlines()] == ["synthbench:"] * 2


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["settings", "axes"], 3), (["settings", "axes"], {"variant": "V"}),
        (["settings", "axes"], {"variant": [["V"]]}), (["settings", "margin"], "wide"),
        (["settings", "margin"], float("nan")), (["settings", "measure"], []),
        (["settings", "baseline"], {"a": 1}), (["machines", 0, "environment", "cores"], 8),
        (["machines", 0, "environment", "memory_bytes"], 10**400),
        (["machines", 0, "environment", "memory_bytes"], "8 GB"),
        (["machines", 0, "environment", "versions"], ["torch"]),
        (["machines", 0, "environment", "frameworks"], {"torch": "cpu"}),
        (["machines", 0, "environment", "git"], "abc"), (["machines", 0], 3), (["machines"], {}),
        (["resumed"], [3]), (["resumed"], [{"environment": 3}]), (["started"], None),
    ],
)  # fmt: skip
def test_a_wrong_type_in_run_json_is_named(
    path: list[Any], value: Any, capsys: Captured, results: Path
) -> None:
    run = results / "1"
    content = json.loads((run / INFO).read_text())
    content["machines"] = [{"id": "one", "environment": {"cpu": "a"}}]
    target = content
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    (run / INFO).write_text(json.dumps(content))
    with pytest.raises(ResultsError, match=rf"run\.json cannot be read .*{path[-1]}"):
        read_info(run)
    assert len(refused(capsys, "tables", str(run)).splitlines()) == 1


def test_what_else_run_json_holds_is_kept_as_it_is(results: Path) -> None:
    content = json.loads((results / "1" / INFO).read_text())
    environment = {"zeta": 1, "cpu": "a", "own": {"b": [2]}, "cores": [0]}
    content["machines"] = [{"id": "one", "environment": environment}]
    (results / "1" / INFO).write_text(json.dumps(content))
    read = read_info(results / "1").environment
    assert read == environment
    assert list(read) == list(environment)


@pytest.mark.parametrize("field", ["batch", "seed"])
def test_integers_that_tables_cannot_hold_are_damage(field: str, results: Path) -> None:
    large = record(cell()).model_dump(mode="json")
    large["cell"][field] = 2**63
    with (results / "1" / RECORDS).open("a") as file:
        file.write(json.dumps(large) + "\n")
    (damage,) = read_run(results / "1").damaged
    assert damage.problem.startswith(f"cell.{field}: Input should be less than")


@pytest.mark.parametrize("field", ["d_model", "vocabulary"])
def test_sizes_that_no_model_has_are_damage(field: str, results: Path) -> None:
    large = record(cell()).model_dump(mode="json")
    large["cell"]["model"][field] = 2**63
    with (results / "1" / RECORDS).open("a") as file:
        file.write(json.dumps(large) + "\n")
    (damage,) = read_run(results / "1").damaged
    assert field in damage.problem


def test_a_pipe_is_not_waited_for_when_records_are_written(results: Path) -> None:
    as_pipe(RECORDS)(results / "1")
    with pytest.raises(ResultsError, match="cannot write"):
        append_record(results / "1", record(cell("D")))


def test_a_results_folder_that_may_not_be_read_is_named(
    capsys: Captured, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Any) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("synthbench.store.os.scandir", denied)
    with pytest.raises(ResultsError, match="cannot read results: Permission denied"):
        list_runs("results")
    for command in (["tables"], ["list", "runs"], ["export", "--format", "csv"]):
        assert "Permission denied" in refused(capsys, *command)


@pytest.mark.parametrize("form", ["csv", "parquet", "pytest-benchmark"])
def test_an_export_into_a_folder_or_nowhere_is_one_line(
    form: str, capsys: Captured, results: Path, tmp_path: Path
) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    for out in (tmp_path, tmp_path / "no" / "file", Path("/dev/full")):
        code, printed, err = synthbench(
            capsys, "export", "smoke/1", "--format", form, "--out", str(out)
        )
        assert (code, printed) == (2, "")
        assert f"cannot write {out}: " in err
        assert len(err.splitlines()) == 1


def test_runs_behind_links_are_found_once(tmp_path: Path) -> None:
    """Also where a link leads back to the folder that it is in."""
    elsewhere = made_run(tmp_path / "disk" / "smoke" / "1")
    results = tmp_path / "results"
    (results / "smoke").mkdir(parents=True)
    (results / "smoke" / "one").symlink_to(elsewhere)
    (results / "smoke" / "again").symlink_to(results)
    assert list_runs(results) == [results / "smoke" / "one"]
