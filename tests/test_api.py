"""The public entry points, and what they say to a mistake."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import synthbench
from synthbench import SynthbenchError

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
    "torch has no such device": ({"device": "cuda:7"}, r"torch .* has no device 'cuda:7'; it sees"),
    "jax has no such device": (
        {"device": "cuda:7", "framework": "jax"},
        r"jax .* has no device 'cuda:7'; it sees",
    ),
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
    with pytest.raises(SynthbenchError, match="there is no"):
        synthbench.load_results(tmp_path / "elsewhere")
