"""Checkpoints with wrong contents: one message, nothing is executed, nothing huge is read."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from synthbench.checkpoint import CELL, read_checkpoint, write_checkpoint
from synthbench.errors import ResultsError, SynthbenchError
from synthbench.mixers.base import Array
from synthbench.models.start_values import start_values
from synthbench.suites.cell import Cell, model_of

ASKED = Cell.from_flat(
    variant="R", framework="torch", mode="forward", seq_len=4, batch=1, model="mixer", d_model=4,
    heads=1, max_len=4, compile="eager",
)  # fmt: skip
START = start_values(model_of(ASKED).parameters(), 0)
NAME = next(iter(START))


class Trap:
    """A pickle that would write a file if it were loaded."""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return Path.touch, (Path("executed"),)  # type: ignore[return-value]


def npz(**changes: object) -> bytes:
    """A checkpoint in which some entries are changed; None leaves one out."""
    content: dict[str, object] = {CELL: np.array(ASKED.model_dump_json()), **START, **changes}
    made = io.BytesIO()
    np.savez_compressed(made, **{k: v for k, v in content.items() if v is not None})  # type: ignore[arg-type]
    return made.getvalue()


def changed(array: Array, value: float) -> Array:
    copy = array.copy()
    copy.flat[-1] = value
    return copy


def huge(dtype: str) -> bytes:
    """A small file that declares an array of a terabyte."""
    made, header = io.BytesIO(npz(**{NAME: None})), io.BytesIO()
    declared = {"descr": dtype, "fortran_order": False, "shape": START[NAME].shape}
    if dtype == "<f4":
        declared["shape"] = (2**38,)
    np.lib.format.write_array_header_1_0(header, declared)
    with zipfile.ZipFile(made, "a") as file:
        file.writestr(f"{NAME}.npy", header.getvalue())
    return made.getvalue()


def raw(cell: object) -> bytes:
    return npz(**{CELL: np.array(json.dumps(cell))})


CONTENT = ASKED.model_dump(mode="json")
WHOLE = npz()
ARRAY = io.BytesIO()
np.save(ARRAY, START[NAME])
WRONG = {
    "empty": (b"", "is not a checkpoint of synthbench"),
    "text": (b"a: b\n", "is not a checkpoint of synthbench"),
    "pickle": (pickle.dumps(Trap()), "is not a checkpoint of synthbench"),
    "one array": (ARRAY.getvalue(), "is not a checkpoint of synthbench"),
    "truncated": (WHOLE[: len(WHOLE) // 2], "is not a checkpoint of synthbench"),
    "without its end": (WHOLE[:-5], "is not a checkpoint of synthbench"),
    "objects": (npz(**{NAME: np.array([Trap()], dtype=object)}), "is not a checkpoint"),
    "no cell": (npz(**{CELL: None}), "is not a checkpoint of synthbench"),
    "a cell of objects": (npz(**{CELL: np.array(Trap(), dtype=object)}), "is not a checkpoint"),
    "a cell that is a number": (npz(**{CELL: np.array(3)}), "is not a checkpoint"),
    "a list": (raw([]), "is not a checkpoint of synthbench"),
    "half a cell": (raw({"variant": "V"}), "is not a checkpoint of synthbench"),
    "deep": (npz(**{CELL: np.array("[" * 10**5)}), "is not a checkpoint of synthbench"),
    "digits": (npz(**{CELL: np.array("9" * 5000)}), "is not a checkpoint of synthbench"),
    "long": (npz(**{CELL: np.array(" " * 2**20)}), "is too long"),
    "unknown variant": (raw(CONTENT | {"variant": "nope"}), "'nope' not known"),
    "a missing array": (npz(**{NAME: None}), f"{NAME}: not as declared by its model"),
    "an array too many": (npz(more=np.zeros(3)), "more: not as declared by its model"),
    "another shape": (npz(**{NAME: START[NAME][..., :-1]}), f"{NAME}: not as declared"),
    "not a number": (npz(**{NAME: changed(START[NAME], np.nan)}), "not all values are finite"),
    "infinite": (npz(**{NAME: changed(START[NAME], np.inf)}), "not all values are finite"),
    "texts": (npz(**{NAME: START[NAME].astype(str)}), "not all values are finite numbers"),
    "complex": (npz(**{NAME: START[NAME].astype(complex)}), "not all values are finite numbers"),
    "huge": (huge("<f4"), "holds objects, or less than it declares"),
    "huge items": (huge("<U268435456"), "holds objects, or less than it declares"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_checkpoint_is_one_message(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content, part = WRONG[kind]
    Path("a.npz").write_bytes(content)
    with pytest.raises(SynthbenchError) as caught:
        read_checkpoint(Path("a.npz"))
    assert part in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_damage_in_the_middle_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_checkpoint(path, ASKED, START)
    content = bytearray(path.read_bytes())
    for place in range(40, len(content), 97):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        with contextlib.suppress(SynthbenchError):
            _, parameters = read_checkpoint(path)  # some bytes say nothing of the content
            assert all(np.array_equal(parameters[name], START[name]) for name in START)


def test_a_whole_checkpoint_is_read_back(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "a.npz", ASKED, START)
    cell, parameters = read_checkpoint(tmp_path / "a.npz")
    assert cell == ASKED
    assert parameters.keys() == START.keys()
    assert all(np.array_equal(parameters[name], START[name]) for name in START)


def test_a_checkpoint_stays_until_another_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.npz"
    write_checkpoint(path, ASKED, START)

    def interrupted(file: IO[bytes], **content: Array) -> None:
        file.write(WHOLE[:100])
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_checkpoint(path, ASKED, START)
    assert read_checkpoint(path)[0] == ASKED
    assert [*tmp_path.iterdir()] == [path]


def test_machines_that_keep_a_cell_at_the_same_time_leave_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One begins and ends while the other writes; the last to end is what is there."""
    path, real = tmp_path / "a.npz", np.savez_compressed

    def slow(file: Any, **content: Any) -> None:
        whole = io.BytesIO()
        real(whole, **content)
        half = len(whole.getvalue()) // 2
        file.write(whole.getvalue()[:half])
        file.flush()
        monkeypatch.setattr(np, "savez_compressed", real)
        write_checkpoint(path, ASKED.changed(seed=1), START)
        file.write(whole.getvalue()[half:])

    monkeypatch.setattr(np, "savez_compressed", slow)
    write_checkpoint(path, ASKED, START)
    assert read_checkpoint(path)[0] == ASKED
    assert list(tmp_path.iterdir()) == [path]


def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: Any, **content: Any) -> None:
        file.write(b"begun")
        raise OSError(errno.ENOSPC, "no space left on device")

    path = tmp_path / "a.npz"
    write_checkpoint(path, ASKED, START)
    with monkeypatch.context() as patch:
        patch.setattr(np, "savez_compressed", fail)
        with pytest.raises(ResultsError, match="no space left"):
            write_checkpoint(path, ASKED, START)
    assert read_checkpoint(path)[0] == ASKED
    assert list(tmp_path.iterdir()) == [path]
