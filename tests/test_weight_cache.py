"""Kept attention weights: whatever changes a parameter between two calls changes the output."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from synthbench.api import backend_of
from synthbench.backends.kernel_record import force_long_kernels, recording_kernels
from synthbench.backends.torch.mixers import attention, weight_cache
from synthbench.backends.torch.mixers.numerics import ForwardInputs
from synthbench.backends.torch.model import build_mixer
from synthbench.backends.torch.module import load
from synthbench.measure.inputs import random_batch, setting_of
from synthbench.mixers.attention import Attention
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.start_values import start_values
from synthbench.suites.cell import model_of
from tests.kernel_choices import cell

SIZES = Sizes.of(d_model=8, heads=2, max_len=6)
X = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 6, 8), dtype=np.float32))
CACHED = {
    "R": ("random.logits",),
    "Fix": ("fixed_random.logits",),
    "Fix+R": ("fixed_random.logits", "random.logits", "alpha"),
    "(R+Fix)(mixing=layer)": ("random.logits", "fixed_random.logits", "alpha"),
    "(R+Fix)(mixing=sum)": ("random.logits", "fixed_random.logits"),
}


def module_of(variant: str, form: str = "fused") -> nn.Module:
    mixer = parse(variant)
    declared = mixer.parameters(SIZES)
    module = build_mixer(mixer, SIZES, form)
    load(module, declared, start_values(declared, seed=3))
    return module


def tensor_of(module: nn.Module, name: str) -> Tensor:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}[name]


def different(tensor: Tensor) -> Tensor:
    """Other values; a shift by a constant would leave a softmax as it is."""
    return tensor.detach() * 2 + torch.linspace(-1, 1, tensor.numel()).view(tensor.shape)


def add(module: nn.Module, name: str) -> None:
    with torch.no_grad():
        tensor = tensor_of(module, name)
        tensor.add_(different(tensor))


def copy(module: nn.Module, name: str) -> None:
    with torch.no_grad():
        tensor_of(module, name).copy_(different(tensor_of(module, name)))


def one_element(module: nn.Module, name: str) -> None:
    with torch.no_grad():
        tensor_of(module, name).view(-1)[0] += 3


def optimize(module: nn.Module, name: str) -> None:
    tensor = tensor_of(module, name)
    tensor.grad = torch.linspace(-1, 1, tensor.numel()).view(tensor.shape)
    torch.optim.SGD([tensor], lr=5.0).step()


def load_state(module: nn.Module, name: str) -> None:
    state = module.state_dict()
    module.load_state_dict({**state, name: different(state[name])})


def assign_state(module: nn.Module, name: str) -> None:
    state = module.state_dict()
    module.load_state_dict({**state, name: different(state[name])}, assign=True)


def replace_data(module: nn.Module, name: str) -> None:
    tensor = tensor_of(module, name)
    tensor.data = different(tensor)


CHANGES: list[Callable[[nn.Module, str], None]] = [
    add, copy, one_element, optimize, load_state, assign_state, replace_data,
]  # fmt: skip


def evaluated(module: nn.Module, x: Tensor = X, causal: bool = False) -> Tensor:
    with torch.no_grad():
        y: Tensor = module(x, None, causal)
    return y


def plain(module: nn.Module, variant: str, causal: bool = False) -> Tensor:
    """The outputs of the reference form with the module's own tensors."""
    mixer = parse(variant)
    assert isinstance(mixer, Attention)
    p = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    with torch.no_grad():
        return attention.reference(mixer, p, X, None, causal)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize(("variant", "names"), CACHED.items(), ids=str)
