"""What makes the tables of a large run fast gives the numbers of the plain definitions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.store_speed import write_run
from synthbench.analysis import scaling
from synthbench.analysis.comparison import (
    CONFIDENCE,
    MOST_ROUNDS,
    Estimate,
    further_rounds,
)
from synthbench.analysis.moderated_variance import moderated, t_quantile
from synthbench.analysis.moments import moments_of
from synthbench.metrics import Pool, pool_values
from synthbench.record import latest
from synthbench.report.data.frame import _pooled
from synthbench.report.data.prepared import prepare
from synthbench.report.screen import screen
from synthbench.report.screen.block_lines import block_lines
from synthbench.report.screen.screen import screen_lines, screen_of
from synthbench.report.tables.scaling import growth
from synthbench.report.text import files
from synthbench.store import read_run
from tests.test_store import record
from tests.test_store_speed import is_small

LENGTHS = (64, 128, 256, 512, 1024, 2048)
RATIOS = st.one_of(st.just(0.0), st.floats(-0.5, 0.5), st.floats(-0.02, 0.02))
ESTIMATES = st.builds(
    Estimate,
    log_ratio=RATIOS,
    error=st.one_of(st.just(0.0), st.floats(0, 0.3), st.floats(0, 0.01)),
    degrees=st.sampled_from([4.0, 12.5, math.inf]),
    rounds=st.integers(1, 5),
)


@settings(max_examples=50, deadline=None)
@given(estimates=st.lists(ESTIMATES, min_size=2, max_size=6), rises=st.booleans())
def test_a_crossing_is_that_of_every_draw_at_every_length(
    estimates: Sequence[Estimate], rises: bool
) -> None:
    lengths = LENGTHS[: len(estimates)]
    x = np.log(np.array(lengths, dtype=np.float64))
    degrees = tuple(min(one.degrees, 1e6) for one in estimates)
    means, errors = (np.array([getattr(e, n) for e in estimates]) for n in ("log_ratio", "error"))
    draws = means[:, None] + errors[:, None] * scaling._noise(degrees, 0).draws
    changes = np.array([scaling._last_change(x.tolist(), draw, rises) for draw in draws.T.tolist()])
    tail = (1 - CONFIDENCE) / 2
    low = high = changes[0]  # quantiles cannot be taken of infinities alone
    if (changes != low).any():
        low, high = np.quantile(changes, [tail, 1 - tail], method="inverted_cdf")
    found = scaling.crossing(lengths, estimates, rises=rises)
    assert (found.low, found.high) == (math.exp(low), math.exp(high))


class Counted(list[int]):
    """A list that knows how often it was gone through."""

    times = 0

    def __iter__(self) -> Iterator[int]:
        self.times += 1
        return super().__iter__()


def test_variances_are_moderated_without_going_through_all_for_each() -> None:
    degrees = Counted([2] * 50)
    moderated(np.random.default_rng(0).chisquare(2, 50).tolist(), degrees)
    assert 0 < degrees.times < 6


@given(samples=st.lists(st.lists(st.floats(-1, 1), min_size=1, max_size=40), max_size=12))
def test_moments_are_those_of_numpy_to_the_last_bit(samples: list[list[float]]) -> None:
    for values, (mean, variance) in zip(samples, moments_of(samples), strict=True):
        assert mean == float(np.mean(values))
        if len(values) > 1:
            assert variance == float(np.var(values, ddof=1))


@given(
    found=st.builds(
        Estimate,
        log_ratio=st.floats(-0.2, 0.2),
        error=st.floats(1e-4, 0.2),
        degrees=st.floats(1, 60),
        rounds=st.integers(2, 8),
    ),
    limit=st.floats(0.001, 0.1),
    alpha=st.sampled_from([0.05, 0.001, 1e-5]),
)
def test_further_rounds_are_the_first_number_that_is_enough(
    found: Estimate, limit: float, alpha: float
) -> None:
    size = abs(found.log_ratio)
    room, level = (size, alpha) if size > limit else (limit - size, 0.05)
    spread = found.error * math.sqrt(found.rounds)
    enough = [
        more
        for more in range(1, MOST_ROUNDS + 1)
        if t_quantile(found.degrees + more, 1 - level / 2) * spread
        / math.sqrt(found.rounds + more) < room
    ]  # fmt: skip
    assert further_rounds(found, limit, alpha, 0.05) == (enough[0] if enough else None)


@given(
    column=st.lists(st.none() | st.integers(0, 3), min_size=6, max_size=6),
    how=st.sampled_from(["median", "max", "min", "sum"]),
)
def test_pooled_columns_are_pooled_values(column: list[int | None], how: Pool) -> None:
    cells = [range(1), range(1, 3), range(3, 6)]
    expected = [pool_values(how, [column[n] for n in cell], None) for cell in cells]
    assert _pooled(how, column, cells) == expected


@given(column=st.lists(st.sampled_from([None, "", "a", "b"]), min_size=6, max_size=6))
def test_pooled_texts_are_pooled_values(column: list[str | None]) -> None:
    cells = [[0, 5], [1], [4, 2, 3]]
    expected = [pool_values("join", [column[n] for n in cell], None) for cell in cells]
    assert _pooled("join", column, cells) == expected


def test_the_records_that_count_are_found_once() -> None:
    attempts = [record(0).model_copy(update={"attempt": number}) for number in (0, 2, 1)]
    found = latest([*attempts, record(1)])
    assert [one.attempt for one in found] == [2, 0]
    assert latest(found) is found


def test_the_screen_of_many_blocks_is_that_of_trying_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it makes the lines of few of them: a large run has thousands of blocks."""
    run = read_run(write_run(tmp_path / "run", 1200, is_small))
    shown = screen_of(prepare(run))
    assert len(shown.blocks) > 40
    calls: list[str] = []

    def counted(*arguments: object) -> list[str]:
        calls.append("")
        return block_lines(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(screen, "block_lines", counted)
    found = screen_lines(shown)
    few = len(calls)
    monkeypatch.setattr(screen, "FEWEST_LINES", 0)
    assert screen_lines(shown) == found
    assert few <= screen.HEIGHT**2 < len(calls) - few


def test_growth_is_calculated_once_per_grid(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run", 150, is_small))
    grid, other = prepare(run).cost_grid, prepare(run).cost_grid
    found = growth(grid, "V", "seconds")
    assert growth(grid, "V", "seconds") is found
    assert growth(other, "V", "seconds") is not found
    assert growth(other, "V", "seconds") == found != growth(grid, "V", "peak_bytes")


def test_files_for_readers_have_the_first_rows_and_name_the_file_with_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = read_run(write_run(tmp_path / "run", 200))
    whole = files.render(run)
    monkeypatch.setattr(files, "MOST_ROWS", 3)
    short = files.render(run)
    changed = {name for name in whole if whole[name] != short[name]}
    assert {"ratios.md", "ratios.tex", "speed.md", files.INDEX} <= changed
    assert not any(name.endswith(".csv") for name in changed)
    rows = len(whole["speed.csv"].splitlines()) - 1
    assert f"The first 3 of {rows} rows; speed.csv has all. " in short["speed.md"]
    assert short["speed.md"].count("\n| torch") + short["speed.md"].count("\n| jax") == 3
    first = [line.split() for line in whole["speed.tex"].splitlines()]
    found = [line.split() for line in short["speed.tex"].splitlines()]
    (at,) = [n for n, words in enumerate(found) if words == ["\\midrule"]]
    assert found[at : at + 4] == first[at : at + 4]
    assert found[at + 4] == ["\\bottomrule"]
