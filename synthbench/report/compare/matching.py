"""Which cells two runs have in common, by the content of the cells."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from synthbench.errors import ResultsError
from synthbench.suites.cell import FLAT_FIELDS, Cell

# A cell with another of these is another cell. Any other field may differ between the two runs, if
# each run has one value of it.
OWN = ("variant", "framework", "task", "options", "mode", "seq_len", "label", "replica", "max_len")
MOST_SHOWN = 3  # fields in a message, and values of a field


@dataclass(frozen=True)
class Match:
    """The cells of two runs with the same content, apart from the fields in `differing`.

    `differing`: field -> its value in the first and in the second run. `only`: how many cells only
    the first and only the second run has.
    """

    pairs: list[tuple[Cell, Cell]]
    differing: dict[str, tuple[str, str]]
    only: tuple[int, int]


def match_cells(
    first: Sequence[Cell], second: Sequence[Cell], names: tuple[str, str] = ("A", "B")
) -> Match:
    """Match the cells of two runs; raises ResultsError, with these names, if none matches."""
    differing = _differing(first, second)
    ignored = frozenset(differing)
    others = {content_of(cell, ignored): cell for cell in second}
    own = {content_of(cell, ignored): cell for cell in first}
    pairs = [(cell, others[content]) for content, cell in own.items() if content in others]
    if not pairs:
        raise ResultsError(
            f"{names[0]} and {names[1]} have no cell in common ({_why(first, second)}); compare "
            "runs of the same suite, or of suites that share cells"
        )
    return Match(pairs, differing, (len(own) - len(pairs), len(others) - len(pairs)))


def _differing(first: Sequence[Cell], second: Sequence[Cell]) -> dict[str, tuple[str, str]]:
    """The fields that have one value in each run, and another one in the other run.

    One value in each framework: torch may be eager where jax is compiled.
    """
    shared = {cell.framework for cell in first} & {cell.framework for cell in second}
    found: dict[str, tuple[str, str]] = {}
    for name in FLAT_FIELDS:
        if name in OWN:
            continue
        values = [_values([c for c in cells if c.framework in shared], name, by_framework=True)
                  for cells in (first, second)]  # fmt: skip
        are_single = all(len(v) == 1 for of_run in values for v in of_run.values())
        if are_single and values[0] != values[1]:
            found[name] = (_text(values[0]), _text(values[1]))
    return found


def _values(
    cells: Iterable[Cell], name: str, *, by_framework: bool = False
) -> dict[str, dict[str, None]]:
    """Framework -> the values of a field, as text, in order of appearance."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        group = cell.framework if by_framework else ""
        found.setdefault(group, {})[str(cell.flat()[name])] = None
    return found


def _text(values: Mapping[str, Mapping[str, None]]) -> str:
    """One value, or one per framework where they differ."""
    single = {framework: next(iter(found)) for framework, found in values.items()}
    if len(set(single.values())) == 1:
        return next(iter(single.values()))
    return ", ".join(f"{value} in {framework}" for framework, value in sorted(single.items()))


def content_of(cell: Cell, ignored: Collection[str]) -> tuple[tuple[str, str], ...]:
    """The fields of a cell as text, without those in `ignored`."""
    content = cell.flat()
    return tuple((name, str(content[name])) for name in FLAT_FIELDS if name not in ignored)


def _why(first: Sequence[Cell], second: Sequence[Cell]) -> str:
    """The fields of which the runs share no value."""
    if not first or not second:
        return "one of them has no records"
    found = []
    for name in FLAT_FIELDS:
        one, other = (list(_values(cells, name)[""]) for cells in (first, second))
        if not set(one) & set(other):
            found.append(f"{name} {_some(one)} and {_some(other)}")
    return _some(found, "; ") or "no combination of their fields is in both"


def _some(values: Sequence[str], separator: str = ", ") -> str:
    more = len(values) - MOST_SHOWN
    return separator.join([*values[:MOST_SHOWN], *[f"{more} more"] * (more > 0)])
