"""The table of chosen kernels says what was chosen, by how much, and what is to be known of it."""

from __future__ import annotations

from typing import Any

from synthbench.kernel import Kernel
from synthbench.measure.kernel_choice import raced_cell
from synthbench.report.tables.choices import choice_table
from synthbench.run.kernel_search import taken_from
from synthbench.run_info import KernelChoice, KernelTime
from tests.kernel_choices import FAST, SLOW, cell

OTHER = Kernel("other")


def made(**changes: Any) -> KernelChoice:
    """SLOW needs no measurement and takes 1.5 times as long as FAST; OTHER was left out."""
    times = {SLOW: [3.0] * 5, FAST: [2.0] * 5, OTHER: [4.0] * 3}
    kernels = [KernelTime(kernel=kernel, samples=found) for kernel, found in times.items()]
    return KernelChoice(cell=raced_cell(cell(**changes)), chosen=FAST, kernels=kernels)


def rows(*choices: KernelChoice, **machines: list[KernelChoice]) -> list[tuple[object, ...]]:
    table = choice_table(machines or {"": choices}, ["R", "V"], ())
    for row in table.rows:
        assert len(row) == len(table.columns)
    return [tuple(row) for row in table.rows]


def test_a_choice_with_its_margins() -> None:
    assert rows(made()) == [
        ("torch", "forward", "V", "8", FAST.name, "slow", "1.50 (1.50 to 1.50)",
         "1.50 (1.50 to 1.50)", ""),
    ]  # fmt: skip


def test_margins_are_those_of_what_was_compared() -> None:
    times = {SLOW: [3.0, 9.0, 3.0, 9.0], FAST: [2.0] * 4}
    kernels = [KernelTime(kernel=kernel, samples=found) for kernel, found in times.items()]
    before = made().model_copy(update={"kernels": kernels})
    assert before.compared == "medians"  # where run.json says nothing
    assert str(rows(before)[0][6]).startswith("3.00 (")
    now = before.model_copy(update={"compared": "faster halves"})
    assert rows(now)[0][5:8] == ("slow", "1.50 (1.50 to 1.50)", "1.50 (1.50 to 1.50)")


def test_a_kernel_that_was_left_out_has_no_interval() -> None:
    alone = made().model_copy(update={"kernels": made().kernels[1:]})
    assert rows(alone)[0][4:] == (FAST.name, "other", "2.00 (3 steps)", "the same", "")


def test_the_only_kernel_that_runs_has_no_next_best() -> None:
    only = made().model_copy(update={"kernels": [made().kernels[1]], "failed": {"slow": "why"}})
    assert rows(only)[0][4:] == (FAST.name, "none", "", "the same", "cannot run: slow")


def test_a_choice_taken_from_other_lengths_names_them_and_their_disturbance() -> None:
    disturbed = made().model_copy(update={"warnings": ["another process"]})
    assert rows(taken_from(cell(seq_len=7), disturbed))[0][4:] == (
        FAST.name, "as V at 8", "", "", "disturbed",
    )  # fmt: skip


def test_rows_are_in_the_order_of_frameworks_modes_variants_and_lengths() -> None:
    changes: list[dict[str, Any]] = [
        {"framework": "jax", "compile": "compiled"}, {"mode": "train"}, {"variant": "D"}, {},
        {"variant": "R"}, {"seq_len": 4},
    ]  # fmt: skip
    found = [row[:4] for row in rows(*(made(**change) for change in changes))]
    assert found == [
        ("torch", "forward", "R", "8"), ("torch", "forward", "V", "4"),
        ("torch", "forward", "V", "8"), ("torch", "forward", "D", "8"),
        ("torch", "train", "V", "8"), ("jax", "forward", "V", "8"),
    ]  # fmt: skip


def test_sizes_are_shown_where_they_differ_and_machines_where_there_are_several() -> None:
    assert [row[4] for row in rows(made(), made(batch=2))] == ["1", "2"]
    assert [row[0] for row in rows(a=[made()], b=[made()])] == ["a", "b"]
    assert rows(a=[made()], b=[]) == rows(made())
