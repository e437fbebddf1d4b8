"""A valid suite and a valid run, which the wrong ones differ from in one place."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

from benchmarks.faults.case import Content
from synthbench.suites.cell import Cell

SUITE = """\
axes: {variant: [V, R], framework: [torch], mode: [forward], seq_len: [8]}
model: {kind: mixer, d_model: 8, heads: 2}
measure: {min_samples: 3, min_seconds: 0.001, max_seconds: 0.1, threads: 1, ceiling: false}
"""
RUN = "results/tiny/one"

CELL: dict[str, Any] = Cell.from_flat(
    variant="V", framework="torch", mode="forward", seq_len=8, batch=1, model="mixer", d_model=8,
    heads=2, max_len=8, compile="eager",
).model_dump(mode="json")  # fmt: skip

INFO: dict[str, Any] = {
    "schema_version": 2,
    "suite": "tiny",
    "settings": {
        "axes": {"variant": ["V", "R"], "framework": ["torch"], "mode": ["forward"],
                 "seq_len": [8]},
        "model": {"kind": "mixer", "d_model": 8, "heads": 2},
        "measure": {"rounds": 1},
        "baseline": "V",
        "margin": 0.03,
    },
    "device": "cpu",
    "executor": "local",
    "plugins": [],
    "machines": [{"id": "m", "environment": {"cpu": "a CPU", "versions": {"torch": "2.13"}},
                  "ceilings": []}],
    "started": "2026-01-01T00:00:00+00:00",
    "finished": "2026-01-01T00:01:00+00:00",
    "resumed": [],
}  # fmt: skip

RECORD: dict[str, Any] = {
    "schema_version": 2,
    "id": Cell.model_validate(CELL).id,
    "round": 0,
    "attempt": 0,
    "cell": CELL,
    "outcome": "ok",
    "reason": "",
    "measurements": {
        "form": "reference",
        "parameters": 256,
        "constants": 0,
        "declared_parameters": 256,
        "timing": {"build_seconds": 0.01, "compile_seconds": 0.0, "first_step_seconds": 0.01,
                   "warmup_steps": 2, "samples": [0.001, 0.002, 0.001], "clock": "perf_counter"},
        "flops": {"formula": 5120, "traced": 5120, "traced_tool": "fvcore"},
        "memory": {"parameters": 1024, "optimizer": 0, "batch": 256, "peak": 4096,
                   "method": "VmHWM"},
    },
    "machine": "m",
    "started": "2026-01-01T00:00:01+00:00",
    "wall_seconds": 0.1,
    "host": {"pid": 1, "threads": 1, "cores": [0]},
}  # fmt: skip


def changed(base: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a nested value with one entry replaced; `path` like "cell.model.heads"."""
    content = copy.deepcopy(base)
    *parents, last = path.split(".")
    target: Any = content
    for name in parents:
        target = target[int(name)] if isinstance(target, list) else target[name]
    target[int(last) if isinstance(target, list) else last] = value
    return content


def without(base: dict[str, Any], name: str) -> dict[str, Any]:
    """A copy without one entry."""
    return {key: value for key, value in base.items() if key != name}


def run_files(
    info: Any = INFO, records: Sequence[Any] | Content = (RECORD,), folder: str = RUN
) -> dict[str, Content]:
    """The files of a run; text and bytes are written as they are."""
    lines = records if isinstance(records, str | bytes) or not isinstance(records, Sequence) else (
        "".join(json.dumps(record) + "\n" for record in records)
    )  # fmt: skip
    text = info if isinstance(info, str | bytes) else json.dumps(info)
    return {f"{folder}/run.json": text, f"{folder}/records.jsonl": lines}


RUN_FILES = run_files()
