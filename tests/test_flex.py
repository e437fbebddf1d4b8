"""FlexAttention as a kernel: offered on CUDA only; here its code runs on a CPU, not as Triton."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask

from synthbench.backends.base import Setting
from synthbench.backends.kernel_choice import recording_offers, using_kernel
from synthbench.backends.kernel_record import recording_kernels
from synthbench.backends.torch import backend
from synthbench.backends.torch.mixers import compiled, features, flex
from synthbench.backends.torch.mixers.numerics import ForwardInputs
from synthbench.backends.torch.model import build_mixer
from synthbench.backends.torch.module import load
from synthbench.backends.torch.prediction import offer_kernels, predict_memory
from synthbench.kernel import Kernel
from synthbench.measure import parity
from synthbench.measure.inputs import empty_batch, setting_of
from synthbench.measure.parity_inputs import (
    SMALL,
    case_batch,
    cases,
    random_parameters,
    small_model,
)
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.suites.cell import model_of
from tests.kernel_choices import cell
from tests.onednn import by_onednn
from tests.variants import VARIANTS

MIXTURES = [
    "R+V", "R+D", "FD", "FD+V", "(R+V)(mixing=layer)", "(R+Fix+V)(mixing=sum)",
    "FD(hidden=separate, bias=true)", "Fix+FR+D",
]  # fmt: skip
# Tracing asks tensors for what they do not have; PyTorch hides the warning, but not an error.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
TOLERANCE = {"float64": 1e-10, "float32": 2e-5}


@pytest.fixture
def on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offer the kernel on a CPU, in every type; trace it in full, and run the trace eagerly.

    PyTorch refuses a backward pass on a CPU by a check of the device only.
    """

    def traced(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        made: Any = torch.compile(function, backend="aot_eager", dynamic=False, fullgraph=True)
        return made

    by_onednn(monkeypatch, False)
    monkeypatch.setattr(flex, "can_compile", lambda x: True)
    monkeypatch.setattr(flex, "DTYPES", (torch.float32, torch.float64))
    monkeypatch.setattr(compiled, "compiled", traced)
    name = "torch.nn.attention.flex_attention._validate_device"
    monkeypatch.setattr(name, lambda *tensors: None)


@pytest.fixture(autouse=True)
def forget_compilations() -> Iterator[None]:
    yield
    torch.compiler.reset()


@pytest.mark.long_but("R+V", "FD")
@pytest.mark.usefixtures("on_a_cpu")
@pytest.mark.parametrize("variant", MIXTURES)
def test_outputs_and_gradients_are_those_of_the_reference_form(variant: str) -> None:
    """With every mask, at full length and below; a query without a key gives zeros."""
    model = small_model(variant)
    start = random_parameters(model)
    first, *_, last = every = list(cases(model))
    for case in every if variant == "FD+V" else (first, last):  # tracing takes long
        cased = replace(model, causal=case.causal)
        batch = case_batch(cased, case)
        dtype = "float32" if case.padded and case.causal else "float64"
        fused, plain = (
            Setting(dtype=dtype, form=form, compile="eager") for form in ("fused", "reference")
        )
        with recording_offers() as offers, recording_kernels() as used:
            backend.gradients(cased, start, fused, batch)
        assert flex.FLEX not in used
        kernel = next(kernel for kernel in offers if kernel.path == flex.FLEX)
        with using_kernel(kernel), recording_kernels() as used:
            got = backend.gradients(cased, start, fused, batch)
            outputs = backend.outputs(cased, start, fused, batch) if case is last else got.outputs
        assert list(used) == [flex.FLEX]
        want = backend.gradients(cased, start, plain, batch)
        for found in (got.outputs, outputs):
            assert parity.relative_error(found, want.outputs) <= TOLERANCE[dtype], case.name
        difference = parity.gradient_difference(got.gradients, want.gradients)
        assert difference <= TOLERANCE[dtype], f"{case.name}: gradients are off by {difference}"


@pytest.mark.usefixtures("on_a_cpu")
@pytest.mark.parametrize("variant", ["V", "D+V", "FD+V"])
def test_a_models_position_bias_is_a_table(variant: str) -> None:
    sizes = Sizes.of(**SMALL)
    module, plain = (build_mixer(parse(variant), sizes, form) for form in ("fused", "reference"))
    start = random_parameters(small_model(variant))
    for each in (module, plain):
        load(each, parse(variant).parameters(sizes), {n[6:]: v for n, v in start.items()})
    found = []
    for each in (module, plain):
        torch.manual_seed(0)
        x, bias = torch.randn(2, 9, 16), torch.randn(1, 4, 9, 9, requires_grad=True)
        with recording_kernels() as used, using_kernel(Kernel(flex.FLEX, "MKL")):
            y = each(x, None, True, position_bias=bias)
        assert (flex.FLEX in used) == (each is module)
        found.append((y, *torch.autograd.grad(y.square().sum(), [bias])))
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("seq_len", [1, 127, 128, 129, 300])
def test_one_block_holds_every_length(seq_len: int) -> None:
    made = flex.one_block(seq_len, torch.device("cpu"))
    assert made.shape == (1, 1, seq_len, seq_len) and made.to_dense().tolist() == [[[[1]]]]
    assert all(size % flex.BLOCK == 0 and size >= seq_len for size in made.BLOCK_SIZE)


@pytest.mark.parametrize("seq_len", [1, 127, 128, 129, 300])
def test_causal_blocks_are_those_that_pytorch_finds_by_evaluating_the_mask(seq_len: int) -> None:
    flex.causal_blocks.cache_clear()
    with torch.inference_mode():
        made = flex.causal_blocks(seq_len, torch.device("cpu"))
    want = create_block_mask(flex.is_before, None, None, seq_len, seq_len, device="cpu")
    assert made.shape == want.shape and made.BLOCK_SIZE == want.BLOCK_SIZE
    for name in ("kv", "full_kv", "q", "full_q"):
        counts, expected = (getattr(mask, f"{name}_num_blocks") for mask in (made, want))
        assert torch.equal(counts, expected), name
        assert not counts.is_inference()  # gradients save it
        found, right = (getattr(mask, f"{name}_indices") for mask in (made, want))
        for row, count in enumerate(counts.flatten().tolist()):
            ours, theirs = (each.flatten(0, 2)[row, :count] for each in (found, right))
            assert torch.equal(ours, theirs), name


def offered(variant: str, dtype: str = "bfloat16", **changes: Any) -> list[str]:
    """The paths that a form offers on a GPU, on tensors without values."""
    sizes = {"d_model": 128, "heads": 2, "seq_len": 256, "max_len": 256}
    of = cell(variant=variant, device="cuda", dtype=dtype, mode="train", **sizes | changes)
    model = model_of(of)
    batch = empty_batch(model, of.batch, of.seq_len)
    return [kernel.path for kernel in offer_kernels(model, setting_of(of), of.mode, batch)]


@pytest.mark.parametrize("variant", MIXTURES)
def test_it_is_offered_on_cuda_and_not_first(variant: str) -> None:
    for dtype in ("bfloat16", "float32"):
        paths = offered(variant, dtype)
        assert flex.FLEX in paths[1:]
    assert flex.FLEX not in offered(variant, "float64")


@pytest.mark.parametrize(
    "variant", ["V", "D", "FR", "R", "R+Fix", "R+FR", "glu", "R+glu", "FD+conv"]
)
def test_others_are_not_offered(variant: str) -> None:
    assert flex.FLEX not in offered(variant)


def test_it_has_no_more_features_than_fit() -> None:
    wide: dict[str, Any] = {"d_model": 512, "heads": 2}  # 256 features per head
    assert flex.FLEX in offered("R+V", **wide) and flex.FLEX not in offered("R+D+V", **wide)
    assert flex.FLEX not in offered("FD", d_model=600, heads=2)  # the values
    assert flex.FLEX not in offered("R+D(sharing=full)", d_model=512, heads=8)


@pytest.mark.parametrize(
    ("variant", "numbers"),
    [
        ("R+V", 2 * 256 * 256), ("FD", 3 * 2 * 256 * 16), ("FD(a=2, b=128)+V", 3 * 2 * 256 * 128),
        ("FD+Fix", 2 * 256 * 256),
    ],
)  # fmt: skip
def test_what_it_adds_has_32_bit_indices(
    variant: str, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for most, is_offered in ((numbers, True), (numbers - 1, False)):
        monkeypatch.setattr(flex, "MOST_ADDED", most)
        assert (flex.FLEX in offered(variant, batch=3)) == is_offered


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_number_of_features(variant: str) -> None:
    mixer, model = parse(variant), small_model(variant)
    start = random_parameters(model)
    p = {n.removeprefix("mixer."): torch.from_numpy(value) for n, value in start.items()}
    x = torch.from_numpy(np.ones((2, 9, 16), np.float32))
    for component in filter(features.has_features, getattr(mixer, "components", ())):
        query, key = features.features_of(component, ForwardInputs(p, x, None, False), None)
        want = features.number_of_features(component, p)
        assert query.shape[-1] == key.shape[-1] == want


@pytest.mark.parametrize("variant", ["R+V", "FD", "FD+V"])
def test_its_memory_is_predicted_without_all_logits(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel allocates: no [B,H,L,L], the gradient of a table first in float32."""
    monkeypatch.setattr(flex, "can_compile", lambda x: True)
    shapes = {"batch": 8, "seq_len": 1024, "max_len": 1024, "d_model": 128, "heads": 2}
    of = cell(variant=variant, dtype="bfloat16", mode="train", **shapes)
    model = model_of(of)
    batch = empty_batch(model, 8, 1024)
    with using_kernel(Kernel(flex.FLEX)), recording_kernels() as used:
        plan = predict_memory(model, setting_of(of), "train", batch)
    assert plan is not None and list(used) == [flex.FLEX]
    table = 2 * 1024 * 1024 * ("R" in variant)
    assert 4 * table < plan.temporary_bytes < 2 * 8 * 2 * 1024 * 1024 + 12 * table
