"""The tables of docs/suites.md: `python -m synthbench.suites.reference docs/suites.md [--check]`.

The page is written by hand, but for the tables between `<!-- begin NAME -->` and
`<!-- end NAME -->`, which are made from the schema.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from synthbench.errors import NotationError, SynthbenchError
from synthbench.models.presets import PRESETS
from synthbench.suites.schema import REQUIRED, SECTIONS, Key, flow, keys_of

TABLE = re.compile(r"(<!-- begin ([\w ]+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
COMMAND = "python -m synthbench.suites.reference"
HEADINGS = ("key", "type", "default", "meaning", "example")


def tables() -> dict[str, str]:
    """Every generated table by name."""
    found = {section: _key_table(keys_of(section)) for section in SECTIONS}
    axes = keys_of("axes")
    found["axes"] = _key_table([key for key in axes if not key.is_model_axis])
    found["model axes"] = _key_table([key for key in axes if key.is_model_axis])
    presets = [
        (f"`{name}`", f"`{flow(preset.model)[1:-1]}`", preset.source)
        for name, preset in PRESETS.items()
    ]
    found["presets"] = _table(("preset", "keys", "source"), presets)
    return found


def fill(page: str) -> str:
    """The page with its tables replaced; NotationError where a table is missing or unknown."""
    made = tables()
    names = [match[2] for match in TABLE.finditer(page)]
    if sorted(names) != sorted(made):
        raise NotationError(
            f"the page has tables {', '.join(names) or 'none'}; it must have each of these once, "
            f"between <!-- begin NAME --> and <!-- end NAME -->: {', '.join(made)}"
        )
    return TABLE.sub(lambda match: f"{match[1]}{made[match[2]]}{match[3]}", page)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check a page; returns the exit code."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if it differs")
    asked = parser.parse_args(arguments)
    try:
        page = asked.page.read_text(encoding="utf-8")
        filled = fill(page)
    except (SynthbenchError, OSError) as error:
        sys.stderr.write(f"{asked.page}: {error}\n")
        return 2
    if asked.check and filled != page:
        sys.stderr.write(
            f"{asked.page} differs from the schema; write it with {COMMAND} {asked.page}\n"
        )
        return 1
    if not asked.check:
        asked.page.write_text(filled, encoding="utf-8")
    return 0


def _key_table(keys: Sequence[Key]) -> str:
    rows = [
        (
            f"`{key.name}`",
            key.type,
            REQUIRED if key.default is None else f"`{key.default}`",
            key.meaning,
            f"`{key.name}: {key.example}`",
        )
        for key in keys
    ]
    return _table(HEADINGS, rows)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
