"""The formula's FLOPs are those of the program, for every variant and both frameworks."""

from __future__ import annotations

import importlib

import pytest

from synthbench.backends.base import BACKENDS, Setting, TracedFlops
from synthbench.errors import SynthbenchError
from synthbench.measure.inputs import random_batch
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.start_values import start_values
from tests.variants import VARIANTS

BATCH, MAX_LEN, SHORT = 3, 12, 7
SIZES = Sizes.of(d_model=8, heads=2, max_len=MAX_LEN)
WIDE = Sizes.of(d_model=8, heads=2, max_len=MAX_LEN, head_dim=5)
COMPILE = {"torch": "eager", "jax": "compiled"}


def traced(framework: str, model: Model, mode: str, seq_len: int) -> TracedFlops:
    backend = importlib.import_module(BACKENDS[framework])
    setting = Setting(form="reference", compile=COMPILE[framework])
    start, batch = start_values(model.parameters()), random_batch(model, BATCH, seq_len)
    count: TracedFlops = backend.build(model, start, setting, mode, batch).traced_flops()
    return count


def checked(model: Model) -> Model:
    """The model, or a skip where it has no meaning (a causal linformer, channels not split)."""
    try:
        model.check()
    except SynthbenchError as reason:
        pytest.skip(str(reason))
    return model


@pytest.mark.parametrize("seq_len", [MAX_LEN, SHORT], ids=["L=N", "L<N"])
@pytest.mark.parametrize("framework", BACKENDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_mixers_formula_is_its_program(variant: str, framework: str, seq_len: int) -> None:
    model = Model.of("mixer", parse(variant), SIZES)
    count = traced(framework, model, "forward", seq_len)
    assert dict(count.uncounted) == {}
    assert count.flops == model.flops(batch=BATCH, seq_len=seq_len)


@pytest.mark.parametrize("framework", BACKENDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_with_heads_wider_than_their_share(variant: str, framework: str) -> None:
    model = checked(Model.of("mixer", parse(variant), WIDE))
    count = traced(framework, model, "forward", SHORT)
    assert dict(count.uncounted) == {}
    assert count.flops == model.flops(batch=BATCH, seq_len=SHORT)


@pytest.mark.parametrize("framework", BACKENDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_stacks_formula_is_its_program(variant: str, framework: str) -> None:
    """A causal product counts in full, and two layers twice."""
    model = Model.of("decoder", parse(variant), SIZES, layers=2, feed_forward=20, vocabulary=11)
    count = traced(framework, checked(model), "forward", SHORT)
    assert dict(count.uncounted) == {}
    assert count.flops == model.flops(batch=BATCH, seq_len=SHORT)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_frameworks_train_steps_do_the_same_products(variant: str) -> None:
    """Two products for each of the forward pass, but none for the gradient of the batch."""
    model = Model.of("mixer", parse(variant), SIZES)
    torch_count = traced("torch", model, "train", SHORT)
    jax_count = traced("jax", model, "train", SHORT)
    assert dict(torch_count.uncounted) == dict(jax_count.uncounted) == {}
    assert torch_count.flops == jax_count.flops
    forward = model.flops(batch=BATCH, seq_len=SHORT)
    assert forward is not None and forward < torch_count.flops <= 3 * forward
