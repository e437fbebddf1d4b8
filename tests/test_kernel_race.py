"""Which kernel wins a race, and for which lengths races are run: exact, on times that are given."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthbench.analysis.kernel_race import (
    HOPELESS,
    LEAST_ROUNDS,
    MOST_ROUNDS,
    race,
    winner,
)
from synthbench.kernel import Kernel
from synthbench.measure.kernel_choice import choose_between
from synthbench.record import KernelChoice
from synthbench.run.kernel_choices import by_length
from synthbench.suites.cell import Cell


def clockwork(seconds: dict[str, float], noise: float = 0.0) -> Callable[[str], float]:
    """Steps that take these times, each up to `noise` longer."""
    drawn = random.Random(0)
    return lambda name: seconds[name] * (1 + noise * drawn.random())


def never() -> float:
    return 0.0


def test_the_first_kernel_stays_unless_another_is_faster_beyond_its_interval() -> None:
    def won(seconds: dict[str, float]) -> str:
        return winner(race(list(seconds), clockwork(seconds), 1.0, never))

    assert won({"first": 1.0, "other": 0.8}) == "other"
    assert won({"first": 1.0, "other": 1.0}) == "first"
    assert won({"first": 1.0, "other": 1.2}) == "first"
    assert won({"first": 1.0, "other": 0.9, "third": 0.7}) == "third"
    assert won({"first": 1.0, "other": 0.7, "third": 0.9}) == "other"
    assert won({"first": 1.0}) == "first"
    assert winner({"first": [1.0, 1.4] * 9, "other": [1.3, 0.9] * 9}) == "first"
    assert winner({"first": [1.0, 1.4] * 9, "other": [0.9, 1.3] * 9}) == "other"  # in every round


def test_a_kernel_that_cannot_win_is_left_out_after_three_steps() -> None:
    steps = clockwork({"first": 1.0, "slow": HOPELESS + 0.01, "near": HOPELESS - 0.01})
    samples = race(["first", "slow", "near"], steps, 1.0, never)
    assert {name: len(found) for name, found in samples.items()} == {
        "first": 3 + MOST_ROUNDS, "slow": 3, "near": 3 + MOST_ROUNDS,
    }  # fmt: skip
    # Three steps are no race: even a kernel that was faster in all did not win it.
    assert winner({"first": [1.0] * 9, "lucky": [0.5, 0.5, 0.5]}) == "first"


def test_the_first_kernel_is_timed_to_the_end_although_it_is_slow() -> None:
    samples = race(["first", "fast"], clockwork({"first": 9.0, "fast": 1.0}), 1.0, never)
    assert len(samples["first"]) == len(samples["fast"]) > LEAST_ROUNDS
    assert winner(samples) == "fast"


def test_a_race_ends_with_its_time_but_not_before_the_least_number_of_rounds() -> None:
    ticks = count(0.0, 4.0)  # at every look at the clock
    samples = race(["a", "b"], clockwork({"a": 1.0, "b": 1.0}), 15.0, lambda: next(ticks))
    assert {len(found) for found in samples.values()} == {3 + LEAST_ROUNDS + 3}
    samples = race(["a", "b"], clockwork({"a": 1.0, "b": 1.0}), 0.0, never)
    assert {len(found) for found in samples.values()} == {3 + LEAST_ROUNDS}


def test_kernels_take_turns_in_alternating_order() -> None:
    order: list[str] = []

    def timed(name: str) -> float:
        order.append(name)
        return 1.0

    race(["a", "b", "c"], timed, 1.0, never)
    assert "".join(order[:12]) == "abc" + "cba" + "abc" + "cba"


def test_one_disturbance_leaves_out_no_kernel() -> None:
    """A pause of any two steps in a row: the fastest kernel still wins."""
    for start in range(8):
        number = count()

        def timed(name: str) -> float:
            paused = next(number) in (start, start + 1)  # noqa: B023
            return {"a": 1.0, "b": 1.1, "c": 0.7}[name] + 5 * paused

        assert winner(race(["a", "b", "c"], timed, 1.0, never)) == "c"


def test_a_disturbance_of_one_round_decides_nothing() -> None:
    calm = {"first": [1.0] * 9, "other": [1.02] * 9}
    disturbed = {"first": [1.0] * 4 + [9.0] + [1.0] * 4, "other": calm["other"]}
    assert winner(calm) == winner(disturbed) == "first"


@pytest.mark.parametrize("processor", ["wide vectors", "narrow vectors"])
def test_no_form_is_slower_than_its_best_kernel_by_more_than_five_percent(processor: str) -> None:
    """Two kinds of processors; the times of steps are up to 4% longer by chance."""
    seconds = {
        "wide vectors": {"plain": 1.3, "fused": 0.9, "blocks": 0.6, "large blocks": 0.63},
        "narrow vectors": {"plain": 0.8, "fused": 0.5, "blocks": 1.0, "large blocks": 0.97},
    }[processor]
    best = min(seconds.values())
    for first in seconds:
        names = [first, *(name for name in seconds if name != first)]
        chosen = winner(race(names, clockwork(seconds, 0.04), 1.0, never))
        assert best >= 0.95 * seconds[chosen]


def cell(seq_len: int, **changes: object) -> Cell:
    content = {
        "variant": "V", "framework": "torch", "mode": "forward", "seq_len": seq_len, "batch": 1,
        "compile": "eager", "d_model": 16, "heads": 2, "max_len": seq_len,
    }  # fmt: skip
    return Cell.from_flat(**content | changes)


@given(st.integers(1, 9), st.integers(0, 9))
def test_between_two_lengths_with_the_same_winner_no_race_is_run(lengths: int, switch: int) -> None:
    """One winner up to a length and another beyond it, which is what sizes lead to."""
    cells = [cell(2**n) for n in range(lengths)]
    raced: list[int] = []

    def choose(asked: Cell) -> KernelChoice:
        raced.append(asked.seq_len)
        path = "short" if asked.seq_len < 2**switch else "long"
        return KernelChoice(cell=asked, chosen=Kernel(path))

    found = choose_between(cells, choose)
    assert [choice.cell for choice in found] == cells
    for choice in found:
        assert choice.chosen.path == ("short" if choice.cell.seq_len < 2**switch else "long")
        assert bool(choice.like) == (choice.cell.seq_len not in raced)
    assert len(raced) == len(set(raced))
    if lengths > 2 and not 0 < switch < lengths:
        assert len(raced) == 2


def test_where_a_race_failed_nothing_is_taken_from_its_neighbours() -> None:
    cells = [cell(2**n) for n in range(3)]
    found = choose_between(
        cells, lambda c: None if c.seq_len == 4 else KernelChoice(cell=c, chosen=Kernel("a"))
    )
    assert [choice.cell.seq_len for choice in found] == [1, 2]


def test_cells_are_grouped_by_everything_but_their_length() -> None:
    cells = [cell(8), cell(4), cell(8, mode="train"), cell(4, batch=2)]
    groups = [[(c.mode, c.batch, c.seq_len) for c in group] for group in by_length(cells)]
    assert groups == [
        [("forward", 1, 4), ("forward", 1, 8)], [("train", 1, 8)], [("forward", 2, 4)],
    ]  # fmt: skip
