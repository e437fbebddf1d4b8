"""Parameters on disk: an .npz file that also says which model they belong to."""

from __future__ import annotations

import json
import math
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import numpy as np
from pydantic import ValidationError

from synthbench.errors import ResultsError, SynthbenchError
from synthbench.mixers.base import Array
from synthbench.run_files import BEING_WRITTEN
from synthbench.suites.cell import Cell, model_of

CELL = "__cell__"
SUFFIX = ".npy"
MOST_CELL_BYTES = 2**20
NOT_READABLE = (
    OSError, EOFError, KeyError, ValueError, ValidationError, RecursionError, MemoryError,
    NotImplementedError, RuntimeError, SyntaxError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def write_checkpoint(path: Path, cell: Cell, parameters: Mapping[str, Array]) -> None:
    """Write the parameters of a cell's model; raises ResultsError if that fails.

    What was there before stays until all is written.
    """
    content = {CELL: np.array(cell.model_dump_json()), **parameters}
    # Machines of a run may keep the same cell at once.
    temporary = path.with_name(uuid4().hex + BEING_WRITTEN)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as file:
                np.savez_compressed(file, **content)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ResultsError(f"cannot write {path}: {error.strerror}") from error


def read_checkpoint(path: Path) -> tuple[Cell, dict[str, Array]]:
    """The cell and the parameters of a checkpoint.

    Raises ResultsError for a file that is not one, or whose parameters are not those of its model.
    """
    try:
        with zipfile.ZipFile(path) as file:
            entries = {info.filename.removesuffix(SUFFIX): info for info in file.infolist()}
            if entries[CELL].file_size > MOST_CELL_BYTES:
                raise ValueError(f"its {CELL} is too long")
            cell = Cell.model_validate(json.loads(str(_read(file, entries.pop(CELL)))))
            declared = _declared(path, cell)
            held = {name: _shape(file, info) for name, info in entries.items()}
            wrong = sorted(n for n in declared | held if declared.get(n) != held.get(n))
            if wrong:
                raise ResultsError(
                    f"{path}: {', '.join(wrong[:3])}: not as declared by its model "
                    f"({cell.variant}, {cell.model.kind})"
                )
            arrays = {name: _read(file, info) for name, info in entries.items()}
    except NOT_READABLE as error:
        raise ResultsError(
            f"{path} is not a checkpoint of synthbench (an .npz that `synthbench inspect` wrote): "
            f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        ) from error
    for name, array in arrays.items():
        if not np.issubdtype(array.dtype, np.floating) or not np.isfinite(array).all():
            raise ResultsError(
                f"{path}: {name}: not all values are finite numbers; write the checkpoint again"
            )
    return cell, arrays


def _declared(path: Path, cell: Cell) -> dict[str, tuple[int, ...]]:
    try:
        return {name: p.shape for name, p in model_of(cell).parameters().items()}
    except SynthbenchError as error:
        raise ResultsError(f"{path}: its model cannot be built: {error}") from error


def _shape(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[int, ...]:
    """The shape of an array, without reading it: a small file may declare a huge one."""
    with file.open(info) as stream:
        version = np.lib.format.read_magic(stream)
        older = version == (1, 0)
        read = np.lib.format.read_array_header_1_0 if older else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize > info.file_size:
        raise ValueError(f"{info.filename} holds objects, or less than it declares")
    return tuple(shape)


def _read(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    _shape(file, info)
    with file.open(info) as stream:
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
    return array
