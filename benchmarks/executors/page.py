"""The tables of a comparison of executors as Markdown, and a page that holds them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchmarks.executors.ablation import Part, parts
from benchmarks.executors.measured import Measured
from synthbench.errors import NotationError
from synthbench.report.text.escaping import markdown_cell

TABLE = re.compile(r"(<!-- begin ([\w ]+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
DEVICES = (1, 8, 64)
NOT_MEASURED = "Not measured yet: `python -m benchmarks.executors --out FOLDER` measures it.\n"


def executors_table(measured: Measured) -> str:
    """What each executor needs beside the cells."""
    rows = []
    for run in measured.runs:
        if run.skipped:
            rows.append([run.name, f"skipped: {run.skipped}", "", "", "", ""])
            continue
        rows.append([
            run.name, f"{run.records:,}", f"{run.shards:,}", f"{run.cell_seconds:,.1f}",
            f"{run.overhead:.1f}", f"{run.cells_per_hour:,.0f}",
        ])  # fmt: skip
    headings = ["run", "cells", "shards", "seconds in cells", "seconds per shard beside its cells",
                "cells per hour"]  # fmt: skip
    about = (
        f"\nSuite `{measured.suite}`, {measured.selection}, one place per executor, on "
        f"{measured.machine}, {measured.begun[:10]}, commit {measured.commit}.\n"
    )
    return table(headings, rows) + about


def agreement_table(measured: Measured) -> str:
    """How the ratios of each executor agree with a local run's."""
    rows = [
        [
            f"{each.first}, {each.second}", f"{each.agreeing:,} of {each.shared:,}",
            f"{each.agreeing / each.shared:.1%}" if each.shared else "-", f"{each.contradicting:,}",
        ]
        for each in measured.agreed
    ]  # fmt: skip
    return table(["runs", "ratios that agree", "share", "contradicting verdicts"], rows)


def ablation_table(measured: Measured | None, found: Sequence[Part]) -> str:
    """How long the largest ablation takes on some devices."""
    rows = []
    for part in found:
        sizes = [part.name, f"{len(part.plan.cells):,}", f"{part.records:,}", f"{part.shards:,}"]
        runs = [] if measured is None or part.name != "cost" else measured.runs
        for run in runs:
            if not run.skipped:
                basis = f"{run.name}: {run.cells_per_hour:,.0f} cells per hour"
                hours = [hours_of(part.hours_at(run.cells_per_hour, n)) for n in DEVICES]
                rows.append([*sizes, basis, *hours])
        limits = [part.hours_by_limits(n) for n in DEVICES]
        ranges = [f"{hours_of(low)} to {hours_of(high)}" for low, high in limits]
        rows.append([*sizes, "the suite's limits", *ranges])
    counts = [f"{n} device{'s' * (n > 1)}, hours" for n in DEVICES]
    return table(["ablation", "cells", "records", "shards", "by", *counts], rows)


def tables(measured: Measured | None) -> dict[str, str]:
    """Every table of the page by name; without measurements, what can be said without them."""
    return {
        "executors": NOT_MEASURED if measured is None else executors_table(measured),
        "agreement": NOT_MEASURED if measured is None else agreement_table(measured),
        "ablation": ablation_table(measured, parts()),
    }


def fill(page: str, measured: Measured | None) -> str:
    """The page with its tables replaced; NotationError where a table is missing or unknown."""
    made = tables(measured)
    names = [match[2] for match in TABLE.finditer(page)]
    if sorted(names) != sorted(made):
        raise NotationError(
            f"the page has tables {', '.join(names) or 'none'}; it must have each of these once, "
            f"between <!-- begin NAME --> and <!-- end NAME -->: {', '.join(made)}"
        )
    return TABLE.sub(lambda match: f"{match[1]}{made[match[2]]}{match[3]}", page)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows as GitHub Markdown."""
    lines = [headings, ["---"] * len(headings), *([markdown_cell(c) for c in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def hours_of(hours: float) -> str:
    """Hours with about two digits."""
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}"
