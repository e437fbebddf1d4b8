"""A mixer that reads what a mask hides is found, even where all three implementations read it."""

from __future__ import annotations

import importlib
from typing import Any, cast

import numpy as np
import pytest

from benchmarks.learning_equality.settings import Place, cell_of, places
from synthbench.backends.base import BACKENDS, Backend
from synthbench.cli.app import main
from synthbench.measure.mask_check import reference_masks
from synthbench.measure.parity import check_cell
from synthbench.measure.parity_inputs import cases, small_model
from synthbench.models.model import Model
from synthbench.models.spec import KINDS
from synthbench.record import Parity
from synthbench.run.checks import Checks
from synthbench.run.extensions import load_plugin
from synthbench.run.job import Job, Limits, Reply
from synthbench.run.progress import Silent
from synthbench.suites.cell import Cell, model_of
from synthbench.tasks.catalog import task_of
from synthbench.tasks.learning.base import LearningTask
from tests.variants import VARIANTS

FRAMEWORKS = ("torch", "jax")


PLUGIN = "tests.plugins.leaking"


@pytest.fixture(autouse=True)
def leaking(registry: None) -> None:
    load_plugin(PLUGIN)


def learning_cell(variant: str, framework: str, kind: str, task: str) -> Cell:
    sizes = {"feed_forward": 8, "vocabulary": 20, "target_len": 8, "labels": 3}
    return Cell.from_flat(**{
        "variant": variant, "framework": framework, "mode": "train", "model": kind, "task": task,
        "seq_len": 8, "batch": 2, "d_model": 8, "heads": 2, "max_len": 8,
        "compile": "eager" if framework == "torch" else "compiled", **sizes,
    })  # fmt: skip


def backend_of(framework: str) -> Backend:
    return cast(Backend, importlib.import_module(BACKENDS[framework]))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_built_in_mixers_read_nothing_hidden(variant: str) -> None:
    model = small_model(variant)
    assert reference_masks(model, {case.causal for case in cases(model)}) == ""


def test_the_input_is_short_also_for_a_mixer_made_for_long_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """FD(a=32, b=32) is made for 1024 positions: an example for each would need 34 GB an array."""
    model, own = small_model("FD(a=32, b=32)"), Model.reference
    seen: list[tuple[int, ...]] = []

    def watched(self: Model, p: Any, inputs: Any, padding_mask: Any = None) -> Any:
        assert inputs.shape[0] <= 13 and inputs.shape[1] <= 12
        seen.append(inputs.shape)
        return own(self, p, inputs, padding_mask)

    monkeypatch.setattr(Model, "reference", watched)
    assert reference_masks(model, {False, True}) == ""
    assert seen


PADDING = "padding: the output at position 3 changes with the inputs at padded positions"
LATER = "causal: the output at position 0 changes with the inputs at later positions"


@pytest.mark.long
def test_verify_says_what_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a reference once, although each framework finds it."""
    wrong = ["padded", "ahead", "padded_alone", "ahead_alone"]
    with pytest.raises(SystemExit) as exit:
        main(["verify", "running", "not_causal", *wrong, "--plugin", PLUGIN])
    assert exit.value.code == 1
    lines = capsys.readouterr().out.splitlines()[1:]
    verdicts = {line.split()[0]: line.endswith("ok") for line in lines if line[0] != " "}
    assert verdicts == {"running": True, "not_causal": True} | dict.fromkeys(wrong, False)
    behind = ", of its own example or of another"
    assert [line.strip() for line in lines if line[0] == " "] == [
        f"reference, {PADDING}{behind}",
        f"reference, {LATER}{behind}",
        *(f"{framework}, {PADDING}{behind}" for framework in FRAMEWORKS),
        *(f"{framework}, {LATER}{behind}" for framework in FRAMEWORKS),
    ]


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    ("variant", "kind", "said"),
    [
        ("running", "decoder", ""), ("transformed", "decoder", ""),
        ("padded", "encoder", PADDING), ("padded_alone", "classifier", PADDING),
        ("ahead", "encoder", ""), ("ahead_alone", "encoder", ""),
        ("ahead", "decoder", LATER), ("ahead_alone", "decoder", LATER),
        ("ahead", "encoder_decoder", LATER),
    ],
)  # fmt: skip
def test_what_learns_is_checked_with_the_masks_of_its_model(
    variant: str, kind: str, said: str, framework: str
) -> None:
    cell = learning_cell(variant, framework, kind, "walks")
    checked = check_cell(backend_of(framework), cell, learns=True)
    assert checked.masks.startswith(said)
    assert bool(checked.masks) == bool(said)
    assert checked.passed == (not said)
    if checked.forward is not None:  # the same wrong outputs everywhere are no fault of parity
        assert checked.forward <= checked.tolerance


# JAX compiles four programs for each.
@pytest.mark.long_but("torch-*")
@pytest.mark.parametrize(
    ("framework", "kind"), [*(("torch", kind) for kind in KINDS), ("jax", "encoder")]
)
def test_a_task_with_padding_is_checked_with_padding(framework: str, kind: str) -> None:
    cell = learning_cell("only_in_numpy", framework, kind, "walks")
    assert check_cell(backend_of(framework), cell).passed
    with_padding = check_cell(backend_of(framework), cell, padded=True)
    assert not with_padding.passed and not with_padding.masks
    sound = learning_cell("running", framework, kind, "walks")
    assert check_cell(backend_of(framework), sound, padded=True).passed


@pytest.mark.parametrize("place", places(), ids=str)
def test_a_task_that_says_so_has_no_padding(place: Place) -> None:
    """A task that is checked without padding would hide what a mixer does with it."""
    cell = cell_of(place, "V", "torch", "float32")
    task = task_of(cell)
    assert isinstance(task, LearningTask)
    examples = task.examples(model_of(cell), cell.seq_len, 0)["train"]
    batch = examples.batch(np.arange(4))
    assert task.pads or batch.padding_mask is None


@pytest.mark.parametrize("variant", ["running", "ahead"])
def test_a_run_measures_nothing_of_what_reads_ahead(variant: str) -> None:
    """By the task's own check, as the child process of a run makes it."""
    cell = learning_cell(variant, "torch", "decoder", "walks")

    def ask(framework: str, job: Job) -> Reply:
        parity = task_of(cell).check_parity(backend_of(framework), cell)
        return Reply(
            "ok", "", parity.model_dump(mode="json"), facts={"other_framework_loaded": False}
        )

    checks = Checks(Silent(), ask)
    found = checks.parity_of(cell, None, Limits(60.0))
    if variant == "running":
        assert isinstance(found, Parity) and found.passed
    else:
        assert isinstance(found, Reply) and found.outcome == "quarantined"
        assert f"a mask does not hide what it should; {LATER}" in found.reason
