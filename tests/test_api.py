"""The public entry points, and what they say to a mistake."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import synthbench
from synthbench import SynthbenchError
from synthbench.mixers.validation import divisors

X = np.random.default_rng(0).standard_normal((2, 9, 16))
SIZES: dict[str, Any] = {"heads": 4, "max_len": 12}


@pytest.mark.parametrize("variant", ["FR(rank=32)+V", "linformer", "dynamic_conv"])
def test_the_three_frameworks_agree(variant: str) -> None:
    parameters = synthbench.initialize(variant, d_model=16, **SIZES)
    want = synthbench.apply(variant, parameters, X, framework="numpy", dtype="float64", **SIZES)
    for framework in ("torch", "jax"):
        for dtype, width, tolerance in (
            ("float64", np.float64, 1e-12), ("float32", np.float32, 2e-6),
            ("bfloat16", np.float32, 5e-2),
        ):  # fmt: skip
            y = synthbench.apply(variant, parameters, X, framework=framework, dtype=dtype, **SIZES)
            assert y.dtype == width
            assert np.abs(y - want).max() <= tolerance * np.abs(want).max()


def test_nothing_given_is_changed() -> None:
    """Read-only arrays will do, and neither x nor the parameters are written to."""
    parameters = synthbench.initialize("R+V", d_model=16, **SIZES)
    for value in (*parameters.values(), X):
        value.setflags(write=False)
    for framework in ("numpy", "torch", "jax"):
        synthbench.apply("R+V", parameters, X, framework=framework, **SIZES)


def test_initialize_is_reproducible_and_seeded() -> None:
    first, again, other = (
        synthbench.initialize("D+V", d_model=16, seed=seed, **SIZES) for seed in (0, 0, 1)
    )
    for name, value in first.items():
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, again[name])
    assert not np.array_equal(first["value"], other["value"])
    np.testing.assert_array_equal(first["alpha"], np.zeros((2, 4)))


def test_a_component_starts_alike_alone_and_mixed() -> None:
    alone = synthbench.initialize("V", d_model=16, **SIZES)
    mixed = synthbench.initialize("R+V", d_model=16, **SIZES)
    for name, value in alone.items():
        np.testing.assert_array_equal(value, mixed[name])


def test_cost_of_dot_product_attention() -> None:
    """2 B L d H k for each of four projections, 2 B H L L k for each of two products."""
    cost = synthbench.cost("V", batch=3, seq_len=10, d_model=16, heads=4, max_len=12, head_dim=5)
    assert cost == synthbench.Cost(
        parameters=4 * 16 * 4 * 5,
        constants=0,
        flops=4 * 2 * 3 * 10 * 16 * 20 + 2 * 2 * 3 * 4 * 10 * 10 * 5,
    )
    fixed = synthbench.cost("Fix", batch=1, seq_len=12, d_model=16, **SIZES)
    assert fixed.parameters == 2 * 16 * 16 and fixed.constants == 4 * 12 * 12


PARAMETERS = synthbench.initialize("V", d_model=16, **SIZES)
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown variant": ({"variant": "lin_former"}, r"'lin_former' not known.*linformer"),
    "malformed": ({"variant": "V+"}, r"'V\+'.*expected the name of a mixer"),
    "no variant": ({"variant": 3}, r"a variant is a string.*got 3"),
    "too long": ({"max_len": 8}, r"length 9 does not fit max_len 8"),
    "heads": ({"heads": 3, "parameters": {}}, r"16 is not divisible by heads 3; use heads in 1, 2"),
    "rank": ({"x": X[0]}, r"shape \(9, 16\); expected \[batch, length, d_model\]"),
    "mask": ({"padding_mask": np.ones((2, 3))}, r"\(2, 3\); expected \[B, L\] = \(2, 9\)"),
    "a parameter missing": ({"variant": "R+V"}, r"apply\(R\+V\).*'alpha' is declared as \(2, 4\)"),
    "framework": ({"framework": "mxnet"}, r"'mxnet' not known"),
    "dtype": ({"dtype": "float16"}, r"'float16' not known.*bfloat16"),
    "form": ({"form": "fast"}, r"'fast' not known"),
    "torch has no such device": ({"device": "cuda:7"}, r"torch .* no device 'cuda:7'; it finds"),
    "jax has no such device": (
        {"device": "cuda:7", "framework": "jax"},
        r"jax .* has no device 'cuda:7'; it finds",
    ),
    "no framework": ({"framework": None}, r"framework None not known\. Known: jax, numpy, torch"),
    "frameworks": ({"framework": np.ones(2)}, r"framework array\(\[1\., 1\.\]\) not known"),
    "no form": ({"form": None}, r"form None not known"),
    "no device": ({"device": None}, r"device None not known; use cpu, cuda, tpu, xpu or mps"),
    "another device": ({"device": "npu"}, r"device 'npu' not known; use cpu"),
    "a device for NumPy": ({"device": "cuda", "framework": "numpy"}, r"runs on the cpu only"),
    "no dtype": ({"dtype": None}, r"dtype None not known\. Known: bfloat16, float32, float64"),
    "a Python type": ({"dtype": float}, r"dtype <class 'float'> not known"),
    "causal in words": ({"causal": "no"}, r"causal is 'no'; use True or False"),
    "no parameters": ({"parameters": None}, r"parameters is None; give a mapping"),
    "listed parameters": ({"parameters": [X]}, r"parameters is \[array.*; give a mapping"),
    "numbered parameters": ({"parameters": {3: X}}, r"parameters is \{3: .*; give a mapping"),
    "a parameter in words": ({"parameters": {"value": "much"}}, r"'value' holds str.*real numbers"),
    "a ragged parameter": ({"parameters": {"value": [[1], [1, 2]]}}, r"'value' \(list\) cannot be"),
    "x in words": ({"x": [["many"]]}, r"x holds str.*\(\[\['many'\]\]\); give an array of real"),
    "x of objects": ({"x": np.full((2, 9, 16), None)}, r"x holds object"),
    "a ragged x": ({"x": [[[1.0], [1.0, 2.0]]]}, r"x \(list\) cannot be read as an array"),
    "complex x": ({"x": X + 1j}, r"x holds complex128"),
    "no batch": ({"x": X[:0]}, r"x has shape \(0, 9, 16\); expected .* each at least 1"),
    "heads in halves": ({"heads": 2.0}, r"heads is 2\.0 \(float\); it must be an integer"),
    "heads in words": ({"heads": "2"}, r"heads is '2' \(str\); it must be an integer"),
    "heads or not": ({"heads": True}, r"heads is True \(bool\)"),
    "no max_len": ({"max_len": None}, r"max_len is None \(NoneType\)"),
    "a mask of weights": ({"padding_mask": np.full((2, 9), 0.5)}, r"neither 0 nor 1, like 0\.5"),
    "a mask of positions": (
        {"padding_mask": np.tile(np.arange(9), (2, 1))},
        r"int64.*like 2; give",
    ),
    "a mask of words": ({"padding_mask": [["yes"] * 9] * 2}, r"holds str\d*, no booleans; give"),
    "a ragged mask": ({"padding_mask": [[1], [1, 0]]}, r"padding_mask cannot be read"),
    "a mask that is nan": ({"padding_mask": np.full((2, 9), np.nan)}, r"like nan; give True"),
    "bfloat16 in NumPy": ({"framework": "numpy", "dtype": "bfloat16"}, "no bfloat16"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(mistake: str) -> None:
    changes, message = MISTAKES[mistake]
    arguments: dict[str, Any] = {
        "variant": "V", "parameters": PARAMETERS, "x": X, "framework": "torch", **SIZES, **changes,
    }  # fmt: skip
    with pytest.raises(SynthbenchError) as caught:
        synthbench.apply(**arguments)
    assert re.search(message, str(caught.value)), str(caught.value)


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_any_array_of_numbers_will_do(framework: str) -> None:
    import jax.numpy as jnp
    import ml_dtypes

    want = synthbench.apply("V", PARAMETERS, np.round(X), framework=framework, **SIZES)
    whole = np.round(X)
    given_as: list[Any] = [
        whole.astype(int), whole.astype(np.int8), whole.astype(np.float16), whole.astype(">f4"),
        whole.astype(np.longdouble), whole.astype(ml_dtypes.bfloat16), whole.tolist(),
        jnp.asarray(whole),
    ]  # fmt: skip
    for x in given_as:
        y = synthbench.apply("V", PARAMETERS, x, framework=framework, **SIZES)
        np.testing.assert_array_equal(y, want)


def test_a_type_may_be_given_as_the_frameworks_write_it() -> None:
    import jax.numpy as jnp
    import torch

    for dtype in (np.float64, np.dtype("float64"), torch.float64, jnp.float64, "float64"):
        y = synthbench.apply("V", PARAMETERS, X, dtype=cast(Any, dtype), **SIZES)
        assert y.dtype == np.float64
    for dtype in (jnp.bfloat16, torch.bfloat16):
        synthbench.apply("V", PARAMETERS, X, dtype=cast(Any, dtype), framework="torch", **SIZES)


@given(real=hnp.arrays(bool, (2, 9)))
def test_a_mask_of_zeros_and_ones_is_one_of_booleans(real: Any) -> None:
    options: dict[str, Any] = {"framework": "numpy", **SIZES}
    want = synthbench.apply("V", PARAMETERS, X, padding_mask=real, **options)
    for mask in (real.astype(int), real.astype(np.float32), real.tolist()):
        y = synthbench.apply("V", PARAMETERS, X, padding_mask=cast(Any, mask), **options)
        np.testing.assert_array_equal(y, want)


NO_SIZE = (
    st.floats() | st.text(max_size=3) | st.booleans() | st.none() | st.integers(max_value=0)
    | st.lists(st.integers(), max_size=2) | st.just(np.float64(2)) | st.just(np.ones(2))
)  # fmt: skip


@given(size=st.sampled_from(["batch", "seq_len", "d_model", "heads", "max_len", "head_dim"]),
       value=NO_SIZE)  # fmt: skip
def test_what_is_no_size_is_named(size: str, value: Any) -> None:
    if size == "head_dim" and value is None:
        return
    sizes = {"batch": 1, "seq_len": 4, "d_model": 16, "heads": 4, "max_len": 12, size: value}
    with pytest.raises(synthbench.ShapeError, match=rf"{size} is .*; it must be"):
        synthbench.cost("V", **sizes)


@given(
    seed=st.floats() | st.text(max_size=3) | st.booleans() | st.none() | st.integers(max_value=-1)
)
def test_what_is_no_seed_is_named(seed: Any) -> None:
    with pytest.raises(synthbench.ShapeError, match=r"seed is .*; it must be"):
        synthbench.initialize("V", d_model=16, seed=seed, **SIZES)


@given(kind=st.sampled_from([np.int8, np.int16, np.int32, np.int64, np.uint8]),
       heads=st.integers(1, 8), each=st.integers(1, 15))  # fmt: skip
def test_sizes_of_numpy_count_as_pythons_do(kind: Any, heads: int, each: int) -> None:
    sizes = {"batch": 100, "seq_len": 99, "d_model": heads * each, "heads": heads, "max_len": 120}
    own = {name: kind(size) for name, size in sizes.items()}
    for variant in ("R+V", "linformer", "light_conv", "FD"):
        cost = synthbench.cost(variant, **own)
        assert cost == synthbench.cost(variant, **sizes)
        assert type(cost.flops) is type(cost.parameters) is int


def test_what_no_framework_can_index_is_no_size() -> None:
    for name in ("batch", "seq_len", "d_model", "heads", "max_len", "head_dim"):
        sizes = {"batch": 1, "seq_len": 4, "d_model": 16, "heads": 4, "max_len": 12, name: 10**5000}
        with pytest.raises(synthbench.ShapeError, match=rf"{name} is .*; it must be at most \d+$"):
            synthbench.cost("FR", **sizes)
    with pytest.raises(SynthbenchError, match=r"rank is 10*\.\.\.; use at most \d+$"):
        synthbench.cost(f"FR(rank={10**400})", batch=1, seq_len=4, d_model=16, **SIZES)


def test_heads_that_would_do_are_listed_at_once() -> None:
    with pytest.raises(synthbench.ShapeError, match=r"heads in 1, 2, 4, .*\.\.\., 1048576, or"):
        synthbench.cost("V", batch=1, seq_len=1, d_model=2**20, heads=3, max_len=1)
    for d_model in (10**18 + 1, 2**61 - 1, 3**39):
        with pytest.raises(synthbench.ShapeError, match="not divisible by heads 2; use heads") as e:
            synthbench.cost("V", batch=1, seq_len=1, d_model=d_model, heads=2, max_len=1)
        assert len(str(e.value)) < 400
    with pytest.raises(synthbench.ShapeError, match=r"pair of 1 x 720720, 2 x .*\.\.\., 840 x"):
        synthbench.cost("FD(a=17)", batch=1, seq_len=1, d_model=4, heads=2, max_len=720720)


def test_factors_of_an_endless_length_are_not_searched() -> None:
    sizes = {"batch": 1, "seq_len": 1, "d_model": 4, "heads": 2, "max_len": 2**61 - 1}
    with pytest.raises(synthbench.ShapeError, match="too long to look for its factors; give a and"):
        synthbench.cost("FD", **sizes)
    assert synthbench.cost("FD(a=1)", **sizes).parameters > 2**61


@given(number=st.integers(1, 5000))
def test_divisors_are_all_there(number: int) -> None:
    assert divisors(number) == [n for n in range(1, number + 1) if number % n == 0]


def test_a_head_dim_is_asked_for_only_where_it_helps() -> None:
    message = r"10 is not divisible by heads 4; use heads in 1, 2, 5, 10"
    for variant in ("light_conv", "dynamic_conv", "glu"):
        with pytest.raises(synthbench.ShapeError, match=message + "$"):
            synthbench.initialize(variant, d_model=10, heads=4, max_len=8)
        with pytest.raises(synthbench.ShapeError, match=message + "$"):
            synthbench.cost(variant, batch=1, seq_len=8, d_model=10, heads=4, max_len=8)
    with pytest.raises(synthbench.ShapeError, match=message + ", or give head_dim$"):
        synthbench.initialize("V", d_model=10, heads=4, max_len=8)
    with pytest.raises(synthbench.ShapeError, match=message + "$"):
        synthbench.apply("light_conv", {}, np.ones((1, 8, 10)), heads=4, max_len=8)


@pytest.mark.usefixtures("registry")
def test_a_parameter_named_value_says_nothing_of_another_mixers_heads() -> None:
    """V's value projection [d,H,k] shows k; a plug-in may give this name to anything."""

    class Wide(synthbench.Mixer):
        """x times the size of a head."""

        name = "wide"

        def parameters(self, sizes: Any) -> dict[str, synthbench.Parameter]:
            return {"value": synthbench.Parameter((sizes.heads, 8, 3), synthbench.Normal(1.0))}

        def reference(self, p: Any, x: Any, sizes: Any, **options: Any) -> Any:
            return x * sizes.head_dim

        def torch(self, sizes: Any) -> Any:
            return lambda p, x, padding_mask, causal: x * sizes.head_dim

    synthbench.register(Wide)
    x = np.ones((1, 8, 8))
    for head_dim, found in ((None, 4.0), (5, 5.0)):
        sizes: dict[str, Any] = {"heads": 2, "max_len": 8, "head_dim": head_dim}
        parameters = synthbench.initialize("wide", d_model=8, **sizes)
        for framework in ("numpy", "torch"):
            y = synthbench.apply("wide", parameters, x, framework=framework, **sizes)
            np.testing.assert_allclose(y, found * x)
    own = synthbench.initialize("V", d_model=8, heads=2, max_len=8, head_dim=3)
    shown = synthbench.apply("V", own, x, heads=2, max_len=8)
    given = synthbench.apply("V", own, x, heads=2, max_len=8, head_dim=3)
    np.testing.assert_array_equal(shown, given)


