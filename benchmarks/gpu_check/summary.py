"""The findings as a page: what has to be looked at, then every branch with its figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tabulate import tabulate

from benchmarks.gpu_check.finding import Finding, Settings
from benchmarks.gpu_check.steps import STEPS


def summary(found: Sequence[Finding], settings: Settings) -> str:
    """Markdown."""
    begun = {finding.step for finding in found}
    found = [finding for finding in found if finding.is_bad or not finding.is_end]
    bad = [finding for finding in found if finding.is_bad]
    lines = [f"# The check on {settings.device}{', at small sizes' if settings.small else ''}", ""]
    lines += [counted(found), ""]
    missing = [name for name in STEPS if name not in begun]
    if missing:
        lines += [f"Not run: {', '.join(missing)}.", ""]
    if bad:
        lines += ["## To look at", "", table(bad), ""]
    for name in STEPS:
        own = [finding for finding in found if finding.step == name]
        if own:
            lines += [f"## {name}", "", table(own), ""]
    return "\n".join(lines)


def counted(found: Sequence[Finding]) -> str:
    """How many branches ended how."""
    outcomes = Counter(finding.outcome for finding in found)
    wrong = sum(finding.correct is False for finding in found)
    said = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
    return f"{len(found)} branches: {said}; {wrong} with a wrong result."


def table(found: Sequence[Finding]) -> str:
    """A row per finding."""
    verdicts = {True: "correct", False: "WRONG", None: ""}
    rows = [
        [
            escaped(f.branch), f"{f.outcome} {verdicts[f.correct]}".strip(),
            escaped("; ".join(filter(None, [f.figure, f.reason]))), f"{f.seconds:.1f}",
        ]
        for f in found
    ]  # fmt: skip
    return tabulate(rows, ["branch", "result", "figure or reason", "s"], tablefmt="pipe")


def escaped(text: str) -> str:
    """Text in one cell of a table."""
    return text.replace("\n", " ").replace("|", "\\|")
