"""Whether the different ways of counting agree."""

from __future__ import annotations

from collections.abc import Sequence

from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Value

XLA_TOLERANCE = 0.25
XLA = (
    "XLA's own count is shown but not trusted: it includes elementwise operations, counts the body "
    f"of a loop once and a custom call as zero. It is flagged if it is more than "
    f"{XLA_TOLERANCE:.0%} off."
)


def disagreements(
    what: str, expected: Value, frameworks: Sequence[str], counted: Sequence[Value]
) -> list[str]:
    """Counts that differ from the declaration or formula; without one, from each other."""
    numbers = {f: v for f, v in zip(frameworks, counted, strict=True) if not isinstance(v, str)}
    if isinstance(expected, str):
        differ = len(set(numbers.values())) > 1
        return [f"{what}: {' and '.join(numbers)} differ"] if differ else []
    return [
        f"{what}: {framework} {_excess(value, expected)}"
        for framework, value in numbers.items()
        if value != expected
    ]


def _excess(value: float, expected: float) -> str:
    return f"{100 * (value / expected - 1):+.4g}%" if expected else f"{value} instead of 0"


def far_off(expected: Value, compiled: Sequence[Value]) -> list[str]:
    """XLA's counts that are more than XLA_TOLERANCE away from the expected count."""
    return [
        f"XLA {_excess(count, expected)}"
        for count in compiled
        if not isinstance(count, str)
        and not isinstance(expected, str)
        and abs(count - expected) > XLA_TOLERANCE * expected
    ]


def is_jax(key: Key) -> bool:
    """Whether a cell ran in JAX."""
    return key.framework == "jax"


def uncounted(grid: Grid, key: Key) -> list[str]:
    """Operations that the counter did not know in this cell, then in cells of other lengths."""
    flags: list[str] = []
    known: set[str] = set()
    for length in sorted(grid.lengths(key.setting), reverse=True):
        found = (grid.cell(key._replace(seq_len=length)) or {}).get("uncounted")
        names = found if isinstance(found, dict) else {}
        new = sorted(names.keys() - known)
        known |= names.keys()
        if new:
            where = "" if length == key.seq_len else f" at length {length}"
            listed = ", ".join(f"{name} ({names[name]})" for name in new)
            flags.append(f"{key.framework} did not count {listed}{where}")
    return flags
