"""The speed of every variant compared with the baseline: ratio, interval and verdict."""

from __future__ import annotations

from synthbench.analysis.comparison import MOST_ROUNDS, Judgement
from synthbench.report.data.context import Context
from synthbench.report.data.grid import NO_CELL, TWIN, Grid, Key
from synthbench.report.data.noise import percentage
from synthbench.report.data.table import Column, Table, Value
from synthbench.report.tables.layout import Row, key_columns, key_values, rows_by_pair


def ratios(grid: Grid, context: Context) -> Table:
    """One row per framework, mode and variant, the A/A twin first: by length ratio and verdict."""
    baseline = context.baseline
    columns = key_columns(grid, "framework", "mode", "variant")
    for length in grid.lengths():
        group = f"L={length}"
        columns += [
            Column(label, "ratio", group) for label in (f"speed vs {baseline}", "low", "high")
        ]
        columns += [Column("verdict", group=group)]
    values: list[Row] = []
    for keys_of_row, cells in _rows(grid, baseline):
        row = list(keys_of_row)
        for key in cells:
            one = context.verdicts.get(key, NO_CELL)
            row += [one] * 4 if isinstance(one, str) else _entry(one)
        values.append(tuple(row))
    judged = [one for one in context.verdicts.values() if isinstance(one, Judgement)]
    note = _note(grid, context, judged)
    title = f"Speed relative to {baseline}: ratio, 95% confidence interval, verdict"
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
        rows.append((key_values(grid, setting, framework, mode, label), keys))
    return rows


def _entry(judgement: Judgement) -> list[Value]:
    low, high = judgement.estimate.interval()
    return [judgement.estimate.ratio, low, high, verdict_text(judgement)]


def verdict_text(judgement: Judgement) -> str:
    """The verdict; if undecided, with the number of further rounds that would decide."""
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
        f"speed vs {baseline}: steps per second over those of {baseline} in the same round; above "
        "1 is faster. Geometric mean of the rounds with its 95% confidence interval."
    ]
    if grid.has("paired_ratio"):
        parts.append(
            f"Where {baseline} was timed in the process of the variant, in turn with its steps, "
            "the ratio of a round is of the means of the faster half of each; other times in "
            "tables are medians."
        )
    if several:
        parts.append(
            f"`same`: the interval lies within the suite's margin of "
            f"{percentage(1 + noise.declared)}. `faster` and `slower`: the ratio is beyond that "
            "margin and beyond the noise floor of the same framework, mode and length (table "
            "`noise`), and differs from 1 at 95% confidence, after Holm's correction for the "
            "variants of these. `close`: neither, the ratio is known to within "
            f"{percentage(1 + noise.resolution)}, and its interval is not wholly beyond these "
            "two; only where the noise floor is at most "
            f"{percentage(1 + max(noise.resolution, noise.declared))}. `undecided (+n)`: about n "
            "more rounds would decide, if ratio and spread stay the same."
        )
    aside = sum(count for count, _ in grid.set_aside.values())
    if aside:
        parts.append(
            f"Without {aside} of {sum(n for _, n in grid.set_aside.values())} processes, whose "
            "time is improbable among the other rounds of their cell (table `noise`)."
        )
    if noise.looks > 1:
        parts.append(
            f"Rounds were added until there was a verdict. Each of {noise.looks} looks has its "
            "part of the 5%, so that this makes no false verdict more likely: for `same`, a wider "
            "interval than the one shown lies within the margin."
        )
    if any(one.estimate.machines > 1 for one in judged):
        parts.append(
            "Several machines measured the rounds: each ratio is taken within a round, on one "
            "machine; the mean of each machine counts once, so the interval has the machine as a "
            "source of variance. `(+n)`: about n more rounds, each on a further machine."
        )
    if several < len(judged):
        parts.append(
            "`one round`: the interval comes only from the samples within that round. It does not "
            "show how processes differ and is too narrow for a verdict."
        )
    return " ".join(parts)
