"""A comparison in a few sentences: the runs, what was compared, how it came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from synthbench.metrics import significant
from synthbench.report.compare.comparison import Measured, RunComparison
from synthbench.report.compare.environment import short_commit
from synthbench.report.compare.side import Side

# The order in which counts are named.
VERDICTS = ("slower", "faster", "more", "less", "same", "close", "undecided", "one round")
AGREEMENTS = ("contradict", "differ", "agree", "undecided")
LABELS: dict[Measured, str] = {"time": "Time of a step", "memory": "Peak memory"}


def headline(comparison: RunComparison) -> list[str]:
    """One sentence or two per line."""
    first, second = comparison.first, comparison.second
    lines = [_run(first), _run(second), _cells(comparison)]
    if comparison.no_times:
        lines.append(
            f"Times and memory are not compared: {comparison.no_times}. What each run concludes "
            "about its own baseline is."
        )
    else:
        lines += [_costs(comparison, "time"), _costs(comparison, "memory")]
        if comparison.elsewhere:
            cells = _cells_named(comparison.elsewhere)
            lines.append(f"Not compared, as different machines measured them: {cells}.")
        lines += _drift(comparison)
    if comparison.outcomes:
        lines.append(f"Another outcome: {_cells_named(len(comparison.outcomes))}.")
    if comparison.no_conclusions:
        lines.append(f"Conclusions are not compared: {comparison.no_conclusions}.")
    elif comparison.conclusions:
        lines.append(
            f"Conclusions about {first.baseline}: {_counts(comparison.agreements(), AGREEMENTS)}."
        )
    if comparison.crossings:
        moved = sum(bool(one.moved) for one in comparison.crossings)
        known = sum(one.moved is not None for one in comparison.crossings)
        lines.append(
            f"Crossings that moved: {moved} of {known}."
            if known
            else "Crossings: one round in a run, so whether they moved is not known."
        )
    return lines


def _run(side: Side) -> str:
    info = side.run.info
    machines = ", ".join(machine.id for machine in info.machines) or "an unknown machine"
    rounds = len({record.round for record in side.run.records})
    commit = short_commit(info)
    parts = [
        f"{side.letter}: {side.name}",
        *([f"commit {commit}"] if commit else []),
        f"{info.started[:16].replace('T', ' ')} UTC on {machines} ({info.device})",
        f"{rounds} round{'s' * (rounds != 1)}",
        *(["not finished"] if info.finished is None else []),
        *([f"{len(side.run.damaged)} damaged lines skipped"] if side.run.damaged else []),
    ]
    return ", ".join(parts)


def _cells(comparison: RunComparison) -> str:
    first, second, match = comparison.first, comparison.second, comparison.match
    parts = [f"{_cells_named(len(match.pairs))} in both"]
    for side, only in zip((first, second), match.only, strict=True):
        if only:
            parts.append(f"{only} only in {side.letter}")
        if side.other_tasks:
            parts.append(f"{side.other_tasks} of other tasks in {side.letter}")
    fields = [
        f"{name} ({one} in {first.letter}, {other} in {second.letter})"
        for name, (one, other) in match.differing.items()
    ]
    differing = f" They differ in {', '.join(fields)}." if fields else ""
    return f"{'; '.join(parts)}.{differing}"


def _cells_named(count: int) -> str:
    return f"{count} cell{'s' * (count != 1)}"


def _costs(comparison: RunComparison, measured: Measured) -> str:
    found = comparison.verdicts(measured)
    if not found:
        return f"{LABELS[measured]}: no cell was measured in both runs."
    typical = ", ".join(
        f"{framework} {_percent(ratio)}"
        for framework, ratio in comparison.typical(measured).items()
    )
    return (
        f"{LABELS[measured]}, {comparison.second.letter} compared with {comparison.first.letter}: "
        f"{_counts(found, VERDICTS)}. Median change: {typical}."
    )


def _drift(comparison: RunComparison) -> list[str]:
    """A warning where all cells of a framework changed alike."""
    declared = 1 + max(side.noises["seconds"].declared for side in
                       (comparison.first, comparison.second))  # fmt: skip
    drifted = [
        name
        for name, ratio in comparison.typical("time").items()
        if max(ratio, 1 / ratio) > declared
    ]
    if not drifted:
        return []
    return [
        f"The median of {' and of '.join(drifted)} moved beyond the suite's margin. What changes "
        "in most cells alike is more often the machine than the code: look at the ceilings, and "
        "measure both runs again."
    ]


def _percent(ratio: float) -> str:
    return f"{'+' if ratio >= 1 else '-'}{significant(100 * abs(ratio - 1), 2)}%"


def _counts(found: Counter[str], order: Iterable[str]) -> str:
    return ", ".join(f"{found[name]} {name}" for name in order if found[name])