def test_a_change_of_any_cached_tensor_shows(
    variant: str, names: tuple[str, ...], change: Callable[[nn.Module, str], None]
) -> None:
    module = module_of(variant)
    with recording_kernels() as kernels:
        torch.testing.assert_close(evaluated(module), plain(module, variant))
    assert "cached weights" in kernels
    for name in names:
        before = evaluated(module)
        torch.testing.assert_close(evaluated(module), before, rtol=0, atol=0)
        change(module, name)
        after = evaluated(module)
        assert not torch.allclose(after, before, rtol=1e-3, atol=1e-4), name
        torch.testing.assert_close(after, plain(module, variant), msg=name)


def test_another_tensor_at_the_same_place_is_not_the_same_tensor() -> None:
    """Python gives the address of a tensor that was freed to the next one."""
    module = module_of("R+Fix")
    alpha = tensor_of(module, "alpha").detach()
    for scale in range(1, 6):
        moved = torch.linspace(-scale, scale, alpha.numel()).view(alpha.shape)
        with torch.no_grad():
            got = torch.func.functional_call(module, {"alpha": moved.clone()}, (X, None, False))
        copy_of = module_of("R+Fix")
        with torch.no_grad():
            tensor_of(copy_of, "alpha").copy_(moved)
        torch.testing.assert_close(got, plain(copy_of, "R+Fix"))


def test_views_of_one_storage_are_told_apart() -> None:
    module = module_of("R+Fix")
    several = torch.tensor([[[3.0, -3.0], [-3.0, 3.0]], [[-3.0, 3.0], [3.0, -3.0]]])
    found = []
    for alpha in (several[0], several[1], several[0].T, several[1].T.flip(0)):
        with torch.no_grad():
            got = torch.func.functional_call(module, {"alpha": alpha}, (X, None, False))
            tensor_of(module, "alpha").copy_(alpha)
        torch.testing.assert_close(got, plain(module, "R+Fix"))
        found.append(got)
    assert not torch.allclose(found[0], found[1])


def test_length_and_causality_have_their_own_weights() -> None:
    module = module_of("R+Fix")
    for causal in (False, True, False):
        torch.testing.assert_close(evaluated(module, causal=causal), plain(module, "R+Fix", causal))
        for length in (6, 1, 4, 6):
            short = evaluated(module, X[:, :length], causal)
            p = {**dict(module.named_parameters()), **dict(module.named_buffers())}
            mixer: Any = parse("R+Fix")
            with torch.no_grad():
                want = attention.reference(mixer, p, X[:, :length], None, causal)
            torch.testing.assert_close(short, want)


@pytest.mark.parametrize("variant", ["R", "R+Fix"])
def test_tensors_of_inference_mode_are_not_cached(variant: str) -> None:
    """PyTorch does not count how often they change."""
    with torch.inference_mode():
        module = module_of(variant)
        assert tensor_of(module, "random.logits").is_inference()
        first = module(X, None, False)
        tensor_of(module, "random.logits").mul_(-2)
        second = module(X, None, False)
        assert not torch.allclose(first, second)
        torch.testing.assert_close(second, plain(module, variant))


def test_inference_mode_sees_what_training_changed() -> None:
    module = module_of("R")
    with torch.inference_mode():
        first = module(X, None, False)
    optimize(module, "random.logits")
    with torch.inference_mode():
        second = module(X, None, False)
    assert not torch.allclose(first, second)
    torch.testing.assert_close(second.clone(), plain(module, "R"))


@pytest.mark.parametrize("variant", ["Fix", "R", "Fix+R"])
def test_training_may_follow_inference_mode(variant: str) -> None:
    """Weights of constant logits, and of frozen ones, are used in training too."""
    module = module_of(variant)
    for name in CACHED[variant]:
        tensor_of(module, name).requires_grad_(False)
    with torch.inference_mode():
        first = module(X, None, False).clone()
    y = module(X, None, False)
    y.sum().backward()
    torch.testing.assert_close(y.detach(), first)
    torch.testing.assert_close(y.detach(), plain(module, variant))


