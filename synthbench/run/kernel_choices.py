"""The kernels of a run: chosen once, by timing, before its cells; then the same in every round.

The baseline comes first, at every length: its time is in each ratio. Of mixers whose kernels are
the same at all lengths, and do about the same work, one is timed first: its choice is for all, in
case the time runs out. In the time that is left the others are timed too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from synthbench.errors import SynthbenchError
from synthbench.kernel import Kernel
from synthbench.measure.core_distance import UsualDistance
from synthbench.measure.kernel_choice import (
    MOST_SECONDS,
    SECONDS,
    Offer,
    Timed,
    has_choice,
    raced_cell,
)
from synthbench.run.cell_words import describe
from synthbench.run.host_client import Host
from synthbench.run.kernel_search import Search
from synthbench.run.kernel_series import Series, by_length, groups_of, taken, taken_of_others
from synthbench.run.progress import Observer
from synthbench.run_info import KernelChoice
from synthbench.suites.cell import Cell

OFFERS = "synthbench.measure.kernel_choice:offers"
CHOOSE = "synthbench.measure.kernel_choice:choose_kernel"
LEAST_SECONDS = 1.0  # that a call may take, however little is left
# Of the time for all: how long one race may take, and two steps of each kernel of a cell, if that
# is more than usual.
RACE_SHARE = 1 / 2500
STEPS_SHARE = 1 / 60


NOTHING = Offer((), "")


class Made(NamedTuple):
    """Choices, and whether they may be kept for other runs."""

    choices: list[KernelChoice]
    is_own: bool


@dataclass
class Race:
    """How kernels are chosen: where, for how long, and who hears of it."""

    hosts: Mapping[str, Host]
    observer: Observer
    seconds: float  # for all choices together
    timeout_seconds: float  # for those of one mixer
    memory_bytes: int | None = None
    usual_distance: UsualDistance = field(default_factory=UsualDistance)  # of the machine's cores
    baseline: str = ""  # the variant that all others are compared with
    keep_memory: bool = True  # whether processes keep freed memory, as those of runs do
    begin: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return self.begin + self.seconds - time.monotonic()

    @property
    def race_seconds(self) -> float:
        """How long one race may take: more steps tell kernels apart that are nearly as fast."""
        return max(SECONDS, RACE_SHARE * self.seconds)

    @property
    def most_seconds(self) -> float:
        """How long two steps of each kernel may take: with more time, larger shapes are timed."""
        return max(MOST_SECONDS, STEPS_SHARE * self.seconds)

    def choose(
        self,
        cells: Iterable[Cell],
        decided: Iterable[Cell],
        doubtful: Iterable[KernelChoice] = (),
        sure: Iterable[KernelChoice] = (),
    ) -> Iterator[Made]:
        """The choices that cells need, as they are made; none for those `decided` already.

        `doubtful`: choices that something disturbed in earlier runs. They are made again, and used
        where the time is not enough for that. `sure`: the other choices of earlier runs; a mixer
        that cannot be timed takes what they chose for it at other sizes.

        First the baseline is timed, at every length; then one mixer of each group, those with most
        kernels first, all of them at one length before any is timed at the next; then the others,
        those first whose work differs most from that one's. Where something disturbed the timing,
        it is done once more at the end, and counts then. What is left when the seconds have passed
        takes the choice of its group. Where that has none either, or cannot be timed, it is
        reported to the observer: those cells use the kernel of the nearest length, of this or
        another batch size, or the one that needs no measurement.
        """
        groups = [
            [(series, self._search(series)) for series in members]
            for members in groups_of(self.series(cells, decided))
        ]
        baselines = [search for group in groups for _, search in group if search.everywhere]
        firsts = [search for (_, search), *_ in groups]
        others = [(member, group[0][0]) for group in groups for member in group[1:]]
        others.sort(key=lambda pair: -pair[0][0].distance(pair[1]))
        order = (baselines, firsts, *([search] for (_, search), _ in others))
        again: list[tuple[Search, int]] = []
        for search, place in self._timed(order):
            if search.found[place].warnings:
                again.append((search, place))
            else:
                yield Made([search.found[place]], search.is_own)
        for search, place in again:
            if self.left > 0:
                self._time(search, place)
            yield Made([search.found[place]], search.is_own)
        for search, place in self._timed(order):  # between lengths that do not agree any more
            yield Made([search.found[place]], search.is_own)
        if self.left <= 0:
            before = {choice.cell.id: choice for choice in doubtful}
            for search in (search for group in groups for _, search in group):
                for choice in search.fill(before):
                    yield Made([choice], is_own=False)  # it is in the cache already
        untimed = 0
        searches = (search for group in groups for _, search in group)
        known = [*sure, *(choice for search in searches for choice in search.choices)]
        for group in groups:
            _, first = group[0]
            for series, search in group:
                untimed += min(search.untimed, first.untimed)
                rest = taken(series, search, first)
                if rest:
                    is_whole = not (search.wanted and first.wanted)
                    yield Made(rest, search.is_own and first.is_own and is_whole)
                elif not search.found and (rest := taken_of_others(series, search, known)):
                    yield Made(rest, is_own=False)
        if untimed:
            self.observer.note(
                f"kernels were not timed for {untimed} shapes: the {self.seconds:g} s for it had "
                "passed; their cells use the kernel of the nearest length or batch size that was "
                "timed, or the one that needs no measurement. `synthbench tune --minutes 30` times "
                "them for later runs"
            )

    def _search(self, series: Series) -> Search:
        """The search for one mixer, none of whose lengths is known yet."""
        everywhere = series.cells[0].variant == self.baseline
        return Search(series.cells, series.offers, everywhere=everywhere)

    def _timed(self, order: Iterable[Sequence[Search]]) -> Iterator[tuple[Search, int]]:
        """Time what is wanted while there is time; each search and place that has a choice now."""
        for searches in order:
            while self.left > 0 and (unfinished := [one for one in searches if one.wanted]):
                for search in unfinished:
                    place = search.wanted[0]
                    if self.left > 0 and self._time(search, place):
                        yield search, place

    def _time(self, search: Search, place: int) -> bool:
        """Time the kernels at one place; whether that made a choice."""
        cell = search.cells[place]
        self.observer.stage(f"choosing kernels: {words_for(cell)} ({self.left:.0f} s left)")
        request = {
            "cell": cell.model_dump(mode="json"),
            "memory_bytes": self.memory_bytes,
            "seconds": self.race_seconds,
            "cores_may_be_near": self.usual_distance.is_near,
            "most_seconds": self.most_seconds,
            "keep_memory": self.keep_memory,
        }
        timed: Timed | None = self._call(cell, CHOOSE, request)
        if timed is None and self.left <= 0:
            return False  # it was not tried to the end
        if timed is None or timed.choice is None:
            is_long = timed is not None and timed.is_long
            (search.long if is_long else search.failed).add(place)
            if timed is not None and timed.problem and not is_long:
                self.observer.note(f"no kernel chosen for {timed.problem}")
            return False
        search.found[place] = timed.choice
        self.usual_distance.add(timed.choice.core_distance)
        search.is_own &= timed.is_own
        return True

    def series(self, cells: Iterable[Cell], decided: Iterable[Cell]) -> list[Series]:
        """The mixers with a choice to make, in their order."""
        have = {raced_cell(cell).id for cell in decided}
        raced = (raced_cell(c) for c in cells if has_choice(c) and c.framework in self.hosts)
        wanted = {cell.id: cell for cell in raced if cell.id not in have}
        offers = self.offers(list(wanted.values()))
        several = (cell for cell in wanted.values() if len(offers[cell.id].kernels) > 1)
        found = [
            Series(tuple(group), tuple(offers[cell.id] for cell in group))
            for group in by_length(several)
        ]
        return sorted(found, key=lambda series: series.rank)

    def offers(self, cells: Sequence[Cell]) -> dict[str, Offer]:
        """What each cell offers, by id; nothing where that cannot be known."""
        found = {cell.id: NOTHING for cell in cells}
        for framework in dict.fromkeys(cell.framework for cell in cells):
            own = [cell for cell in cells if cell.framework == framework]
            self.observer.stage(f"listing the kernels of {framework} for these cells")
            known = self._offers_of(own, quietly=True)
            if known is None:  # of a plug-in that hangs or ends the process; the others have theirs
                for group in by_length(own):
                    found |= self._offers_of(group) or {}
            else:
                found |= known
        return found

    def _offers_of(self, cells: Sequence[Cell], quietly: bool = False) -> dict[str, Offer] | None:
        request = {"cells": [cell.model_dump(mode="json") for cell in cells]}
        found: list[Offer] | None = self._call(cells[0], OFFERS, request, quietly)
        if found is None:
            return None
        return {cell.id: offer for cell, offer in zip(cells, found, strict=True)}

    def _call(self, cell: Cell, target: str, request: dict[str, Any], quietly: bool = False) -> Any:
        seconds = max(min(self.timeout_seconds, self.left), LEAST_SECONDS)
        try:
            return self.hosts[cell.framework].call(target, request, seconds)
        except SynthbenchError as error:
            if not quietly and self.left > 0:
                self.observer.note(f"no kernel chosen for {words_for(cell)}: {error}")
            return None


def words_for(cell: Cell) -> str:
    """A cell whose kernels are timed, in a few words."""
    return describe(cell, ("batch",))


def needed_choices(
    cells: Iterable[Cell], cached: Iterable[KernelChoice], decided: Iterable[Cell]
) -> list[KernelChoice]:
    """The cached choices that cells need, without those that are `decided` already."""
    have = {raced_cell(cell).id for cell in decided}
    wanted = {raced_cell(cell).id for cell in cells if has_choice(cell)} - have
    return [choice for choice in cached if choice.cell.id in wanted]


def kernel_for(cell: Cell, choices: Iterable[KernelChoice]) -> Kernel | None:
    """The kernel that was chosen for a cell; None if none was."""
    if not has_choice(cell):
        return None
    wanted = raced_cell(cell).id
    return next((choice.chosen for choice in choices if choice.cell.id == wanted), None)
