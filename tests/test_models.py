"""Stacks of every kind and style: equal in both frameworks, counted alike, trained alike."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from synthbench.backends.base import BACKENDS, Batch, Setting
from synthbench.errors import NotationError, ShapeError, UnsupportedError
from synthbench.measure.inputs import random_batch
from synthbench.measure.parity import (
    gradient_difference,
    gradient_error,
    reference_outputs,
    relative_error,
)
from synthbench.measure.parity_inputs import random_parameters
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.positions import buckets, sinusoids
from synthbench.models.presets import PRESETS, T2T_STYLE, T5_STYLE
from synthbench.models.spec import ModelSpec
from synthbench.models.start_values import start_values

COMPILE = {"torch": "eager", "jax": "compiled"}
SOURCE, TARGET = 9, 7
KINDS = [
    pytest.param(
        kind, style, id=f"{kind}-{style.get('norm', 'layer')}-{style.get('positions', 'learned')}"
    )
    for kind, style in (
        ("encoder", T5_STYLE), ("decoder", T5_STYLE), ("decoder", T2T_STYLE),
        ("classifier", T2T_STYLE),
        ("encoder_decoder", T5_STYLE), ("encoder_decoder", {}),
    )
]  # fmt: skip
Style = dict[str, Any]
VARIANTS = ["R+V", "light_conv"]  # with logits that a bias can be added to, and without


def small(variant: str, kind: str, style: Style) -> Model:
    two = kind == "encoder_decoder"
    return Model.of(
        kind, parse(variant), Sizes.of(d_model=16, heads=4, max_len=12), layers=2, feed_forward=24,
        vocabulary=40, **style, cross_heads=2 if two else None,
        target_len=TARGET if two else None, labels=3 if kind == "classifier" else None,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["encoder", "decoder", "classifier"])
def test_a_size_that_a_kind_does_not_have_changes_nothing(kind: str) -> None:
    """Models of other kinds in the same suite may need it."""
    plain = small("V", kind, {})
    spec = plain.spec.model_copy(update={"target_len": 5, "labels": 3})
    also = Model(plain.mixer, spec)
    assert also.parameters().keys() == plain.parameters().keys()
    assert also.flops(batch=2, seq_len=SOURCE) == plain.flops(batch=2, seq_len=SOURCE)
    batch, other = (random_batch(model, 2, SOURCE) for model in (plain, also))
    np.testing.assert_array_equal(batch.inputs, other.inputs)
    np.testing.assert_array_equal(batch.targets, other.targets)
    start = random_parameters(plain)
    np.testing.assert_array_equal(
        also.reference(start, batch.inputs), plain.reference(start, batch.inputs)
    )


def padded(batch: Batch) -> Batch:
    """The second example's source ends early, the third's last tokens are padding."""
    mask = np.ones(batch.inputs.shape, dtype=bool)
    mask[1, SOURCE // 2 : SOURCE] = False
    mask[2, -3:] = False
    return replace(batch, padding_mask=mask)


@pytest.mark.long_but("*-rms-relative")
@pytest.mark.parametrize(("kind", "style"), KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_both_frameworks_are_the_reference(variant: str, kind: str, style: Style) -> None:
    model = small(variant, kind, style)
    start = random_parameters(model)
    batch = padded(random_batch(model, 3, SOURCE))
    want = reference_outputs(model, start, batch)
    assert want.shape == (3, *model.targets_of(SOURCE), model.classes)
    gradients = []
    for framework, path in BACKENDS.items():
        setting = Setting(dtype="float64", compile=COMPILE[framework])
        got = importlib.import_module(path).gradients(model, start, setting, batch)
        assert relative_error(got.outputs, want) < 1e-10
        gradients.append(got.gradients)
    assert gradient_error(model, start, batch, got) < 1e-6
    assert gradient_difference(*gradients) < 1e-10
    assert gradients[0].keys() == {n for n, p in model.parameters().items() if p.trainable}


@pytest.mark.parametrize(("kind", "style"), KINDS)
def test_formula_and_counts_are_those_of_the_program(kind: str, style: Style) -> None:
    model = small("R+V", kind, style)
    batch, start = random_batch(model, 3, SOURCE), start_values(model.parameters())
    for framework, path in BACKENDS.items():
        setting = Setting(form="reference", compile=COMPILE[framework])
        step = importlib.import_module(path).build(model, start, setting, "forward", batch)
        assert step.parameter_count == sum(p.size for p in model.parameters().values())
        assert step.traced_flops().flops == model.flops(batch=3, seq_len=SOURCE)


@pytest.mark.parametrize(("kind", "style"), [KINDS[3], KINDS[4]])
def test_twenty_steps_agree(kind: str, style: Style) -> None:
    model = small("D+V", kind, style)
    start = start_values(model.parameters(), seed=1)
    batches = [padded(random_batch(model, 3, SOURCE, seed)) for seed in range(2)] * 10
    torch, jax = [
        importlib.import_module(path)
        .train(model, start, Setting(dtype="float64", compile=COMPILE[framework]), batches)
        .losses
        for framework, path in BACKENDS.items()
    ]
    np.testing.assert_allclose(torch, jax, rtol=0, atol=1e-8)
    assert torch[-1] < torch[0] - 0.1


def test_the_target_sees_the_source_and_not_its_own_future() -> None:
    model = small("V", "encoder_decoder", T5_STYLE)
    start = random_parameters(model)
    batch = random_batch(model, 1, SOURCE)
    before = reference_outputs(model, start, batch)

    def with_token(position: int) -> np.ndarray:
        tokens = batch.inputs.copy()
        tokens[0, position] = (tokens[0, position] + 1) % 40
        return reference_outputs(model, start, replace(batch, inputs=tokens))

    for last in (0, SOURCE - 1):
        assert np.all(np.abs(with_token(last) - before).max(axis=-1) > 1e-9)
    changed = np.abs(with_token(SOURCE + 3) - before).max(axis=-1)[0]
    assert np.all(changed[:3] == 0)
    assert np.all(changed[3:] > 1e-9)


def test_buckets_of_distances_are_those_of_t5() -> None:
    """Eight exact each way of 32, then eight a factor of 16; sixteen exact where only back."""
    both, back = buckets(200, causal=False), buckets(200, causal=True)
    query = 150
    for distance, bucket in (
        (0, 0),
        (1, 1),
        (7, 7),
        (8, 8),
        (16, 10),
        (32, 12),
        (64, 14),
        (149, 15),
    ):
        assert both[query, query - distance] == bucket
    for distance, bucket in ((1, 17), (7, 23), (16, 26), (49, 29)):
        assert both[query, query + distance] == bucket
    for distance, bucket in ((0, 0), (15, 15), (16, 16), (32, 21), (64, 26), (149, 31)):
        assert back[query, query - distance] == bucket
    assert np.all(back[np.triu_indices(200)] == 0)


def test_sinusoids_at_known_positions() -> None:
    waves = sinusoids(3, 4)
    np.testing.assert_allclose(waves[0], [0, 0, 1, 1])
    np.testing.assert_allclose(waves[2], [np.sin(2), np.sin(2e-4), np.cos(2), np.cos(2e-4)])
    assert sinusoids(2, 5).shape == (2, 5)


def of_preset(name: str, variant: str, heads: int, head_dim: int) -> Model:
    published = PRESETS[name].model
    own = {"heads": heads, "head_dim": head_dim}
    cross = {"cross_heads": published["heads"], "cross_head_dim": published["head_dim"]}
    return Model(parse(variant), ModelSpec(**published | own | cross))


@pytest.mark.parametrize(
    ("variant", "heads", "head_dim", "millions", "ratio"),
    [
        ("V", 12, 64, 223, 1.0),
        ("R", 8, 128, 254, 0.908),
        ("R+V(mixing=layer)", 8, 128, 292, 1.089),
        ("D(sharing=heads)", 8, 128, 224, 1.027),
        ("D(sharing=heads, tie_query=true)+V(mixing=layer)", 8, 128, 243, 1.135),
        ("light_conv(width=63, layout=mesh)", 12, 64, 224, 0.946),
    ],
)
def test_t5_base_has_the_published_parameters(
    variant: str, heads: int, head_dim: int, millions: int, ratio: float
) -> None:
    """Table 4: parameters to the million, FLOPs to 0.01 of V's, embeddings counted as products."""

    def cost(model: Model) -> tuple[int, int]:
        flops = model.flops(batch=1, seq_len=512)
        assert flops is not None
        assert model.target_len is not None
        one_hot = 2 * (512 + model.target_len) * 768 * 32128
        return sum(p.size for p in model.parameters().values()), flops + one_hot

    parameters, flops = cost(of_preset("t5_base", variant, heads, head_dim))
    assert round(parameters / 1e6) == millions
    assert abs(flops / cost(of_preset("t5_base", "V", 12, 64))[1] - ratio) < 0.01


