"""Which operations are free, which are reported as unknown, and that counting has no effects."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
import torch.nn.functional as F
from jax import lax
from torch import nn

from synthbench.backends.jax import flops as jax_flops
from synthbench.backends.torch import flops as torch_flops
from tests.counting import B, D, K, L, M, exactly, stepped, traced, walked


def free_in_torch(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    index = torch.zeros(2, dtype=torch.long)
    return (
        F.layer_norm(x, (D,)), F.rms_norm(x, (D,)), F.group_norm(x, L), F.gelu(x), F.glu(x),
        F.dropout(x), F.softmax(x, -1), x.cumsum(1), F.pad(x, (1, -1)), x.flip(1), x.roll(1, 1),
        x.masked_fill(x > 0, -torch.inf).logsumexp(-1), torch.where(x > 0, x, -x), x.sort(-1)[0],
        torch.triu(x), torch.rand_like(x), x.repeat(1, 2, 1), x.expand(B, L, D), x.double(),
        x.clone().index_add_(0, index[:1], x[:1]), x.unfold(1, 3, 1), F.embedding(index, x[0]),
        F.cross_entropy(x.flatten(0, 1), torch.zeros(B * L, dtype=torch.long)), x.clone().add_(1),
        F.max_pool1d(x, 2), F.avg_pool1d(x, 2), torch.outer(x[0, 0], x[0, 0]), x.topk(2)[0],
        torch.tensor_split(x, 2, dim=-1)[0], torch.broadcast_to(x, (B, L, D)), x.swapaxes(1, 2),
    )  # fmt: skip


def free_in_jax(x: Any) -> Any:
    key = jax.random.key(0)
    return (
        jax.random.normal(key, (3,)), jax.random.permutation(key, x), jax.nn.gelu(x),
        jax.nn.softmax(x), jnp.sort(x), jnp.cumsum(x, 1), jnp.roll(x, 1), jnp.median(x),
        jnp.take(x, jnp.array([0, 1]), 1), x.at[0].add(1), jnp.tril(x[0]), jnp.where(x > 0, x, 0),
        jax.scipy.special.logsumexp(x), jax.nn.standardize(x), jnp.pad(x, 1), lax.top_k(x, 2),
        jnp.outer(x[0, 0], x[0, 0]), jnp.concatenate([x, x]), x.astype(jnp.bfloat16),
        jax.nn.one_hot(x[0, 0].astype(int), 3), jnp.argmax(x), jnp.flip(x), jax.nn.glu(x),
    )  # fmt: skip


def test_operations_without_products_are_free() -> None:
    assert exactly(traced(free_in_torch, (B, L, D)), 0)
    assert exactly(stepped(free_in_torch, (B, L, D)), 0)
    x = torch.randn(B, L, D, requires_grad=True)

    def backward() -> None:
        torch.stack([y.sum() for y in free_in_torch(x) if y.requires_grad]).sum().backward()

    assert exactly(torch_flops.trace_step(backward), 0)
    assert exactly(walked(free_in_jax, (B, L, D)), 0)


def test_operations_without_a_rule_are_named() -> None:
    def torch_work(x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(x).real + torch.linalg.inv(x) + x @ x

    count = traced(torch_work, (L, L))
    assert count.flops == 2 * L**3
    assert count.uncounted == {"aten::fft_fft": 1, "aten::linalg_inv": 1}
    step = stepped(torch_work, (L, L))
    assert step.flops == 2 * L**3
    assert step.uncounted == {"aten::_fft_r2c": 1, "aten::linalg_inv_ex": 1}

    def jax_work(x: Any) -> Any:
        def iterate(carry: Any, _: None) -> Any:
            return jnp.fft.fft(carry).real + jnp.linalg.cholesky(x) + x @ x, None

        return lax.scan(iterate, x, None, length=3)[0]

    walk = walked(jax_work, (L, L))
    assert walk.flops == 3 * 2 * L**3
    assert walk.uncounted == {"fft": 3, "cholesky": 3}


class Hidden(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x @ x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


def test_opaque_operations_are_named() -> None:
    assert traced(Hidden.apply, (L, L)).uncounted == {"prim::PythonOp.Hidden": 1}
    out = jax.ShapeDtypeStruct((L,), jnp.float32)
    called = walked(lambda x: jax.pure_callback(lambda a: a, out, x), (L,))
    assert called.uncounted == {"pure_callback": 1}
    foreign = walked(lambda x: jax.ffi.ffi_call("mine", out)(x), (L,))
    assert foreign.uncounted == {"ffi_call.mine": 1}

    def solve(x: Any, y: Any) -> Any:
        return lax.custom_linear_solve(lambda v: x @ v, y, lambda _, v: v)

    assert "custom_linear_solve" in walked(solve, (L, L), (L,)).uncounted


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(D, D), nn.BatchNorm1d(D)
        self.drop, self.fails = nn.Dropout(0.5), False

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None, scale: float) -> dict[str, Any]:
        if self.fails:
            raise ValueError("on purpose")
        return {"y": self.drop(self.norm(self.linear(x))) * scale, "mask": mask}


@pytest.fixture
def module() -> Stateful:
    return Stateful()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("fails", [False, True])
def test_tracing_does_not_change_the_module(
    module: Stateful, training: bool, fails: bool, capfd: Any, caplog: Any
) -> None:
    module.train(training)
    module.fails = fails
    before = {name: value.clone() for name, value in module.state_dict().items()}
    random_state = torch.random.get_rng_state()
    x = torch.randn(B, D)
    torch.random.set_rng_state(random_state)

    if fails:
        with pytest.raises(ValueError, match="on purpose"):
            torch_flops.trace_forward(module, (x, None, 2.0))
    else:
        assert exactly(torch_flops.trace_forward(module, (x, None, 2.0)), 2 * B * D * D)

    assert all(each.training is training for each in module.modules())
    assert all(p.grad is None and p.requires_grad for p in module.parameters())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())
    assert torch.equal(torch.random.get_rng_state(), random_state)
    assert torch.is_grad_enabled()
    assert capfd.readouterr() == ("", "") and caplog.records == []


def test_a_compiled_module_is_traced_through() -> None:
    compiled: Any = torch.compile(nn.Linear(K, M), backend="eager")
    assert exactly(torch_flops.trace_forward(compiled, (torch.randn(L, K),)), 2 * L * K * M)


def test_tools_are_named() -> None:
    assert traced(torch.matmul, (2, 2), (2, 2)).tool == "fvcore"
    assert stepped(torch.matmul, (2, 2), (2, 2)).tool == "torch FlopCounterMode"
    assert jax_flops.trace(jnp.add, 1.0, 2.0).tool == "jaxpr walk"
