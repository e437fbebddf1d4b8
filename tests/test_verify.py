"""`synthbench verify`: what fails, and what its report says about a failure."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

import synthbench
from synthbench.backends.base import Gradients, Setting
from synthbench.backends.torch import backend
from synthbench.backends.torch.step import TorchStep
from synthbench.cli.app import main
from synthbench.errors import FrameworkMissingError, SynthbenchError
from synthbench.measure import verification
from synthbench.measure.differences import first_difference, first_not_finite
from synthbench.measure.parity import GRADIENT_TOLERANCE
from synthbench.measure.parity_inputs import case_batch
from synthbench.measure.verification import Comparison, Examined, examine
from synthbench.mixers.base import Mixer, Parameter
from synthbench.mixers.sizes import Sizes
from synthbench.run import verify
from synthbench.run.verify import Verdict, compare

pytestmark = pytest.mark.usefixtures("registry")

Captured = pytest.CaptureFixture[str]


@dataclass(frozen=True)
class Scaled(Mixer):
    """x * weight, right in everything."""

    name: ClassVar[str] = "scaled"

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return {"weight": Parameter((sizes.d_model,), synthbench.Normal(1.0))}

    def reference(self, p: Any, x: Any, sizes: Sizes, **options: Any) -> Any:
        return x * p["weight"]

    def forward(self, weight: Any, x: Any) -> Any:
        return x * weight

    def torch(self, sizes: Sizes) -> Any:
        return lambda p, x, padding_mask, causal: self.forward(p["weight"], x)


class Squeezed(Scaled):
    name = "squeezed"

    def forward(self, weight: Any, x: Any) -> Any:
        return (x * weight)[:, :, 0]


class Wide(Scaled):
    name = "wide"

    def forward(self, weight: Any, x: Any) -> Any:
        return (x * weight).double()


class Raising(Scaled):
    name = "raising"

    def forward(self, weight: Any, x: Any) -> Any:
        raise RuntimeError("no such kernel")


class Shifted(Scaled):
    """Wrong where it is causal, from the third position on."""

    name = "shifted"

    def torch(self, sizes: Sizes) -> Any:
        def forward(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            y = x * p["weight"]
            if not causal:
                return y
            y = y.clone()
            y[:, 2:] += 1
            return y

        return forward


class Detached(Scaled):
    """Right outputs, gradients of a tenth of what they should be."""

    name = "detached"

    def forward(self, weight: Any, x: Any) -> Any:
        return x * (0.9 * weight.detach() + 0.1 * weight)


class Undefined(Scaled):
    """Right outputs; the gradient has a NaN at its fourth value."""

    name = "undefined"

    def forward(self, weight: Any, x: Any) -> Any:
        if weight.requires_grad:
            holes = weight.new_ones(weight.shape)
            holes[3] = float("nan")
            weight.register_hook(lambda gradient: gradient * holes)
        return x * weight


class Undone(Scaled):
    """Says that it is not supported, which is not a failure."""

    name = "undone"

    def forward(self, weight: Any, x: Any) -> Any:
        raise synthbench.UnsupportedError("undone has no kernel here")


class InProcess:
    """In place of a host process: calls the function in this one."""

    def __init__(self, framework: str, **options: Any) -> None:
        self.framework = framework

    def launch(self) -> None:
        """Start nothing."""

    def start(self) -> None:
        if self.framework == "jax":
            raise FrameworkMissingError("jax is not installed")

    stop = launch

    def call(self, target: str, request: Mapping[str, Any]) -> Any:
        module, _, function = target.partition(":")
        return getattr(importlib.import_module(module), function)(**request)


def verified(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, list[str]]:
    """Exit code and lines of `synthbench verify` in this process, in torch."""
    monkeypatch.setattr(verify, "Host", InProcess)
    capsys.readouterr()
    code: Any = 0
    try:
        main(("verify", *arguments))
    except SystemExit as exit:
        code = exit.code or 0
    out, err = capsys.readouterr()
    return code, [*out.splitlines(), *err.splitlines()]


FAILURES: dict[type[Mixer], list[str]] = {
    Squeezed: ["torch, no mask, L=12: squeezed in torch gives an output of shape (4, 12)",
               "expected shape (4, 12, 16)"],
    Wide: ["torch, no mask, L=12: wide in torch gives an output of", "torch.float64"],
    Raising: ["torch, no mask, L=12: ", ": RuntimeError: no such kernel (in forward, test_"],
    Shifted: ["causal, L=", ": outputs differ from numpy by ", "(at most 2e-05)",
              "first at [0, 2, 0] (", "got ", ", expected "],
    Detached: ["gradients differ from numpy by ", "worst parameter: 'mixer.weight'"],
    Undefined: ["gradients differ from numpy by inf", "of 'mixer.weight': nan at [3] (1 of 16"],
}  # fmt: skip


@pytest.mark.parametrize("cls", FAILURES)
def test_a_wrong_mixer_fails_with_the_place(
    cls: type[Mixer], capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthbench.register(cls)
    code, lines = verified(capsys, monkeypatch, cls.name, "--framework", "torch")
    assert code == 1
    assert "FAILED" in lines[1]
    assert "ok" not in lines[1].split()
    for part in FAILURES[cls]:
        assert part in lines[2]
    assert lines[-1] == "1 of 1 variant did not pass"


def test_a_right_mixer_passes_in_each_type(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthbench.register(Scaled)
    for dtype in ("float32", "float64", "bfloat16"):
        arguments = ("scaled", "--framework", "torch", "--dtype", dtype)
        code, lines = verified(capsys, monkeypatch, *arguments)
        assert (code, lines[1].split()[0], lines[1].split()[-1]) == (0, "scaled", "ok"), lines


def test_what_a_mixer_does_not_support_is_a_failure_only_if_it_is_required(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Examined(comparisons=[Comparison("jax", "numpy", "outputs", "c", "own", 0.0, 1e-5)])

    class Both(InProcess):
        def start(self) -> None:
            pass

        def call(self, target: str, request: Mapping[str, Any]) -> Any:
            return found if self.framework == "jax" else super().call(target, request)

    synthbench.register(Undone)
    monkeypatch.setattr(verify, "Host", Both)
    with verify.Verifier(("torch", "jax")) as verifier:
        (verdict,) = verifier.verify(["undone"], "float32")
        assert verdict.passed
        assert verdict.unsupported == {"torch": "undone has no kernel here"}
        (verdict,) = verifier.verify(["undone"], "float32", require_both=True)
    assert not verdict.passed
    assert verdict.failures == ["torch is required: undone has no kernel here"]


def test_a_missing_framework_is_a_failure_only_if_it_is_required(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthbench.register(Scaled)
    code, lines = verified(capsys, monkeypatch, "scaled")
    assert code == FrameworkMissingError.exit_code
    assert lines[1].endswith("ok")
    code, lines = verified(capsys, monkeypatch, "scaled", "--require-both")
    assert code == 1
    assert "  jax is required: jax is not installed" in lines
    code, lines = verified(capsys, monkeypatch, "V", "--require-both", "--framework", "torch")
    assert code == SynthbenchError.exit_code
    assert "--require-both needs torch and jax, got --framework torch" in lines[0]


def test_both_forms_are_checked_and_outputs_with_and_without_gradients() -> None:
    found = examine("torch", "V")
    assert len(found.results) == 8
    whats = {(c.form, c.what) for c in found.comparisons}
    assert whats == {
        ("fused", "outputs"), ("fused", "outputs without gradients"), ("fused", "gradients"),
        ("reference", "outputs"), ("reference", "gradients"),
    }  # fmt: skip
    assert all(comparison.passed for comparison in found.comparisons)


def test_gradients_in_few_bits_are_held_to_float32_and_that_to_numpy() -> None:
    found = examine("torch", "V", "bfloat16")
    held = {
        (c.where.partition(", ")[2], c.tolerance)
        for c in found.comparisons
        if c.what == "gradients"
    }
    assert held == {
        ("against float32", GRADIENT_TOLERANCE["bfloat16"]),  # all of them together
        ("along a random direction", GRADIENT_TOLERANCE["float32"]),  # the worst
    }


def test_the_seed_draws_parameters_and_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    original = case_batch

    def drawing(model: Any, case: Any, seed: int = 0) -> Any:
        drawn.append(seed)
        return original(model, case, seed)

    monkeypatch.setattr(verification, "case_batch", drawing)
    first, second = (examine("torch", "linformer(rank=4)", seed=seed).results for seed in (3, 4))
    assert set(drawn[: len(drawn) // 2]) == {3} and set(drawn[len(drawn) // 2 :]) == {4}
    assert len(drawn) >= len(first) + len(second)
    assert all((first[name].outputs != second[name].outputs).any() for name in first)


def test_a_wrong_reference_form_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The form that cells do not use by default is checked as well."""
    original = backend.gradients

    def off(model: Any, start: Any, setting: Setting, batch: Any, **more: bool) -> Gradients:
        found = original(model, start, setting, batch, **more)
        return replace(found, outputs=found.outputs * (1.01 if setting.form == "reference" else 1))

    monkeypatch.setattr(backend, "gradients", off)
    found = examine("torch", "linformer(rank=4)")
    assert found.form == "fused"
    assert {c.form for c in found.comparisons if not c.passed} == {"reference"}


