"""A cell as pytest-benchmark knows a benchmark: name, group, parameters, what else is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from synthbench.record import Record, latest
from synthbench.report.data.frame import OUTCOMES, metrics_of, pool_rows, record_row
from synthbench.suites.cell import Cell
from synthbench.suites.plan import DEFAULT_COMPILE

PARAMETERS = (
    "variant", "framework", "mode", "seq_len", "batch", "dtype", "form", "compile", "device",
    "model", "d_model", "heads",
)  # fmt: skip


def benchmark_names(cells: Iterable[Cell]) -> dict[str, str]:
    """Cell id -> a name like V-torch-forward-128, the same for the same cell in any selection.

    What is not as in most suites stands behind the length (batch8, bfloat16, fused, cuda, ...);
    cells that would still share a name have their id behind it.
    """
    named = {cell.id: "-".join([cell.variant, setting_name(cell), *_twin(cell)]) for cell in cells}
    times = Counter(named.values())
    return {id: name if times[name] == 1 else f"{name}-{id}" for id, name in named.items()}


def setting_name(cell: Cell) -> str:
    """A cell but for its variant, torch-forward-128: the group in which variants are compared."""
    usual = DEFAULT_COMPILE[cell.framework]
    more = {
        f"batch{cell.batch}": cell.batch != 1,
        cell.dtype: cell.dtype != "float32",
        cell.form: cell.form != "auto",
        cell.compile: cell.compile != usual,
        cell.device.replace(":", ""): cell.device != "cpu",
    }
    shown = [text for text, is_shown in more.items() if is_shown]
    return "-".join([cell.framework, cell.mode, str(cell.seq_len), *shown])


def _twin(cell: Cell) -> list[str]:
    return ["twin"] * (cell.replica > 0)


def parameters_of(cell: Cell) -> dict[str, Any]:
    """What --benchmark-group-by=param:NAME can name."""
    content = cell.flat()
    return {name: content[name] for name in PARAMETERS}


def cell_rounds(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Cell id -> its records by round; of each the last attempt."""
    cells: dict[str, list[Record]] = {}
    for record in sorted(latest(records), key=lambda record: record.key):
        cells.setdefault(record.id, []).append(record)
    return cells


def worst(rounds: Sequence[Record]) -> Record:
    """The record that decides: a cell that fails now and then gives no number to rely on."""
    return min(rounds, key=lambda record: OUTCOMES.index(record.outcome))


def samples_of(rounds: Iterable[Record]) -> list[float]:
    """Seconds of every steady-state step: the rounds one after the other, each sample alike."""
    timings = [record.measurements.timing for record in rounds]
    return [sample for timing in timings if timing is not None for sample in timing.samples]


def extra_info(rounds: Sequence[Record]) -> dict[str, Any]:
    """What a cell is, and every metric of it, pooled over the rounds; None if not measured.

    Stored values: bytes and seconds. `warnings` is a list, `round_medians` has one entry per round.
    """
    metrics = metrics_of(rounds)
    rows = [record_row(record, metrics) for record in rounds]
    pooled = pool_rows(rows, metrics)
    medians = [row["median_seconds"] for row in rows if row["median_seconds"] is not None]
    warnings = [text for record in rounds for text in record.measurements.warnings]
    return {
        "cell": rounds[0].id,
        "outcome": pooled["outcome"],
        **parameters_of(rounds[0].cell),
        **{name: pooled[name] for name in metrics},
        "rounds": len(rounds),
        "round_medians": medians,
        "warnings": list(dict.fromkeys(warnings)),
    }
