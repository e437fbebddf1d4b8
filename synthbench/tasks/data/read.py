"""Read the splits of a data source, and check what came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress

from synthbench.errors import DataError, NotationError, quote
from synthbench.tasks.data.base import SPLITS, DataSource, Rows


def read_splits(source: DataSource, columns: Sequence[str], seed: int) -> dict[str, Rows]:
    """The splits `train` and `test` of a source, with exactly these columns.

    A row of `train` whose text in the first column is in `test` too is left out. Raises DataError
    for a split that is empty or has no such column, and NotationError for what no source may give.
    """
    given = source.splits(columns, seed)
    missing = [split for split in SPLITS if not isinstance(given.get(split), Rows)]
    if missing:
        raise NotationError(
            f"data source {source.name} gives {quote(list(given))}; it must give the splits "
            f"{' and '.join(SPLITS)}, each a synthbench.Rows"
        )
    found = {split: _chosen(source, split, given[split], columns) for split in SPLITS}
    found["train"] = _without(found["train"], set(found["test"].columns[columns[0]]), columns[0])
    if not len(found["train"]):
        raise DataError(
            f"data source {source.name}: every {columns[0]} of its split train is in its split "
            "test too; give different texts to train on"
        )
    return found


def _chosen(source: DataSource, split: str, rows: Rows, columns: Sequence[str]) -> Rows:
    """The rows with these columns alone."""
    where = f"data source {source.name}, split {split}"
    for name in columns:
        if name not in rows.columns:
            raise DataError(
                f"{where}: there is no column {name!r}; it has {', '.join(rows.columns) or 'none'}"
            )
    chosen: Mapping[str, Sequence[str]] = {name: rows.columns[name] for name in columns}
    lengths = {name: len(texts) for name, texts in chosen.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"{where}: its columns have different numbers of rows: {lengths}")
    if not lengths[columns[0]]:
        raise DataError(f"{where}: it is empty; give at least one row")
    for name, texts in chosen.items():
        for number, text in enumerate(texts, 1):
            if not is_text(text):
                raise DataError(f"{where}: row {number} of {name} is {quote(text)}, not a text")
    return Rows(chosen)


def _without(rows: Rows, texts: set[str], column: str) -> Rows:
    """The rows whose text in a column is none of `texts`."""
    keep = [text not in texts for text in rows.columns[column]]
    return Rows({name: list(compress(own, keep)) for name, own in rows.columns.items()})


def is_text(value: object) -> bool:
    """Whether a value is a str without halves of characters, which a JSON file may hold."""
    if not isinstance(value, str):
        return False
    return value.isascii() or not any("\ud800" <= one <= "\udfff" for one in value)
