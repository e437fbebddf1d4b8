"""Every variant against the baseline: the ratio, its interval and the verdict."""

from __future__ import annotations

from synthbench.analysis.comparison import MOST_ROUNDS, Comparison, Judgement, judge
from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.noise import percentage
from synthbench.report.data.table import Column, Table, Value
from synthbench.report.tables.layout import Row, key_columns, place, rows_by_pair

TWIN = "(A/A twin)"


def ratios(grid: Grid, context: Context) -> Table:
    """A row each framework, mode and variant, the A/A twin first; by length ratio and verdict."""
    baseline = context.baseline
    columns = key_columns(grid, "framework", "mode", "variant")
    for length in grid.lengths():
        group = f"L={length}"
        columns += [Column(label, "ratio", group) for label in (f"x {baseline}", "low", "high")]
        columns += [Column("verdict", group=group)]
    rows = _rows(grid, baseline)
    found = {
        key: grid.compare(key, key._replace(variant=baseline, replica=0), baseline)
        for _, keys in rows
        for key in keys
    }
    compared = {key: one for key, one in found.items() if isinstance(one, Comparison)}
    judged = dict(zip(compared, judge(list(compared.values()), context.noise.margin), strict=True))
    values: list[Row] = []
    for where, keys in rows:
        row = list(where)
        for key in keys:
            word = found[key]
            row += [word] * 4 if isinstance(word, str) else _entry(judged[key])
        values.append(tuple(row))
    note = _note(grid, context, list(judged.values()))
    title = f"Speed relative to {baseline}: ratio, 95% interval, verdict"
    return Table("ratios", title, note, context.shared, tuple(columns), values)


def _rows(grid: Grid, baseline: str) -> list[tuple[Row, list[Key]]]:
    """The key values of each row, and its cells."""
    rows: list[tuple[Row, list[Key]]] = []
    twins = set(grid.twins())
    for setting, framework, mode, variant in rows_by_pair(grid):
        if baseline not in grid.variants(setting):
            continue
        replica = int(variant == baseline)
        keys = [Key(setting, variant, framework, mode, n, replica) for n in grid.lengths()]
        if replica and not twins.intersection(keys):
            continue
        label = f"{variant} {TWIN}" if replica else variant
        rows.append((place(grid, setting, framework, mode, label), keys))
    return rows


def _entry(judgement: Judgement) -> list[Value]:
    low, high = judgement.estimate.interval()
    return [judgement.estimate.ratio, low, high, verdict_text(judgement)]


def verdict_text(judgement: Judgement) -> str:
    """The verdict; with it, where undecided, how many further rounds would decide."""
    if judgement.verdict != "undecided":
        return judgement.verdict
    more = f"{MOST_ROUNDS} or more" if judgement.further is None else str(judgement.further)
    return f"undecided (+{more})"


def _note(grid: Grid, context: Context, judged: list[Judgement]) -> str:
    baseline, noise = context.baseline, context.noise
    if not any(baseline in grid.variants(setting) for setting in grid.settings()):
        return f"This run has no cells of its baseline {baseline}."
    several = sum(one.estimate.rounds > 1 for one in judged)
    parts = [
        f"x {baseline}: steps per second over those of {baseline} in the same round, above 1 is "
        "faster; the geometric mean of the rounds, with its 95% interval."
    ]
    if several:
        parts.append(
            f"Margin {percentage(noise.margin)}, the larger of the noise floor and the declared "
            f"{percentage(1 + noise.declared)}: `same` is an interval inside it, `faster` and "
            "`slower` are ratios beyond it that differ from 1 at 95% after Holm's correction for "
            f"the {several} comparisons of this table. (+n): so many further rounds would decide, "
            "were ratio and spread to stay."
        )
    if several < len(judged):
        parts.append(
            "`one round`: the interval is that of the samples inside it alone, says nothing of "
            "how one process differs from the next, and is too narrow for a verdict."
        )
    return " ".join(parts)
