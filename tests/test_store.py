"""Runs on disk: what is written is read back, and damage costs no other record."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from synthbench import store
from synthbench.errors import ResultsError
from synthbench.record import SCHEMA_VERSION, Record, latest, next_attempts
from synthbench.run_files import locked
from synthbench.run_info import RunInfo
from synthbench.store import (
    DAMAGED,
    INFO,
    RECORDS,
    append_record,
    create_run,
    list_runs,
    read_info,
    read_records,
    read_run,
    set_damage_aside,
    write_info,
)
from synthbench.suites.cell import Cell


def info() -> RunInfo:
    return RunInfo(suite="mine", settings={"baseline": "V"}, device="cpu", started="2026-01-01")


def record(number: int) -> Record:
    cell = Cell.from_flat(
        variant="V", framework="torch", mode="forward", seq_len=number + 1, batch=1,
        model="mixer", d_model=8, heads=2, max_len=64, compile="eager",
    )  # fmt: skip
    return Record(id=cell.id, cell=cell, outcome="ok", started="2026-01-01", wall_seconds=1.5)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run with three records."""
    path = tmp_path / "results" / "mine" / "first"
    create_run(path, info())
    for number in range(3):
        append_record(path, record(number))
    return path


def test_what_is_written_is_read_back(run_dir: Path) -> None:
    run = read_run(run_dir)
    assert run.info == info()
    assert run.records == [record(number) for number in range(3)]
    assert run.damaged == []
    assert read_records(run_dir) == run.records


def test_each_record_is_one_line_and_synced(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    original = os.fsync

    def sync(fd: int) -> None:
        synced.append(fd)
        original(fd)

    monkeypatch.setattr(os, "fsync", sync)
    append_record(run_dir, record(3))
    assert len(synced) == 1
    assert len((run_dir / RECORDS).read_bytes().splitlines()) == 4


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_half_written_last_line_is_told_and_set_aside(run_dir: Path, cut: int) -> None:
    path = run_dir / RECORDS
    content = path.read_bytes()
    path.write_bytes(content + record(3).model_dump_json().encode()[:cut])
    run = read_run(run_dir)
    assert run.records == [record(number) for number in range(3)]
    assert [damage.line for damage in run.damaged] == [4]
    assert "line 4 of records.jsonl is damaged" in str(run.damaged[0])

    assert set_damage_aside(run).damaged == []
    assert path.read_bytes() == content
    assert (run_dir / DAMAGED).read_bytes() == run.damaged[0].content + b"\n"
    append_record(run_dir, record(3))
    assert read_run(run_dir).records == [record(number) for number in range(4)]


def test_a_whole_last_record_without_its_newline_is_kept(run_dir: Path) -> None:
    path = run_dir / RECORDS
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    run = set_damage_aside(read_run(run_dir))
    append_record(run_dir, record(3))
    assert len(run.records) == 3
    assert read_run(run_dir).records == [record(number) for number in range(4)]
    assert not read_run(run_dir).damaged


@pytest.mark.parametrize(
    "line", [b"\xff\xfe", b"{}", b"[1]", b'{"id": 3}', b"null", b'{"schema_version": 2}']
)
def test_a_damaged_line_in_the_middle_loses_no_other(run_dir: Path, line: bytes) -> None:
    path = run_dir / RECORDS
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([lines[0], line, *lines[1:], b""]))
    run = read_run(run_dir)
    assert run.records == [record(number) for number in range(3)]
    assert [damage.line for damage in run.damaged] == [2]
    set_damage_aside(run)
    assert path.read_bytes().splitlines() == lines


def test_damage_is_added_to_what_was_set_aside_before(run_dir: Path) -> None:
    for line in (b"first", b"second"):
        with open(run_dir / RECORDS, "ab") as file:
            file.write(line)
        set_damage_aside(read_run(run_dir))
    assert (run_dir / DAMAGED).read_bytes() == b"first\nsecond\n"


def test_a_newer_schema_is_no_damage_but_an_error(run_dir: Path) -> None:
    newer = record(3).model_dump(mode="json") | {"schema_version": SCHEMA_VERSION + 1, "new": 1}
    with open(run_dir / RECORDS, "a") as file:
        file.write(json.dumps(newer) + "\n")
    with pytest.raises(ResultsError, match=f"schema {SCHEMA_VERSION + 1}.*update synthbench"):
        read_run(run_dir)


