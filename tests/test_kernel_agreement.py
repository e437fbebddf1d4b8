"""Two searches for kernels: which shapes have the same choice, and which margins are real."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from typer import BadParameter, Typer
from typer.testing import CliRunner

from benchmarks.kernel_agreement import choices_of, compare, main, margin
from synthbench.kernel import Kernel
from synthbench.measure.kernel_cache import store_choices
from synthbench.measure.kernel_choice import raced_cell
from synthbench.run_info import KernelChoice, KernelTime
from tests.kernel_choices import cell

PLAIN, BLOCKS = Kernel("plain"), Kernel("blocks", logits=2**18)
NOISY = [1.0, 1.3, 0.9, 1.2, 1.1]


def choice(
    chosen: Kernel, plain: Sequence[float], blocks: Sequence[float], seq_len: int = 128
) -> KernelChoice:
    """The choice of V at a length, with the seconds of both kernels."""
    kernels = [
        KernelTime(kernel=PLAIN, samples=list(plain)),
        KernelTime(kernel=BLOCKS, samples=list(blocks)),
    ]
    shape = raced_cell(cell(seq_len=seq_len, max_len=seq_len))
    return KernelChoice(cell=shape, chosen=chosen, compared="faster halves", kernels=kernels)


def test_a_margin_is_the_time_of_the_other_kernel_over_that_of_the_own() -> None:
    found = margin(choice(PLAIN, [1.0] * 5, [1.5] * 5), BLOCKS)
    assert found is not None
    assert (found.low, found.value, found.high) == pytest.approx((1.5, 1.5, 1.5))
    assert margin(choice(PLAIN, [1.0] * 5, [1.5] * 5), Kernel("another")) is None


def test_the_margin_of_an_earlier_choice_is_that_of_its_medians() -> None:
    """As the table `choices` shows it."""
    now = choice(PLAIN, [2.0] * 4, [3.0, 9.0, 3.0, 9.0])
    found = margin(now, BLOCKS)
    assert found is not None and found.value == pytest.approx(1.5)
    before = margin(now.model_copy(update={"compared": "medians"}), BLOCKS)
    assert before is not None and before.value == pytest.approx(3)


def test_a_difference_counts_in_how_many_searches_its_margin_is_beyond_noise() -> None:
    plain = choice(PLAIN, [1.0] * 5, [1.1] * 5)
    blocks = choice(BLOCKS, [1.1] * 5, [1.0] * 5)
    unsure = choice(BLOCKS, NOISY, NOISY)
    slight = choice(BLOCKS, [1.02] * 5, [1.0] * 5)  # less than the gain that a choice needs
    for other, beyond in ((blocks, 2), (unsure, 1), (slight, 1)):
        (different,) = compare([plain], [other]).different
        assert different.beyond_noise == beyond
    (different,) = compare([slight], [choice(PLAIN, NOISY, NOISY)]).different
    assert different.beyond_noise == 0


def test_only_shapes_that_both_have_are_compared() -> None:
    first = [choice(PLAIN, [1.0] * 5, [1.1] * 5, seq_len) for seq_len in (128, 256)]
    second = [choice(PLAIN, [1.0] * 5, [1.1] * 5, seq_len) for seq_len in (256, 512)]
    assert compare(first, second) == (1, [])


def test_files_of_the_cache_are_read_and_the_differences_printed(tmp_path: Path) -> None:
    files = tmp_path / "first.json", tmp_path / "second.json"
    same = choice(PLAIN, [1.0] * 5, [1.1] * 5, seq_len=256)
    store_choices(files[0], [choice(PLAIN, [1.0] * 5, [1.1] * 5), same])
    store_choices(files[1], [choice(BLOCKS, [1.2] * 5, [1.0] * 5), same])
    assert len(choices_of(files[0])) == 2
    app = Typer()
    app.command()(main)
    shown = CliRunner().invoke(app, [str(file) for file in files]).output
    assert "torch V forward L=128 B=1: plain (1.10, 1.10 to 1.10) | blocks" in shown
    assert "(1.20, 1.20 to 1.20)" in shown
    assert "1 of 2 shapes have the same choice (50.0%)" in shown
    assert "0 others have a margin beyond noise in one search" in shown
    assert "1 others have a margin beyond noise in both" in shown


def test_a_file_without_choices_is_one_clear_message(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(BadParameter, match="has no choices of kernels; name a run, or a file"):
        choices_of(tmp_path / "other.json")
