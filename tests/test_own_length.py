"""The second parity check, at a cell's own length: what it finds, and when it is left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import synthbench
from synthbench.backends.base import Setting
from synthbench.measure import own_length
from synthbench.measure.inputs import random_batch, setting_of
from synthbench.measure.own_length import check_own_length, direction_error
from synthbench.mixers.base import Mixer, Parameter
from synthbench.mixers.sizes import Sizes
from synthbench.models.start_values import start_values
from synthbench.record import OwnLength, Parity
from synthbench.run.job import Reply
from synthbench.suites.cell import model_of
from tests.checking import TIMED, CheckingHost, checked, checking_runner, tiny_cell

pytestmark = pytest.mark.usefixtures("registry")

LIMIT = 16  # above this length, the mixers here are wrong


@dataclass(frozen=True)
class Longer(Mixer):
    """x * weight up to a length, and something else above it."""

    name: ClassVar[str] = "longer"

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return {"weight": Parameter((sizes.d_model,), synthbench.Normal(1.0))}

    def reference(self, p: Any, x: Any, sizes: Sizes, **options: Any) -> Any:
        return x * p["weight"]

    def torch(self, sizes: Sizes) -> Any:
        def forward(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            if x.shape[1] > LIMIT:
                return self.wrong(x, p["weight"])
            return x * p["weight"]

        return forward

    jax = torch

    def wrong(self, x: Any, weight: Any) -> Any:
        return x * weight * 1.03125


class LongerBackward(Longer):
    name = "longer_backward"

    def wrong(self, x: Any, weight: Any) -> Any:
        return x * (weight.detach() * 0.5 + weight * 0.5)


class LongerShape(Longer):
    name = "longer_shape"

    def wrong(self, x: Any, weight: Any) -> Any:
        return (x * weight)[:, :, :1]


class LongerError(Longer):
    name = "longer_error"

    def wrong(self, x: Any, weight: Any) -> Any:
        raise RuntimeError("no such kernel")


def own_length_of(record: Any) -> OwnLength:
    parity = record.measurements.parity
    assert parity is not None
    assert parity.own_length is not None
    found: OwnLength = parity.own_length
    return found


@pytest.mark.parametrize(
    ("cls", "framework", "mode", "reason"),
    [
        (Longer, "torch", "forward", "forward error 0.03"),
        (Longer, "torch", "train", "forward error 0.03"),
        (Longer, "jax", "forward", "forward error 0.03"),
        (Longer, "jax", "train", "forward error 0.03"),
        (LongerBackward, "torch", "train", "gradient error 0."),
        (LongerShape, "torch", "forward", "forward error inf"),
        (LongerShape, "torch", "train", "gives an output of shape (1, 24, 1)"),
    ],
)
def test_another_function_above_some_length_is_quarantined(
    cls: type[Mixer], framework: str, mode: str, reason: str
) -> None:
    synthbench.register(cls)
    runner, host = checking_runner(framework)
    record = checked(runner, tiny_cell(cls.name, framework, mode, 24))
    assert record.outcome == "quarantined"
    assert record.reason.startswith("parity failed at the cell's own length 24")
    assert reason in record.reason
    assert host.kinds() == ["parity", "own_length"]  # not timed
    found = own_length_of(record)
    assert (found.against, found.passed) == ("numpy", False)
    assert record.measurements.parity is not None
    assert not record.measurements.parity.passed


def test_cells_of_a_right_length_are_timed_and_share_one_check() -> None:
    synthbench.register(Longer)
    runner, host = checking_runner("torch")
    cell = tiny_cell("longer", "torch", "forward", LIMIT)
    again = [cell, cell, cell.model_copy(update={"replica": 1}),
             tiny_cell("longer", "torch", "forward", LIMIT, batch=4, seed=3)]  # fmt: skip
    for each in again:
        record = checked(runner, each)
        assert (record.outcome, record.reason) == ("ok", TIMED)
        found = own_length_of(record)
        assert (found.seq_len, found.against, found.passed) == (LIMIT, "numpy", True)
        assert found.forward is not None
        assert found.forward < 2e-6
        assert found.gradient is None
    assert host.kinds() == ["parity", "own_length", "cell", "cell", "cell", "cell"]
    for other in (
        tiny_cell("longer", "torch", "forward", 15),
        tiny_cell("longer", "torch", "train", LIMIT),
        tiny_cell("longer", "torch", "forward", LIMIT, d_model=32),
    ):
        checked(runner, other)
    assert host.kinds().count("own_length") == 4


def test_a_mixer_that_raises_is_left_to_its_cell() -> None:
    """Its outcome is then that of the cell, with the stage in which it was raised."""
    synthbench.register(LongerError)
    runner, _ = checking_runner("torch")
    record = checked(runner, tiny_cell("longer_error", "torch", "train", 24))
    assert (record.outcome, record.reason) == ("ok", TIMED)
    assert "crashed: " in own_length_of(record).reason
    assert "no such kernel" in own_length_of(record).reason


@pytest.mark.parametrize("outcome", ["oom", "timeout", "crashed"])
def test_a_check_that_does_not_end_leaves_the_cell_alone(outcome: Any) -> None:
    """It is not made again in the next round, and it takes no more than its own time limit."""
    runner, host = checking_runner("torch")
    host.replies["own_length"] = Reply(outcome, "too long or too large")
    for _ in range(2):
        record = checked(runner, tiny_cell("V", "torch", "forward"))
        assert record.outcome == "ok"
        found = own_length_of(record)
        assert found.passed is None
        assert found.reason == (f"not checked at its own length: {outcome}: too long or too large")
    assert host.kinds() == ["parity", "own_length", "cell", "cell"]
    assert host.jobs[1].limits.timeout_seconds <= 30


def test_a_framework_that_is_lost_in_the_check_measures_no_more_cells() -> None:
    runner, host = checking_runner("torch")
    host.dies_in = "own_length"
    assert runner.measure_cell(tiny_cell("V", "torch", "forward"), 0, "here") is None
    assert runner.missing == {"torch": "torch is gone"}
    assert host.kinds() == ["parity", "own_length"]


def test_a_mixer_without_a_reference_has_nothing_to_compare_with() -> None:
    synthbench.register(type("Bare", (Longer,), {"name": "bare", "reference": Mixer.reference}))
    runner, host = checking_runner("torch")
    record = checked(runner, tiny_cell("bare", "torch", "forward", 24))
    assert record.outcome == "ok"
    assert own_length_of(record).reason == (
        "not checked at its own length: the mixer gives no reference"
    )
    assert host.kinds() == ["parity", "cell"]


@pytest.fixture
def slow_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy takes longer than is allowed."""
    monkeypatch.setattr(own_length, "NUMPY_SECONDS", 0.0)


