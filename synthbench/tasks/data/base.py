"""What a data source is: named splits of examples, each with a digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from synthbench.mixers.base import Array
from synthbench.models.model import Model

Batches = Callable[[int, int], tuple[Array, Array]]


@dataclass(frozen=True)
class Split:
    """Examples of one kind: those to train on, or those to test with.

    `batch(examples, step)` returns the inputs as the model takes them, and the targets; the same
    step gives the same batch. `digest` is the SHA-256 of the data, or of what generates it.
    """

    digest: str
    batch: Batches


@dataclass(frozen=True)
class DataSource:
    """Where the examples of a task come from; subclass it to add one.

    A subclass is a frozen dataclass whose fields are its options, each with a default. It sets
    `name` and defines `splits`.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""

    def splits(self, model: Model, seq_len: int, seed: int) -> Mapping[str, Split]:
        """The splits `train` and `test` for a model; what is generated depends on the seed alone.

        Raises UnsupportedError where this source has nothing for such a model.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no splits()")


def digest_of(*facts: Any) -> str:
    """SHA-256 of what determines generated data."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
