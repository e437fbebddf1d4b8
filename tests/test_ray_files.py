"""What travels between a node of a Ray cluster and the folder of a run."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from synthbench.record import Outcome, now
from synthbench.run.cell_runner import record_of
from synthbench.run.executors import ray_files
from synthbench.run.executors.ray_files import (
    CellFile,
    NodeFolder,
    files_for,
    forget_state,
)
from synthbench.run.folders import CHECKPOINTS, IN_PROGRESS, folder_of
from synthbench.run.job import Reply
from synthbench.suites.cell import Cell
from synthbench.tasks.learning.saved_state import NAME

KIND = "a kind"  # of machines
CELL = Cell.from_flat(
    variant="V", framework="torch", task="mqar", mode="train", seq_len=8, batch=2, compile="eager",
    model="decoder", d_model=8, heads=2, max_len=8, vocabulary=16,
)  # fmt: skip


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeFolder:
    (tmp_path / "node").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "node"))
    return NodeFolder()


def save(folder: Path, content: bytes) -> None:
    """Replace a state as a training does."""
    path = folder_of(folder, CELL, 0, KIND) / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".new").write_bytes(content)
    os.replace(path.with_suffix(".new"), path)


def test_each_saved_state_is_sent_once(node: NodeFolder) -> None:
    assert not list(node.saved_states())
    for content in (b"one", b"two"):
        save(node.path, content)
        (file,) = node.saved_states()
        path = folder_of(node.path, CELL, 0, KIND) / NAME
        assert (file.content, node.path / file.path) == (content, path)
        assert not list(node.saved_states())


def test_the_next_place_receives_the_last_state(node: NodeFolder, tmp_path: Path) -> None:
    run = tmp_path / "run"
    for content in (b"one", b"two"):
        save(node.path, content)
        for file in node.saved_states():
            file.write(run)
    next_node = NodeFolder()
    next_node.receive(iter(files_for(run, CELL, 0, KIND)))
    assert (folder_of(next_node.path, CELL, 0, KIND) / NAME).read_bytes() == b"two"
    assert not list(next_node.saved_states()), "what was received need not be sent back"
    next_node.receive(iter(()))
    assert not folder_of(next_node.path, CELL, 0, KIND).exists()


def test_a_state_is_of_one_round_and_one_kind_of_machine(tmp_path: Path) -> None:
    save(tmp_path, b"one")
    assert len(files_for(tmp_path, CELL, 0, KIND)) == 1
    assert not files_for(tmp_path, CELL, 1, KIND)
    assert not files_for(tmp_path, CELL, 0, "another kind")


def test_a_run_that_is_killed_while_it_keeps_a_state_mixes_no_kinds_of_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, b"of one")
    path = folder_of(tmp_path, CELL, 0, "another kind") / NAME
    file = CellFile(str(path.relative_to(tmp_path)), b"of another", 10)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            file.write(tmp_path)
    assert not files_for(tmp_path, CELL, 0, "another kind")
    assert [file.content for file in files_for(tmp_path, CELL, 0, KIND)] == [b"of one"]


def test_kept_parameters_are_sent_when_their_cell_has_ended(node: NodeFolder) -> None:
    assert not list(node.kept_parameters(CELL))
    path = node.path / CHECKPOINTS / f"{CELL.id}.npz"
    path.parent.mkdir()
    path.write_bytes(b"parameters")
    assert not list(node.saved_states())
    (file,) = node.kept_parameters(CELL)
    assert file == CellFile(f"{CHECKPOINTS}/{CELL.id}.npz", b"parameters", 10)


def test_what_is_too_large_is_not_sent(
    node: NodeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_files, "MOST_BYTES", 2**20)
    save(node.path, bytes(2**20))
    (file,) = node.saved_states()
    assert file.content is not None
    assert file.problem == ""
    save(node.path, bytes(3 * 2**20))
    (file,) = node.saved_states()
    assert file.content is None
    assert file.problem == (
        "a saved state has 3 MiB, and at most 1 MiB are sent: if its worker dies, that training "
        "begins anew"
    )
    file.write(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("outcome", "kept"), [("ok", False), ("timeout", True)])
def test_a_state_is_kept_as_long_as_its_cell_can_go_on(
    outcome: Outcome, kept: bool, tmp_path: Path
) -> None:
    save(tmp_path, b"one")
    forget_state(tmp_path, record_of(CELL, 0, now(), Reply(outcome)))
    assert (tmp_path / IN_PROGRESS).exists() == kept


def test_folders_of_killed_processes_are_removed(node: NodeFolder) -> None:
    abandoned = NodeFolder()
    os.close(abandoned._lock)  # as the kernel does for a process that was killed
    third = NodeFolder()
    assert not abandoned.path.exists()
    assert node.path.exists()
    assert third.path.exists()
