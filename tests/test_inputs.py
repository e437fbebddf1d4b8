"""The random inputs of cells, and the small ones of the parity check."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import synthbench
from synthbench.measure.inputs import random_batch, setting_of
from synthbench.measure.parity_inputs import (
    Case,
    case_batch,
    cases,
    random_parameters,
    small_model,
)
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.start_values import start_values
from synthbench.suites.cell import Cell

SIZES = Sizes.of(d_model=8, heads=2, max_len=6)


def test_the_inputs_of_a_mixer_are_normal_and_depend_on_the_seed() -> None:
    model = Model.of("mixer", parse("V"), SIZES)
    batch = random_batch(model, 300, 5)
    assert batch.inputs.shape == (300, 5, 8)
    assert batch.inputs.dtype == np.float32
    assert abs(batch.inputs.mean()) < 0.05
    assert batch.inputs.std() == pytest.approx(1.0, abs=0.05)
    assert batch.padding_mask is None
    assert np.array_equal(batch.inputs, random_batch(model, 300, 5, seed=0).inputs)
    assert not np.array_equal(batch.inputs, random_batch(model, 300, 5, seed=1).inputs)


def test_tokens_and_targets_cover_the_vocabulary() -> None:
    model = Model.of("decoder", parse("V"), SIZES, vocabulary=7)
    batch = random_batch(model, 100, 5)
    assert batch.inputs.shape == batch.targets.shape == (100, 5)
    assert set(np.unique(batch.inputs)) == set(range(7))
    assert set(np.unique(batch.targets)) == set(range(7))
    assert not np.array_equal(batch.inputs, batch.targets)


def test_a_setting_is_that_of_the_cell() -> None:
    cell = Cell.from_flat(
        variant="V", framework="torch", mode="forward", model="mixer", compile="compiled",
        seq_len=8, batch=1, d_model=16, heads=4, max_len=8, dtype="bfloat16", device="cuda:1",
        form="fused",
    )  # fmt: skip
    setting = setting_of(cell)
    assert (setting.dtype, setting.device, setting.form, setting.compile) == (
        "bfloat16", "cuda:1", "fused", "compiled",
    )  # fmt: skip


def test_every_combination_of_masks_and_lengths_is_a_case() -> None:
    found = list(cases(small_model("V")))
    assert found == [
        Case(f"{name}, L={length}", length, padded, causal)
        for name, padded, causal in (
            ("no mask", False, False), ("padding", True, False), ("causal", False, True),
            ("padding+causal", True, True),
        )
        for length in (12, 9)
    ]  # fmt: skip
    assert {case.causal for case in cases(small_model("linformer"))} == {False}
    assert [case.seq_len for case in cases(small_model("V", max_len=4))][:2] == [4, 3]
    assert [case.seq_len for case in cases(small_model("FD(a=1, b=1)"))] == [1] * 4


def test_a_small_model_has_the_sizes_of_its_factors() -> None:
    model = small_model("V")
    assert (model.sizes.d_model, model.sizes.heads, model.sizes.max_len) == (16, 4, 12)
    assert small_model("V", head_dim=7).sizes.head_dim == 7
    for variant, length in (("FD(a=5, b=2)", 10), ("FD(a=5)", 10), ("FD(b=7)", 14)):
        assert small_model(variant).sizes.max_len == length
    with pytest.raises(synthbench.SynthbenchError):
        small_model("V", d_model=10, heads=4, head_dim=0)


def test_noise_is_added_to_every_start_value() -> None:
    model = small_model("D")
    start = start_values(model.parameters(), 3)
    noisy = random_parameters(model, 3)
    assert noisy.keys() == start.keys()
    noise = np.concatenate([(noisy[name] - start[name]).ravel() for name in start])
    assert noise.std() == pytest.approx(0.1, rel=0.1)
    assert abs(noise.mean()) < 0.01
    assert (noise != 0).all()
    again, other = random_parameters(model, 3), random_parameters(model, 4)
    assert all(np.array_equal(again[name], noisy[name]) for name in noisy)
    assert not any(np.array_equal(other[name], noisy[name]) for name in noisy)


def test_padding_is_none_at_the_end_at_the_start_and_everywhere() -> None:
    model = small_model("V")
    case = Case("padding, L=9", 9, padded=True, causal=False)
    batch = case_batch(model, case, seed=5)
    assert batch.inputs.shape == (4, 9, 16)
    assert batch.padding_mask is not None
    rows = ["".join("x" if kept else "." for kept in row) for row in batch.padding_mask]
    assert rows == ["xxxxxxxxx", "xxxx.....", "...xxxxxx", "........."]
    plain = case_batch(model, replace(case, padded=False), seed=5)
    assert plain.padding_mask is None
    assert np.array_equal(plain.inputs, random_batch(model, 4, 9, seed=5).inputs)
