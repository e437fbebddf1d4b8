"""Comparisons as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from synthbench.report.compare.comparison import RunComparison
from synthbench.report.compare.headline import headline
from synthbench.report.compare.tables import comparison_tables
from synthbench.report.text.escaping import markdown_prose
from synthbench.report.text.markdown import markdown_section


def title_of(comparison: RunComparison) -> str:
    """The heading of a comparison."""
    return f"{comparison.second.name} compared with {comparison.first.name}"


def comparisons_markdown(comparisons: Sequence[RunComparison], *, every: bool = False) -> str:
    """A heading, the headline as a list, and the tables of each comparison."""
    parts: list[str] = []
    for one in comparisons:
        lines = [f"- {markdown_prose(line)}" for line in headline(one)]
        parts.append("\n".join([f"# {markdown_prose(title_of(one))}", "", *lines, ""]))
        parts += [markdown_section(table) for table in comparison_tables(one, every=every)]
    return "\n".join(parts)
