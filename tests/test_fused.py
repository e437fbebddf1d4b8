"""Fused forms in PyTorch: the numbers of the reference form, with memory that grows with length."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import synthbench
from synthbench.backends.base import Backend, Batch, Setting
from synthbench.backends.kernel_record import force_long_kernels, recording_kernels
from synthbench.backends.torch import backend, cpu_matmul
from synthbench.backends.torch.mixers import fused_attention, head_convolution
from synthbench.backends.torch.mixers.blocks import BLOCK_SIZES
from synthbench.backends.torch.mixers.weight_cache import cached_bytes
from synthbench.backends.torch.model import build_mixer
from synthbench.backends.torch.module import load
from synthbench.backends.torch.prediction import predict_memory
from synthbench.measure import parity
from synthbench.measure.inputs import random_batch
from synthbench.measure.parity_inputs import case_batch, cases, random_parameters, small_model
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from tests.onednn import by_onednn
from tests.variants import VARIANTS

SIZES = Sizes.of(d_model=16, heads=4, max_len=12)
TOLERANCE = {"float64": 1e-10, "float32": 2e-5}


@pytest.fixture(params=["blocks", "blocks by oneDNN", "one block"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of five queries and one head, or all in one; long, or short enough for memory."""
    by_onednn(monkeypatch, request.param == "blocks by oneDNN")
    if request.param != "one block":
        never_short(monkeypatch)
        monkeypatch.setitem(BLOCK_SIZES, "cpu", ({"queries": 5, "logits": 1},))