def test_an_older_schema_is_one_clear_message(run_dir: Path) -> None:
    older = record(3).model_dump(mode="json") | {"schema_version": SCHEMA_VERSION - 1}
    with open(run_dir / RECORDS, "a") as file:
        file.write(json.dumps(older) + "\n")
    with pytest.raises(ResultsError, match=r"older synthbench \(schema 1; .*measure it again"):
        read_run(run_dir)
    raw = json.loads((run_dir / INFO).read_text()) | {"schema_version": SCHEMA_VERSION - 1}
    (run_dir / INFO).write_text(json.dumps(raw))
    with pytest.raises(ResultsError, match="older synthbench"):
        read_info(run_dir)


def test_the_same_measurement_twice_names_both_lines(run_dir: Path) -> None:
    append_record(run_dir, record(1))
    with pytest.raises(ResultsError, match="lines 2 and 4 are both round 0 of cell"):
        read_run(run_dir)


def test_a_further_attempt_is_not_the_same_measurement(run_dir: Path) -> None:
    again = record(1).model_copy(update={"attempt": 1, "wall_seconds": 9.0})
    append_record(run_dir, again)
    records = read_run(run_dir).records
    assert len(records) == 4
    assert [r.attempt for r in latest(records)] == [0, 1, 0]


@pytest.mark.parametrize(
    ("first", "machine", "then", "counts"),
    [
        ("ok", "a", "timeout", 0),
        ("ok", "a", "ok", 1),
        ("ok", "a", "quarantined", 1),  # a result, which says that something is wrong
        ("ok", "b", "timeout", 1),  # the other cells of the shard are on b as well
        ("crashed", "a", "timeout", 1),
    ],
)
def test_a_failure_does_not_replace_numbers_of_its_machine(
    first: str, machine: str, then: str, counts: int
) -> None:
    one = record(1).model_copy(update={"outcome": first, "machine": "a"})
    other = one.model_copy(update={"outcome": then, "machine": machine, "attempt": 1})
    for both in ([one, other], [other, one]):  # jobs write to several files
        assert [r.attempt for r in latest(both)] == [counts]
        assert next_attempts(both) == {(one.id, 0): 2}


def test_an_id_that_is_not_that_of_its_cell_is_damage(run_dir: Path) -> None:
    raw = record(3).model_dump(mode="json") | {"id": "0123456789ab"}
    with open(run_dir / RECORDS, "a") as file:
        file.write(json.dumps(raw) + "\n")
    (damage,) = read_run(run_dir).damaged
    assert "id 0123456789ab is not that of its cell" in str(damage)


TIMING = {
    "build_seconds": 1, "compile_seconds": 1, "first_step_seconds": 1, "warmup_steps": 1,
    "samples": [1.0], "clock": "perf_counter",
}  # fmt: skip


@pytest.mark.parametrize(
    ("part", "content", "where"),
    [
        ("timing", TIMING | {"samples": [1.0, -1.0]}, "timing.samples.1"),
        ("timing", TIMING | {"build_seconds": -1}, "timing.build_seconds"),
        ("timing", TIMING | {"warmup_steps": -1}, "timing.warmup_steps"),
        ("flops", {"formula": -1, "traced": 1, "traced_tool": None}, "flops.formula"),
        ("memory", {"parameters": 1, "optimizer": 0, "batch": 1, "peak": -1, "method": ""},
         "memory.peak"),
        ("parameters", -1, "parameters"),
    ],
)  # fmt: skip
def test_values_that_are_not_possible_are_damage(
    run_dir: Path, part: str, content: object, where: str
) -> None:
    raw = record(3).model_dump(mode="json")
    raw["measurements"][part] = content
    with open(run_dir / RECORDS, "a") as file:
        file.write(json.dumps(raw) + "\n")
    run = read_run(run_dir)
    assert len(run.records) == 3
    assert where in run.damaged[0].problem


