"""Which cell of a run `synthbench inspect` draws the model of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from synthbench.errors import NotationError, UnknownNameError

if TYPE_CHECKING:
    from synthbench.suites.cell import Cell


@dataclass(frozen=True)
class Wanted:
    """What a person asks for; None: that of the cell."""

    framework: str | None = None
    seed: int | None = None
    task: str | None = None
    steps: int | None = None
    batch: int | None = None

    def is_as_run(self, cell: Cell) -> bool:
        """Whether the training of the run is the one that is asked for."""
        return (self.steps, self.batch) == (None, None) and self.task in (None, cell.task)


def every_variant(run: Path) -> list[str]:
    """The variants of a run, in the order of its records."""
    return list(dict.fromkeys(cell.variant for cell in _cells(run)))


def variants_of(run: Path, asked: Sequence[str]) -> list[str]:
    """The variants that are asked for, in canonical notation; without any V, or the first.

    Raises UnknownNameError for one that the run does not have.
    """
    from synthbench.mixers.notation import canonical

    known = every_variant(run)
    names = [canonical(name) for name in asked] or ["V" if "V" in known else known[0]]
    for name in names:
        if name not in known:
            raise UnknownNameError("variant of this run", name, known)
    return list(dict.fromkeys(names))


def cell_of(run: Path, variant: str, wanted: Wanted) -> Cell:
    """The longest cell of a variant: of the task that is asked for, else a training if possible.

    Raises UnknownNameError for a framework or a seed that the run does not have.
    """
    from synthbench.report.data.training_groups import trains

    cells = _cells(run)
    frameworks = sorted({cell.framework for cell in cells}, reverse=True)
    if wanted.framework is not None and wanted.framework not in frameworks:
        raise UnknownNameError("framework of this run", wanted.framework, frameworks)
    chosen = wanted.framework or frameworks[0]
    own = [c for c in cells if (c.variant, c.framework) == (variant, chosen) and not c.replica]
    if not own:
        raise NotationError(f"{run} has no cell of {variant} in {chosen}")
    seeds = sorted({cell.seed for cell in own})
    if wanted.seed is not None and wanted.seed not in seeds:
        raise UnknownNameError("seed of this run", str(wanted.seed), map(str, seeds))
    fitting = [cell for cell in own if wanted.seed in (None, cell.seed)]
    return max(
        fitting,
        key=lambda cell: (
            trains(cell) if wanted.task is None else cell.task == wanted.task,
            cell.mode == "train", cell.seq_len, -cell.seed,
        ),
    )  # fmt: skip


def steps_of(run: Path, cell: Cell) -> int | None:
    """After how many steps the run's training of a cell ended; None if it did none to its end."""
    from synthbench.store import read_run

    own = [one for one in read_run(run).records if one.id == cell.id and one.outcome == "ok"]
    trained = [one.measurements.training for one in own if one.has_training]
    curves = [training.evaluations for training in trained if training is not None]
    return curves[-1][-1].step if curves and curves[-1] else None


def _cells(run: Path) -> list[Cell]:
    from synthbench.store import read_run

    cells = [record.cell for record in read_run(run).records if record.outcome != "unsupported"]
    if not cells:
        raise NotationError(
            f"{run} has no records yet, so there is no model to draw; choose another run"
        )
    return cells
