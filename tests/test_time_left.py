"""How long the rest of a run takes, on simulated runs whose truth is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthbench.run.time_left import TimeLeft

CELLS = [f"cell {number}" for number in range(8)]


def after(
    records: list[tuple[str, float, float]],
) -> TimeLeft:
    """The estimate after records: cell, seconds since the one before, seconds of its process."""
    left = TimeLeft()
    for cell, seconds, own in records:
        left.add(cell, seconds, own)
    return left


def test_nothing_is_known_before_the_first_record() -> None:
    assert TimeLeft().of(CELLS) is None


@given(seconds=st.floats(0.1, 100), measured=st.integers(1, 8), rounds=st.integers(1, 5))
def test_cells_that_cost_the_same_are_known_after_one(
    seconds: float, measured: int, rounds: int
) -> None:
    left = after([(cell, seconds, seconds) for cell in CELLS[:measured]])
    pending = CELLS[measured:] + CELLS * (rounds - 1)
    assert left.of(pending) == pytest.approx(len(pending) * seconds)


def test_checks_are_in_the_first_record_of_a_cell_only() -> None:
    """Eight cells of 2 s with a check of 5 s each, two rounds: 8 * 7 + 8 * 2 s in all."""
    first = [(cell, 7.0, 2.0) for cell in CELLS]
    assert after(first[:3]).of(CELLS[3:] + CELLS) == pytest.approx(5 * 7 + 8 * 2)
    assert after(first).of(CELLS) == pytest.approx(8 * 2)


def test_a_cell_measured_again_takes_as_long_as_before() -> None:
    """A further round measures a few cells only, and long ones take longer."""
    left = after([(cell, 10.0**number, 10.0**number) for number, cell in enumerate(CELLS)])
    assert left.of(CELLS[:2]) == pytest.approx(1 + 10)
    assert left.of([CELLS[7], CELLS[7]]) == pytest.approx(2e7)


def test_the_last_record_of_a_cell_counts() -> None:
    left = after([("V", 9.0, 2.0), ("V", 3.0, 2.5)])
    assert left.of(["V"]) == 3.0


def test_several_places_at_once() -> None:
    """Four processes of 8 s at the same time: a record every 2 s, and no check."""
    left = after([(cell, 2.0, 8.0) for cell in CELLS])
    assert left.of(CELLS) == pytest.approx(8 * 2)


def test_nothing_is_left_at_the_end() -> None:
    assert after([("V", 9.0, 2.0)]).of([]) == 0
