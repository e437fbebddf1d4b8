"""The stored result of a cell: one line of samples.jsonl, written as soon as it is measured."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from benchmarks.peers.pairs import labelled
from synthbench.errors import ResultsError
from synthbench.kernel import Kernel

SAMPLES = "samples.jsonl"
ENVIRONMENT = "environment.json"


class Side(BaseModel):
    """Seconds of each step, alternating with the other side; peak bytes of the second step."""

    model_config = ConfigDict(extra="forbid")

    samples: list[float]
    peak_bytes: int | None


class Sample(BaseModel):
    """A cell: what was compared, whether both sides compute the same, and their costs."""

    model_config = ConfigDict(extra="forbid")

    framework: str
    variant: str
    peer: str
    mode: str
    seq_len: int
    batch: int
    head_dim: int | None = None  # None: d_model / heads
    dtype: str = "float32"
    device: str = "cpu"
    outcome: str = "ok"  # differs: the sides do not compute the same and were not timed
    reason: str = ""
    form: str | None = None  # of our side, as built
    kernels: list[str] = []  # of our side
    kernel_choice: Kernel | None = None  # of our side, by timing; None: it has only one
    compared: Literal["outputs", "losses", ""] = ""
    difference: float | None = None  # between these in the first step, over the largest value
    fall_difference: float | None = None  # between how much the first update lowers each loss
    ours: Side | None = None
    theirs: Side | None = None
    memory_method: str = ""
    keeps_memory: bool = False  # whether the process kept freed memory during timing
    warnings: list[str] = []
    core_distances: tuple[float | None, float | None] = (None, None)  # before and after timing

    @property
    def label(self) -> str:
        """The variant, with its head_dim where that is not d_model / heads."""
        return labelled(self.variant, self.head_dim)

    @property
    def key(self) -> tuple[str, str, str, str, int, int]:
        """Identifies a cell within a run."""
        return self.framework, self.label, self.peer, self.mode, self.seq_len, self.batch


def append(folder: Path, sample: Sample) -> None:
    """Append a line and sync it to disk."""
    with open(folder / SAMPLES, "ab") as file:
        file.write(sample.model_dump_json().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read(folder: Path) -> list[Sample]:
    """Every cell of a folder, the last line of each; incomplete lines are skipped."""
    path = folder / SAMPLES
    if not path.is_file():
        raise ResultsError(f"{folder} has no {SAMPLES}; `make peers` writes one")
    found: dict[tuple[Any, ...], Sample] = {}
    for line in path.read_bytes().splitlines():
        try:
            sample = Sample.model_validate_json(line)
        except ValueError:  # the process was killed while it wrote
            continue
        found[sample.key] = sample
    return list(found.values())


def write_environment(folder: Path, environment: dict[str, Any]) -> None:
    """Write the description of machine and software."""
    (folder / ENVIRONMENT).write_text(json.dumps(environment, indent=2) + "\n")


def read_environment(folder: Path) -> dict[str, Any]:
    """What `write_environment` wrote; empty without the file."""
    path = folder / ENVIRONMENT
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return found
