"""Reading a run and making its tables takes work in proportion to its records."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from benchmarks.store_speed import originals, write_run
from synthbench.analysis import intervals
from synthbench.analysis.intervals import RESAMPLES, median_interval
from synthbench.report.tables.catalog import make_tables
from synthbench.store import read_run, without_garbage_collection

PACKAGE = str(Path(intervals.__file__).parents[1])


def lines_executed(work: Callable[[], object]) -> Counter[tuple[str, int]]:
    """How often each line of this package runs; each turn of a loop counts, also on one line."""
    count = Counter[tuple[str, int]]()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(PACKAGE):
            return None
        if event == "line":
            count[file, frame.f_lineno] += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def is_small(cell: dict[str, Any]) -> bool:
    return cell["variant"] in ("V", "R") and cell["seq_len"] <= 512


def test_four_times_the_records_take_four_times_the_work(tmp_path: Path) -> None:
    """Whole copies: part of one has other proportions of rounds and variants.

    The limit lies between 4 times and 16, the square: with more comparisons in a table fewer of
    them are decided, so that the lines that only undecided ones need grow a little faster than 4.
    """
    copy = len(originals(is_small))
    few = read_run(write_run(tmp_path / "few", 2 * copy, is_small))
    many = read_run(write_run(tmp_path / "many", 8 * copy, is_small))
    assert (len(few.records), len(many.records)) == (2 * copy, 8 * copy)
    before, after = (lines_executed(partial(make_tables, run)) for run in (few, many))
    assert sum(before.values()) > 10_000
    growth = {line: after[line] / count for line, count in before.items() if count >= 50}
    assert {line: times for line, times in growth.items() if times > 8} == {}


def test_a_record_is_validated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slower second reading is only for lines that are damaged."""
    slow: list[int] = []
    monkeypatch.setattr(
        "synthbench.record_lines._explained_record_of",
        lambda line, number, path, file: slow.append(number),
    )
    assert len(read_run(write_run(tmp_path / "run", 20)).records) == 20
    assert slow == []


@pytest.mark.parametrize("n", [1, 2, 3, 10, 61, 62, 1000])
def test_the_interval_is_that_of_all_resampled_medians(n: int) -> None:
    samples = np.round(np.random.default_rng(n).lognormal(size=n), 2)
    drawn = intervals._drawn_ranks(n, 0.5, 0)
    assert drawn.times.sum() == RESAMPLES
    ordered = np.sort(samples)
    medians = np.repeat((ordered[drawn.lower] + ordered[drawn.upper]) / 2, drawn.times)
    median = float(np.median(samples))
    low, high = np.quantile(medians, [0.025, 0.975])
    assert median_interval(samples.tolist()) == (median, min(low, median), max(high, median))


def fail_while_many_are_made(made: list[list[int]]) -> None:
    with without_garbage_collection():
        assert not gc.isenabled()
        made += [[] for _ in range(1000)]
        raise KeyError


@pytest.mark.parametrize("frozen", [False, True])
def test_garbage_is_collected_again_afterwards(frozen: bool) -> None:
    """Also after an error; what somebody else has frozen stays frozen."""
    gc.unfreeze()  # Python 3.12 starts with frozen objects
    if frozen:
        gc.freeze()
    try:
        made: list[list[int]] = []
        with pytest.raises(KeyError):
            fail_while_many_are_made(made)
        assert gc.isenabled()
        assert bool(gc.get_freeze_count()) == frozen
        oldest = {id(one) for one in gc.get_objects(generation=2)}
        assert frozen or oldest.issuperset(map(id, made))
    finally:
        gc.unfreeze()


def test_garbage_collection_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with without_garbage_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
