"""FLOPs of loops, branches and gradients, against known counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from torch import nn

from synthbench.backends.jax import flops as jax_flops
from synthbench.backends.torch import flops as torch_flops
from tests.counting import B, H, K, L, M, exactly, quick, stepped, traced, walked


@quick
@given(steps=st.integers(1, 30))
def test_products_in_a_loop(steps: int) -> None:
    flops = steps * 2 * L**3

    def torch_loop(x: torch.Tensor) -> torch.Tensor:
        carry = x
        for _ in range(steps):
            carry = carry @ x
        return carry

    def scanned(x: Any) -> Any:
        return lax.scan(lambda carry, _: (carry @ x, None), x, None, length=steps)[0]

    def counted(x: Any) -> Any:
        return lax.fori_loop(0, steps, lambda _, carry: carry @ x, x)

    def repeated(x: Any) -> Any:
        def iterate(state: Any) -> Any:
            return state[0] + 2, state[1] @ x

        return lax.while_loop(lambda state: state[0] < 2 * steps - 1, iterate, (0, x))[1]

    assert exactly(traced(torch_loop, (L, L)), flops)
    assert exactly(stepped(torch_loop, (L, L)), flops)
    for loop in (scanned, jax.jit(scanned), counted, repeated):
        assert exactly(walked(loop, (L, L)), flops)


def test_a_while_whose_trips_are_not_in_the_program_is_reported() -> None:
    def until(x: Any) -> Any:
        return lax.while_loop(lambda c: c.sum() < 5, lambda c: c @ x, x)

    def bounded(x: Any, n: Any) -> Any:
        return lax.fori_loop(0, n, lambda _, c: c @ x, x)

    count = walked(until, (L, L))
    assert (count.flops, count.uncounted) == (0, {"while": 1})
    assert jax_flops.trace(bounded, jnp.ones((L, L)), 5).uncounted == {"while": 1}
    harmless = walked(lambda x: lax.while_loop(lambda c: c.sum() < 5, lambda c: c + 1, x), (L,))
    assert exactly(harmless, 0)


@pytest.mark.parametrize(
    ("goes_on", "iterate", "start", "trips"),
    [
        (lambda i: i < 7, lambda i: i + 2, 0, 4),
        (lambda i: i <= 7, lambda i: i + 1, 1, 7),
        (lambda i: i <= 8, lambda i: 4 + i, 0, 3),
        (lambda i: lax.gt(7, i), lambda i: i + 3, -1, 3),
        (lambda i: i > 0, lambda i: i - 1, 6, 6),
        (lambda i: i >= 0, lambda i: i - 2, 6, 4),
        (lambda i: i >= 1, lambda i: i + -2, 6, 3),
        (lambda i: i < 0, lambda i: i + 1, 3, 0),
        (lambda i: i != 5, lambda i: i + 1, 0, None),
        (lambda i: i < 7, lambda i: i * 2, 1, None),
        (lambda i: i < 7, lambda i: i - 1, 0, None),  # it runs until the integer overflows
        (lambda i: i < 7.5, lambda i: i + 1.0, 0.0, None),
    ],
)
def test_a_while_whose_trips_are_in_the_program_is_counted(
    goes_on: Any, iterate: Any, start: float, trips: int | None
) -> None:
    def loop(x: Any) -> Any:
        state = (x, start)
        return lax.while_loop(lambda s: goes_on(s[1]), lambda s: (s[0] @ x, iterate(s[1])), state)[
            0
        ]

    count = walked(loop, (L, L))
    if trips is None:
        assert (count.flops, count.uncounted) == (0, {"while": 1})
    else:
        assert exactly(count, trips * 2 * L**3)


def test_nested_scan_cond_remat_and_custom_vjp() -> None:
    @jax.custom_vjp
    def square(x: Any) -> Any:
        return x @ x

    square.defvjp(lambda x: (x @ x, x), lambda x, g: (g @ x.T + x.T @ g,))
    one = 2 * L**3

    def inner(x: Any) -> Any:  # 2 products in the more expensive branch, and 1
        return square(lax.cond(x.sum() > 0, lambda x: x @ x @ x, lambda x: x @ x, x))

    def outer(x: Any) -> Any:
        iterate = jax.checkpoint(lambda carry, _: (inner(carry), None))

        def repeat(carry: Any, _: None) -> Any:
            return lax.scan(iterate, carry, None, length=3)

        return lax.scan(repeat, x, None, length=4)[0]

    assert exactly(walked(outer, (L, L)), 4 * 3 * 3 * one)

    def loss(x: Any) -> Any:
        return square(x).sum()

    # The gradient alone does not need the value: two products of the rule; the value adds one.
    assert exactly(walked(jax.grad(loss), (L, L)), 2 * one)
    assert exactly(walked(jax.value_and_grad(loss), (L, L)), 3 * one)

    def checkpointed(x: Any) -> Any:
        return jax.checkpoint(lambda x: jnp.sin(x @ x) @ x)(x).sum()

    # Forward 2; backward: x @ x again for cos and sin, then two for each of the two products.
    assert exactly(walked(jax.value_and_grad(checkpointed), (L, L)), (2 + 1 + 4) * one)


def test_gradient_of_a_two_layer_perceptron() -> None:
    """Two products for the first layer (its input needs no gradient), three for the second."""
    batch, d, hidden, out = 11, 3, 5, 7
    flops = 2 * batch * (2 * d * hidden + 3 * hidden * out)
    module = nn.Sequential(nn.Linear(d, hidden), nn.ReLU(), nn.Linear(hidden, out))
    optimizer = torch.optim.Adam(module.parameters())
    x, y = torch.randn(batch, d), torch.randint(out, (batch,))

    def train() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x), y)
        loss.backward()
        optimizer.step()
        return loss

    assert exactly(torch_flops.trace_step(train), flops)
    compiled = torch.compile(module, backend="eager")
    step = torch_flops.trace_step(lambda: compiled(x).square().sum().backward())
    assert exactly(step, flops)

    def loss(first: Any, second: Any, x: Any) -> Any:
        return jnp.square(jax.nn.relu(x @ first) @ second).mean()

    shapes = (d, hidden), (hidden, out), (batch, d)
    for gradient in (jax.grad(loss, (0, 1)), jax.jit(jax.value_and_grad(loss, (0, 1)))):
        assert exactly(walked(gradient, *shapes), flops)


def test_gradient_of_an_outer_product_counts_in_both() -> None:
    """Windows weighted by one kernel per position, as in dynamic convolution."""
    equation, shapes = "blhkw,blhw->blhk", [(B, L, H, K, M), (B, L, H, M)]
    leaves = [torch.randn(s, requires_grad=True) for s in shapes]
    step = torch_flops.trace_step(lambda: torch.einsum(equation, *leaves).square().sum().backward())

    def loss(*args: Any) -> Any:
        return jnp.square(jnp.einsum(equation, *args)).sum()

    flops = 3 * 2 * B * L * H * K * M
    assert exactly(step, flops)
    assert exactly(walked(jax.grad(loss, argnums=(0, 1)), *shapes), flops)


def test_products_that_no_output_needs_are_not_counted() -> None:
    assert exactly(traced(lambda x: [x @ x, x @ x @ x][0], (L, L)), 2 * L**3)
    assert exactly(walked(lambda x: [x @ x, x @ x @ x][0], (L, L)), 2 * L**3)


def test_the_compilers_own_count() -> None:
    def loop(x: Any) -> Any:
        return lax.scan(lambda carry, _: (carry @ x, None), x, None, length=9)[0]

    shape = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    once = jax_flops.compiler_flops(jax.jit(lambda x: x @ x).lower(shape).compile())
    looped = jax_flops.compiler_flops(jax.jit(loop).lower(shape).compile())
    assert once == pytest.approx(2 * 64**3, rel=0.01)
    assert looped == pytest.approx(2 * 64**3, rel=0.01)  # XLA counts the body once
    assert jax_flops.trace(loop, shape).flops == 9 * 2 * 64**3
    for nothing in (None, {}, {"flops": -1.0}):
        silent = SimpleNamespace(cost_analysis=lambda nothing=nothing: nothing)
        assert jax_flops.compiler_flops(silent) is None
