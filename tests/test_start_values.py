"""Start values: the spread of every drawn parameter, from the sizes that its map has."""

from __future__ import annotations

import math

import numpy as np
import pytest

from synthbench.mixers.base import Parameter
from synthbench.mixers.initializers import ONES, ZEROS, Constant, Normal, Uniform, xavier
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.start_values import start_values
from tests.variants import VARIANTS

# No two sizes, sums or products of sizes are alike, so that no fan stands for another.
d, H, k, N = 26, 2, 13, 60
SIZES = Sizes.of(d_model=d, heads=H, max_len=N)
APART = Sizes.of(d_model=d, heads=H, head_dim=7, max_len=N)


def fans(fan_in: int, fan_out: int) -> float:
    """The variance of Xavier-uniform start values."""
    return 2 / (fan_in + fan_out)


VARIANCE: dict[str, dict[str, float]] = {
    "V": {
        "dot_product.query": fans(d, H * k),
        "dot_product.key": fans(d, H * k),
        "value": fans(d, H * k),
        "output": fans(H * k, d),
    },
    "R": {"random.logits": 1.0},
    "Fix": {"fixed_random.logits": 1.0},
    "R(init=mesh)": {"random.logits": fans(N, N * H)},
    "FR(rank=3)": {"factorized_random.left": 3**-0.5, "factorized_random.right": 3**-0.5},
    "D": {"dense.hidden": fans(d, H * k), "dense.logits": fans(k, N)},
    "D(sharing=heads)": {"dense.hidden": fans(d, H * k), "dense.logits": fans(k, N)},
    "D(sharing=full)": {"dense.hidden": fans(d, H * d), "dense.logits": fans(d, N)},
    "FD(a=5, b=12)": {
        "factorized_dense.hidden": fans(d, H * k),
        "factorized_dense.a": fans(k, 5),
        "factorized_dense.b": fans(k, 12),
    },
    "FD(a=5, b=12, hidden=separate)": {
        "factorized_dense.hidden_a": fans(d, H * k),
        "factorized_dense.hidden_b": fans(d, H * k),
    },
    "conv(width=5)": {"conv.kernel": fans(5 * d, N)},
    "conv_relu_conv(first=3, second=7)": {
        "conv_relu_conv.first": fans(3 * d, H * k),
        "conv_relu_conv.second": fans(7 * k, N),
    },
    "bottleneck(width=11)": {
        "bottleneck.down": fans(d, 11),
        "bottleneck.up": fans(11, d),
        "bottleneck.logits": fans(k, N),
    },
    "bottleneck_conv(width=11, first=3, second=7)": {
        "bottleneck_conv.first": fans(3 * d, 11),
        "bottleneck_conv.second": fans(7 * 11, N),
    },
    "glu": {"glu.logits": fans(k, N), "glu.gate": fans(k, N)},
    "linformer(rank=9)": {
        "query": fans(d, H * k),
        "key": fans(d, H * k),
        "value": fans(d, H * k),
        "output": fans(H * k, d),
        "key_projection": fans(N, 9),
        "value_projection": fans(N, 9),
    },
    "light_conv(width=15)": {
        "input": fans(d, 2 * d),
        "kernel": fans(H, 15),
        "output": fans(d, d),
    },
    "light_conv(width=15, layout=mesh)": {
        "input": fans(d, d),  # two maps side by side
        "kernel": fans(d, 15),
        "pointwise": fans(d, d),
        "output": fans(d, d),
    },
    "dynamic_conv(width=15)": {"generator": 1 / (3 * d)},
}


def variance(parameter: Parameter) -> float:
    """The variance that a declaration draws with, by the definition of its distribution."""
    init = parameter.init
    if isinstance(init, Uniform):
        return init.bound**2 / 3
    assert isinstance(init, Normal)
    return init.std**2


@pytest.mark.parametrize(("variant", "expected"), VARIANCE.items(), ids=str)
def test_every_parameter_has_the_variance_of_its_map(
    variant: str, expected: dict[str, float]
) -> None:
    declared = parse(variant).parameters(SIZES)
    for name, wanted in expected.items():
        assert variance(declared[name]) == pytest.approx(wanted, rel=1e-12), name
    many = Sizes.of(d_model=d, heads=H, max_len=N)
    drawn = [start_values(parse(variant).parameters(many), seed=seed) for seed in range(12)]
    for name, wanted in expected.items():
        values = np.stack([each[name] for each in drawn]).astype(np.float64)
        bell = isinstance(declared[name].init, Normal)
        # five standard deviations of the variance of as many samples
        allowed = 5 * math.sqrt((2.0 if bell else 0.8) / values.size)
        assert abs(values.var() / wanted - 1) < allowed, name
        assert abs(values.mean()) < 5 * math.sqrt(wanted / values.size), name
        if not bell:
            bound = math.sqrt(3 * wanted)
            assert 0.9 * bound < np.abs(values).max() <= bound * (1 + 1e-6)


def test_head_dim_counts_instead_of_the_channels_of_a_head() -> None:
    attention, linformer = (parse(name).parameters(APART) for name in ("D+V", "linformer"))
    for declared in (attention, linformer):
        for name in ("value", "output"):
            assert variance(declared[name]) == pytest.approx(fans(d, H * 7))
    assert variance(attention["dense.logits"]) == pytest.approx(fans(7, N))
    assert variance(attention["dense.hidden"]) == pytest.approx(fans(d, H * 7))


def test_the_table_has_every_drawn_parameter() -> None:
    """A new parameter needs a row above; what starts at zero is a bias or alpha."""
    drawn = {name for expected in VARIANCE.values() for name in expected}
    for variant in VARIANTS:
        for name, parameter in parse(variant).parameters(SIZES_OF.get(variant, SIZES)).items():
            if parameter.init == ZEROS:
                assert name == "alpha" or name.endswith("_bias"), name
            else:
                assert name in drawn, name


SIZES_OF = {"FD(a=2, b=6)": Sizes.of(d_model=d, heads=H, max_len=12)}


def test_each_distribution_is_its_definition() -> None:
    generator = np.random.default_rng(0)
    shape = (300, 400)
    for init, deviation in ((Normal(0.02), 0.02), (Uniform(0.3), 0.3 / math.sqrt(3))):
        values = init(generator, shape)
        assert values.dtype == np.float32
        assert values.shape == shape
        assert values.astype(np.float64).std() == pytest.approx(deviation, rel=0.02)
        assert abs(values.astype(np.float64).mean()) < 5 * deviation / math.sqrt(values.size)
    uniform = Uniform(0.3)(generator, shape)
    assert -0.3 <= uniform.min() < -0.299 and 0.299 < uniform.max() <= 0.3
    assert np.abs(Normal(1.0)(generator, shape)).max() > 3.5  # tails, which a uniform has not
    assert (Constant(1.5)(generator, (2, 3)) == np.full((2, 3), 1.5, np.float32)).all()
    assert not ZEROS(generator, (2,)).any() and ONES(generator, (2,)).all()
    assert xavier(3, 5) == Uniform(math.sqrt(6 / 8))
    assert [str(each) for each in (Normal(0.25), Uniform(0.5), ZEROS)] == [
        "N(0, 0.25^2)", "U(-0.5, 0.5)", "0",
    ]  # fmt: skip
