"""Outside of runs, a mixer uses the kernels that runs chose on this machine."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch

import synthbench
from synthbench.backends.kernel_choice import choose, taken_kernel
from synthbench.kernel import Kernel, Purpose
from synthbench.measure import kernel_lookup
from synthbench.measure.environment import read_environment
from synthbench.measure.kernel_cache import cache_file, store_choices
from synthbench.measure.kernel_choice import raced_cell
from synthbench.measure.kernel_lookup import KernelLookup, at_length
from synthbench.mixers.sizes import Sizes
from synthbench.run_info import KernelChoice
from synthbench.suites.cell import Cell

PLAIN = Kernel("reference form")
SIZES: dict[str, Any] = {"d_model": 16, "heads": 2, "max_len": 64}
OTHER = Kernel("another kernel")


def cell(seq_len: int, **changes: Any) -> Cell:
    content = {
        "variant": "V", "framework": "torch", "mode": "forward", "seq_len": seq_len, "batch": 2,
        "compile": "eager", "d_model": 16, "heads": 2, "max_len": seq_len,
    }  # fmt: skip
    return raced_cell(Cell.from_flat(**content | changes))


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Stores choices in a cache of its own: framework, mode and length -> kernel."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def store(*choices: tuple[Cell, Kernel], purpose: Purpose = Purpose.RUNS) -> None:
        file = cache_file(read_environment(), purpose)
        store_choices(file, [KernelChoice(cell=of, chosen=kernel) for of, kernel in choices])
        kernel_lookup.chosen_here.cache_clear()

    kernel_lookup.chosen_here.cache_clear()
    yield store
    kernel_lookup.chosen_here.cache_clear()


def look_up(seq_len: int, *, trained: bool = False, **changes: Any) -> Kernel | None:
    content: dict[str, Any] = {
        "framework": "torch",
        "variant": "V",
        "causal": False,
        "form": "auto",
    }
    content |= changes
    sizes = Sizes.of(**SIZES)
    return KernelLookup(sizes=sizes, **content)(2, seq_len, "float32", "cpu", trained=trained)


def test_a_kernel_is_used_at_its_length_and_between_two_lengths_that_agree(chosen: Any) -> None:
    assert look_up(8) is None
    chosen((cell(8), PLAIN), (cell(16), PLAIN), (cell(32), OTHER))
    assert [look_up(n) for n in (4, 8, 12, 16, 20, 32, 64)] == [
        None, PLAIN, PLAIN, PLAIN, None, OTHER, None,
    ]  # fmt: skip
    assert at_length([], 8) is None


def test_a_choice_for_modules_comes_before_one_for_runs(chosen: Any) -> None:
    """Modules are called where freed memory is not kept: another kernel may be the fastest."""
    chosen((cell(8), OTHER), purpose=Purpose.MODULES)
    assert [look_up(n) for n in (8, 16)] == [OTHER, None]  # with no choice for runs at all
    chosen((cell(8), PLAIN), (cell(16), PLAIN))
    assert [look_up(n) for n in (8, 12, 16)] == [OTHER, PLAIN, PLAIN]


def test_what_was_disturbed_is_for_runs_alone_which_time_it_again(chosen: Any) -> None:
    chosen((cell(8), PLAIN), (cell(32), PLAIN))
    doubtful = KernelChoice(cell=cell(16), chosen=OTHER, warnings=["another process"])
    store_choices(cache_file(read_environment()), [doubtful])
    kernel_lookup.chosen_here.cache_clear()
    assert [look_up(n) for n in (8, 12, 16, 24, 32)] == [PLAIN] * 5


def test_only_for_the_same_mixer_mode_and_masks(chosen: Any) -> None:
    chosen((cell(8), PLAIN), (cell(8, mode="train"), OTHER))
    assert look_up(8, trained=True) == OTHER
    for changes in (
        {"variant": "R"}, {"framework": "jax"}, {"causal": True}, {"form": "reference"},
    ):  # fmt: skip
        assert look_up(8, **changes) is None
    assert look_up(8, form="fused") == PLAIN
    chosen((cell(8, model="decoder", vocabulary=40, layers=3), OTHER))
    assert look_up(8, causal=True) == OTHER


def test_sizes_that_no_run_has_are_no_error(chosen: Any) -> None:
    chosen((cell(8), PLAIN))
    assert look_up(0) is None
    assert KernelLookup("torch", "V", Sizes.of(**SIZES), False, "auto")(
        2, 8, "complex64", "cpu", trained=False
    ) is None  # fmt: skip


def test_apply_and_modules_use_it(chosen: Any) -> None:
    x = np.random.default_rng(0).standard_normal((2, 8, 16)).astype(np.float32)
    start = synthbench.initialize("V", **SIZES)
    own: dict[str, Any] = {name: SIZES[name] for name in ("heads", "max_len")}
    want = synthbench.apply("V", start, x, **own)
    module = synthbench.torch_module("V", **SIZES)
    layer: Any = synthbench.nnx_module("V", **SIZES)
    chosen(
        (cell(8), PLAIN),
        (cell(8, mode="train"), Kernel("scaled_dot_product_attention", "MKL")),
        (cell(8, framework="jax", compile="compiled"), Kernel("blocks of queries", logits=16)),
    )

    def used(call: Any) -> Kernel | None:
        choose([OTHER])
        np.testing.assert_allclose(np.asarray(call()), want, atol=1e-5)
        return taken_kernel()

    assert used(lambda: synthbench.apply("V", start, x, framework="torch", **own)) == PLAIN
    with torch.no_grad():
        assert used(lambda: module(torch.tensor(x))) == PLAIN
    trained = used(lambda: module(torch.tensor(x)).detach())
    assert trained is not None and trained.path == "scaled_dot_product_attention"
    blocks = Kernel("blocks of queries", logits=16)
    assert used(lambda: synthbench.apply("V", start, x, framework="jax", **own)) == blocks
    assert used(lambda: layer(jax.numpy.asarray(x))) == blocks
    again = pickle.loads(pickle.dumps(module))
    with torch.no_grad():
        assert used(lambda: again(torch.tensor(x))) == PLAIN
