"""Parameters on disk: an .npz file that also says which model they belong to."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from synthbench.errors import ResultsError, SynthbenchError
from synthbench.mixers.base import Array
from synthbench.suites.cell import Cell, model_of

CELL = "__cell__"


def write_checkpoint(path: Path, cell: Cell, parameters: Mapping[str, Array]) -> None:
    """Write the parameters of a cell's model; raises ResultsError if that fails."""
    content = {CELL: np.array(cell.model_dump_json()), **parameters}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            np.savez_compressed(file, **content)  # type: ignore[arg-type]
    except OSError as error:
        raise ResultsError(f"cannot write {path}: {error.strerror}") from error


NOT_READABLE = (
    OSError, EOFError, KeyError, ValueError, RecursionError, NotImplementedError, ValidationError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def read_checkpoint(path: Path) -> tuple[Cell, dict[str, Array]]:
    """The cell and the parameters of a checkpoint.

    Raises ResultsError for a file that is not one, or whose parameters are not those of its model.
    """
    try:
        with np.load(path, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        cell = Cell.model_validate(json.loads(str(arrays.pop(CELL))))
    except NOT_READABLE as error:
        raise ResultsError(
            f"{path} is not a checkpoint of synthbench (an .npz that `synthbench inspect` wrote): "
            f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        ) from error
    try:
        declared = {name: p.shape for name, p in model_of(cell).parameters().items()}
    except SynthbenchError as error:
        raise ResultsError(f"{path}: its model cannot be built: {error}") from error
    held = {name: array.shape for name, array in arrays.items()}
    if held != declared:
        names = sorted(name for name in declared | held if declared.get(name) != held.get(name))
        raise ResultsError(
            f"{path}: {', '.join(names[:3])}: not as declared by its model ({cell.variant}, "
            f"{cell.model.kind})"
        )
    for name, array in arrays.items():
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ResultsError(
                f"{path}: {name} holds {array.dtype} values that are not all finite decimals; "
                "write the checkpoint again with `synthbench inspect`"
            )
    return cell, arrays
