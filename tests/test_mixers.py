"""What is declared: parameter counts of the paper's Table 1, shapes, factor pairs, start values."""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synthbench
from synthbench.errors import ShapeError
from synthbench.mixers import initializers
from synthbench.mixers.base import Parameter
from synthbench.mixers.factorized_dense import FactorizedDense
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.start_values import start_values
from tests.variants import VARIANTS

SIZES = st.builds(
    Sizes, d_model=st.integers(1, 300), heads=st.integers(1, 16), head_dim=st.integers(1, 80),
    max_len=st.integers(1, 600),
)  # fmt: skip
SPLIT = st.builds(
    lambda heads, head_dim, max_len: Sizes(heads * head_dim, heads, head_dim, max_len),
    st.integers(1, 16), st.integers(1, 80), st.integers(1, 600),
)  # fmt: skip
SMALL = Sizes.of(d_model=12, heads=3, max_len=10)


def count(variant: str, sizes: Sizes) -> tuple[int, int]:
    """Trained parameters and stored constants, as declared."""
    mixer = parse(variant)
    mixer.check(sizes)
    declared = mixer.parameters(sizes).values()
    trained = sum(math.prod(p.shape) for p in declared if p.trainable)
    return trained, sum(math.prod(p.shape) for p in declared if not p.trainable)


@given(sizes=SIZES, r=st.integers(1, 64), w=st.integers(1, 40), v=st.integers(1, 9))
@settings(max_examples=200)
def test_parameters_of_table_1(sizes: Sizes, r: int, w: int, v: int) -> None:
    d, H, k, N = sizes.d_model, sizes.heads, sizes.head_dim, sizes.max_len
    frame = 2 * d * H * k  # value and output
    a, b = FactorizedDense().factors(sizes)
    beside = {
        "V": 2 * d * H * k,
        "R": H * N**2,
        f"FR(rank={r})": 2 * H * N * r,
        "D": d * H * k + H * k * N,
        "D(sharing=heads)": d * H * k + k * N,
        "D(sharing=full)": d * H * d + H * d * N,
        "FD": d * H * k + H * k * (a + b),
        "FD(hidden=separate)": 2 * d * H * k + H * k * (a + b),
        f"conv(width={w})": w * d * H * N,
        f"conv_relu_conv(first={w}, second={v})": w * d * H * k + v * H * k * N,
        f"bottleneck_conv(width={r}, first={w}, second={v})": w * d * r + v * r * H * N,
    }
    for variant, own in beside.items():
        assert count(variant, sizes) == (frame + own, 0)
    assert count("Fix", sizes) == (frame, H * N**2)
    # a mixture: one value, one output, and a weight a component and head
    mixture = frame + beside["R"] + beside["V"]
    assert count("R+V", sizes) == (mixture + 2 * H, 0)
    assert count("(R+V)(mixing=layer)", sizes) == (mixture + 2, 0)
    assert count("(R+V)(mixing=sum)", sizes) == (mixture, 0)
    assert count("R+Fix+D", sizes) == (frame + beside["R"] + beside["D"] + 3 * H, H * N**2)
    # D that takes V's query as its hidden map
    assert count("D(tie_query=true)+V", sizes) == (frame + beside["V"] + H * k * N + 2 * H, 0)
    tied = "D(tie_query=true, sharing=heads)+V"
    assert count(tied, sizes) == (frame + beside["V"] + k * N + 2 * H, 0)
    compressed = 4 * d * H * k + N * r
    assert count(f"linformer(rank={r})", sizes) == (compressed + N * r, 0)
    assert count(f"linformer(rank={r}, sharing=kv)", sizes) == (compressed, 0)


@given(sizes=SPLIT, r=st.integers(1, 64), K=st.integers(1, 80))
@settings(max_examples=200)
def test_parameters_where_heads_split_the_channels(sizes: Sizes, r: int, K: int) -> None:
    d, H, k, N = sizes.d_model, sizes.heads, sizes.head_dim, sizes.max_len
    frame = 2 * d**2
    assert count("D", sizes) == (frame + d**2 + d * N, 0)  # as Table 1 has it
    assert count(f"bottleneck(width={r})", sizes) == (frame + 2 * d * r + H * k * N, 0)
    assert count("glu", sizes) == (frame + 2 * H * k * N, 0)
    assert count(f"light_conv(width={K})", sizes) == (3 * d**2 + H * K, 0)
    assert count(f"dynamic_conv(width={K})", sizes) == (3 * d**2 + d * H * K, 0)
    mesh = f"light_conv(width={K}, layout=mesh)"
    assert count(mesh, sizes) == (4 * d**2 + 5 * d + K * d, 0)


