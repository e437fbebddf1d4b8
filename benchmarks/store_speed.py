"""How long large runs take to read and to become tables, in CPU seconds of one core.

    python -m benchmarks.store_speed [--records 20000] [--profile]

The records are those of a committed run, repeated at other batch sizes, so that every copy has
cells of its own. A loop of known length is timed too: on a machine that others use, a core does
less work in a second of CPU time. Exit code 1: a time is above its limit.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from synthbench.report.text.files import render
from synthbench.store import INFO, RECORDS, read_run
from synthbench.suites.cell import Cell

SOURCE = Path(__file__).resolve().parents[1] / "results" / "seq_scaling" / "cpu-reference"
LIMITS = {"read to resume": 2.0, "read and make tables": 20.0}  # seconds for 20,000 records
COUNT = 20_000


def originals(wanted: Callable[[dict[str, Any]], bool] = lambda cell: True) -> list[dict[str, Any]]:
    """The records of SOURCE with wanted cells."""
    raw_records = map(json.loads, (SOURCE / RECORDS).read_text().splitlines())
    return [raw for raw in raw_records if wanted(raw["cell"])]


def write_run(
    folder: Path, count: int, wanted: Callable[[dict[str, Any]], bool] = lambda cell: True
) -> Path:
    """A run with `count` records: those of SOURCE with wanted cells, at batch 1, 2, 3 and so on."""
    folder.mkdir(parents=True)
    shutil.copy(SOURCE / INFO, folder / INFO)
    repeated = originals(wanted)

    def lines() -> Iterator[str]:
        batch = 0
        while True:
            batch += 1
            for raw in repeated:
                cell = Cell.model_validate(raw["cell"] | {"batch": batch})
                copy = raw | {"id": cell.id, "cell": cell.model_dump(mode="json")}
                yield json.dumps(copy, separators=(",", ":")) + "\n"

    (folder / RECORDS).write_text("".join(islice(lines(), count)))
    return folder


def seconds_of(work: Callable[[], object], profile: bool) -> float:
    """CPU seconds of this process for some work; optionally prints where they went."""
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    begin = time.process_time()
    work()
    spent = time.process_time() - begin
    if profile:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(35)
        pstats.Stats(profiler).sort_stats("cumtime").print_stats(60)
    return spent


def work_of_known_length() -> int:
    """Ten million additions, which take about 0.4 s where nobody else works."""
    total = 0
    for number in range(10_000_000):
        total += number
    return total


def main() -> None:
    """Print the times and compare them with the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=COUNT)
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    options = parser.parse_args()
    too_slow = False
    print(f"ten million additions: {seconds_of(work_of_known_length, False):.2f} s")
    with tempfile.TemporaryDirectory() as temporary:
        run_dir = write_run(Path(temporary) / "run", options.records)
        works: dict[str, Callable[[], object]] = {
            "read to resume": lambda: read_run(run_dir),
            "read and make tables": lambda: render(read_run(run_dir)),
        }
        for name, work in works.items():
            spent = seconds_of(work, options.profile)
            limit = LIMITS[name] * options.records / COUNT
            verdict = "ok" if spent <= limit else "TOO SLOW"
            too_slow |= spent > limit
            print(
                f"{options.records} records, {name}: {spent:.2f} s, at most {limit:g} s: {verdict}"
            )
    sys.exit(too_slow)


if __name__ == "__main__":
    main()
