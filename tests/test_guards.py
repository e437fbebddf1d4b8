"""Cheats and wrong outputs are quarantined, and honest mixers are not, in both frameworks."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

from synthbench.backends.base import BACKENDS, SAMPLE_SIZE, Backend, Setting, sample_indices
from synthbench.errors import WrongOutputError
from synthbench.measure import background, repetition
from synthbench.measure.inputs import random_batch
from synthbench.measure.plausibility import ImplausibleError
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.start_values import start_values
from synthbench.record import Measurements
from synthbench.run.checks import Checks
from synthbench.run.extensions import load_plugin
from synthbench.run.job import Limits, Reply
from synthbench.run.outcome import classify_exception
from synthbench.run.progress import Silent
from synthbench.run.worker import run_cell
from synthbench.suites.cell import Cell
from synthbench.suites.measure import Measure
from tests.plugins import cheats

pytestmark = pytest.mark.usefixtures("plugins")

FRAMEWORKS = ["torch", "jax"]
MODES = ["forward", "train"]
# Enough steps for the cheats; no assertion depends on how long they take.
MEASURE = Measure(min_samples=3, min_seconds=1e-6, max_seconds=1e-3)


@pytest.fixture
def plugins(registry: None) -> Iterator[None]:
    load_plugin("tests.plugins.cheats")
    yield
    cheats.reset()


def backend_of(framework: str) -> Backend:
    return cast(Backend, importlib.import_module(BACKENDS[framework]))


def measure(variant: str, framework: str, mode: str, **changes: Any) -> Measurements:
    content = {
        "variant": variant, "framework": framework, "mode": mode, "seq_len": 6, "batch": 2,
        "model": "mixer", "d_model": 8, "heads": 2, "max_len": 6,
        "compile": "eager" if framework == "torch" else "compiled",
    } | changes  # fmt: skip
    return run_cell(backend_of(framework), Cell.from_flat(**content), MEASURE)[0]


# What the message must say of the output: what was given, and what is expected.
OUTPUTS = {
    "nothing": r"output of None; expected shape \(2, 6, 8\)",
    "text": r"output of 'output'; expected shape",
    "complex": r"\(2, 6, 8\) in (torch\.)?complex64.*; expected .* in .*float32",
    "narrow": r"\(2, 6, 8\) in (torch\.)?bfloat16.*; expected .* in .*float32",
    "integer": r"\(2, 6, 8\) in (torch\.)?int32.*; expected .* in .*float32",
    "numpy": r"in float32.* as a numpy\.ndarray; expected shape \(2, 6, 8\) .* as a ",
    "wide": r"in (torch\.)?float64.*; expected .* in .*float32",
    "flat": r"shape \(2, 6\) in .*; expected shape \(2, 6, 8\)",
    "short": r"shape \(2, 1, 8\) in .*; expected shape \(2, 6, 8\)",
}


@pytest.mark.parametrize("kind", OUTPUTS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_wrong_output_is_quarantined(framework: str, mode: str, kind: str) -> None:
    with pytest.raises(WrongOutputError, match=rf"in {framework} gives an .*{OUTPUTS[kind]}") as e:
        measure(f"wrong(kind={kind})", framework, mode)
    assert classify_exception(e.value)[0] == "quarantined"


@pytest.mark.parametrize("kind", ["wide", "short"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_output_of_a_mixer_inside_a_model_is_checked(framework: str, kind: str) -> None:
    """The sum with the residual would hide both: it is wider, or broadcast."""
    with pytest.raises(WrongOutputError, match=OUTPUTS[kind]):
        measure(f"wrong(kind={kind})", framework, "forward", model="encoder", vocabulary=11)


def test_a_compiled_model_is_checked_before_it_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch_step = importlib.import_module("synthbench.backends.torch.step")
    monkeypatch.setattr(torch_step, "compiled", lambda module: pytest.fail("was compiled"))
    changes = {"model": "encoder", "vocabulary": 11, "compile": "compiled"}
    with pytest.raises(WrongOutputError, match=OUTPUTS["wide"]):
        measure("wrong(kind=wide)", "torch", "train", **changes)


def test_a_wrong_output_found_by_the_parity_check_has_the_same_outcome_and_reason() -> None:
    reply = Reply("quarantined", "wrong in torch gives an output of None", facts={
        "other_framework_loaded": False
    })  # fmt: skip
    checks = Checks(Silent(), lambda framework, job: reply)
    cell = Cell.from_flat(variant="wrong(kind=none)", framework="torch", mode="forward", seq_len=6,
        batch=2, compile="eager", d_model=8, heads=2, max_len=6)  # fmt: skip
    assert checks.check(cell, None, Limits(60.0)) == reply


def test_an_output_on_another_device_is_quarantined() -> None:
    with pytest.raises(WrongOutputError, match=r"on meta; expected .* on cpu"):
        measure("wrong(kind=device)", "torch", "forward")


@pytest.mark.parametrize("kind", ["nan", "one_nan", "infinite"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_values_that_are_not_finite_are_quarantined(framework: str, mode: str, kind: str) -> None:
    in_jax = "the output of the model" if mode == "forward" else "the loss"
    what = "its output" if framework == "torch" else in_jax
    with pytest.raises(WrongOutputError, match=f"{what} has values that are NaN or inf") as error:
        measure(f"wrong(kind={kind})", framework, mode)
    assert classify_exception(error.value)[0] == "quarantined"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_threads_that_compute_after_the_step_are_found(
    framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "LONGEST_SECONDS", 60.0)  # until a busy machine runs them
    with pytest.raises(ImplausibleError, match="still computing when the last step had returned"):
        measure("background", framework, "forward")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_later_outputs_must_be_those_of_the_first_step(framework: str) -> None:
    message = r"the output of the last timed step differs by 1 of its largest value"
    with pytest.raises(ImplausibleError, match=message):
        measure("later", framework, "forward")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_train_steps_repeated_must_have_the_same_losses(
    framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repetition, "REPEATED_SHARE", 1e9)
    with pytest.raises(ImplausibleError, match="the loss of train step 1, repeated after"):
        measure("later", framework, "train")


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("mode", MODES)
def test_a_formula_that_claims_more_than_is_computed(framework: str, mode: str) -> None:
    percent = 300 if mode == "forward" else 1000
    with pytest.raises(ImplausibleError, match=r"FLOPs as traced .* by the mixer's formula"):
        measure(f"claiming(percent={percent})", framework, mode)
    honest = measure("claiming(percent=100)", framework, mode)
    assert honest.timing is not None


@pytest.mark.parametrize("variant", ["V", "R", "linformer(rank=2)"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_honest_mixers_pass_every_guard(
    framework: str, mode: str, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repetition, "REPEATED_SHARE", 1e9)
    assert measure(variant, framework, mode).timing is not None


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_step_that_is_restarted_repeats_itself(framework: str, dtype: str) -> None:
    model = Model.of("mixer", parse("V"), Sizes.of(d_model=8, heads=2, max_len=6))
    start = start_values(model.parameters())
    setting = Setting(dtype=dtype, compile="eager" if framework == "torch" else "compiled")
    step: Any = backend_of(framework).build(
        model, start, setting, "train", random_batch(model, 2, 6)
    )
    step.compile()
    before = [step.sample(step()).item() for _ in range(4)]
    assert step.first_losses == before[:2]
    step.restart(start.__getitem__)
    assert [step.sample(step()).item() for _ in range(4)] == before
    assert len(set(before)) == 4, "each step changes the parameters"
    assert step.first_losses == before[:2]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_sample_is_of_the_outputs_and_does_not_change(framework: str) -> None:
    length = 40
    model = Model.of("mixer", parse("R"), Sizes.of(d_model=64, heads=2, max_len=length))
    batch = random_batch(model, 8, length)
    setting = Setting(compile="eager" if framework == "torch" else "compiled")
    backend = backend_of(framework)
    start = start_values(model.parameters())
    step: Any = backend.build(model, start, setting, "forward", batch)
    outputs = step()
    values = np.asarray(outputs).reshape(-1).copy()
    assert values.size > SAMPLE_SIZE
    sample = step.sample(outputs)
    np.testing.assert_array_equal(sample, values[sample_indices(values.size)])
    if framework == "torch":
        outputs.zero_()
        np.testing.assert_array_equal(sample, values[sample_indices(values.size)])


def test_which_values_are_compared() -> None:
    assert list(sample_indices(3)) == [0, 1, 2]
    indices = sample_indices(10 * SAMPLE_SIZE)
    assert indices.shape == (SAMPLE_SIZE,)
    assert 0 <= indices.min() < SAMPLE_SIZE
    assert 9 * SAMPLE_SIZE <= indices.max() < 10 * SAMPLE_SIZE
    np.testing.assert_array_equal(indices, sample_indices(10 * SAMPLE_SIZE))