def gradients(output: float, gradient: float, name: str = "value") -> Gradients:
    values = np.array([gradient, 0.5])
    return Gradients(np.array([output, 0.5]), 1.0, {name: values})


def both(one: Gradients, other: Gradients) -> Verdict:
    cases = {"torch": Examined({"no mask": one}), "jax": Examined({"no mask": other})}
    return compare("V", cases, "float32")


def test_the_frameworks_are_compared_with_each_other() -> None:
    verdict = both(gradients(1.25, 2.0), gradients(1.0, 2.5))
    outputs, worst = verdict.worst("outputs"), verdict.worst("gradients", "torch", "jax")
    assert outputs is not None
    assert worst is not None
    assert outputs.error == pytest.approx(0.25)
    assert worst.error == pytest.approx(0.5 / 2.5)
    assert worst.where == (
        "worst parameter: 'value', first at [0] (1 of 2 values): got 2, expected 2.5"
    )
    assert not verdict.passed
    assert both(gradients(1.0, 1.0), gradients(1.0, 1.0)).passed
    assert not both(gradients(float("nan"), 1.0), gradients(1.0, 1.0)).passed
    assert not both(gradients(1.0, float("nan")), gradients(1.0, 1.0)).passed
    assert not both(gradients(1.0, 1.0), gradients(1.0, 1.0, "other")).passed
    assert not compare("own", {"torch": Examined()}, "float32").passed  # nothing was compared
    one = compare(
        "V", {"torch": Examined({"causal": gradients(1, 1)}), "jax": Examined()}, "float32"
    )
    assert one.failures == ["causal: only torch supports this case"]


