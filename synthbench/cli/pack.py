"""`synthbench pack` and `synthbench unpack`: the records of a run as one Parquet file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from synthbench.cli.completion import complete_run
from synthbench.cli.options import Results
from synthbench.cli.output import complain, say
from synthbench.cli.runs import find_run

Run = Annotated[
    str, typer.Argument(metavar="RUN", help="A path, or a name.", autocompletion=complete_run)
]


def pack(
    run: Run,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep records.jsonl and shards/ beside the packed file.")
    ] = False,
    results: Results = Path("results"),
) -> None:
    """Write the records of a run as one Parquet file in its folder: smaller, and faster to read.

    Every command reads a packed run, and --resume continues it: new records are written to
    records.jsonl beside it, and a second `pack` adds them. Each file of records is removed once its
    lines have been read back and compared, byte for byte. `unpack` writes the same files again.
    """
    from synthbench.packed import PACKED
    from synthbench.packing import pack_run
    from synthbench.report.data.columns import MetricColumns

    folder = find_run(run, results)
    found = pack_run(folder, MetricColumns(), keep=keep)
    if found.damaged:
        complain(f"{folder}: {found.damaged} damaged lines were packed as they are")
    say(
        f"{found.records} records in {folder / PACKED}: {found.after:,} bytes, "
        f"{found.before:,} before"
    )


def unpack(run: Run, results: Results = Path("results")) -> None:
    """Write the files of records of a packed run again, byte for byte as they were."""
    from synthbench.packing import unpack_run

    folder = find_run(run, results)
    say(f"{unpack_run(folder)} lines unpacked in {folder}")
