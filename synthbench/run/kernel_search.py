"""At which lengths the kernels of a mixer are timed, and what is taken for the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from synthbench.measure.kernel_choice import Offer
from synthbench.run_info import KernelChoice
from synthbench.suites.cell import Cell


@dataclass
class Search:
    """The choices for one mixer at several lengths, shortest first, while they are being made.

    The middle is timed, which is nearest to all, then the shortest, which takes least time, and the
    longest; then the middle of every two lengths at which different kernels win. What lies between
    two lengths with the same winner is not timed, unless `everywhere` is true.
    """

    cells: Sequence[Cell]
    offers: Sequence[Offer]
    found: dict[int, KernelChoice] = field(default_factory=dict)  # by place among the cells
    failed: set[int] = field(default_factory=set)
    long: set[int] = field(default_factory=set)  # places whose steps take too long to time them
    is_own: bool = True  # whether no plug-in's code was timed, which may change without a trace
    everywhere: bool = False  # whether each length is timed

    @property
    def known(self) -> list[int]:
        """The places at which it was tried."""
        return sorted({*self.found, *self.failed, *self.long})

    @property
    def wanted(self) -> list[int]:
        """The places to time next; none when all is known."""
        last = len(self.cells) - 1
        first = [place for place in dict.fromkeys((last // 2, 0, last)) if place not in self.known]
        if first:
            return first
        gaps = [(a, b) for a, b in pairwise(self.known) if b - a > 1]
        return [(a + b) // 2 for a, b in gaps if self.everywhere or not self._agree(a, b)]

    def fill(self, choices: Mapping[str, KernelChoice]) -> list[KernelChoice]:
        """Take these choices, by the id of their cell, where nothing is known; what was taken."""
        between = {choice.cell.id for choice in self.between()}
        taken = {
            place: choices[cell.id]
            for place, cell in enumerate(self.cells)
            if place not in self.known and cell.id in choices and cell.id not in between
        }
        self.found.update(taken)
        return list(taken.values())

    @property
    def untimed(self) -> int:
        """The number of places that are still to be timed, or lie beside such a one."""
        return len(self.cells) - len(self.known) - len(self.between()) if self.wanted else 0

    def between(self) -> list[KernelChoice]:
        """The choices for lengths between two that were timed, where the same kernel won."""
        return [
            taken_from(self.cells[place], self.found[a], self.found[b])
            for a, b in pairwise(self.known)
            if self._agree(a, b)
            for place in range(a + 1, b)
        ]

    @property
    def choices(self) -> list[KernelChoice]:
        """All that this search has: what was timed, and what other lengths take of it."""
        return [*self.found.values(), *self.between(), *self.nearest()]

    def nearest(self) -> list[KernelChoice]:
        """The choices for the rest: the kernel of the nearest length, the longer one of two.

        There is none where a length failed, or where its form lacks that kernel.
        """
        done = {choice.cell.id for choice in (*self.found.values(), *self.between())}
        made = []
        for place, cell in enumerate(self.cells):
            if place in self.failed or cell.id in done or not self.found:
                continue
            near = self.found[min(self.found, key=lambda other: (abs(other - place), -other))]
            if any(near.chosen.is_like(kernel) for kernel in self.offers[place].kernels):
                made.append(taken_from(cell, near))
        return made

    def _agree(self, a: int, b: int) -> bool:
        low, high = self.found.get(a), self.found.get(b)
        return low is not None and high is not None and low.chosen == high.chosen


def taken_from(cell: Cell, *choices: KernelChoice) -> KernelChoice:
    """The choice for a cell that was not timed itself: that of others with the same kernels."""
    like = [place for choice in choices for place in choice.like or [_place(choice.cell, cell)]]
    warnings = dict.fromkeys(warning for choice in choices for warning in choice.warnings)
    return KernelChoice(
        cell=cell, chosen=choices[0].chosen, compared=choices[0].compared, like=like,
        warnings=list(warnings),
    )  # fmt: skip


def _place(timed: Cell, cell: Cell) -> str:
    batch = f", batch {timed.batch}" if timed.batch != cell.batch else ""
    return f"{timed.variant} at {timed.seq_len}{batch}"
