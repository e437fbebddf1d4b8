"""Shards: cells that are compared with each other, and so must run on one machine."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from synthbench.suites.cell import COMPARED, Cell

# Within a shard, what the ratios to the baseline are taken across.
BY_BASELINE = tuple(name for name in COMPARED if name not in ("framework", "devices"))


@dataclass(frozen=True)
class Shard:
    """Cells that must be measured on the same machine, in some rounds or in all.

    Where rounds are spread over `parts` machines, the shard has the rounds `part`, `part` +
    `parts` and so on; another one has the same cells in other rounds.
    """

    cells: tuple[Cell, ...]
    part: int = 0
    parts: int = 1

    @property
    def name(self) -> str:
        """Derived from what its cells have in common, so the same in each plan; for file names."""
        content = _common(self.cells[0], COMPARED)
        if self.parts > 1:
            content += f" part {self.part} of {self.parts}"
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    @property
    def siblings(self) -> str:
        """Equal for the shards that have the same cells, in other rounds."""
        return self.cells[0].id

    def has_round(self, number: int) -> bool:
        """Whether its cells are measured here in this round."""
        return number % self.parts == self.part


def split_into_shards(cells: Iterable[Cell], machines: int = 1) -> list[Shard]:
    """The cells in as many shards as possible, so that each comparison stays within one.

    `machines`: so many shards per group of compared cells, each with its own rounds.
    """
    return [
        Shard(group, part, machines)
        for group in grouped(cells, COMPARED)
        for part in range(machines)
    ]


def round_order(cells: Sequence[Cell], seed: int, round_number: int) -> list[Cell]:
    """The cells in the order of one round: shuffled, the same for the same seed.

    Cells between which ratios are taken follow each other in a shuffled order, so that a machine
    that drifts over minutes takes the baseline with it; these groups are shuffled too.
    """
    shuffled = random.Random(f"{seed}:{round_number}")
    groups = [list(group) for group in grouped(cells, BY_BASELINE)]
    shuffled.shuffle(groups)
    for group in groups:
        shuffled.shuffle(group)
    return list(chain.from_iterable(groups))


def grouped(cells: Iterable[Cell], apart: Sequence[str]) -> list[tuple[Cell, ...]]:
    """Cells that differ in nothing but the fields `apart`, in order of appearance."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(_common(cell, apart), []).append(cell)
    return [tuple(group) for group in groups.values()]


def _common(cell: Cell, apart: Sequence[str]) -> str:
    """All of a cell but the fields `apart`, as text."""
    content = {name: value for name, value in cell.flat().items() if name not in apart}
    return json.dumps(content, sort_keys=True, default=str)
