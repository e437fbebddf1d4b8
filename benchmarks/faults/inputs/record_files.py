"""A records.jsonl that cannot be read, and damaged records, which are noted and skipped."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.faults.case import FIFO, FOLDER, Case, Content, Special
from benchmarks.faults.inputs.examples import RECORD, RUN, changed, run_files, without

GOOD = json.dumps(RECORD) + "\n"

UNREADABLE: dict[str, Content] = {
    "a folder": FOLDER,
    "a FIFO": FIFO,
    "a link to itself": Special("link", "records.jsonl"),
    "a link to /dev/zero": Special("link", "/dev/zero"),
    "the same record twice": GOOD + GOOD,
    "a newer schema": GOOD + json.dumps(changed(RECORD, "schema_version", 99)) + "\n",
    "an older schema": json.dumps(changed(RECORD, "schema_version", 1)) + "\n",
}

# Lines that are noted as damaged while the rest of the run is read.
DAMAGED: dict[str, Any] = {
    "cut off": GOOD[:100],
    "null": "null",
    "a list": "[1]",
    "a number": "3",
    "deep lists": "[" * 100_000,
    "not UTF-8": b"\xff\xfe{}",
    "NUL bytes": b"\0" * 300,
    "5000 digits": GOOD.replace("5120", "9" * 5000),
    "infinity": GOOD.replace("0.002", "Infinity"),
    "NaN": GOOD.replace("0.002", "NaN"),
    "no cell": json.dumps(without(RECORD, "cell")),
    "no id": json.dumps(without(RECORD, "id")),
    "another id": json.dumps(changed(RECORD, "id", "0" * 12)),
    "an unknown key": json.dumps({**RECORD, "nonsense": 1}),
    "an unknown outcome": json.dumps(changed(RECORD, "outcome", "great")),
    "round -1": json.dumps(changed(RECORD, "round", -1)),
    "negative seconds": json.dumps(changed(RECORD, "wall_seconds", -1)),
    "a negative count": json.dumps(changed(RECORD, "measurements.flops.formula", -5)),
    "a count above 2^63": json.dumps(changed(RECORD, "measurements.flops.formula", 2**63)),
    "samples that are text": json.dumps(changed(RECORD, "measurements.timing.samples", "fast")),
    "memory that is a list": json.dumps(changed(RECORD, "measurements.memory", [1])),
    "heads 0": json.dumps(changed(RECORD, "cell.model.heads", 0)),
    "an unknown framework": json.dumps(changed(RECORD, "cell.framework", "numpy")),
}


def _with(line: Any) -> bytes:
    return GOOD.encode() + (line if isinstance(line, bytes) else line.encode()) + b"\n"


RECORD_FILES: list[Case] = [
    *(
        Case("records.jsonl", f"{name} ({command[0]})", (*command, RUN),
             run_files(records=content), says="records.jsonl")
        for name, content in UNREADABLE.items()
        for command in (("tables",), ("export", "--format", "csv"))
    ),
    *(
        Case("records.jsonl", f"{name} ({command[0]})", (*command, RUN),
             run_files(records=_with(line)), codes=(0,), says="damaged", writes=True, prints=True)
        for name, line in DAMAGED.items()
        for command in (("tables",), ("export", "--format", "pytest-benchmark"))
    ),
]  # fmt: skip