def test_the_first_difference_is_named() -> None:
    want = np.arange(6.0).reshape(2, 3)
    got = want.copy()
    assert first_difference(got, want, 0.0) == ""
    got[0, 2], got[1, 1] = 2.5, np.nan
    # Whatever else differs: with it, what is allowed is not known.
    for allowed in (0.4, np.nan):
        assert first_difference(got, want, allowed) == "got nan at [1, 1] (1 of 6 values)"
        assert first_difference(want, got, allowed) == "expected nan at [1, 1] (1 of 6 values)"
    assert first_difference(got[0], want, 0.4) == "shape (3,), expected (2, 3)"
    got[1, 1] = 5.0
    assert first_difference(got, want, 0.5) == (
        "first at [1, 1] (1 of 6 values): got 5, expected 4"
    )
    assert first_difference(got, want, 0.4) == (
        "first at [0, 2] (2 of 6 values): got 2.5, expected 2"
    )
    got[1, 1] = np.nan
    assert first_not_finite(want) == ""
    assert first_not_finite(got) == "nan at [1, 1] (1 of 6 values)"


class Unreferenced(Scaled):
    name = "unreferenced"
    reference = Mixer.reference  # type: ignore[assignment]  # none


def test_a_mixer_without_a_reference_is_not_just_ok(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Examined(comparisons=[Comparison("torch", "jax", "outputs", "c", "", 0.0, 1e-5)])
    monkeypatch.setattr(verify, "compare", lambda *given: Verdict(given[0], found.comparisons))
    for cls, said in ((Scaled, "ok"), (Unreferenced, "ok; it has no reference(): only the two")):
        synthbench.register(cls)
        code, lines = verified(capsys, monkeypatch, cls.name, "--framework", "torch")
        assert code == 0
        assert f"at most 1e-05: {said}" in lines[1]
        assert ("reference()" in lines[1]) == (cls is Unreferenced)


class Uncountable(Scaled):
    name = "uncountable"

    def flops(self, sizes: Sizes, *, batch: int, seq_len: int) -> Any:
        return "many"


def test_a_formula_that_a_run_could_not_use_fails(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthbench.register(Uncountable)
    code, lines = verified(capsys, monkeypatch, "uncountable", "--framework", "torch")
    assert code == 1
    assert lines[2].strip().startswith("Uncountable.flops() returns 'many'")


@dataclass(frozen=True)
class Projected(Mixer):
    """x W, with a formula that counts it so many times."""

    name: ClassVar[str] = "projected"
    times: int = 1

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return {"W": Parameter((sizes.d_model, sizes.d_model), synthbench.Normal(1.0))}

    def flops(self, sizes: Sizes, *, batch: int, seq_len: int) -> int:
        return self.times * 2 * batch * seq_len * sizes.d_model**2

    def reference(self, p: Any, x: Any, sizes: Sizes, **options: Any) -> Any:
        return x @ p["W"]

    def torch(self, sizes: Sizes) -> Any:
        return lambda p, x, padding_mask, causal: x @ p["W"]

    jax = torch


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_formula_that_no_trace_confirms_fails(framework: str) -> None:
    """As a cell would end: with what was traced, and what the formula says."""
    synthbench.register(Projected)
    assert examine(framework, "projected").problems == []
    (problem,) = examine(framework, "projected(times=2)").problems
    traced, expected = (int(word) for word in problem.split() if word.isdigit())
    assert expected == 2 * traced > 0
    assert problem.startswith(f"a forward pass has {traced} FLOPs as traced (")


class CutOff(Scaled):
    """Its outputs and the gradients of its parameters are right, and X learns nothing by it."""

    name = "cut_off"

    def torch(self, sizes: Sizes) -> Any:
        return lambda p, x, padding_mask, causal: x.detach() * p["weight"]

    def jax(self, sizes: Sizes) -> Any:
        return lambda p, x, padding_mask, causal: jax.lax.stop_gradient(x) * p["weight"]


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_the_gradient_with_respect_to_x_is_checked(framework: str) -> None:
    """A step of a mixer alone does not compute it, and what is below it in a model needs it."""
    synthbench.register(CutOff)
    found = [one for one in examine(framework, "cut_off").comparisons if not one.passed]
    assert {one.what for one in found} == {"gradients"}
    assert all(one.where.startswith("the input X, along") for one in found)


class Held(torch.nn.Module):
    """What is declared as trained, held as something else."""

    def __init__(self, weight: torch.Tensor, as_constant: str) -> None:
        super().__init__()
        if as_constant == "buffer":
            self.register_buffer("weight", weight)
        else:
            self.weight = torch.nn.Parameter(weight, requires_grad=as_constant == "trained")

    def forward(self, x: Any, padding_mask: Any, causal: Any) -> Any:
        return x * self.weight


class HeldInJax(nnx.Module):
    def __init__(self, kind: Any, width: int) -> None:
        self.weight = kind(jnp.zeros(width))

    def __call__(self, x: Any, padding_mask: Any, causal: Any) -> Any:
        return x * self.weight[...]


@pytest.mark.parametrize(
    ("framework", "held", "is_declared", "told"),
    [
        ("torch", "buffer", True, "is declared as trained, and the module holds it as a constant"),
        ("torch", "frozen", True, "is declared as trained, and the module holds it as a constant"),
        ("torch", "trained", False, "is declared as a constant, and the module trains it"),
        ("jax", nnx.Variable, True, "is declared as trained, and the module holds it as a const"),
        ("jax", nnx.Param, False, "is declared as a constant, and the module trains it"),
    ],
)
def test_what_is_declared_as_trained_is_trained(
    framework: str, held: Any, is_declared: bool, told: str
) -> None:
    """Its gradient would be missing, and nothing would be compared with the reference's."""

    class Own(Scaled):
        name = "own"

        def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
            start = synthbench.Normal(1.0)
            return {"weight": Parameter((sizes.d_model,), start, trainable=is_declared)}

        def torch(self, sizes: Sizes) -> Any:
            return Held(torch.zeros(sizes.d_model), held)

        def jax(self, sizes: Sizes) -> Any:
            return HeldInJax(held, sizes.d_model)

    synthbench.register(Own)
    found = examine(framework, "own")
    assert not found.comparisons and told in found.problems[0]


def test_a_formula_that_could_not_be_compared_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the tool that counts fails at a tensor that the mixer makes on another device."""

    class Counted(Scaled):
        name = "counted"

        def flops(self, sizes: Sizes, *, batch: int, seq_len: int) -> int:
            return 10**9

    def fail(step: TorchStep) -> Any:
        raise RuntimeError("Tensor on device cpu is not on\nthe expected device meta!")

    monkeypatch.setattr(TorchStep, "traced_flops", fail)
    synthbench.register(Counted)
    found = examine("torch", "counted")
    assert found.problems == []
    (note,) = found.notes
    assert note.startswith(
        "the formula of its FLOPs was not checked in torch: RuntimeError: Tensor"
    )
    assert "\n" not in note
