"""A history as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC

from synthbench.analysis.change_points import FEWEST
from synthbench.metrics import significant
from synthbench.report.compare.places import place_columns, place_values
from synthbench.report.data.noise import percentage
from synthbench.report.data.table import Column, Table, Value
from synthbench.report.history.history import Change, History, Line

BARS = "▁▂▃▄▅▆▇█"
MISSING = "·"  # in a row of bars: this run did not measure the cell
NO_CHANGE = "none"


def history_tables(history: History, *, marked: bool) -> list[Table]:
    """The runs, and one row per cell; `marked`: whether changes were looked for."""
    return [_runs(history), _lines(history, marked)]


def _runs(history: History) -> Table:
    columns = (Column("run", is_key=True), *map(Column, ("commit", "date (UTC)", "name")))
    rows: list[tuple[Value, ...]] = [
        (
            str(number),
            point.commit or "-",
            f"{point.date.astimezone(UTC):%Y-%m-%d %H:%M}"
            + " (start)" * (not point.is_commit_date),
            point.name,
        )
        for number, point in enumerate(history.points, start=1)
    ]
    note = "By the date of the commit; (start): of the run, because the commit is not known here."
    title = f"Runs of {history.suite} on {history.machine} ({history.device})"
    return Table("runs", title, note, (), columns, rows)


def _lines(history: History, marked: bool) -> Table:
    keys = place_columns([line.place for line in history.lines])
    columns = (
        *keys,
        Column("first ms", "median_seconds"),
        Column("last ms", "median_seconds"),
        Column("last / first", "ratio"),
        Column("runs"),
        *[Column("changes")] * marked,
    )
    rows: list[tuple[Value, ...]] = []
    for line in history.lines:
        known = [seconds for seconds in line.seconds if seconds]
        values: tuple[Value, ...] = (known[0], known[-1], known[-1] / known[0])
        bars = bars_of(line, history.margin)
        texts = (bars, *[_changes(history, line)] * marked)
        rows.append((*place_values(line.place, keys), *values, *texts))
    note = (
        "runs: one bar per run, on a log scale; the lowest is the fastest. "
        + "Times are geometric means of the rounds. "
        + (_explanation(history) if marked else "Changes were not looked for.")
    )
    return Table("history", "Time of a step, run by run", note, (), columns, rows)


def _explanation(history: History) -> str:
    if len(history.points) < FEWEST:
        return f"Changes are looked for in {FEWEST} runs or more."
    return (
        "changes: from this run on, a step takes so many times as long. They are larger than the "
        f"suite's margin of {percentage(history.margin)}; in 95% of such tables, none is false."
    )


def _changes(history: History, line: Line) -> str:
    return "; ".join(change_text(history, change) for change in line.changes) or NO_CHANGE


def change_text(history: History, change: Change) -> str:
    """A change in words: slower x1.12 from run 5 (abc1234)."""
    commit = history.points[change.at].commit
    where = f"from run {change.at + 1}" + (f" ({commit})" if commit else "")
    return f"{change.verdict} x{significant(change.ratio)} {where}"


def bars_of(line: Line, margin: float) -> str:
    """One bar per run; a range within the margin fills only the lower half."""
    logs: Sequence[float] = [math.log(seconds) for seconds in line.seconds if seconds]
    low, span = min(logs), max(max(logs) - min(logs), 2 * math.log(margin)) or 1.0
    return "".join(
        BARS[round((math.log(seconds) - low) / span * (len(BARS) - 1))] if seconds else MISSING
        for seconds in line.seconds
    )
