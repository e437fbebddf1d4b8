"""Both frameworks learn and write the same: a diagonal of benchmarks/learning_equality, and faults.

The program compares every task with every variant; here each variant has one task, and each task
has one variant at least.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.learning_equality import __main__ as program
from benchmarks.learning_equality import trainings
from benchmarks.learning_equality.finding import Finding
from benchmarks.learning_equality.generations import compare_generations
from benchmarks.learning_equality.settings import Place, learning_tasks, places, why_not
from benchmarks.learning_equality.trainings import (
    Curve,
    Trainers,
    compare_curves,
    compare_trainings,
    train,
)
from synthbench.backends.torch import training as torch_training
from synthbench.models.spec import KINDS
from tests.variants import VARIANTS

MIXER = Place("walks", "mixer")  # the smallest


def diagonal() -> list[tuple[Place, str]]:
    """Each variant at one place; encoder-decoders, which compile slowly, come once each."""
    waiting, pairs = deque(places()), []
    for variant in VARIANTS:
        place = next(each for each in waiting if why_not(each, variant) is None)
        waiting.remove(place)
        if place.kind != "encoder_decoder":
            waiting.append(place)
        pairs.append((place, variant))
    return pairs


DIAGONAL = diagonal()


def test_the_diagonal_has_every_task_kind_and_variant() -> None:
    assert {place for place, _ in DIAGONAL} == set(places())
    assert {place.task for place, _ in DIAGONAL} == set(learning_tasks())
    assert {place.kind for place, _ in DIAGONAL} == set(KINDS)
    assert [variant for _, variant in DIAGONAL] == VARIANTS


@pytest.mark.parametrize("place", places(), ids=str)
def test_v_can_do_every_task(place: Place) -> None:
    """Else its sizes would be wrong, and every variant would be left out."""
    assert why_not(place, "V") is None
    assert ("causal" in str(why_not(place, "linformer"))) == (
        place.kind in ("decoder", "encoder_decoder")
    )


@pytest.mark.long_but("* (mixer)-*", "*-V")
@pytest.mark.parametrize(("place", "variant"), DIAGONAL, ids=str)
def test_fifty_steps_of_the_full_recipe_agree(place: Place, variant: str) -> None:
    """Warm-up, cosine, clipping, weight decay, label smoothing, evaluations in between."""
    found = compare_trainings(place, variant, "float64")
    assert found.verdict == "pass", found.reason
    assert {"loss", "held-out loss", *learning_tasks()[place.task].metrics} == set(found.errors)
    assert found.notes["loss fell by"] > 0, "nothing was learned"


@pytest.mark.parametrize("variant", ["V", "dynamic_conv"])
def test_twenty_steps_agree_in_float32(variant: str) -> None:
    found = compare_trainings(MIXER, variant, "float32")
    assert found.verdict == "pass", found.reason
    assert 0 < found.errors["loss"] < 1e-4


@pytest.mark.parametrize(
    ("kind", "variant"),
    [("encoder_decoder", "dynamic_conv"), ("decoder", "(FR+D+V)(mixing=sum)"), ("decoder", "conv")],
)
def test_both_write_the_same_tokens(kind: Any, variant: str) -> None:
    found = compare_generations(Place("copying", kind), variant)
    assert found.verdict == "pass", found.reason
    assert found.errors == {"greedy": 0, "beam": 0}
    assert all(distinct > 1 for distinct in found.notes.values())


# --- what is wrong is found ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def expected() -> Curve:
    return train(MIXER, "V", "jax", "float64")


def not_clipped(parameters: Any, most: float) -> None:
    return


def without_decay(adamw: Callable[..., Any]) -> Callable[..., Any]:
    return lambda parameters, recipe: adamw(parameters, replace(recipe, weight_decay=0.0))


def without_smoothing(weighted_losses: Callable[..., Any]) -> Callable[..., Any]:
    return lambda outputs, targets, weights, smoothing: weighted_losses(
        outputs, targets, weights, 0.0
    )


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("clip", lambda clip: not_clipped),
        ("adamw", without_decay),
        ("weighted_losses", without_smoothing),
    ],
)
def test_a_part_of_the_recipe_that_one_framework_leaves_out_is_found(
    name: str, wrong: Callable[..., Any], expected: Curve, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Finding(MIXER, "V", "float64", tolerance=1e-8)
    assert not compare_curves(found, train(MIXER, "V", "torch", "float64"), expected).failed
    monkeypatch.setattr(torch_training, name, wrong(getattr(torch_training, name)))
    found = Finding(MIXER, "V", "float64", tolerance=1e-8)
    compare_curves(found, train(MIXER, "V", "torch", "float64"), expected)
    assert found.failed and found.reason.startswith("loss differs by")


def test_a_missing_step_and_a_loss_that_is_not_a_number_are_found(expected: Curve) -> None:
    for losses, reason in (
        (expected.losses[:-1], "differ in number"),
        ([*expected.losses[:-1], float("nan")], "loss is not a number"),
    ):
        found = Finding(MIXER, "V", "float64", tolerance=1e-8)
        compare_curves(found, expected, Curve(losses, expected.evaluations))
        assert found.failed and reason in found.reason


def test_trainers_that_are_used_again_begin_anew(expected: Curve) -> None:
    trainers = Trainers()
    curves = [train(MIXER, "V", "torch", "float64", trainers) for _ in range(2)]
    assert curves[0].losses == curves[1].losses
    assert len(trainers.kept) == 1 and len(expected.losses) == 50


# --- the program ---------------------------------------------------------------------------------


def test_the_program_goes_on_after_an_error_and_shows_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(place: Place, variant: str, framework: str, *_: Any) -> Curve:
        if (place.task, variant, framework) == ("mqar", "V", "jax"):
            raise RuntimeError("too\nbad")
        return expected_curve

    expected_curve = train(MIXER, "V", "torch", "float64")
    monkeypatch.setattr(trainings, "train", breaks)
    files = [tmp_path / "found.csv", tmp_path / "found.md"]
    asked = ["--tasks", "mqar,listops", "--variants", "V,linformer", "--dtype", "float64"]
    outs = [part for file in files for part in ("--out", str(file))]
    assert program.main([*asked, *outs]) == 1
    rows = list(csv.DictReader(files[0].read_text().splitlines()))
    assert [(row["task"], row["variant"], row["verdict"]) for row in rows] == [
        ("mqar", "V", "fail"), ("listops", "V", "pass"),
        ("mqar", "linformer", "not possible"), ("listops", "linformer", "pass"),
    ]  # fmt: skip
    assert rows[0]["reason"] == "RuntimeError: too bad"
    shown = capsys.readouterr()
    assert "- mqar (decoder), V: RuntimeError: too bad" in shown.out == files[1].read_text()
    assert "V, mqar (decoder) in float64: RuntimeError: too bad" in shown.err
    assert program.main(["--tasks", "listops", *asked[2:], *outs]) == 0


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--tasks", "mqr"], "'mqr' not known; use copying"),
        (["--variants", "VV"], "VV"),
        (["--dtype", "float16"], "'float16' not known; use float64, float32"),
    ],
)
def test_wrong_options_are_refused(
    option: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        program.main([*option, "--out", "x.md"])
    assert message in capsys.readouterr().err
