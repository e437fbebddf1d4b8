"""A table as CSV."""

from __future__ import annotations

import csv
import io

from synthbench.report.data.table import Table, for_machines


def csv_text(table: Table) -> str:
    """A heading line and the rows; numbers are in the unit of their column."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.name for column in table.columns])
    writer.writerows(list(map(for_machines, table.columns, row)) for row in table.rows)
    return out.getvalue()
