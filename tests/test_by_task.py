"""Sections of a suite for one task: what they replace, and what they may not."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from synthbench.errors import NotationError
from synthbench.run.planning import plan_suite
from synthbench.suites.planned import planned_cells
from synthbench.suites.suite import Suite, parse_suite

TWO_TASKS: dict[str, Any] = {
    "axes": {"task": ["mqar", "listops"], "variant": ["V", "R"], "framework": ["torch"],
             "mode": ["train"], "seq_len": [32], "batch": [4], "seed": [0, 1]},
    "model": {"kind": "decoder", "d_model": 16, "heads": 2, "vocabulary": 32},
    "by_task": {
        "listops": {
            "axes": {"seq_len": [48, 64]},
            "model": {"kind": "classifier", "vocabulary": 16, "labels": 10},
        }
    },
}  # fmt: skip


def suite(**changes: Any) -> Suite:
    return parse_suite(yaml.safe_dump(TWO_TASKS | changes), name="mine", source="mine.yaml")


def test_each_task_has_its_own_model_and_lengths() -> None:
    plan = plan_suite(suite(), "cpu")
    found = {(c.task, c.model.kind, c.seq_len, c.model.max_len, c.seed) for c in plan.cells}
    assert found == {
        *(("mqar", "decoder", 32, 32, seed) for seed in (0, 1)),
        *(
            ("listops", "classifier", length, length, seed)
            for length in (48, 64)
            for seed in (0, 1)
        ),
    }
    assert len(plan.cells) == 2 * len(found)
    assert not plan.skipped


def test_a_section_changes_nothing_for_other_tasks() -> None:
    own = [cell for cell in plan_suite(suite(), "cpu").cells if cell.task == "mqar"]
    axes = TWO_TASKS["axes"] | {"task": ["mqar"]}
    assert own == list(plan_suite(suite(axes=axes, by_task={}), "cpu").cells)


def test_lengths_that_are_selected_hold_for_every_task() -> None:
    plan = plan_suite(suite(), "cpu", seq_lens=[40])
    assert {(cell.task, cell.seq_len) for cell in plan.cells} == {("mqar", 40), ("listops", 40)}


def test_so_do_modes_and_batch_sizes_whatever_the_section_of_a_task_says() -> None:
    section = TWO_TASKS["by_task"]["listops"]
    own = section | {"axes": {"seq_len": [24], "batch": [7], "mode": ["train"]}}
    several = suite(by_task={"listops": own})
    cells = plan_suite(several, "cpu", batches=[3]).cells
    assert {(c.task, c.seq_len, c.batch) for c in cells} == {("mqar", 32, 3), ("listops", 24, 3)}
    skipped = plan_suite(several, "cpu", modes=["forward"]).skipped  # learning tasks train
    assert {(s.cell.task, s.cell.mode) for s in skipped} == {
        ("mqar", "forward"), ("listops", "forward"),
    }  # fmt: skip


def test_lengths_that_are_selected_are_those_of_the_stored_settings() -> None:
    """By which `compare` knows what a run was to measure."""
    plan = plan_suite(suite(), "cpu", seq_lens=[40])
    stored = plan.settings.model_dump(mode="json")
    planned = [planned_cells(stored, task, "cpu", "V") for task in ("mqar", "listops")]
    found = {cell.id for cells in planned for cell in cells or ()}
    assert found == {cell.id for cell in plan.cells}


def test_a_task_without_cells_is_named_with_the_key_that_leaves_them_out() -> None:
    few = {"mqar": {"axes": {"tokens_at_most": 8}}}
    alone = suite(axes=TWO_TASKS["axes"] | {"task": ["mqar"]}, by_task=few)
    told = r"mine\.yaml: by_task\.mqar\.axes\.tokens_at_most: every combination of task mqar has "
    with pytest.raises(NotationError, match=f"^{told}more than 8 tokens"):
        plan_suite(alone, "cpu")
    plan = plan_suite(suite(by_task=TWO_TASKS["by_task"] | few), "cpu")
    assert {cell.task for cell in plan.cells} == {"listops"}
    (note,) = (note for note in plan.notes if "tokens_at_most" in note)
    assert re.match(f"{told}more than 8 tokens.*; none of it runs$", note)


def test_a_section_may_name_a_preset() -> None:
    listops = {"model": {"preset": "text_base", "labels": 10, "d_model": 64, "heads": 4}}
    cells = plan_suite(suite(by_task={"listops": listops}), "cpu").cells
    (model,) = {cell.model for cell in cells if cell.task == "listops"}
    assert (model.kind, model.layers, model.d_model, model.labels) == ("classifier", 6, 64, 10)


@pytest.mark.parametrize(
    ("by_task", "message"),
    [
        ({"listop": {}}, "mine.yaml: by_task.listop: task of this suite 'listop' not known. Did"),
        ({"mqar": {"axes": {"variant": ["V"]}}}, "by_task.mqar.axes.variant: all tasks of a suite"),
        (
            {"mqar": {"axes": {"seq_len": 3}}},
            "by_task.mqar.axes.seq_len: got 3, expected a list; write [3]",
        ),
        (
            {"mqar": {"axes": {"length": [3]}}},
            "by_task.mqar.axes.length: unknown key. Known here: ",
        ),
        (
            {"mqar": {"model": {"headz": 3}}},
            "by_task.mqar.model.headz: unknown key. Did you mean head",
        ),
        ({"mqar": {"model": {"preset": "t6"}}}, "by_task.mqar.model.preset: preset 't6' not known"),
        ({"mqar": {"tasks": {}}}, "mine.yaml: by_task.mqar.tasks: unknown key."),
    ],
)
def test_mistakes_are_explained_in_one_line(by_task: Any, message: str) -> None:
    with pytest.raises(NotationError) as caught:
        suite(by_task=by_task)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_data_replaces_the_source_of_tasks_that_have_one() -> None:
    with pytest.raises(NotationError, match=r"^suite mine has no task that takes --data \(its"):
        plan_suite(suite(), "cpu", data="texts.csv")


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"axes": {"variant": ["V"], "seq_len": [16], "task": ["cost", "costs"]}}, "axes.task.1"),
        ({"tasks": {"costs": {}}}, "tasks.costs"),
    ],
)
def test_an_unknown_task_is_named_with_file_and_key(changes: dict[str, Any], place: str) -> None:
    own = suite(**changes, by_task={})
    message = rf"^mine\.yaml: {re.escape(place)}: task 'costs' not known\. Did you mean cost"
    with pytest.raises(NotationError, match=message):
        plan_suite(own, "cpu")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"helt_out": 4}, "option of task copying 'helt_out' not known. Did you mean held_out"),
        ({"held_out": "many"}, "task copying: held_out is 'many'; expected int"),
    ],
)
def test_a_wrong_option_of_a_task_is_named_with_file_and_key(
    options: dict[str, Any], problem: str
) -> None:
    axes = {"variant": ["V"], "seq_len": [16], "task": ["copying"], "mode": ["train"]}
    own = suite(axes=axes, tasks={"copying": options}, by_task={})
    with pytest.raises(NotationError) as caught:
        plan_suite(own, "cpu")
    assert str(caught.value).startswith(f"mine.yaml: tasks.copying: {problem}")
