"""The text formats by name."""

from __future__ import annotations

from collections.abc import Callable

from synthbench.report.data.table import Table
from synthbench.report.text.comma_separated import csv_text
from synthbench.report.text.latex import latex
from synthbench.report.text.markdown import markdown

FORMATS: dict[str, tuple[str, Callable[[Table], str]]] = {
    "markdown": ("md", markdown),
    "csv": ("csv", csv_text),
    "latex": ("tex", latex),
}