@pytest.mark.parametrize("max_len", [10**6, 10**9, 10**18])
def test_what_is_too_large_for_memory_says_how_large(max_len: int) -> None:
    needed = 4 * (4 * max_len**2 + 2 * 16 * 16)
    with pytest.raises(
        synthbench.ShapeError, match=rf"would take {needed:,} bytes.*random\.logits"
    ):
        synthbench.initialize("R", d_model=16, heads=4, max_len=max_len)


def test_memory_that_runs_out_is_told() -> None:
    x = np.broadcast_to(np.float32(0), (10**7, 10**6, 16))
    for framework in ("numpy", "torch", "jax"):
        with pytest.raises(synthbench.ShapeError, match="does not fit into memory"):
            synthbench.apply("V", PARAMETERS, x, heads=4, max_len=10**6, framework=framework)


def test_causal_linformer_is_refused_everywhere() -> None:
    parameters = synthbench.initialize("linformer", d_model=16, **SIZES)
    for framework in ("numpy", "torch", "jax"):
        with pytest.raises(SynthbenchError, match="linformer cannot be causal"):
            synthbench.apply("linformer", parameters, X, framework=framework, causal=True, **SIZES)


def test_results_load_as_a_row_a_record(tmp_path: Path) -> None:
    from synthbench.store import append_record, create_run
    from tests.test_store import info, record

    run_dir = tmp_path / "results" / "mine" / "first"
    create_run(run_dir, info())
    append_record(run_dir, record(1))
    frame = synthbench.load_results(run_dir)
    assert list(frame["seq_len"]) == [2]
    assert list(synthbench.load_results(tmp_path / "results")["variant"]) == ["V"]
    with pytest.raises(SynthbenchError, match="elsewhere does not exist"):
        synthbench.load_results(tmp_path / "elsewhere")
    for nowhere in (None, 3, [run_dir], b"results"):
        with pytest.raises(SynthbenchError, match=r"a path of a run or of a folder .*; got"):
            synthbench.load_results(cast(Any, nowhere))
    with pytest.raises(SynthbenchError, match="File name too long"):
        synthbench.load_results("a" * 5000)
