"""What a comparison of executors has measured, and the file that keeps it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from synthbench.errors import ResultsError
from synthbench.run_files import read_text, write_text

NAME = "executors.json"


@dataclass(frozen=True)
class Ran:
    """A run of the suite through one executor; with `skipped`, the reason why there is none."""

    name: str  # of the run
    executor: str
    records: int = 0
    shards: int = 0
    seconds: float = 0.0  # from the call to its end
    cell_seconds: float = 0.0  # of these, in cells
    skipped: str = ""

    @property
    def overhead(self) -> float:
        """Seconds beside the cells, per shard."""
        return (self.seconds - self.cell_seconds) / self.shards

    @property
    def cells_per_hour(self) -> float:
        """Records in an hour of the whole run."""
        return self.records / self.seconds * 3600


@dataclass(frozen=True)
class Agreed:
    """How many ratios to the baseline agree between two runs."""

    first: str
    second: str
    agreeing: int
    shared: int
    contradicting: int  # verdicts


@dataclass(frozen=True)
class Measured:
    """All of a comparison."""

    suite: str
    selection: str  # of the suite, in words
    machine: str
    commit: str
    begun: str  # ISO 8601, UTC
    runs: tuple[Ran, ...]
    agreed: tuple[Agreed, ...]

    def write(self, folder: Path) -> None:
        """Store it; raises ResultsError if that fails."""
        write_text(folder / NAME, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Measured:
        """Read what `write` stored; raises ResultsError for anything else."""
        text = read_text(folder / NAME)
        try:
            raw: dict[str, Any] = json.loads(text)
            runs = tuple(Ran(**each) for each in raw.pop("runs"))
            return cls(runs=runs, agreed=tuple(Agreed(**a) for a in raw.pop("agreed")), **raw)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ResultsError(
                f"{folder / NAME} is not a comparison of executors: {error}; make it again with "
                "python -m benchmarks.executors --out FOLDER"
            ) from error
