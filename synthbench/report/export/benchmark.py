"""A cell as a benchmark of pytest-benchmark: name, group, parameters, extra information."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from synthbench.devices import is_host
from synthbench.record import Record, latest
from synthbench.report.data.frame import OUTCOMES, metrics_of, pool_rows, record_row
from synthbench.report.data.setting import differing_fields, setting_of
from synthbench.suites.cell import Cell
from synthbench.suites.plan import DEFAULT_COMPILE

PARAMETERS = (
    "variant", "framework", "mode", "seq_len", "batch", "dtype", "form", "compile", "device",
    "model", "d_model", "heads", "task", "devices",
)  # fmt: skip
NAMED = ("batch", "dtype", "form", "compile", "device")  # parts of `setting_name`


def benchmark_names(cells: Iterable[Cell]) -> dict[str, str]:
    """Cell id -> a name like V-torch-forward-128, which does not depend on the other cells.

    Settings that differ from the usual follow the length (batch8, bfloat16, fused, cuda, ...).
    Cells that would still have the same name get their id as a suffix.
    """
    named = {cell.id: "-".join([cell.variant, setting_name(cell), *_twin(cell)]) for cell in cells}
    count = Counter(named.values())
    return {id: name if count[name] == 1 else f"{name}-{id}" for id, name in named.items()}


def group_names(cells: Iterable[Cell]) -> dict[str, str]:
    """Cell id -> the group that is compared, like torch-forward-128: its name without the variant.

    Fields in which the cells differ otherwise follow, as in torch-forward-128-d_model=64.
    """
    listed = list(cells)
    fields = [name for name in differing_fields(listed) if name not in NAMED]
    return {
        cell.id: "-".join([setting_name(cell), *(setting_of(cell, [name]) for name in fields)])
        for cell in listed
    }


def setting_name(cell: Cell) -> str:
    """A cell without its variant, like torch-forward-128."""
    usual = DEFAULT_COMPILE[cell.framework]
    more = {
        f"batch{cell.batch}": cell.batch != 1,
        cell.dtype: cell.dtype != "float32",
        cell.form: cell.form != "auto",
        cell.compile: cell.compile != usual,
        cell.device.replace(":", ""): not is_host(cell.device),
    }
    shown = [text for text, is_shown in more.items() if is_shown]
    return "-".join([cell.framework, cell.mode, str(cell.seq_len), *shown])


def _twin(cell: Cell) -> list[str]:
    return ["twin"] * (cell.replica > 0)


def parameters_of(cell: Cell) -> dict[str, Any]:
    """The parameters for --benchmark-group-by=param:NAME."""
    content = cell.flat()
    return {name: content[name] for name in PARAMETERS}


def cell_rounds(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Cell id -> its records by round, the last attempt of each."""
    cells: dict[str, list[Record]] = {}
    for record in sorted(latest(records), key=lambda record: record.key):
        cells.setdefault(record.id, []).append(record)
    return cells


def worst(rounds: Sequence[Record]) -> Record:
    """The record with the worst outcome: a cell that fails sometimes gives no reliable number."""
    return min(rounds, key=lambda record: OUTCOMES.index(record.outcome))


def samples_of(rounds: Iterable[Record]) -> list[float]:
    """Seconds of every steady-state step, round after round."""
    timings = [record.measurements.timing for record in rounds]
    return [sample for timing in timings if timing is not None for sample in timing.samples]


def has_benchmark(rounds: Sequence[Record]) -> bool:
    """Whether a cell is a benchmark: it is ok in all its rounds, and has samples."""
    return worst(rounds).outcome == "ok" and any(samples_of(rounds))


def extra_info(rounds: Sequence[Record]) -> dict[str, Any]:
    """The parameters of a cell, and its metrics pooled over the rounds; None if not measured.

    Bytes and seconds, as stored. `warnings` is a list, `round_medians` has one entry per round.
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