@given(sizes=SIZES)
def test_a_bias_has_its_projections_output_shape(sizes: Sizes) -> None:
    d, H, k, N = sizes.d_model, sizes.heads, sizes.head_dim, sizes.max_len
    expected = {
        "dot_product.query_bias": (H, k),
        "dot_product.key_bias": (H, k),
        "dense.hidden_bias": (H, k),
        "dense.logits_bias": (H, N),
        "value_bias": (H, k),
        "output_bias": (d,),
    }
    with_bias = parse("(D+V)(bias=true)").parameters(sizes)
    without = parse("D+V").parameters(sizes)
    added = {name: p.shape for name, p in with_bias.items() if name not in without}
    assert added == expected
    assert {name: p.shape for name, p in without.items()} == {
        name: p.shape for name, p in with_bias.items() if name not in expected
    }


@pytest.mark.parametrize("variant", ["V", "R", "FR", "D", "FD", "conv", "conv_relu_conv", "R+D+V"])
def test_head_dim_is_independent_of_the_channels(variant: str) -> None:
    sizes = {"heads": 5, "max_len": 10}  # 5 does not divide 12
    parameters = synthbench.initialize(variant, d_model=12, head_dim=7, **sizes)
    assert parameters["value"].shape == (12, 5, 7)
    assert parameters["output"].shape == (5, 7, 12)
    y = synthbench.apply(variant, parameters, np.ones((2, 9, 12)), heads=5, max_len=10)
    assert y.shape == (2, 9, 12)


@pytest.mark.parametrize("variant", ["bottleneck", "glu"])
def test_what_splits_its_input_by_heads_needs_d_model_over_heads(variant: str) -> None:
    with pytest.raises(ShapeError, match=f"^{variant} splits its input by heads.* head_dim 7$"):
        synthbench.initialize(variant, d_model=12, heads=3, head_dim=7, max_len=10)


@given(N=st.integers(1, 5000))
def test_the_default_factors_are_the_pair_nearest_to_the_root(N: int) -> None:
    a, b = FactorizedDense().factors(Sizes(8, 1, 8, N))
    assert a * b == N
    assert a <= b
    assert not any(N % other == 0 for other in range(a + 1, math.isqrt(N) + 1))
    assert FactorizedDense(a=b).factors(Sizes(8, 1, 8, N)) == (b, a)
    assert FactorizedDense(b=b).factors(Sizes(8, 1, 8, N)) == (a, b)


