"""The lines under every table say exactly what was measured on what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from synthbench.record import Record
from synthbench.record_lines import Damage
from synthbench.report.data.context import context_of
from synthbench.report.data.grid import Grid
from synthbench.report.data.noise import Noise, percentage
from synthbench.store import Run
from tests.test_tables import cell, info, record

START = "Run: suite made_up, 1 round, started 2026-01-02T03:04:05+00:00"


def lines(found: list[Record], damaged: int = 0, **changes: Any) -> list[str]:
    """The lines for a run, without that of the noise."""
    broken = [Damage(n, "cut short", b"", "records.jsonl") for n in range(damaged)]
    run = Run(Path("results/made_up/one"), info(**changes), found, broken)
    context = context_of(run, Grid(run.records, ["V"]), Noise())
    return [line for line in context.shared if line != context.noise.line]


def a_cell(**fields: Any) -> Any:
    return cell("V", "torch", "train", fields.pop("seq_len", 64), **fields)


def cells_line(*cells: Any, **measured: Any) -> str:
    return lines([record(one, **measured) for one in cells])[0]


def test_a_run_of_one_cell() -> None:
    assert lines([record(a_cell(), form="fused")]) == [
        "Cells: model mixer, d_model 64, heads 4, head_dim 16, max_len 64, batch 2, float32, "
        "form auto (built: fused), torch eager.",
        "Device cpu: Some CPU, 2 cores, 8.0 GB of memory.",
        "Versions: Python 3.11.7, torch 2.13.0, jax 0.10.2.",
        f"{START}.",
    ]


def test_without_records_there_is_nothing_to_describe() -> None:
    assert lines([])[0] == "No records yet."


def test_sizes_that_differ_are_all_named() -> None:
    both = cells_line(a_cell(batch=1, dtype="bfloat16"), a_cell(batch=8, head_dim=32))
    assert "head_dim 16 or 32" in both
    assert "batch 1 or 8" in both
    assert "bfloat16 or float32" in both
    assert "torch eager, jax compiled" in cells_line(a_cell(), cell("V", "jax", "train", 64))


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ([(64, 64), (128, 128)], "= the length"),
        ([(64, 64), (64, 64)], "64"),  # the length too, but one number says more
        ([(64, 128), (128, 128)], "128"),
        ([(64, 64), (64, 128)], "64 or 128"),
    ],
)
def test_the_length_that_parameters_are_made_for(sizes: list[tuple[int, int]], said: str) -> None:
    cells = [
        a_cell(seq_len=length, max_len=most, batch=n + 1) for n, (length, most) in enumerate(sizes)
    ]
    assert f", max_len {said}, " in cells_line(*cells)


def test_a_stack_has_layers_and_a_vocabulary() -> None:
    stack = a_cell(model="encoder", layers=2, feed_forward=32, vocabulary=99)
    assert cells_line(stack).startswith(
        "Cells: model encoder, layers 2, feed_forward 32, vocabulary 99, d_model 64,"
    )


def test_the_devices_that_frameworks_see_are_described() -> None:
    seen = {"torch": {"cuda:0": "H100, 80 GB", "cpu": "2 cores"}, "jax": {"cuda:0": "H100, 80 GB"}}
    machine = info().machines[0]
    machine = machine.model_copy(
        update={"environment": machine.environment | {"frameworks": seen, "memory_bytes": None}}
    )
    found = lines([record(a_cell())], device="cuda", machines=[machine])
    assert found[1] == "Device cuda: Some CPU, 2 cores, H100, 80 GB."
    found = lines([record(a_cell())], machines=[machine])
    assert found[1] == "Device cpu: Some CPU, 2 cores."


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"load": [9.0]}, ""),
        ({"cpu": "Other CPU"}, " on another processor, so not all numbers are comparable"),
        ({"cores": [0]}, " on other cores, so not all numbers are comparable"),
        ({"versions": {}}, " with other versions, so not all numbers are comparable"),
        (
            {"code_sha256": "f" * 64},
            " with other code of synthbench, so not all numbers are comparable",
        ),
    ],
)
def test_what_was_different_when_a_run_was_resumed(change: dict[str, Any], said: str) -> None:
    session = {"started": "2026-01-03", "environment": info().environment | change}
    assert lines([record(a_cell())], resumed=[session])[-1] == f"{START}, resumed once{said}."
    twice = [{"started": "2026-01-03", "environment": info().environment}, session]
    assert lines([record(a_cell())], resumed=twice)[-1] == f"{START}, resumed 2 times{said}."


def test_a_run_that_was_resumed_as_it_began_has_no_remark() -> None:
    assert (
        lines([record(a_cell())], resumed=[{"at": "2026-01-03"}])[-1] == f"{START}, resumed once."
    )


def test_other_settings_of_a_resumed_run_are_named() -> None:
    session = {"at": "2026-01-03", "changed": ["measure.minutes"], "settings_before": {}}
    expected = f"{START}, resumed once with other settings (measure.minutes)."
    assert lines([record(a_cell())], resumed=[session])[-1] == expected


def test_what_limits_a_run_is_said() -> None:
    assert lines([record(a_cell())], damaged=2)[-1] == (
        "2 damaged lines of records.jsonl were skipped."
    )
    assert lines([record(a_cell())], finished=None)[-1] == (
        "This run is not finished; continue it with `synthbench run --resume`."
    )
    busy = lines([record(a_cell(), warnings=["busy"])])[-1]
    assert busy.startswith("*: something disturbed the cell while it was timed")
    rounds = [record(a_cell(), round=n) for n in range(3)]
    assert lines(rounds)[-1] == START.replace("1 round", "3 rounds") + "."


def test_a_noise_of_thousands_of_percent_is_over_1000() -> None:
    assert [percentage(ratio) for ratio in (1.031, 2.5, 11.0, 11.1, 3437.91)] == [
        "3.1%", "150%", "1000%", "over 1000%", "over 1000%",
    ]  # fmt: skip
