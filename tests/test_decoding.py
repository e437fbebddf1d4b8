"""Decoding with the state of earlier positions gives what a full forward pass gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from synthbench.errors import UnsupportedError
from synthbench.measure.parity_inputs import random_parameters
from synthbench.mixers.decoding import decoding_state
from synthbench.mixers.light_conv import LightConv
from synthbench.mixers.notation import parse
from synthbench.mixers.state import StateArray
from synthbench.models.model import Model
from synthbench.models.state import state_bytes, state_shapes
from tests.decoders import (
    BATCH,
    FRAMEWORKS,
    PLUGINS,
    SIZES,
    VOCABULARY,
    computing,
    decoder_model,
    decoder_of,
    forced,
    generate,
    state_arrays,
    wide,
)
from tests.variants import VARIANTS

CAUSAL = [variant for variant in VARIANTS if "linformer" not in variant]


@pytest.mark.long_but("*-torch", "?-jax", "?+?-jax", "*conv*-jax")
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("variant", CAUSAL)
def test_every_position_equals_the_full_pass(variant: str, framework: str) -> None:
    require_equal_to_full_pass(decoder_model(variant), framework)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "relative"])
@pytest.mark.parametrize("mixer", ["D+V", "light_conv", *PLUGINS])
def test_the_model_around_the_mixer_does_not_matter(
    mixer: str, positions: str, framework: str
) -> None:
    chosen = PLUGINS.get(mixer, mixer)
    model = decoder_model(chosen, layers=2, positions=positions, norm="rms", bias=False)
    require_equal_to_full_pass(model, framework)


def require_equal_to_full_pass(model: Model, framework: str) -> None:
    """Every position from the start, and those after a prefix that is read at once."""
    start = random_parameters(model)
    N = SIZES.max_len
    tokens = np.random.default_rng(1).integers(VOCABULARY, size=(BATCH, N))
    want = model.reference(wide(start), tokens)
    with computing():
        decoder = decoder_of(framework, model, start, tokens[:, :1], N)
        decoder.position = 0
        got = np.stack([decoder.step(column) for column in tokens.T], axis=1)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-10)
        decoder = decoder_of(framework, model, start, tokens[:, :5], N - 4)
        got = forced(decoder, tokens[:, 5:])
    np.testing.assert_allclose(got, want[:, 4:], rtol=0, atol=1e-10)
    require_declared_state(model, framework, decoder, positions=N)


def require_declared_state(
    model: Model, framework: str, decoder: Any, positions: int, source_len: int = 0
) -> None:
    """The arrays of a decoder have the declared shapes, and as many bytes as the formula says."""
    found = state_arrays(model, decoder)
    sizes = {"positions": positions, "source_len": source_len}
    declared = state_shapes(model, framework, **sizes)
    assert {name: tuple(x.shape) for name, x in found.items()} == {
        name: (BATCH, *shape) for name, shape in declared.items()
    }
    measured = sum(x.nbytes for x in found.values())
    assert measured == state_bytes(model, framework, batch=BATCH, item_bytes=8, **sizes)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    ("mixer", "positions"),
    [("R+V", "relative"), ("dynamic_conv", "sinusoidal"), ("component", "learned")],
)
def test_an_encoder_decoder_reads_its_source_once(
    mixer: str, positions: str, framework: str
) -> None:
    T, S = 7, 9
    model = decoder_model(
        PLUGINS.get(mixer, mixer),
        "encoder_decoder",
        layers=2,
        positions=positions,
        target_len=T,
        cross_heads=2,
    )  # fmt: skip
    start = random_parameters(model)
    generator = np.random.default_rng(2)
    source = generator.integers(VOCABULARY, size=(BATCH, S))
    target = generator.integers(VOCABULARY, size=(BATCH, T))
    target[:, 0] = begin = 4
    mask = np.ones((BATCH, S), bool)
    mask[0, 6:] = mask[1, 2:] = False
    whole = np.concatenate([mask, np.ones_like(target, bool)], axis=1)
    want = model.reference(wide(start), np.concatenate([source, target], axis=1), whole)
    with computing():
        decoder = decoder_of(framework, model, start, source, T, mask, begin)
        encoded = [dict(arrays) for arrays in decoder.state.source]
        got = forced(decoder, target[:, 1:])
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-10)
    for before, after in zip(encoded, decoder.state.source, strict=True):
        for name, array in before.items():
            np.testing.assert_array_equal(np.asarray(array), np.asarray(after[name]))
    require_declared_state(model, framework, decoder, positions=T, source_len=S)


@pytest.mark.parametrize(
    ("variant", "values"),
    [
        ("V", lambda n, d: 2 * n * d),  # keys and values
        ("R", lambda n, d: n * d),
        ("FR", lambda n, d: n * d),
        ("D", lambda n, d: n * d),
        ("FD", lambda n, d: n * d),
        ("glu", lambda n, d: n * d),
        ("bottleneck", lambda n, d: n * d),
        ("D+V", lambda n, d: 2 * n * d),  # the values once
        ("light_conv(width=4)", lambda n, d: 3 * d),
        ("dynamic_conv(width=6)", lambda n, d: 5 * d),
        ("conv(width=3)", lambda n, d: n * d + 2 * d),
        ("conv_relu_conv(first=2, second=5)", lambda n, d: n * d + d + 4 * d),
        ("bottleneck_conv(width=3, first=1, second=4)", lambda n, d: n * d + 3 * 3),
    ],
)
def test_what_a_mixer_keeps(variant: str, values: Any) -> None:
    for positions in (1, 7, SIZES.max_len):
        kept = decoding_state(parse(variant), SIZES, "torch")
        found = sum(array.size(positions) for array in kept.values())
        assert found == values(positions, SIZES.d_model)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_an_encoder_decoder_keeps(framework: str) -> None:
    model = decoder_model("V", "encoder_decoder", target_len=4, layers=3)
    own, cross = 2 * 7 * SIZES.d_model, 2 * 9 * SIZES.d_model
    found = state_bytes(model, framework, batch=2, positions=7, source_len=9, item_bytes=4)
    assert found == 3 * 2 * 4 * (own + cross)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_linformer_has_no_state_and_says_why(framework: str) -> None:
    for mixer in ("linformer", "linformer(rank=3, sharing=kv)"):
        with pytest.raises(UnsupportedError, match="every compressed key mixes all positions"):
            decoding_state(parse(mixer), SIZES, framework)
        model = decoder_model(mixer)
        with pytest.raises(UnsupportedError, match="every compressed key mixes all positions"):
            generate(framework, model, {}, np.zeros((1, 2), np.int64), length=3)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_plugin_keeps_its_inputs_and_computes_the_prefix_again(framework: str) -> None:
    for mixer in PLUGINS.values():
        assert decoding_state(mixer, SIZES, framework) == {"inputs": StateArray((16,))}
    inherits = type("Inherits", (LightConv,), {"name": "inherits", framework: lambda self, s: None})
    assert decoding_state(inherits(), SIZES, framework) == {"inputs": StateArray((16,))}
