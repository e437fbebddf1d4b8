"""The findings as CSV, one row each, and as Markdown, summed up per task and per variant."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from tabulate import tabulate

from benchmarks.learning_equality.finding import Finding
from benchmarks.learning_equality.generations import SEARCHES
from benchmarks.learning_equality.trainings import HELD_OUT, LOSS
from synthbench.report.text.escaping import markdown_cell

METRICS = "metrics"
COLUMNS = (
    "compared", "dtype", "task", "model", "variant", "verdict", "tolerance", "differences", "notes",
    "reason",
)  # fmt: skip
VERDICTS = {"pass": "equal", "fail": "differ", "not possible": "not possible"}


def write_tables(found: Sequence[Finding], files: Sequence[Path]) -> None:
    """Write the findings into files; `.csv` is every finding, anything else Markdown."""
    for file in files:
        text = as_csv(found) if file.suffix == ".csv" else as_markdown(found)
        file.write_text(text, encoding="utf-8")


def as_csv(found: Sequence[Finding]) -> str:
    """One row per finding."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for each in found:
        differences, notes = (
            "; ".join(f"{name} {value:.3g}" for name, value in numbers.items())
            for numbers in (each.errors | each.further, each.notes)
        )
        writer.writerow(
            [COMPARED[each.searched], each.dtype, *each.place, each.variant, each.verdict,
             each.tolerance, differences, notes, each.reason]
        )  # fmt: skip
    return text.getvalue()


COMPARED = {False: "training", True: "generation"}


def as_markdown(found: Sequence[Finding]) -> str:
    """What was compared: for each, a table by task, one by variant, and what differs."""
    parts = []
    for searched, dtype in dict.fromkeys((each.searched, each.dtype) for each in found):
        own = [each for each in found if (each.searched, each.dtype) == (searched, dtype)]
        allowed = f"at most {own[0].tolerance:g}"
        what = "tokens that differ" if searched else "largest differences"
        parts.append(f"{COMPARED[searched].capitalize()} in {dtype}: {what} ({allowed})")
        parts.append(table("task", own, lambda each: str(each.place)))
        parts.append(table("variant", own, lambda each: each.variant))
        differ = [f"- {one.place}, {one.variant}: {one.reason}" for one in own if one.failed]
        parts += ["\n".join(differ)] * bool(differ)
    return "\n\n".join(parts) + "\n"


def table(heading: str, found: Sequence[Finding], key: Callable[[Finding], str]) -> str:
    """A row per task or variant: how many pairs are equal, and the largest differences."""
    names = columns_of(found)
    rows = []
    for name in dict.fromkeys(map(key, found)):
        own = [each for each in found if key(each) == name]
        counts = [str(sum(one.verdict == verdict for one in own)) for verdict in VERDICTS]
        rows.append([markdown_cell(name), *counts, *(largest_of(own, column) for column in names)])
    headings = [heading, *VERDICTS.values(), *names]
    align = ("left", *["right"] * (len(headings) - 1))
    return tabulate(rows, headings, tablefmt="pipe", colalign=align, disable_numparse=True)


def columns_of(found: Sequence[Finding]) -> list[str]:
    """The numbers that get a column of their own; the metrics of all tasks share one."""
    if found[0].searched:
        return list(SEARCHES)
    return [LOSS, HELD_OUT, METRICS]


def largest_of(found: Sequence[Finding], column: str) -> str:
    """The largest difference in a column; empty if there is none."""
    values = [
        value
        for each in found
        for name, value in (each.errors | each.further).items()
        if name == column or (column == METRICS and name not in (LOSS, HELD_OUT))
    ]
    return f"{max(values):.2g}" if values else ""