def test_the_outer_product_gives_every_product() -> None:
    """a b = 24 distinct logits in a row; tiling both factors would give lcm(4, 6) = 12."""
    A = np.array([2, 3, 5, 7])
    B = np.array([11, 13, 17, 19, 23, 29])
    p = {
        "factorized_dense.hidden": np.ones((1, 1, 1)),
        "factorized_dense.a": A.reshape(1, 1, 4),
        "factorized_dense.b": B.reshape(1, 1, 6),
    }
    sizes = Sizes(1, 1, 1, 24)
    for length in (24, 15):
        logits = FactorizedDense().reference(
            p, np.ones((1, length, 1)), sizes, padding_mask=None, causal=False
        )
        expected = [A[j // 6] * B[j % 6] for j in range(length)]
        assert len(set(expected)) == length
        np.testing.assert_array_equal(logits, np.tile(expected, (1, 1, length, 1)))


WIDE: dict[str, Any] = {"d_model": 96, "heads": 4, "head_dim": 40, "max_len": 128}


@pytest.mark.parametrize(
    ("variant", "name", "fans"),
    [
        ("V", "dot_product.query", (96, 160)),
        ("V", "dot_product.key", (96, 160)),
        ("V", "value", (96, 160)),
        ("V", "output", (160, 96)),
        ("D", "dense.hidden", (96, 160)),
        ("D", "dense.logits", (40, 128)),
        ("D(sharing=heads)", "dense.logits", (40, 128)),
        ("FD", "factorized_dense.hidden", (96, 160)),
        ("linformer", "query", (96, 160)),
        ("light_conv", "kernel", (4, 31)),
        ("R(init=mesh)", "random.logits", (128, 128 * 4)),
    ],
)
def test_projections_start_xavier_uniform(variant: str, name: str, fans: tuple[int, int]) -> None:
    value = synthbench.initialize(variant, **{**WIDE, "head_dim": None if name == "kernel" else 40})
    bound = math.sqrt(6 / sum(fans))
    drawn = value[name].astype(np.float64)
    assert 0.9 * bound < np.abs(drawn).max() <= bound * (1 + 1e-6)
    assert abs(drawn.std() / (bound / math.sqrt(3)) - 1) < (0.15 if drawn.size < 1000 else 0.05)
    assert abs(drawn.mean()) < 4 * bound / math.sqrt(3 * drawn.size)


def test_the_other_start_values() -> None:
    values = synthbench.initialize("(R+Fix+V)(bias=true)", **WIDE)
    for name in ("random.logits", "fixed_random.logits"):
        assert abs(values[name].std() - 1) < 0.02
        assert abs(values[name].mean()) < 0.02
    for name in (n for n in values if n.endswith("_bias") or n == "alpha"):
        assert not values[name].any()
    generator = synthbench.initialize("dynamic_conv", **{**WIDE, "head_dim": None})["generator"]
    assert 0.99 * 96**-0.5 < np.abs(generator).max() <= 96**-0.5


@pytest.mark.parametrize("rank", [2, 8, 32, 200])
def test_the_logits_of_a_factorized_random_start_with_unit_variance(rank: int) -> None:
    values = synthbench.initialize(f"FR(rank={rank})", d_model=64, heads=16, max_len=512)
    left, right = values["factorized_random.left"], values["factorized_random.right"]
    logits = left.astype(np.float64) @ right.astype(np.float64).transpose(0, 2, 1)
    assert abs(logits.var() - 1) < 0.05
    assert abs(left.std() - rank**-0.25) < 0.02


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", ["mixer", "encoder"])
def test_start_values_do_not_depend_on_the_order(variant: str, kind: str) -> None:
    stack: dict[str, Any] = (
        {} if kind == "mixer" else {"layers": 2, "feed_forward": 8, "vocabulary": 9}
    )
    sizes = SMALL if "a=2, b=6" not in variant else Sizes.of(d_model=12, heads=3, max_len=12)
    declared = Model.of(kind, parse(variant), sizes, **stack).parameters()
    values = start_values(declared, seed=5)
    backwards = start_values(dict(reversed(declared.items())), seed=5)
    for name, parameter in declared.items():
        assert values[name].dtype == np.float32
        assert values[name].shape == parameter.shape
        np.testing.assert_array_equal(values[name], backwards[name])
        alone = start_values({name: parameter}, seed=5)[name]
        np.testing.assert_array_equal(values[name], alone)


def test_each_name_and_each_seed_draws_its_own() -> None:
    parameter = Parameter((4, 4), synthbench.Normal(1.0))
    drawn = [
        start_values({name: parameter}, seed)[name].tobytes()
        for name in ("query", "key", "blocks.0.query", "blocks.1.query")
        for seed in (0, 1, 10, -1)
    ]
    assert len(set(drawn)) == len(drawn)


LARGE = (3, 2**21)  # more values than are drawn exactly, in six chunks


def drawn(init: Any, shape: tuple[int, ...], seed: int = 1) -> Any:
    return init(np.random.Generator(np.random.PCG64(seed)), shape)


def test_a_large_normal_is_normal() -> None:
    values = drawn(synthbench.Normal(2.0), LARGE)
    assert values.shape == LARGE and values.dtype == np.float32
    assert len(np.unique(values)) == initializers.QUANTILES
    x = values.astype(np.float64) / 2
    n = x.size
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((x**power).mean() - moment) < 5 * math.sqrt(variance / n), power
    for place in (-2.0, -0.5, 0.0, 1.0, 2.5):
        share = NormalDist().cdf(place)
        assert abs((x < place).mean() - share) < 5 * math.sqrt(share * (1 - share) / n), place
    # neighbours, chunks and rows have nothing to do with each other
    flat = x.ravel()
    for shift in (1, 2, 4, initializers.CHUNK, LARGE[1]):
        near, far = flat[shift:], flat[:-shift]
        assert abs((near * far).mean()) < 5 / math.sqrt(n - shift), shift
        assert abs(((near**2 - 1) * (far**2 - 1)).mean()) < 10 / math.sqrt(n - shift), shift


def test_a_large_uniform_is_uniform() -> None:
    x = drawn(synthbench.Uniform(0.5), LARGE).astype(np.float64)
    assert -0.5 <= x.min() < -0.4999 and 0.4999 < x.max() <= 0.5
    assert abs(x.mean()) < 5 * math.sqrt(1 / 12 / x.size)
    assert abs(x.var() - 1 / 12) < 5 * math.sqrt(1 / 180 / x.size)
    flat = x.ravel()
    assert abs((flat[initializers.CHUNK :] * flat[: -initializers.CHUNK]).mean()) < 1e-3


@pytest.mark.parametrize("init", [synthbench.Normal(1.0), synthbench.Uniform(1.0)])
def test_large_values_do_not_depend_on_the_number_of_threads(
    init: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = drawn(init, LARGE)
    for threads in (1, 5):
        monkeypatch.setattr(initializers, "usable_cores", lambda threads=threads: threads)
        np.testing.assert_array_equal(drawn(init, LARGE), values)
    assert (drawn(init, LARGE, seed=2) != values).mean() > 0.99
    longer = drawn(init, (2**22 + 2**21 + 3,))  # the last chunk is cut short
    np.testing.assert_array_equal(longer[: values.size], values.ravel())


def test_up_to_a_size_normals_are_those_of_numpy() -> None:
    shape = (initializers.EXACT_UP_TO,)
    exact = np.random.Generator(np.random.PCG64(1)).standard_normal(shape, dtype=np.float32)
    np.testing.assert_array_equal(drawn(synthbench.Normal(1.0), shape), exact)


def test_the_quantiles_are_those_of_a_normal() -> None:
    quantiles = initializers.normal_quantiles()
    assert quantiles.shape == (initializers.QUANTILES,) == (2**16,)
    assert (np.diff(quantiles) > 0).all()
    np.testing.assert_array_equal(quantiles, -quantiles[::-1])
    assert quantiles.astype(np.float64).var() == pytest.approx(1, abs=1e-6)
    assert quantiles[2**15 + 2**14] == pytest.approx(NormalDist().inv_cdf(0.75), abs=1e-4)


def test_the_values_of_a_pair_are_independent() -> None:
    first, second = initializers.normal_pairs().astype(np.float64).T
    quantiles = initializers.normal_quantiles()
    np.testing.assert_array_equal(np.sort(first), quantiles)
    np.testing.assert_array_equal(np.sort(second), quantiles)
    for one, other in itertools.product((1, 2, 3, 4), repeat=2):
        expected = float((first**one).mean() * (second**other).mean())
        # as close as the standard error of 65,536 pairs drawn at random
        close = math.sqrt((first ** (2 * one)).mean() * (second ** (2 * other)).mean() / 2**16)
        assert (first**one * second**other).mean() == pytest.approx(expected, abs=close)
    # each of 32 x 32 cells of equal probability holds 64 of the 65,536 pairs, give or take a few
    sides = [np.searchsorted(quantiles, each) // 2048 for each in (first, second)]
    counts = np.zeros((32, 32), dtype=int)
    np.add.at(counts, tuple(sides), 1)
    assert abs(counts - 64).max() <= 4


def test_start_values_stay_what_they_are() -> None:
    """Recorded once: another NumPy or another machine starts from the same values."""
    values = synthbench.initialize("R+V", d_model=8, heads=2, max_len=4)
    recorded = {
        "random.logits": [0.7348487, 0.11044998, 0.24369858, 0.58742],
        "dot_product.query": [-0.3673223, -0.55401355, 0.06569606, -0.17383255],
    }
    for name, expected in recorded.items():
        np.testing.assert_allclose(values[name][0, 0], expected, rtol=1e-6)
