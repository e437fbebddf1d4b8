"""A table as CSV."""

from __future__ import annotations

import csv
import io

from synthbench.report.data.table import Table, for_machines
from synthbench.report.text.escaping import csv_cell


def csv_text(table: Table) -> str:
    """A heading line and the rows; numbers are in the unit of their column."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([csv_cell(column.name) for column in table.columns])
    for row in table.rows:
        writer.writerow(map(csv_cell, map(for_machines, table.columns, row)))
    return out.getvalue()
