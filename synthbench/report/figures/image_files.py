"""Vega-Lite figures as SVG and PNG files; the same figure always gives the same bytes."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from synthbench.errors import ResultsError
from synthbench.printable import one_line

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"  # the converter includes the first
PNG_SCALE = 2.0


def make_folder(folder: Path) -> None:
    """Make a folder for figures; raises ResultsError unless files can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _not_written(folder, error) from error


def write_figures(specs: Mapping[str, dict[str, Any]], folder: Path) -> list[Path]:
    """Write each figure as SVG and PNG; return the files.

    Raises ResultsError if they cannot be written.
    """
    import vl_convert

    files: dict[str, bytes] = {}
    for name, spec in specs.items():
        svg = svg_text(spec)
        files |= {f"{name}.svg": svg.encode(), f"{name}.png": vl_convert.svg_to_png(svg, PNG_SCALE)}
    make_folder(folder)
    try:
        for name, data in files.items():
            (folder / name).write_bytes(data)
    except OSError as error:
        raise _not_written(folder, error) from error
    return [folder / name for name in files]


def _not_written(folder: Path, error: OSError) -> ResultsError:
    return ResultsError(
        f"cannot write figures to {folder}: {error.strerror}; choose another folder with --out"
    )


def svg_text(spec: dict[str, Any]) -> str:
    """A figure as SVG."""
    import vl_convert

    return _renumber_gradients(vl_convert.vegalite_to_svg(_printable(spec)))


def _printable(part: Any) -> Any:
    """The figure with its texts free of what an SVG file cannot contain."""
    if isinstance(part, dict):
        return {name: _printable(value) for name, value in part.items()}
    if isinstance(part, list):
        return list(map(_printable, part))
    return one_line(part) if isinstance(part, str) else part


def _renumber_gradients(svg: str) -> str:
    """The figure with gradients numbered from 0; the converter continues from the last figure."""
    names = dict.fromkeys(re.findall(r"gradient_\d+", svg))
    numbers = {name: str(number) for number, name in enumerate(names)}
    return re.sub(r"gradient_\d+", lambda match: f"gradient-{numbers[match[0]]}", svg)
