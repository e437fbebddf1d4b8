"""Whether different ways of counting agree."""

from __future__ import annotations

from collections.abc import Sequence

from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Value

XLA_TOLERANCE = 0.25
XLA = (
    "XLA's own count is shown, not trusted: it adds elementwise operations, and takes the body of "
    f"a loop once and a foreign call for nothing; it is flagged where it is "
    f"{XLA_TOLERANCE:.0%} off."
)


def disagreements(
    what: str, expected: Value, frameworks: Sequence[str], counted: Sequence[Value]
) -> list[str]:
    """What does not equal the declaration or formula; without one, whether they differ."""
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
    """XLA's count, where it is further from the products than elementwise work would bring it."""
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
    """Operations that no counter knew in this cell, then those met only in shorter ones."""
    flags: list[str] = []
    known: set[str] = set()
    for length in sorted(grid.lengths(key.setting), reverse=True):
        met = (grid.cell(key._replace(seq_len=length)) or {}).get("uncounted")
        names = met if isinstance(met, dict) else {}
        new = sorted(names.keys() - known)
        known |= names.keys()
        if new:
            where = "" if length == key.seq_len else f" at length {length}"
            listed = ", ".join(f"{name} ({names[name]})" for name in new)
            flags.append(f"{key.framework} did not count {listed}{where}")
    return flags
