"""How a comparison names a cell."""

from __future__ import annotations

from collections.abc import Iterable

from synthbench.report.data.grid import TWIN, Key
from synthbench.report.data.table import Column, Value


def variant_name(place: Key) -> str:
    """The variant; of the A/A twin with a mark."""
    return f"{place.variant} {TWIN}" if place.replica else place.variant


def place_name(place: Key, *, with_length: bool = True) -> str:
    """A cell in a sentence: torch train FR+V L=512, with its setting if it has one."""
    parts = [place.setting, place.framework, place.mode, variant_name(place)]
    return " ".join([*filter(None, parts), *[f"L={place.seq_len}"] * with_length])


def place_columns(places: Iterable[Key], *, with_length: bool = True) -> list[Column]:
    """The key columns of a table of cells; a column `setting` first if any place has one."""
    labels = ["setting"] * any(place.setting for place in places)
    labels += ["framework", "mode", "variant", *["L"] * with_length]
    return [Column(label, is_key=True) for label in labels]


def place_values(place: Key, columns: Iterable[Column]) -> tuple[Value, ...]:
    """The values of a place in these key columns."""
    values = {
        "setting": place.setting or "-",
        "framework": place.framework,
        "mode": place.mode,
        "variant": variant_name(place),
        "L": str(place.seq_len),
    }
    return tuple(values[column.label] for column in columns)
