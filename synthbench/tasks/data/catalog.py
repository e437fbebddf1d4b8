"""Every data source by name: the built-in ones in a literal dict, plug-ins as registered."""

from __future__ import annotations

from collections.abc import Mapping

from synthbench.errors import NotationError, quote
from synthbench.models.model import Model
from synthbench.registry import Registry
from synthbench.tasks.data.base import DataSource, Split
from synthbench.tasks.data.walks import Walks

DATA_SOURCES: dict[str, type[DataSource]] = {
    "walks": Walks,
}
SPLITS = ("train", "test")


def check_data_source(cls: type[DataSource]) -> None:
    """Raise NotationError unless a class has what a data source must have."""
    if cls.splits is DataSource.splits:
        raise NotationError(f"{cls.__name__} has no splits(); return the splits train and test")


DATA_SOURCE_REGISTRY: Registry[DataSource] = Registry(
    "data source",
    DataSource,
    DATA_SOURCES,
    group="synthbench.data_sources",
    page="docs/adding_a_data_source.md",
    check=check_data_source,
)


def splits_of(name: str, model: Model, seq_len: int, seed: int) -> Mapping[str, Split]:
    """The splits of a data source for a model.

    Raises UnknownNameError for an unknown name, NotationError where a split is missing.
    """
    source = DATA_SOURCE_REGISTRY.find(name)()
    found = source.splits(model, seq_len, seed)
    missing = [split for split in SPLITS if not isinstance(found.get(split), Split)]
    if missing:
        raise NotationError(
            f"data source {name} gives {quote(list(found))}; it must give the splits "
            f"{' and '.join(SPLITS)}, each a synthbench.Split"
        )
    return found
