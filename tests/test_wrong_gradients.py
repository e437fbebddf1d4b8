"""A mixer whose backward pass, or whose kernels for long inputs, are wrong is never timed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import synthbench
from synthbench.backends.kernel_record import threshold
from synthbench.measure import parity
from synthbench.mixers.base import Mixer, Parameter
from synthbench.mixers.sizes import Sizes
from tests.checking import CheckingHost, checked, checking_runner, tiny_cell

pytestmark = pytest.mark.usefixtures("registry")


@dataclass(frozen=True)
class Detached(Mixer):
    """x * weight; nine tenths of the weight get no gradient."""

    name: ClassVar[str] = "detached"

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return {"weight": Parameter((sizes.d_model,), synthbench.Normal(1.0))}

    def reference(self, p: Any, x: Any, sizes: Sizes, **options: Any) -> Any:
        return x * p["weight"]

    def torch(self, sizes: Sizes) -> Any:
        def forward(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            return x * (0.9 * p["weight"].detach() + 0.1 * p["weight"])

        return forward

    def jax(self, sizes: Sizes) -> Any:
        import jax

        def forward(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            return x * (0.9 * jax.lax.stop_gradient(p["weight"]) + 0.1 * p["weight"])

        return forward


class OwnBackward(Detached):
    """A backward pass of its own, which forgets a factor of two."""

    name = "own_backward"

    def torch(self, sizes: Sizes) -> Any:
        import torch

        class Product(torch.autograd.Function):
            @staticmethod
            def forward(context: Any, x: Any, weight: Any) -> Any:
                context.save_for_backward(x, weight)
                return x * weight

            @staticmethod
            def backward(context: Any, dy: Any) -> Any:
                x, weight = context.saved_tensors
                return dy * weight, (dy * x).sum((0, 1)) / 2

        apply: Any = Product.apply
        return lambda p, x, padding_mask, causal: apply(x, p["weight"])

    def jax(self, sizes: Sizes) -> Any:
        import jax

        @jax.custom_vjp
        def product(x: Any, weight: Any) -> Any:
            return x * weight

        def forward(x: Any, weight: Any) -> Any:
            return x * weight, (x, weight)

        def backward(saved: Any, dy: Any) -> Any:
            x, weight = saved
            return dy * weight, (dy * x).sum((0, 1)) / 2

        product.defvjp(forward, backward)
        return lambda p, x, padding_mask, causal: product(x, p["weight"])


@pytest.mark.parametrize("framework", ["torch", "jax"])
@pytest.mark.parametrize("cls", [Detached, OwnBackward])
def test_a_wrong_backward_pass_is_quarantined(cls: type[Mixer], framework: str) -> None:
    """Its outputs are right, so only the gradients can show it."""
    synthbench.register(cls)
    runner, host = checking_runner(framework)
    record = checked(runner, tiny_cell(cls.name, framework, "train"))
    found = record.measurements.parity
    assert found is not None
    assert found.forward is not None
    assert found.forward <= found.tolerance
    assert found.gradient is not None
    assert found.gradient_tolerance is not None
    assert found.gradient > found.gradient_tolerance
    assert not found.passed
    assert record.outcome == "quarantined"
    assert record.reason.startswith("parity failed against numpy: forward error ")
    assert f"gradient error {found.gradient} (at most 2e-05)" in record.reason
    assert host.kinds() == ["parity"]  # not timed


class WrongIfLong(Detached):
    """Chooses its kernel by length, as fused forms do; the one for long inputs is wrong."""

    name = "wrong_if_long"
    backward_only: ClassVar[bool] = False

    def torch(self, sizes: Sizes) -> Any:
        def forward(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            weight = p["weight"]
            if x.shape[1] > threshold(4096):
                weight = weight.detach() if self.backward_only else 1.01 * weight
            return x * weight

        return forward


class WrongBackwardIfLong(WrongIfLong):
    name = "wrong_backward_if_long"
    backward_only = True


@pytest.mark.parametrize("cls", [WrongIfLong, WrongBackwardIfLong])
def test_a_wrong_kernel_for_long_inputs_is_quarantined(cls: type[Mixer]) -> None:
    synthbench.register(cls)
    runner, host = checking_runner("torch")
    record = checked(runner, tiny_cell(cls.name, "torch", "train"))
    assert record.outcome == "quarantined"
    assert record.reason.startswith("parity failed against numpy")
    assert host.kinds() == ["parity"]


NAN = float("nan")


@pytest.mark.parametrize(
    ("found", "passed"),
    [
        ([(0.0, 0.0), (0.0, 0.0)], True),
        ([(NAN, 0.0), (0.0, 0.0)], False),
        ([(0.0, NAN), (0.0, 0.0)], False),
        ([(0.0, 0.0), (NAN, 0.0)], False),
        ([(0.0, 0.0), (0.0, NAN)], False),
        ([(1.0, 0.0), (0.0, 0.0)], False),
        ([(0.0, 0.0), (0.0, 1.0)], False),
    ],
)
def test_each_error_of_both_checks_counts(
    found: list[tuple[float, float]], passed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = iter(found)
    monkeypatch.setattr(parity, "errors", lambda *arguments: next(results))
    cell = tiny_cell("V", "torch", "forward")
    assert parity.check_cell(CheckingHost("torch").backend, cell).passed is passed