def test_a_newer_run_information_is_told(run_dir: Path) -> None:
    raw = json.loads((run_dir / INFO).read_text()) | {"schema_version": SCHEMA_VERSION + 1}
    (run_dir / INFO).write_text(json.dumps(raw))
    with pytest.raises(ResultsError, match="update synthbench"):
        read_info(run_dir)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"suite": 1}', b"\xff"])
def test_a_damaged_run_information_is_told(run_dir: Path, content: bytes) -> None:
    (run_dir / INFO).write_bytes(content)
    with pytest.raises(ResultsError, match=r"run\.json cannot be read"):
        read_run(run_dir)


def test_a_folder_that_is_not_empty_is_not_written_over(run_dir: Path) -> None:
    before = (run_dir / RECORDS).read_bytes()
    with pytest.raises(ResultsError, match=r"--resume.*--out"):
        create_run(run_dir, info())
    assert (run_dir / RECORDS).read_bytes() == before


@pytest.mark.parametrize("moment", ["folder", "half an information", "information"])
def test_a_run_whose_making_was_cut_short_can_be_made_or_gone_on_with(
    tmp_path: Path, moment: str
) -> None:
    path = tmp_path / "run"
    path.mkdir()
    if moment == "half an information":
        (path / f"{INFO}.new").write_text('{"suite": "mi')
    if moment == "information":
        create_run(path, info())
        (path / RECORDS).unlink()
        assert read_run(path).records == []
        assert set_damage_aside(read_run(path)).info == info()
    else:
        with pytest.raises(ResultsError, match="not a run"):
            read_run(path)
        create_run(path, info())
        assert {each.name for each in path.iterdir()} == {INFO, RECORDS}
    append_record(path, record(0))
    assert read_run(path).records == [record(0)]


def test_what_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="does not exist"):
        read_run(tmp_path / "nowhere")
    with pytest.raises(ResultsError, match=r"not a run: it has no run\.json"):
        read_run(tmp_path)
    with pytest.raises(ResultsError, match="contains no run"):
        read_records(tmp_path)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match=r"cannot create .*--out"):
        create_run(tmp_path / "file" / "run", info())


def test_a_denied_permission_is_told(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(fd: int) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "fsync", denied)
    with pytest.raises(ResultsError, match=r"cannot write .*Permission denied.*--out"):
        append_record(run_dir, record(3))


def test_one_process_at_a_time_writes_to_a_run(run_dir: Path) -> None:
    told = pytest.raises(ResultsError, match="another synthbench is writing")
    with locked(run_dir), told, locked(run_dir):
        pass
    with locked(run_dir):  # free again
        pass


def test_of_two_that_make_a_run_at_once_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    path.mkdir()
    with locked(path), pytest.raises(ResultsError, match="another synthbench is writing to"):
        create_run(path, info())
    assert list(path.iterdir()) == []
    require_new = store.require_new
    looked: list[Path] = []

    def overtaken(run_dir: Path) -> None:
        """The other one makes its run just after this one has found the folder empty."""
        require_new(run_dir)
        looked.append(run_dir)
        if len(looked) == 1:
            create_run(run_dir, info().model_copy(update={"started": "2025-12-31"}))

    monkeypatch.setattr(store, "require_new", overtaken)
    with pytest.raises(ResultsError, match="not empty; continue that run with --resume"):
        create_run(path, info())
    assert read_info(path).started == "2025-12-31"


def test_a_full_disk_is_told_and_costs_no_earlier_record(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        ResultsError, match=r"cannot write .*: No space left on device; give a fold"
    ):
        append_record(run_dir, record(3))
    with pytest.raises(ResultsError, match="No space left on device"):
        write_info(run_dir, info().model_copy(update={"finished": "2026-01-02"}))
    monkeypatch.undo()
    assert read_run(run_dir).records[:3] == [record(number) for number in range(3)]
    assert read_info(run_dir) == info()


def test_a_folder_that_is_no_run_is_not_offered_for_resuming(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ResultsError, match="is not empty and is not a run; give another --out"):
        create_run(tmp_path, info())


def test_runs_are_listed_and_loaded_together(run_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "results" / "mine" / "second"
    create_run(other, info())
    append_record(other, record(9))
    assert list_runs(tmp_path / "results") == [run_dir, other]
    assert list_runs(tmp_path / "nowhere") == []
    assert len(read_records(tmp_path / "results")) == 4
