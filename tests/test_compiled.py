"""Single compiled functions inside of eager forms; here their traces run eagerly, on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from synthbench.backends.torch import private_api
from synthbench.backends.torch.memory import plan
from synthbench.backends.torch.mixers import compiled, head_convolution, light_conv
from synthbench.backends.torch.prediction import offer_kernels
from synthbench.measure.inputs import empty_batch, setting_of
from synthbench.suites.cell import model_of
from tests.kernel_choices import cell


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def trace(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        made: Any = torch.compile(function, backend="aot_eager", dynamic=False, fullgraph=True)
        return made

    monkeypatch.setattr(compiled, "compiled", trace)
    yield
    torch.compiler.reset()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(("width", "causal"), [(3, False), (4, True)])
def test_compiled_sums_are_the_grouped_convolution(width: int, causal: bool) -> None:
    torch.manual_seed(0)
    u = torch.randn(2, 7, 6, dtype=torch.float64, requires_grad=True)
    kernel = torch.randn(3, width, dtype=torch.float64, requires_grad=True)
    found = []
    for path in ("shifted sums, compiled", "grouped convolution"):
        y = light_conv.CONVOLUTIONS[path](u, kernel, causal)
        found.append((y, *torch.autograd.grad(y.square().sum(), (u, kernel))))
    torch.testing.assert_close(*found)


def test_compiled_sums_are_offered_on_cuda() -> None:
    paths = {}
    for device in ("cpu", "cuda"):
        of = cell(variant="light_conv", device=device, heads=4)
        model = model_of(of)
        batch = empty_batch(model, of.batch, of.seq_len)
        paths[device] = [k.path for k in offer_kernels(model, setting_of(of), of.mode, batch)]
    compiled_path = "shifted sums, compiled"
    assert paths["cuda"] == ["grouped convolution", "banded products", compiled_path]
    assert compiled_path not in paths["cpu"]


def test_functions_are_compiled_on_cuda_and_not_within_a_compiled_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not compiled.can_compile(torch.empty(1))
    with private_api.fake_tensors():
        x = torch.empty(1, device="cuda")
        assert compiled.can_compile(x)
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
        assert not compiled.can_compile(x)


def test_the_memory_of_what_is_not_compiled() -> None:
    """The result, what is kept for the gradients, and the gradients: half of them first wide."""

    def never(*arguments: Any) -> Tensor:
        raise AssertionError("tensors without values were computed")

    x, added = (
        torch.empty(1000, dtype=torch.bfloat16, device="meta", requires_grad=True) for _ in "ab"
    )

    def step() -> None:
        y = compiled.run_compiled(
            never, x, (None, (added, 3)), shape=(500,), kept=(250,), added=(added,)
        )
        assert y.shape == (500,) and y.dtype == x.dtype
        torch.autograd.grad(y, (x, added), y)

    # Beside the result and what is kept: the gradient of x, that of the other in both types.
    assert plan(step).temporary_bytes == 1000 + 1000 + 2000 + (4000 + 2000)


def test_shifts_of_tensors_without_values() -> None:
    u = torch.empty(2, 7, 6, device="meta", requires_grad=True)
    kernel = torch.empty(3, 4, device="meta", requires_grad=True)
    y = head_convolution.compiled_sums(u, kernel, True)
    gradients = torch.autograd.grad(y, (u, kernel), y)
    assert [g.shape for g in (y, *gradients)] == [u.shape, u.shape, kernel.shape]


def test_where_pytorch_has_no_limit_of_compilations(monkeypatch: pytest.MonkeyPatch) -> None:
    config = torch._dynamo.config
    before = config.recompile_limit
    with private_api.many_compilations(64):
        assert config.recompile_limit == 64
        with private_api.many_compilations(8):
            assert config.recompile_limit == 64
    assert config.recompile_limit == before
    monkeypatch.delattr(torch._dynamo, "config")
    with private_api.many_compilations(64):
        assert config.recompile_limit == before
