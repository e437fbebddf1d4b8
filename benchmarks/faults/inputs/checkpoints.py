"""Files that `synthbench inspect` must not take for a checkpoint."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np

from benchmarks.faults.case import Case, Content
from benchmarks.faults.inputs.examples import CELL, changed
from synthbench.checkpoint import CELL as KEY
from synthbench.models.start_values import start_values
from synthbench.suites.cell import Cell, model_of

PARAMETERS = start_values(model_of(Cell.model_validate(CELL)).parameters(), 0)
FIRST = min(PARAMETERS)


def npz(**content: Any) -> bytes:
    """The bytes of an .npz file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **content)
    return buffer.getvalue()


def checkpoint(cell: Any, parameters: dict[str, Any]) -> bytes:
    """A checkpoint with this cell, as JSON unless it is a text, and these parameters."""
    text = cell if isinstance(cell, str) else json.dumps(cell)
    return npz(**{KEY: np.array(text), **parameters})


def zipped(**content: bytes) -> bytes:
    """The bytes of a zip file with these members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, member in content.items():
            file.writestr(name, member)
    return buffer.getvalue()


def _with(value: Any) -> dict[str, Any]:
    return {**PARAMETERS, FIRST: value}


SHAPE = PARAMETERS[FIRST].shape
GOOD = checkpoint(CELL, PARAMETERS)

FILES: dict[str, Content] = {
    "empty": b"",
    "a text": "hello",
    "NUL bytes": b"\0" * 1000,
    "an empty zip": zipped(),
    "a zip of texts": zipped(a=b"hello"),
    "a member that is not an array": zipped(**{f"{KEY}.npy": b"hello"}),
    "cut off": GOOD[:200],
    "cut off at its end": GOOD[:-40],
    "damaged in its middle": GOOD[:150] + b"\xff" * 60 + GOOD[210:],
    "an .npy file": b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3,)",
    "a pickle": b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x07nothing\x94.",
    "an array of objects": npz(**{KEY: np.array([{}], dtype=object)}),
    "no cell": npz(**PARAMETERS),
    "a cell that is a number": npz(**{KEY: np.array(3), **PARAMETERS}),
    "a cell that is not JSON": checkpoint("{", PARAMETERS),
    "a cell that is a list": checkpoint([], PARAMETERS),
    "a cell that is null": checkpoint(None, PARAMETERS),
    "a cell of deep lists": checkpoint("[" * 100_000, PARAMETERS),
    "a cell of 5000 digits": checkpoint('{"seed": ' + "9" * 5000 + "}", PARAMETERS),
    "a cell of an unknown variant": checkpoint(changed(CELL, "variant", "nonsense"), PARAMETERS),
    "a cell of an impossible variant": checkpoint(changed(CELL, "variant", "V+"), PARAMETERS),
    "a cell of another variant": checkpoint(changed(CELL, "variant", "R"), PARAMETERS),
    "a cell with heads 3": checkpoint(changed(CELL, "model.heads", 3), PARAMETERS),
    "a cell with too long an input": checkpoint(changed(CELL, "seq_len", 99), PARAMETERS),
    "a cell of a huge model": checkpoint(changed(CELL, "model.d_model", 2**40), PARAMETERS),
    "no parameters": checkpoint(CELL, {}),
    "a parameter too many": checkpoint(CELL, {**PARAMETERS, "extra": np.ones(3)}),
    "another shape": checkpoint(CELL, _with(np.ones(3, np.float32))),
    "texts as parameters": checkpoint(CELL, _with(np.full(SHAPE, "x"))),
    "complex parameters": checkpoint(CELL, _with(np.ones(SHAPE, np.complex64))),
    "integer parameters": checkpoint(CELL, _with(np.ones(SHAPE, np.int64))),
    "boolean parameters": checkpoint(CELL, _with(np.ones(SHAPE, np.bool_))),
    "NaN parameters": checkpoint(CELL, _with(np.full(SHAPE, np.nan, np.float32))),
    "infinite parameters": checkpoint(CELL, _with(np.full(SHAPE, np.inf, np.float32))),
    "dates as parameters": checkpoint(CELL, _with(np.full(SHAPE, "2026-01-01", "datetime64[D]"))),
    "a structured array": checkpoint(CELL, _with(np.zeros(SHAPE, [("a", "f4")]))),
}

CHECKPOINTS = [
    Case(
        "checkpoint", name, ("inspect", "wrong.npz", "--out", "pictures"), {"wrong.npz": content},
        says="wrong.npz",
    )
    for name, content in FILES.items()
]  # fmt: skip
