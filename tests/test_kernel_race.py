"""Which kernel wins a race, and for which lengths races are run: exact, on times that are given."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count, cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthbench.analysis.kernel_race import (
    DECIDED_AFTER,
    DECIDED_LATE_AFTER,
    HOPELESS,
    HOPELESS_AT_ONCE,
    LEAST_GAIN,
    LEAST_GAIN_OF_PLAIN,
    LEAST_ROUNDS,
    MOST_ROUNDS,
    is_decided,
    race,
    winner,
)
from synthbench.kernel import Kernel
from synthbench.measure.kernel_choice import Offer
from synthbench.run.kernel_search import Search
from synthbench.run.kernel_series import by_length
from synthbench.run_info import KernelChoice
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
    spread = [1.0, 1.1, 1.2, 1.3]
    assert winner({"first": spread, "other": [0.9, *spread[1:]]}) == "first"
    assert winner({"first": spread, "other": [0.8 * value for value in spread]}) == "other"
    # Of each the faster half counts: what disturbs a step only adds time.
    assert winner({"first": [1.0] * 8, "other": [0.9, 2.0] * 4}) == "other"


def test_what_saves_too_little_does_not_win() -> None:
    """So that two races on one machine choose alike."""
    exactly = {"first": [1.0] * 9, "other": [1 - LEAST_GAIN] * 9}
    assert winner(exactly) == "other"
    assert winner(exactly | {"other": [1 - LEAST_GAIN + 1e-6] * 9}) == "first"


def test_plain_code_has_to_save_less() -> None:
    """It is what forms are compared with; for the others the usual gain holds beside it."""
    saves = 1 - (LEAST_GAIN + LEAST_GAIN_OF_PLAIN) / 2
    near = {"first": [1.0] * 9, "plain": [saves] * 9, "other": [saves] * 9}
    assert winner(near) == "first"
    assert winner(near, "plain") == "plain"
    assert winner(near | {"plain": [1.0] * 9}, "plain") == "first"
    assert winner(near | {"other": [0.9] * 9}, "plain") == "other"
    exactly = {"first": [1.0] * 9, "plain": [1 - LEAST_GAIN_OF_PLAIN] * 9}
    assert winner(exactly, "plain") == "plain"
    assert winner(exactly | {"plain": [1 - LEAST_GAIN_OF_PLAIN + 1e-6] * 9}, "plain") == "first"
    assert winner({"plain": [1.0] * 9, "other": [saves] * 9}, "plain") == "plain"


def test_a_race_goes_on_until_the_gain_of_plain_code_is_clear() -> None:
    times = cycle([0.96, 0.97, 0.98])  # around what plain code has to save, clear of LEAST_GAIN
    uncertain = {"first": [1.0] * 6, "plain": [next(times) for _ in range(6)]}
    assert is_decided(uncertain)
    assert not is_decided(uncertain, "plain")

    def once(name: str) -> float:
        return next(times) if name == "plain" else 1.0

    usual = race(["first", "plain"], once, 1.0, never)
    longer = race(["first", "plain"], once, 1.0, never, "plain")
    assert len(usual["first"]) < len(longer["first"])


def test_a_kernel_that_cannot_win_is_left_out_after_three_steps() -> None:
    steps = clockwork({"first": 1.0, "slow": HOPELESS + 0.01, "near": HOPELESS - 0.01})
    samples = race(["first", "slow", "near"], steps, 1.0, never)
    assert {name: len(found) for name, found in samples.items()} == {
        "first": DECIDED_AFTER, "slow": 3, "near": DECIDED_AFTER,
    }  # fmt: skip
    # It was left out before the end: even a kernel that was faster in all its steps did not win.
    assert winner({"first": [1.0] * 9, "lucky": [0.5, 0.5, 0.5]}) == "first"
    alone = race(["first", "slow"], steps, 1.0, never)
    assert [len(found) for found in alone.values()] == [3, 3]


def test_where_the_time_has_passed_a_kernel_is_left_out_earlier() -> None:
    times = {"first": 1.0, "hopeless": HOPELESS_AT_ONCE, "slow": HOPELESS + 0.01, "fast": 0.9}
    samples = race(list(times), clockwork(times), 0.0, never)
    assert {name: len(found) for name, found in samples.items()} == {
        "first": DECIDED_LATE_AFTER, "hopeless": 1, "slow": 2, "fast": DECIDED_LATE_AFTER,
    }  # fmt: skip
    assert winner(samples) == "fast"


@pytest.mark.parametrize("slow", ["first", "fast"])
def test_a_slow_first_step_decides_nothing(slow: str) -> None:
    """In a real race, 541 ms where the next steps took 166 and those of the winner 190."""
    times = {"first": 190.0, "fast": 166.0}
    left = {slow: 541.0}

    def once(name: str) -> float:
        return left.pop(name, times[name])

    samples = race(list(times), once, 0.0, never)
    assert winner(samples) == "fast"
    assert len(samples["fast"]) == LEAST_ROUNDS


def test_the_first_kernel_is_timed_to_the_end_although_it_is_slow() -> None:
    samples = race(["first", "fast"], clockwork({"first": 9.0, "fast": 1.0}), 1.0, never)
    assert len(samples["first"]) == len(samples["fast"]) == DECIDED_AFTER
    assert winner(samples) == "fast"


def test_a_race_ends_when_it_is_decided_or_its_time_has_passed() -> None:
    ticks = count(0.0, 4.0)  # at every look at the clock

    def unclear(*spread: float) -> Callable[[str], float]:
        times = {"a": cycle(spread), "b": cycle(reversed(spread))}
        return lambda name: next(times[name])

    samples = race(["a", "b"], unclear(1.0, 1.3, 1.6, 1.9), 39.0, lambda: next(ticks))
    assert {len(found) for found in samples.values()} == {10}
    long = race(["a", "b"], unclear(1.0, 1.3, 1.6, 1.9), 1.0, never)
    assert {len(found) for found in long.values()} == {MOST_ROUNDS}
    calm = clockwork({"a": 1.0, "b": 1.0})
    late = race(["a", "b"], calm, 0.0, never)
    assert {len(found) for found in late.values()} == {DECIDED_LATE_AFTER}
    late = race(["a", "b"], unclear(1.0, 1.3), 0.0, never)  # without a decision
    assert {len(found) for found in late.values()} == {LEAST_ROUNDS}
    assert {len(found) for found in race(["a", "b"], calm, 1.0, never).values()} == {DECIDED_AFTER}


def test_a_race_is_decided_when_every_gain_is_clear() -> None:
    assert is_decided({"first": [1.0] * 5, "fast": [0.9] * 5, "slow": [1.1] * 5})
    assert not is_decided({"first": [1.0] * 5, "near": [0.9, 1.1, 0.9, 1.1, 1.0]})
    assert is_decided({"first": [1.0] * 5, "left out": [0.9, 1.1, 1.0]})
    assert is_decided({"first": [1.0] * 5})


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


def search(lengths: int, offered: str = "short middle long") -> Search:
    offer = Offer(tuple(Kernel(path) for path in offered.split()), "")
    return Search([cell(2**n) for n in range(lengths)], [offer] * lengths)


def run_search(one: Search, winner_at: Callable[[int], str]) -> list[KernelChoice]:
    """Time what is wanted until nothing is; all choices by length."""
    while one.wanted:
        assert one.untimed
        for place in one.wanted:
            assert place not in one.known
            path = winner_at(2**place)
            if path == "fails":
                one.failed.add(place)
            elif path == "too long":
                one.long.add(place)
            else:
                one.found[place] = KernelChoice(cell=one.cells[place], chosen=Kernel(path))
    assert not one.untimed
    return all_choices(one)


def all_choices(one: Search) -> list[KernelChoice]:
    made = [*one.found.values(), *one.between(), *one.nearest()]
    return sorted(made, key=lambda choice: choice.cell.seq_len)


@given(st.integers(1, 9), st.integers(0, 9))
def test_between_two_lengths_with_the_same_winner_no_race_is_run(lengths: int, switch: int) -> None:
    """One winner up to a length and another beyond it, which is what sizes lead to."""
    one = search(lengths)
    found = run_search(one, lambda length: "short" if length < 2**switch else "long")
    assert [choice.cell for choice in found] == one.cells
    for place, choice in enumerate(found):
        assert choice.chosen.path == ("short" if choice.cell.seq_len < 2**switch else "long")
        assert bool(choice.like) == (place not in one.found)
    assert not one.nearest()
    if lengths > 2 and not 0 < switch < lengths:
        assert len(one.found) == 3


def test_where_a_race_failed_nothing_is_taken_from_its_neighbours() -> None:
    found = run_search(search(4), lambda length: "fails" if length == 8 else "long")
    assert [choice.cell.seq_len for choice in found] == [1, 2, 4]


def test_where_steps_are_too_long_the_kernel_of_a_shorter_length_is_taken() -> None:
    found = run_search(search(4), lambda length: "too long" if length > 2 else "short")
    assert [(c.cell.seq_len, c.chosen.path, c.like) for c in found] == [
        (1, "short", []), (2, "short", []), (4, "short", ["V at 2"]), (8, "short", ["V at 2"]),
    ]  # fmt: skip
    found = run_search(search(2, "long"), lambda length: "too long" if length > 1 else "short")
    assert [choice.cell.seq_len for choice in found] == [1]  # the other has no such kernel


def test_a_search_that_was_ended_takes_the_nearest_length() -> None:
    one = search(5)
    assert (one.wanted, one.untimed, all_choices(one)) == ([2, 0, 4], 5, [])
    one.found[2] = KernelChoice(cell=one.cells[2], chosen=Kernel("middle"))
    assert (one.wanted, one.untimed) == ([0, 4], 4)
    assert {choice.chosen.path for choice in all_choices(one)} == {"middle"}
    one.found[0] = KernelChoice(cell=one.cells[0], chosen=Kernel("short"))
    one.found[4] = KernelChoice(cell=one.cells[4], chosen=Kernel("long"))
    assert (one.wanted, one.untimed) == ([1, 3], 2)
    paths = [choice.chosen.path for choice in all_choices(one)]
    assert paths == ["short", "middle", "middle", "long", "long"]  # of two equally near, the longer


def test_cells_are_grouped_by_everything_but_their_length() -> None:
    cells = [cell(8), cell(4), cell(8, mode="train"), cell(4, batch=2)]
    groups = [[(c.mode, c.batch, c.seq_len) for c in group] for group in by_length(cells)]
    assert groups == [
        [("forward", 1, 4), ("forward", 1, 8)], [("train", 1, 8)], [("forward", 2, 4)],
    ]  # fmt: skip
