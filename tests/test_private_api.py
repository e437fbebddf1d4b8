"""Without each private API of a framework: a correct fallback, or a message that names it."""

from __future__ import annotations

import importlib
import importlib.metadata
from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax
from torch import Tensor, nn

import synthbench
from synthbench.backends import private_api
from synthbench.backends.base import Backend, Batch, Setting
from synthbench.backends.jax import private_api as jax_api
from synthbench.backends.kernel_record import recording_kernels
from synthbench.backends.torch import backend, cpu_matmul, memory
from synthbench.backends.torch import flops as torch_flops
from synthbench.backends.torch import private_api as torch_api
from synthbench.backends.torch.mixers import weight_cache
from synthbench.errors import UnsupportedError
from synthbench.measure import memory_prediction
from synthbench.measure.parity_inputs import random_parameters, small_model
from tests.counting import B, D, L, exactly, walked


def remove(monkeypatch: pytest.MonkeyPatch, path: str) -> str:
    """Take an API away; returns the pattern of the message that names it."""
    module, _, name = path.rpartition(".")
    monkeypatch.delattr(importlib.import_module(module), name)
    return rf"^torch {torch.__version__.split('+')[0]}\S* has no {path} .* is tested with torch >=2"


def refuse(*args: Any, **options: Any) -> Any:
    """A function whose parameters are no longer those that synthbench passes."""
    raise TypeError("got an unexpected argument")


