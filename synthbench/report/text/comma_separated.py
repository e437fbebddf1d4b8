"""A table as CSV."""

from __future__ import annotations

import csv
import io

from synthbench.report.data.table import Table, writer
from synthbench.report.text.escaping import csv_cells


def csv_text(table: Table) -> str:
    """A heading line and the rows; numbers are in the unit of their column."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(csv_cells([column.name for column in table.columns]))
    columns = [
        csv_cells(list(map(writer(column), values)))
        for column, values in zip(table.columns, table.values, strict=True)
    ]
    lines.writerows(zip(*columns, strict=True))
    return out.getvalue()
