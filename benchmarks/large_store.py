"""How long a run with very many records takes to pack, and to become tables; and how much memory.

    python -m benchmarks.large_store [--records 1000000] [--rounds 5] [--keep DIR]

The records are made up: those of a committed run, at other dtypes, seeds and batch sizes, each with
steps that are longer or shorter by chance. Nothing here was measured, and run.json says so. Every
command runs in a process of its own; printed are its seconds, its CPU seconds and its largest
resident memory, and of a loop of known length the CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count, islice, product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.store_speed import SOURCE, seconds_of, work_of_known_length
from synthbench.packed import PACKED
from synthbench.store import INFO, RECORDS
from synthbench.suites.cell import Cell

DTYPES = ("float32", "bfloat16", "float16")
SEEDS = (0, 1, 2)
SPREAD = 0.03  # standard deviation of the log of a step, from one step to the next
DRIFT = 0.05  # and of that of all steps together, from one record to the next
SUITE, MACHINE = "made_up", "made-up-machine"
MEBIBYTE = 1 << 20


def make_run(folder: Path, records: int, rounds: int) -> Path:
    """A run of so many records of cells with so many rounds each."""
    folder.mkdir(parents=True)
    info = json.loads((SOURCE / INFO).read_text())
    info["suite"] = SUITE
    for machine in info["machines"]:
        machine["id"] = MACHINE
        machine["environment"]["cpu"] = "made up, not measured"
    (folder / INFO).write_text(json.dumps(info))
    with open(folder / RECORDS, "w") as file:
        file.writelines(islice(_lines(rounds), records))
    return folder


def _lines(rounds: int) -> Iterator[str]:
    raws = [json.loads(line) for line in (SOURCE / RECORDS).read_text().splitlines()]
    firsts = [raw for raw in raws if raw["round"] == 0]
    generator = np.random.default_rng(0)
    settings = ((n, *pair) for n in count(1) for pair in product(SEEDS, DTYPES))
    for batch, seed, dtype in settings:
        places = {"batch": batch, "seed": seed, "dtype": dtype}
        templates = [_template(raw, places) for raw in firsts]
        for number in range(rounds):
            for (before, after, end), raw in zip(templates, firsts, strict=True):
                steps = np.array(raw["measurements"]["timing"]["samples"])
                drawn = generator.normal(generator.normal(0, DRIFT), SPREAD, len(steps))
                made = ",".join(map(repr, np.round(steps * np.exp(drawn), 9).tolist()))
                yield f"{before}{number}{after}{made}{end}\n"


def _template(raw: dict[str, Any], places: dict[str, Any]) -> tuple[str, str, str]:
    """The line of a record without its round and its samples."""
    cell = Cell.model_validate(raw["cell"] | places)
    made = raw | {"id": cell.id, "round": "ROUND", "cell": cell.model_dump(mode="json")}
    made["machine"] = MACHINE
    timing = raw["measurements"]["timing"] | {"samples": ["SAMPLES"]}
    made["measurements"] = raw["measurements"] | {"timing": timing}
    text = json.dumps(made, separators=(",", ":"))
    before, rest = text.split('"ROUND"')
    after, end = rest.split('"SAMPLES"')
    return before, after, end


def measure(name: str, *arguments: str) -> None:
    """Run a command of synthbench, and print what it took."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "synthbench", *arguments]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command)} failed with {child.returncode}")
    print(
        f"{name}: {time.perf_counter() - begin:.1f} s, {usage.ru_utime + usage.ru_stime:.1f} CPU "
        f"seconds, {usage.ru_maxrss * 1024 / MEBIBYTE:.0f} MiB",
        flush=True,
    )


def main() -> None:
    """Make a run, pack it, and print what the commands take."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5, help="records per cell")
    parser.add_argument("--keep", type=Path, help="make the run here, and keep it")
    options = parser.parse_args()
    print(f"ten million additions: {seconds_of(work_of_known_length, False):.2f} CPU seconds")
    with tempfile.TemporaryDirectory() as temporary:
        parent = options.keep or Path(temporary)
        folder = make_run(parent / SUITE / "run", options.records, options.rounds)
        cells = -(-options.records // options.rounds)
        print(f"{options.records} records, about {cells} cells")
        before = (folder / RECORDS).stat().st_size
        measure("pack", "pack", str(folder))
        after = (folder / PACKED).stat().st_size
        print(
            f"bytes per record: {before / options.records:.0f} before, "
            f"{after / options.records:.0f} packed"
        )
        measure("status", "status", str(folder))
        measure("tables: screen and files", "tables", str(folder))


if __name__ == "__main__":
    main()
