"""Planned memory of steps whose tensors are known, in both frameworks."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
from jax import lax
from torch import nn

from synthbench.backends.jax import memory as jax_memory
from synthbench.backends.torch import memory as torch_memory

N = 1000  # elements of the tensor in a step
SIZE = 4 * N  # its bytes
SCALAR = 4


def added(step: Callable[[], object]) -> int:
    return torch_memory.plan(step).temporary_bytes


def test_a_chain_needs_two_tensors_at_a_time() -> None:
    x = torch.randn(N)

    def step() -> torch.Tensor:
        y = x + 1
        for _ in range(6):
            y = y * 2
        return y

    assert added(step) == 2 * SIZE


def test_kept_tensors_add_up_and_dropped_ones_do_not() -> None:
    x = torch.randn(N)

    def step() -> list[torch.Tensor]:
        kept = [x * n for n in range(5)]
        for _ in range(10):
            _dropped = x + 1
        del _dropped
        return kept

    assert added(step) == (5 + 2) * SIZE  # a new one exists before the old one is dropped


def test_views_and_in_place_operations_add_nothing() -> None:
    x = torch.randn(10, N // 10)

    def step() -> torch.Tensor:
        y = x.clone()
        y.add_(1).mul_(2)
        y[0].fill_(3)
        return y.view(-1).unsqueeze(0).expand(50, -1)

    assert added(step) == SIZE
    assert added(lambda: step().contiguous()) == 51 * SIZE  # now it is a copy
    assert added(lambda: x.view(-1)[None].expand(50, -1).t()) == 0
    assert added(lambda: x.add_(1).relu_()) == 0


def test_sizes_are_those_of_storages() -> None:
    def step() -> tuple[torch.Tensor, ...]:
        whole = torch.empty(N, dtype=torch.float64)
        return whole[:1], torch.tensor([1.0, 2.0]), torch.empty(3, dtype=torch.bool)

    assert added(step) == 8 * N + 8 + 3

    def grown() -> torch.Tensor:
        return torch.empty(1).resize_(N)

    assert added(grown) == SIZE
    assert added(lambda: list(torch.ones(3, N).unbind())) == 3 * SIZE


@pytest.mark.parametrize("depth", [1, 4, 9])
def test_autograd_saves_every_output_of_a_chain(depth: int) -> None:
    x = torch.randn(N, requires_grad=True)

    def forward() -> torch.Tensor:
        y = x
        for _ in range(depth):
            y = y.exp()  # saves its output
        return y.sum()

    def train() -> None:
        x.grad = None
        forward().backward()

    # At the last link's backward: all outputs, and its gradient (the one of the sum is a view of
    # one number). At the link before, there is one gradient more and one output less.
    scalars = 2 * SCALAR
    assert added(train) == (depth + 1) * SIZE + scalars
    with torch.no_grad():
        assert added(forward) == (2 * SIZE if depth > 1 else SIZE + SCALAR)


def test_existing_tensors_are_only_added_as_resident() -> None:
    x = torch.randn(N)
    held = {"old": torch.randn(5 * N)}

    def step() -> None:
        held.pop("old", None)  # freeing a tensor from before the step changes nothing
        x + 1

    plan = torch_memory.plan(step, resident_bytes=7)
    assert (plan.temporary_bytes, plan.peak_bytes) == (SIZE, SIZE + 7)
    assert plan.tool == "torch storage tracking"


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_an_optimizers_first_step_creates_its_state(device: str) -> None:
    module = nn.Linear(N, 1, bias=False, device=device)
    optimizer = torch.optim.Adam(module.parameters(), foreach=False)
    x = torch.ones(1, N, device=device)

    def train() -> None:
        optimizer.zero_grad()
        module(x).sum().backward()
        optimizer.step()

    first, second = added(train), added(train)
    assert first - second == 2 * SIZE + SCALAR  # two moments, one step count
    assert added(train) == second
    assert 2 * SIZE <= second <= 4 * SIZE  # the gradient and Adam's temporaries


def test_inference_mode_is_followed_too() -> None:
    module = nn.Sequential(nn.Linear(4, N), nn.Linear(N, 4))
    x = torch.randn(1, 4)
    with torch.no_grad():
        plain = added(lambda: module(x))
    with torch.inference_mode():
        assert added(lambda: module(x)) == plain == SIZE + 4 * 4


def compiled(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return jax.jit(function, **options).lower(*args).compile()


def test_xla_plan_of_known_programs() -> None:
    side = 64
    matrix = jax.ShapeDtypeStruct((side, side), jnp.float32)
    size = 4 * side * side

    two = jax_memory.plan(compiled(lambda x: (x @ x) @ x, matrix))
    assert two is not None and two.tool == "XLA memory analysis"
    assert two.peak_bytes == 3 * size  # argument, x @ x, result
    assert two.temporary_bytes == 2 * size

    fused = jax_memory.plan(compiled(lambda x: jnp.sin(x) + 1, matrix))
    assert fused is not None and (fused.peak_bytes, fused.temporary_bytes) == (2 * size, size)

    donated = jax_memory.plan(compiled(lambda x: x + 1, matrix, donate_argnums=0))
    assert donated is not None and (donated.peak_bytes, donated.temporary_bytes) == (size, 0)


def test_xla_plan_grows_with_what_a_gradient_saves() -> None:
    x = jax.ShapeDtypeStruct((N,), jnp.float32)

    def loss(depth: int) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            return lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=depth)[0].sum()

        return run

    def temporaries(depth: int) -> int:
        plan = jax_memory.plan(compiled(jax.grad(loss(depth)), x))
        assert plan is not None
        return plan.temporary_bytes

    assert temporaries(50) - temporaries(20) == pytest.approx(30 * SIZE, rel=0.02)


def test_no_plan_if_the_compiler_has_none() -> None:
    assert jax_memory.plan(SimpleNamespace(memory_analysis=lambda: None)) is None
