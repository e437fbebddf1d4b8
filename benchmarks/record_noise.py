"""Record the noise of this machine: step times of the same cell in many processes.

    python -m benchmarks.record_noise tests/data/step_times.json

The tests of verdicts sample from this file. It includes all noise: other load, clock rates, and the
memory placement of each process.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.whole_run import run_whole
from synthbench.store import read_records, read_run
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import parse_suite

SAMPLES = 60  # kept per process
SUITE = """
axes: {{variant: [V], framework: [torch], mode: [forward], seq_len: [64], batch: [2]}}
model: {{kind: mixer, d_model: 64, heads: 4}}
measure: {{rounds: {rounds}, aa: false, min_samples: 60, min_seconds: 0.05, max_seconds: 1,
           timeout_seconds: 60, threads: 1, parity: false}}
"""


def main(
    path: Annotated[Path, typer.Argument(help="The file to write.")],
    processes: Annotated[int, typer.Option(help="Number of processes.")] = 40,
) -> None:
    """Measure and write."""
    suite = parse_suite(SUITE.format(rounds=processes), name="noise", source="noise")
    with tempfile.TemporaryDirectory(prefix="noise-") as folder:
        run_dir = Path(folder) / "run"
        run_whole(make_plan(suite, "cpu"), run_dir)
        records, info = read_records(run_dir), read_run(run_dir).info
    timings = [record.measurements.timing for record in records]
    content = {
        "about": "Seconds of consecutive steps of V, forward, torch, L=64, B=2, d_model 64, heads "
        "4, float32; one list per process. Made by benchmarks/record_noise.py.",
        "cpu": info.environment.get("cpu"),
        "processes": [timing.samples[:SAMPLES] for timing in timings if timing is not None],
    }
    path.write_text(json.dumps(content) + "\n", encoding="utf-8")
    typer.echo(f"{len(records)} processes: {path}")


if __name__ == "__main__":
    typer.run(main)