def test_the_differences_of_table_2() -> None:
    """Translation: Fix, R and R+V differ from V as published; the rest is a constant apart."""

    def millions(variant: str) -> float:
        declared = of_preset("t2t_base", variant, 8, 64).parameters().values()
        return sum(p.size for p in declared if p.trainable) / 1e6

    published = {"V": 67, "Fix": 61, "R": 67, "R+V": 73}
    constant = published["V"] - millions("V")
    assert 5.5 < constant < 6
    for variant, figure in published.items():
        assert round(millions(variant) + constant) == figure


def test_what_a_kind_needs_is_said() -> None:
    sizes = Sizes.of(d_model=8, heads=2, max_len=4)
    with pytest.raises(ShapeError, match="target_len: 128"):
        Model.of("encoder_decoder", parse("V"), sizes, vocabulary=9)
    with pytest.raises(ShapeError, match="labels: 4"):
        Model.of("classifier", parse("V"), sizes, vocabulary=9)
    with pytest.raises(ShapeError, match="max_len 4"):
        Model.of("encoder_decoder", parse("V"), sizes, vocabulary=9, target_len=5).check()
    with pytest.raises(UnsupportedError, match="causal"):
        Model.of("encoder_decoder", parse("linformer"), sizes, vocabulary=9, target_len=3).check()
    with pytest.raises(NotationError, match="Known: mixer, encoder"):
        Model.of("batch", parse("V"), sizes)


@pytest.mark.parametrize("heads", [3, 32])
def test_heads_of_cross_attention_divide_d_model(heads: int) -> None:
    """Rounded down, their channels would be fewer than asked for, or none."""
    sizes = Sizes.of(d_model=16, heads=4, max_len=8)
    spec: dict[str, Any] = {"vocabulary": 10, "target_len": 8, "cross_heads": heads}
    refused = f"cross_heads {heads}; use cross_heads in 1, 2, 4, 8, 16, or give cross_head_dim"
    with pytest.raises(ShapeError, match=f"d_model 16 is not divisible by {refused}"):
        Model.of("encoder_decoder", parse("V"), sizes, **spec).check()
    Model.of("encoder_decoder", parse("V"), sizes, **spec, cross_head_dim=5).check()
    Model.of("decoder", parse("V"), sizes, **spec).check()  # has none


def test_cross_attention_has_the_heads_of_the_model_unless_it_has_its_own() -> None:
    sizes = Sizes.of(d_model=16, heads=3, head_dim=5, max_len=8)
    model = Model.of("encoder_decoder", parse("V"), sizes, vocabulary=10, target_len=8)
    model.check()
    assert (model.cross.heads, model.cross.head_dim) == (3, 5)