def never_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is small enough for all weights in memory."""
    for lengths in (fused_attention.PLAIN_UP_TO, fused_attention.PLAIN_TRAINED_ALONE_UP_TO):
        for name in lengths:
            monkeypatch.setitem(lengths, name, 0)


@pytest.fixture
def few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    never_short(monkeypatch)
    size = {"queries": 4, "logits": 150}  # two heads together, or one
    monkeypatch.setitem(BLOCK_SIZES, "cpu", (size,))


def require_same(model: Model, dtype: str, batch: Batch, start: Any) -> list[str]:
    """Outputs and all gradients of both forms agree; returns the kernels chosen."""
    with recording_kernels() as heard:
        fused, plain = (
            backend.gradients(model, start, Setting(dtype=dtype, form=form, compile="eager"), batch)
            for form in ("fused", "reference")
        )
    assert all(np.isfinite(g).all() for g in fused.gradients.values())
    error = parity.relative_error(fused.outputs, plain.outputs)
    assert error <= TOLERANCE[dtype], f"outputs are off by {error}"
    difference = parity.gradient_difference(fused.gradients, plain.gradients)
    assert difference <= TOLERANCE[dtype], f"gradients are off by {difference}"
    return list(heard)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("variant", VARIANTS)
def test_outputs_and_gradients_are_those_of_the_reference_form(variant: str, dtype: str) -> None:
    model = small_model(variant)
    start = random_parameters(model)
    for case in cases(model):
        cased = replace(model, causal=case.causal)
        assert require_same(cased, dtype, case_batch(cased, case), start)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("variant", ["V", "R", "FR", "D+V", "R+V", "glu"])
def test_a_models_position_bias_joins_the_logits(variant: str) -> None:
    module, plain = (build_mixer(parse(variant), SIZES, form) for form in ("fused", "reference"))
    start = random_parameters(small_model(variant))
    for each in (module, plain):
        load(each, parse(variant).parameters(SIZES), {n[6:]: v for n, v in start.items()})
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[1, 4:] = False
    for options in ((None, False), (mask, False), (mask, True)):
        found = []
        for each in (module, plain):
            torch.manual_seed(0)
            x, bias = torch.randn(2, 9, 16), torch.randn(1, 4, 9, 9, requires_grad=True)
            y = each(x, *options, position_bias=bias)
            (gradient,) = torch.autograd.grad(y.square().sum(), [bias])
            found.append((y, gradient))
            with torch.no_grad():  # nothing kept hides another bias
                torch.testing.assert_close(each(x, *options, position_bias=bias), y)
        torch.testing.assert_close(found[0], found[1])


@pytest.mark.usefixtures("few_queries")
@settings(max_examples=25, derandomize=True)
@given(drawn=st.data())
@pytest.mark.parametrize(
    "variant", ["V", "R", "FR+R", "D+V", "R+V", "R+D", "FD+V", "glu", "Fix+FR+D", "linformer",
                "light_conv(width=7)", "light_conv(width=2)", "dynamic_conv(width=19)"]
)  # fmt: skip
def test_any_shape_and_any_padding(variant: str, drawn: st.DataObject) -> None:
    max_len = drawn.draw(st.sampled_from([1, 2, 6, 21]), "max_len")
    seq_len = drawn.draw(st.integers(1, max_len), "seq_len")
    size = drawn.draw(st.integers(1, 3), "batch")
    heads, per_head = drawn.draw(st.sampled_from([(1, 4), (2, 4), (3, 5), (2, 1)]), "heads")
    causal = variant != "linformer" and drawn.draw(st.booleans(), "causal")
    sizes = Sizes.of(d_model=heads * per_head, heads=heads, max_len=max_len)
    model = Model.of("mixer", parse(variant), sizes, causal=causal)
    batch = random_batch(model, size, seq_len)
    if drawn.draw(st.booleans(), "padded"):
        rows = st.lists(st.booleans(), min_size=seq_len, max_size=seq_len)
        mask = np.array([drawn.draw(rows) for _ in range(size)])
        mask[0, drawn.draw(st.integers(0, seq_len - 1))] = True  # else the loss is 0 / 0
        batch = replace(batch, padding_mask=mask)
    require_same(model, "float64", batch, random_parameters(model))


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("variant", VARIANTS)
def test_nan_at_padded_positions_goes_nowhere(variant: str) -> None:
    model = small_model(variant)
    N = model.sizes.max_len
    mask = np.ones((2, N), dtype=bool)
    mask[0, N // 2 :] = False
    mask[1] = False
    x = np.random.default_rng(0).standard_normal((2, N, 16))
    poisoned = np.where(mask[..., None], x, np.nan)
    start = {name.removeprefix("mixer."): value for name, value in random_parameters(model).items()}
    options: dict[str, Any] = {
        "heads": 4, "max_len": N, "dtype": "float64", "padding_mask": mask, "form": "fused",
        "framework": "torch",
    }  # fmt: skip
    clean, hidden = (synthbench.apply(variant, start, v, **options) for v in (x, poisoned))
    np.testing.assert_allclose(hidden[mask], clean[mask], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("variant", ["V", "R", "FR", "R+V", "FD", "light_conv", "dynamic_conv"])
def test_bfloat16_on_a_cpu(variant: str) -> None:
    model = small_model(variant)
    start, batch = random_parameters(model), random_batch(model, 2, 9)
    setting = Setting(dtype="bfloat16", form="fused", compile="eager")
    forward, gradient = parity.errors(cast(Backend, backend), model, start, setting, batch)
    assert forward <= parity.FORWARD_TOLERANCE["bfloat16"]
    assert gradient <= parity.GRADIENT_TOLERANCE["bfloat16"]


@pytest.mark.parametrize("causal", [False, True])
def test_what_is_left_may_weigh_next_to_nothing(
    causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights over all keys underflow where padding leaves only the faintest: made per example."""
    never_short(monkeypatch)
    model = replace(small_model("R"), causal=causal)
    start = random_parameters(model)
    start["mixer.random.logits"][..., 0] = 300.0
    batch = random_batch(model, 2, 12)
    mask = np.ones((2, 12), dtype=bool)
    assert "blocks of queries" not in require_same(model, "float32", batch, start)
    mask[1, 0] = False
    faint = replace(batch, padding_mask=mask)
    assert "blocks of queries" in require_same(model, "float32", faint, start)


def test_weights_are_kept_until_a_parameter_changes() -> None:
    model = small_model("R")
    batch = random_batch(model, 2, 12)
    setting = Setting(form="fused", compile="eager")
    step = backend.build(model, random_parameters(model), setting, "forward", batch)
    logits = dict(step.module.named_parameters())["mixer.random.logits"]
    assert step.gradient_bytes == cached_bytes([logits]) == 0
    first = step()
    assert step.gradient_bytes == cached_bytes([logits]) == 4 * 4 * 12 * 12
    torch.testing.assert_close(step(), first, rtol=0, atol=0)
    with torch.no_grad():
        logits.add_(torch.randn_like(logits))
    assert not torch.allclose(step(), first)
    plain = replace(setting, form="reference")
    start = {name: p.detach().numpy() for name, p in step.module.named_parameters()}
    expected = backend.build(model, start, plain, "forward", batch)()
    torch.testing.assert_close(step(), expected)
    shorter, mixer = torch.randn(2, 5, 16), step.module.get_submodule("mixer")
    with torch.no_grad():
        assert not torch.equal(mixer(shorter, None, True), mixer(shorter, None, False))
    step.module(step.inputs)  # with gradients: they are let go
    assert step.gradient_bytes == 0


