"""What a run has measured, without the measurements: read from columns where the run is packed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from synthbench.packed import PackedFile, open_packed
from synthbench.record import Record
from synthbench.run_files import explained
from synthbench.store import names_of_records, read_info, read_run

FIELDS = ("id", "round", "attempt", "outcome", "wall_seconds")  # copied from records, not derived


class Recorded(NamedTuple):
    """Which measurement a record is, how it ended, and how long it took."""

    id: str  # of the cell
    round: int
    attempt: int
    outcome: str
    wall_seconds: float

    @classmethod
    def of(cls, record: Record) -> Recorded:
        """These fields of a record."""
        return cls(*(getattr(record, name) for name in FIELDS))


def read_recorded(run_dir: Path) -> list[Recorded]:
    """These fields of all records, in the order that `read_run` has them.

    From columns where all records are packed and none is damaged. Raises ResultsError as `read_run`
    does.
    """
    read_info(run_dir)
    with explained("read", run_dir):
        packed = open_packed(run_dir)
    found = None
    if packed is not None:
        try:
            found = _from_columns(run_dir, packed)
        finally:
            packed.close()
    if found is None:
        found = {
            (record.id, record.round, record.attempt): Recorded.of(record)
            for record in read_run(run_dir).records
        }
    return list(found.values())


def _from_columns(run_dir: Path, packed: PackedFile) -> dict[tuple[str, int, int], Recorded] | None:
    """By key; None where some records are not in the columns."""
    if not packed.columns.issuperset(FIELDS):
        return None
    if any((run_dir / name).exists() for name in names_of_records(run_dir, packed)):
        return None
    found: dict[tuple[str, int, int], Recorded] = {}
    ids: dict[str, str] = {}  # so that the rounds of a cell share one text
    for group in range(packed.groups):
        table = packed.read(FIELDS, group)
        if table.column("id").null_count:
            return None
        columns = [table.column(name).to_pylist() for name in FIELDS]
        for cell_id, *others in zip(*columns, strict=True):
            one = Recorded(ids.setdefault(cell_id, cell_id), *others)
            found[one[:3]] = one
    return found