@pytest.mark.parametrize(
    ("declared", "named"),
    [
        (["torch-extra>=1", "torch<2.16,>=2.11; extra == 'torch'"], "torch >=2.11, <2.16;"),
        ([], "the versions of torch in its pyproject.toml;"),
        (None, "the versions of torch in its pyproject.toml;"),
    ],
)
def test_the_message_names_the_versions_that_the_package_declares(
    declared: list[str] | None, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def requires(package: str) -> list[str]:
        if declared is None:
            raise importlib.metadata.PackageNotFoundError(package)
        return declared

    monkeypatch.setattr(importlib.metadata, "requires", requires)
    with pytest.raises(UnsupportedError) as caught:
        private_api.require_private_api("torch.no_such_module.function", "multiply")
    assert str(caught.value) == (
        f"torch {importlib.metadata.version('torch')} has no torch.no_such_module.function as "
        f"synthbench uses it to multiply; synthbench is tested with {named} install one of these "
        "versions"
    )


@pytest.mark.parametrize("missing", [True, False])
def test_the_gradient_of_softmax(missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    weights, d_weights = torch.softmax(logits, -1), torch.randn(2, 3, 5, dtype=torch.float64)
    (wanted,) = torch.autograd.grad(weights, logits, d_weights)
    found = [torch_api.softmax_backward(d_weights, weights.detach())]
    if missing:
        monkeypatch.delattr(torch, "_softmax_backward_data")
    else:
        monkeypatch.setattr(torch, "_softmax_backward_data", refuse)
    found.append(torch_api.softmax_backward(d_weights, weights.detach()))
    for each in found:
        torch.testing.assert_close(each, wanted)


def wrong(left: Tensor, *args: Any) -> Tensor:
    return left


@pytest.mark.parametrize("operator", [refuse, wrong])
def test_products_without_onednns_operator(operator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert torch_api.has_linear_pointwise() or not torch.backends.mkldnn.is_available()
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", operator)
    monkeypatch.setattr(cpu_matmul, "has_onednn", cpu_matmul.has_onednn.__wrapped__)
    monkeypatch.setattr(cpu_matmul, "LEAST", 0)
    left, right = torch.randn(4, 6), torch.randn(6, 3)
    with recording_kernels() as kernels:
        assert torch.equal(cpu_matmul.product(left, right), left @ right)
    assert not kernels


def test_products_where_no_mode_can_be_left(monkeypatch: pytest.MonkeyPatch) -> None:
    remove(monkeypatch, "torch.utils._python_dispatch._disable_current_modes")
    assert not cpu_matmul.has_onednn.__wrapped__()


def test_memory_is_not_predicted_without_fake_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    message = remove(monkeypatch, "torch._subclasses.fake_tensor.FakeTensorMode")
    with pytest.raises(UnsupportedError, match=message):
        torch_api.fake_tensors()
    remove(monkeypatch, "torch._subclasses.fake_tensor.FakeTensor")
    assert not torch_api.is_fake(torch.empty(2, device="meta"))
    assert not torch_api.is_fake(nn.Parameter(torch.empty(2)))


def test_a_prediction_without_fake_tensors_is_the_declarations_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from synthbench.suites.cell import Cell

    remove(monkeypatch, "torch._subclasses.fake_tensor.FakeTensorMode")
    model = small_model("V")
    content: dict[str, Any] = {
        "variant": "V", "framework": "torch", "mode": "forward", "seq_len": 4, "batch": 1,
        "model": "mixer", "d_model": model.sizes.d_model, "heads": model.sizes.heads,
        "max_len": model.sizes.max_len, "compile": "eager", "device": "cuda",
    }  # fmt: skip
    x = np.zeros((1, 4, model.sizes.d_model), np.float32)
    batch = Batch(x, np.zeros((1, 4), np.int64))
    plan = memory_prediction.predict(
        cast(Backend, backend), model, Cell.from_flat(**content), batch
    )
    assert plan.tool == memory_prediction.DECLARATION


def test_operations_cannot_be_followed_without_dispatch_modes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = remove(monkeypatch, "torch.utils._python_dispatch.TorchDispatchMode")
    mode = torch_api.dispatch_mode()
    with pytest.raises(UnsupportedError, match=message):
        mode()


@pytest.mark.parametrize("name", ["tree_leaves", "tree_flatten", "tree_unflatten"])
def test_flops_are_not_counted_without_trees(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    message = remove(monkeypatch, f"torch.utils._pytree.{name}")
    with pytest.raises(UnsupportedError, match=message):
        torch_flops.trace_forward(nn.Linear(D, D), (torch.randn(B, D),))


@pytest.mark.parametrize(
    "path", ["torch.utils._pytree.tree_leaves", "torch.multiprocessing.reductions.StorageWeakRef"]
)
def test_memory_is_not_followed_without_storages(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(L)
    memory.plan(lambda: x + 1)  # PyTorch imports the name for itself the first time
    message = remove(monkeypatch, path)
    with pytest.raises(UnsupportedError, match=message):
        memory.plan(lambda: x + 1)


def test_a_storage_has_the_address_of_its_reference() -> None:
    storage = torch.randn(L).untyped_storage()
    assert torch_api.storage_address(storage) == torch_api.storage_reference(storage).cdata
    unknown: Any = SimpleNamespace()
    with pytest.raises(UnsupportedError, match=r"has no torch\.UntypedStorage\._cdata"):
        torch_api.storage_address(unknown)


def test_no_weights_are_kept_without_change_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown: Any = SimpleNamespace()
    assert torch_api.change_count(unknown) is None
    model = small_model("R")
    start = {n.removeprefix("mixer."): v for n, v in random_parameters(model).items()}
    x = np.random.default_rng(0).standard_normal((2, 5, model.sizes.d_model))
    sizes: dict[str, Any] = {"heads": model.sizes.heads, "max_len": model.sizes.max_len}
    wanted = synthbench.apply("R", start, x, framework="torch", form="fused", **sizes)
    with recording_kernels() as kernels:
        synthbench.apply("R", start, x, framework="torch", form="fused", **sizes)
    assert "cached weights" in kernels
    monkeypatch.setattr(weight_cache, "change_count", lambda x: None)
    with recording_kernels() as kernels:
        found = synthbench.apply("R", start, x, framework="torch", form="fused", **sizes)
    assert "cached weights" not in kernels
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_an_operation_that_aten_does_not_have_needs_no_formula() -> None:
    assert torch_api.aten_operation("dot") is torch.ops.aten.dot
    assert torch_api.aten_operation("no_such_operation") is None


def test_a_module_without_tables_of_hooks() -> None:
    unknown: Any = SimpleNamespace()
    assert torch_api.hooks_of(unknown) == []
    module = nn.Linear(D, D)
    module.register_forward_hook(lambda *_: None)
    assert [len(table) for table in torch_api.hooks_of(module)] == [1, 0]


@pytest.mark.parametrize("missing", [True, False])
def test_dead_code_is_counted_and_said_to_be(
    missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def function(x: Any) -> Any:
        return [x @ x, x @ x @ x][0]

    module = importlib.import_module("jax.interpreters.partial_eval")
    before = walked(function, (L, L))
    assert (before.tool, before.flops) == ("jaxpr walk", 2 * L**3)
    if missing:
        monkeypatch.delattr(module, "dce_jaxpr")
    else:
        monkeypatch.setattr(module, "dce_jaxpr", refuse)
    count = walked(function, (L, L))
    assert (count.tool, count.flops) == ("jaxpr walk, dead code included", 3 * 2 * L**3)


def test_a_jaxpr_is_walked_without_jax_extend(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Any) -> Any:
        def body(i: Any, carry: Any) -> Any:
            return lax.cond(i > 1, lambda c: jax.checkpoint(jnp.matmul)(c, x), lambda c: c, carry)

        def goes_on(state: Any) -> Any:
            return state[0] < 5

        def iterate(state: Any) -> Any:
            return state[0] + 1, jax.jit(jnp.matmul)(state[1], x)

        return lax.fori_loop(0, 3, body, lax.while_loop(goes_on, iterate, (0, x))[1])

    for name in ("jaxprs_in_params", "Literal"):
        monkeypatch.delattr(importlib.import_module("jax.extend.core"), name)
    assert exactly(walked(function, (L, L)), (3 + 5) * 2 * L**3)
    gradient = jax.grad(lambda x: jax.nn.relu(x @ x).sum())
    assert exactly(walked(gradient, (L, L)), 3 * 2 * L**3)


def test_the_platforms_version_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    assert jax_api.platform_version()
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace()])
    assert jax_api.platform_version() is None
    client = SimpleNamespace(platform_version="one \n two")
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(client=client)])
    assert jax_api.platform_version() == "one two"


def test_gradients_of_the_fused_form_without_private_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = small_model("D+V")
    start = random_parameters(model)
    x = np.random.default_rng(0).standard_normal((2, 5, model.sizes.d_model)).astype(np.float32)
    batch = Batch(x, np.zeros((2, 5), np.int64))
    setting = Setting(dtype="float64", form="fused", compile="eager")
    wanted = backend.gradients(model, start, setting, batch).gradients
    monkeypatch.delattr(torch, "_softmax_backward_data")
    found = backend.gradients(model, start, setting, batch).gradients
    for name, gradient in wanted.items():
        np.testing.assert_allclose(found[name], gradient, rtol=1e-9, atol=1e-12)