def test_a_training_step_changes_what_is_kept() -> None:
    model = small_model("R")
    batch = random_batch(model, 2, 12)
    setting = Setting(form="fused", compile="eager")
    step = backend.build(model, random_parameters(model), setting, "train", batch)

    def evaluated() -> torch.Tensor:
        with torch.no_grad():
            outputs: torch.Tensor = step.module(step.inputs)
        return outputs

    before = evaluated()
    step()
    assert not torch.equal(evaluated(), before)


def added_bytes(variant: str, seq_len: int) -> int:
    """What a train step of one layer takes beyond parameters, their gradients and moments."""
    sizes = Sizes.of(d_model=64, heads=2, max_len=seq_len)
    model = Model.of("mixer", parse(variant), sizes)
    setting = Setting(form="fused", compile="eager")
    plan = predict_memory(model, setting, "train", random_batch(model, 2, seq_len))
    assert plan is not None
    own = sum(p.size for n, p in model.parameters().items() if n.endswith("random.logits"))
    return plan.peak_bytes - 4 * 4 * own  # the parameter, its gradient, two moments


@pytest.mark.parametrize(
    "variant", ["V", "R", "D", "FR", "D+V", "FR+V", "R+V", "linformer", "light_conv",
                "dynamic_conv", "bottleneck", "FD(hidden=separate)"]
)  # fmt: skip
def test_memory_of_a_train_step_grows_with_length_alone(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_short(monkeypatch)
    short, long = (added_bytes(variant, seq_len) for seq_len in (1024, 8192))
    assert math.log(long / short, 8) <= 1.15


def test_the_reference_forms_memory_grows_with_the_square() -> None:
    """The check above can fail."""
    sizes = {n: Sizes.of(d_model=64, heads=2, max_len=n) for n in (1024, 8192)}
    plans = []
    for seq_len, size in sizes.items():
        model = Model.of("mixer", parse("V"), size)
        setting = Setting(form="reference", compile="eager")
        plan = predict_memory(model, setting, "train", random_batch(model, 2, seq_len))
        assert plan is not None
        plans.append(plan.peak_bytes)
    assert math.log(plans[1] / plans[0], 8) > 1.7


@pytest.mark.parametrize("always", [False, True])
def test_kernels_are_told(always: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    by_onednn(monkeypatch, always)
    told = {}
    for variant in (
        "V",
        "R",
        "R+V",
        "conv",
        "glu",
        "light_conv(width=3)",
        "light_conv",
        "dynamic_conv(layout=mesh)",
    ):
        model = small_model(variant)
        setting = Setting(form="fused", compile="eager")
        with recording_kernels() as heard:
            backend.gradients(model, random_parameters(model), setting, random_batch(model, 2, 9))
            with force_long_kernels():
                batch = random_batch(model, 2, 9)
                backend.gradients(model, random_parameters(model), setting, batch)
        assert (cpu_matmul.ONEDNN_PRODUCTS in heard) == always
        paths = [kernel for kernel in heard if kernel != cpu_matmul.ONEDNN_PRODUCTS]
        told[variant] = ", then ".join(paths)
    assert told == {
        "V": "blocks of queries" if always else "reference form, then scaled_dot_product_attention",
        "R": "one product per head, by blocks of queries",
        "R+V": "blocks of queries" if always else "reference form, then blocks of queries",
        "conv": "blocks of queries",
        "glu": "reference form, then blocks of queries",
        "light_conv(width=3)": "shifted sums",
        "light_conv": "banded products",
        "dynamic_conv(layout=mesh)": "shifted products",
    }
    assert [head_convolution.block_size(width) for width in (15, 16, 99)] == [16, 32, 64]


def test_flops_are_those_of_the_mixer_whichever_form_is_timed() -> None:
    for variant in ("D+V", "R", "linformer", "light_conv"):
        model = small_model(variant)
        batch = random_batch(model, 2, 9)
        for mode in ("forward", "train"):
            fused, plain = (
                backend.build(
                    model,
                    random_parameters(model),
                    Setting(form=form, compile="eager"),
                    mode,
                    batch,
                ).traced_flops()
                for form in ("fused", "reference")
            )
            assert fused == plain
            assert mode == "train" or plain.flops == model.flops(batch=2, seq_len=9)
