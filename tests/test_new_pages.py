"""A step that waited for memory is timed again."""

from __future__ import annotations

import mmap
from collections.abc import Callable

import pytest

from synthbench.measure.new_pages import (
    MOST_SECONDS,
    MOST_SHARE,
    PAGE_SECONDS,
    REPEATS,
    new_pages,
    steady_seconds,
)

FEW = int(0.1 * MOST_SHARE / PAGE_SECONDS)  # pages of a step of 0.1 s


def steps(*each: tuple[float, int]) -> tuple[Callable[[], float], Callable[[], int], list[float]]:
    """A step that takes these seconds and gets these pages in turn; its pages; what was done."""
    count = 7
    done: list[float] = []

    def once() -> float:
        nonlocal count
        seconds, pages = each[len(done)]
        count += pages
        done.append(seconds)
        return seconds

    return once, lambda: count, done


@pytest.mark.parametrize(
    ("each", "found"),
    [
        ([(0.1, 0)], 0.1),
        ([(0.1, FEW)], 0.1),
        ([(0.1, FEW + 1), (0.08, 0)], 0.08),
        ([(0.37, 32768), (0.36, 32768), (0.17, 3)], 0.17),
        ([(0.1 + n / 100, 10 * FEW) for n in range(REPEATS + 1)], 0.1 + REPEATS / 100),
        ([(MOST_SECONDS + 0.01, 10**9)], MOST_SECONDS + 0.01),
        ([(MOST_SECONDS, 10**9), (0.9, 0)], 0.9),
    ],
)
def test_a_step_is_repeated_until_it_gets_few_pages(
    each: list[tuple[float, int]], found: float
) -> None:
    once, pages, done = steps(*each)
    assert steady_seconds(once, pages) == found
    assert len(done) == len(each)


def test_pages_that_are_written_first_are_counted() -> None:
    count = 400  # less than a huge page has
    before = new_pages()
    with mmap.mmap(-1, count * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for n in range(count):
            memory[n * mmap.PAGESIZE] = 1
        first = new_pages() - before
        for n in range(count):
            memory[n * mmap.PAGESIZE] = 2
        again = new_pages() - before - first
    assert first >= count
    assert again < count / 3
