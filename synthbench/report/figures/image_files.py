"""Vega-Lite pictures as files: the same picture gives the same bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from synthbench.errors import ResultsError

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"  # the first comes with the converter
PNG_SCALE = 2.0


def write_pictures(specs: Mapping[str, dict[str, Any]], folder: Path) -> list[Path]:
    """Each picture as SVG and PNG; the files written. ResultsError where they cannot be."""
    import vl_convert

    files: dict[str, bytes] = {}
    for name, spec in specs.items():
        svg = _numbered(vl_convert.vegalite_to_svg(spec))
        files |= {f"{name}.svg": svg.encode(), f"{name}.png": vl_convert.svg_to_png(svg, PNG_SCALE)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
    except OSError as error:
        raise ResultsError(
            f"cannot write pictures to {folder}: {error.strerror}; give another --out"
        ) from error
    return [folder / name for name in files]


def _numbered(svg: str) -> str:
    """The picture with its gradients numbered from 0: the converter counts on from the last."""
    names = dict.fromkeys(re.findall(r"gradient_\d+", svg))
    places = {name: str(place) for place, name in enumerate(names)}
    return re.sub(r"gradient_\d+", lambda match: f"gradient-{places[match[0]]}", svg)