@pytest.mark.usefixtures("slow_numpy")
@pytest.mark.parametrize("mode", ["forward", "train"])
def test_what_numpy_is_too_slow_for_is_compared_with_the_reference_form(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = CheckingHost("torch").backend
    cell = tiny_cell("V", "torch", mode, 24)
    found = check_own_length(backend, cell)
    assert (found.against, found.passed) == ("reference form", True)
    assert (found.gradient is None) == (mode == "forward")
    original = getattr(backend, "outputs" if mode == "forward" else "gradients")
    forms = []

    def off(model: Any, start: Any, setting: Setting, batch: Any) -> Any:
        forms.append((setting.form, setting.dtype))
        got = original(model, start, setting, batch)
        if setting.form == "reference":
            return got
        if mode == "forward":
            return got * 1.01
        wrong = {name: g * (1.2 if "value" in name else 1) for name, g in got.gradients.items()}
        return replace(got, gradients=wrong)

    monkeypatch.setattr(backend, "outputs" if mode == "forward" else "gradients", off)
    assert check_own_length(backend, cell).passed is False
    assert sorted(forms) == [("auto", "float32"), ("reference", "float32")]
    forms.clear()
    check_own_length(backend, tiny_cell("V", "torch", mode, 24, dtype="bfloat16"))
    assert sorted(forms) == [("auto", "bfloat16"), ("reference", "float32")]


@pytest.mark.usefixtures("slow_numpy")
def test_what_has_no_second_form_is_not_checked() -> None:
    synthbench.register(Longer)
    backend = CheckingHost("torch").backend
    for variant, form in (("longer", "auto"), ("V", "reference")):
        cell = tiny_cell(variant, "torch", "forward", 24, form=form)
        found = check_own_length(backend, cell)
        assert found.passed is None
        assert found.reason.startswith("not checked at its own length: NumPy would need about ")
        assert found.reason.endswith("and there is no second form to compare with")


def test_outputs_are_compared_where_gradients_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    synthbench.register(Longer)
    backend = CheckingHost("torch").backend
    for length, passed in ((LIMIT, True), (24, False)):
        cell = tiny_cell("longer", "torch", "train", length)
        seconds = own_length.numpy_seconds(model_of(cell), cell)
        monkeypatch.setattr(own_length, "NUMPY_SECONDS", 2 * seconds)
        found = check_own_length(backend, cell)
        assert (found.against, found.gradient, found.passed) == ("numpy", None, passed)
        assert found.reason.startswith("gradients not checked at its own length") is passed


def test_what_does_not_fit_into_memory_is_not_checked() -> None:
    backend = CheckingHost("torch").backend
    cell = tiny_cell("V", "torch", "train", 24)
    found = check_own_length(backend, cell, available=1000)
    assert found.passed is None
    assert "MB, with 0 MB available" in found.reason
    assert check_own_length(backend, cell, available=10**9).passed


@pytest.mark.parametrize("variant", ["V", "longer"])
def test_a_long_input_is_too_slow_for_numpy(variant: str) -> None:
    """By formula, and without one as for attention."""
    synthbench.register(Longer)
    short, long = (
        own_length.numpy_seconds(model_of(cell), cell)
        for cell in (
            tiny_cell(variant, "torch", "forward", length, d_model=512, heads=8, max_len=4096)
            for length in (128, 4096)
        )
    )
    assert 3 * short < own_length.NUMPY_SECONDS < long


def test_gradients_alone_are_compared_with_the_reference_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where NumPy is fast enough for the outputs, but not for three evaluations."""
    backend = CheckingHost("torch").backend
    cell = tiny_cell("V", "torch", "train", 24)
    seconds = own_length.numpy_seconds(model_of(cell), cell)
    monkeypatch.setattr(own_length, "NUMPY_SECONDS", 2 * seconds)
    found = check_own_length(backend, cell)
    assert (found.against, found.passed) == ("numpy, gradients: reference form", True)
    assert found.forward  # two forms that choose the same kernel do not differ at all
    forward = check_own_length(backend, tiny_cell("V", "torch", "forward", 24))
    assert (forward.against, forward.passed) == ("numpy", True)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("variant", ["R+V", "linformer(rank=4)"])
def test_other_types_pass(variant: str, dtype: str) -> None:
    cell = tiny_cell(variant, "torch", "train", 24, dtype=dtype)
    found = check_own_length(CheckingHost("torch").backend, cell)
    assert found.passed, found
    assert found.gradient is not None


def test_each_parameter_counts_in_the_direction_of_all() -> None:
    backend = CheckingHost("torch").backend
    cell = tiny_cell("R+V", "torch", "train", 12, model="encoder", vocabulary=20, layers=1)
    model = model_of(cell)
    start = start_values(model.parameters(), 0)
    batch = random_batch(model, 1, 12)
    got = backend.gradients(model, start, setting_of(cell), batch)
    assert direction_error(model, start, batch, got, 2e-5) < 2e-5
    for name, gradient in got.gradients.items():
        if float(np.abs(gradient).max()) < 1e-4:  # a key's bias changes no softmax
            continue
        wrong = replace(got, gradients=got.gradients | {name: gradient * 1.1})
        assert direction_error(model, start, batch, wrong, 2e-5) > 2e-5, name
    broken = replace(got, gradients=got.gradients | {name: gradient * np.nan})
    assert direction_error(model, start, batch, broken, 2e-5) == float("inf")


def test_records_from_before_this_check_can_be_read() -> None:
    old = {"against": "numpy", "forward": 0.0, "gradient": 0.0, "tolerance": 1e-5, "passed": True}
    assert Parity.model_validate(old).own_length is None


def test_the_memory_of_the_check_is_that_of_its_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder of 3 layers at length 24: in float64, or what both forms need if that is more."""
    stack = {"model": "encoder", "layers": 3, "feed_forward": 32, "vocabulary": 40}
    cell = tiny_cell("R+V", "torch", "train", 24, d_model=16, heads=4, max_len=24, **stack)
    model = model_of(cell)
    parameters = sum(p.size for p in model.parameters().values())
    logits, outputs = 2 * 4 * 24 * 24, 24 * (40 + 32 + 8 * 16)  # of one layer, two components
    arrays = 8 * (4 * parameters + 6 * logits + 3 * outputs)
    asked: list[tuple[str, int]] = []

    def predict(backend: Any, model: Any, cell: Any, batch: Any) -> Any:
        asked.append((cell.form, cell.batch))
        return SimpleNamespace(peak_bytes=10**9 if cell.form == "reference" else 10**8)

    monkeypatch.setattr(own_length, "predict", predict)
    backend: Any = None
    batch = random_batch(model, 1, 24)
    ample = 10 * 3 * arrays
    assert own_length.bytes_needed(backend, model, cell, batch, ample + 1) == arrays
    assert asked == []
    assert own_length.bytes_needed(backend, model, cell, batch, ample) == 11 * 10**8
    assert asked == [("auto", 1), ("reference", 1)]