def test_gradients_do_not_stop_at_cached_weights() -> None:
    """A call with gradients after one without computes its own weights."""
    module = module_of("Fix+R")
    evaluated(module)
    y = module(X, None, False)
    y.square().sum().backward()
    assert weight_cache.cached_bytes([tensor_of(module, "fixed_random.logits")]) == 0
    for name in ("random.logits", "alpha"):
        gradient = tensor_of(module, name).grad
        assert gradient is not None and gradient.abs().max() > 0, name
    # Constant logits have no gradient, so that training may use the weights kept for them.
    fixed = module_of("Fix")
    with recording_kernels() as kernels:
        fixed(X, None, False).sum().backward()
    assert "cached weights" in kernels


def test_the_cache_ends_with_its_parameter() -> None:
    mixer: Any = parse("R")
    before = len(weight_cache._cache)
    p = {"random.logits": torch.randn(2, 6, 6)}
    inputs = ForwardInputs(p, X, None, False)
    assert weight_cache.caches_weights(mixer, inputs)
    assert weight_cache.cached_weights(mixer, inputs).shape == (2, 1, 6, 6)
    assert weight_cache.cached_bytes([p["random.logits"]]) == 4 * 2 * 6 * 6
    assert len(weight_cache._cache) == before + 1
    del inputs, p
    assert len(weight_cache._cache) == before


@pytest.mark.parametrize("variant", ["V", "FR", "D+R", "R+FR"])
def test_other_components_are_never_cached(variant: str) -> None:
    mixer: Any = parse(variant)
    assert not weight_cache.caches_weights(mixer, ForwardInputs({}, X, None, False))


@pytest.mark.parametrize(("most", "kept"), [(72, True), (71, False)])
def test_large_weights_are_not_kept(most: int, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two heads at a length of 6 are 72 weights; the outputs are the same."""
    monkeypatch.setattr(weight_cache, "MOST_WEIGHTS", most)
    module = module_of("R")
    with recording_kernels() as kernels:
        torch.testing.assert_close(evaluated(module), plain(module, "R"))
    assert ("cached weights" in kernels) == kept


@pytest.mark.parametrize("variant", CACHED)
@pytest.mark.parametrize("how", [{}, {"foreach": True}, {"fused": True}], ids=str)
def test_an_optimizer_changes_what_is_kept(variant: str, how: dict[str, Any]) -> None:
    """A fused optimizer does not count the changes that it makes."""
    module, plain = module_of(variant), module_of(variant, "reference")
    trained = torch.optim.Adam(module.parameters(), lr=0.5, **how)
    for _ in range(3):
        with torch.no_grad():
            kept = module(X, None, False)
            torch.testing.assert_close(kept, plain(X, None, False))
        target = module(X * 2, None, False)
        with torch.no_grad():
            module(X, None, False)  # kept again before the step
        (target - kept - 1).square().mean().backward()
        trained.step()
        trained.zero_grad()
        plain.load_state_dict(module.state_dict())


def test_an_optimizer_of_other_parameters_forgets_nothing() -> None:
    """As in each train step of Fix, whose logits are constant."""
    module = module_of("Fix")
    module(X, None, False)
    logits = tensor_of(module, "fixed_random.logits")
    before = weight_cache.cached_bytes([logits])
    assert before > 0
    trained = torch.optim.Adam(module.parameters(), fused=True)
    module(X, None, False).sum().backward()
    trained.step()
    assert weight_cache.cached_bytes([logits]) == before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within torch's compiler
def test_a_compiled_step_keeps_no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check before compiling is eager, and kept weights would count as the step's memory."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    of = cell(variant="R", mode="forward", compile="compiled")
    model = model_of(of)
    batch = random_batch(model, of.batch, of.seq_len, of.seed)
    start = start_values(model.parameters(), of.seed)
    with force_long_kernels(), recording_kernels() as used:
        step = backend_of("torch").build(model, start, setting_of(of), of.mode, batch)
        step.compile()
    assert "cached weights" in used
    assert step.gradient_bytes == 0
    torch.compiler.reset()
