"""Rounds that are improbable among the others of their cell are set aside, and nothing else is."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from synthbench.analysis import outlying_rounds
from synthbench.analysis.cell_noise import FEWEST_CELLS, CellNoise, noise_of_cells
from synthbench.analysis.comparison import Comparison, estimate
from synthbench.analysis.multiple_testing import holm
from synthbench.analysis.outlying_rounds import LEAST, set_aside, usual_spread
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.prepared import prepare
from synthbench.report.screen.head import trust
from synthbench.report.tables.noise import noise
from synthbench.report.tables.ratios import ratios
from synthbench.store import read_run
from tests import test_tables as made

CELLS = 22
SPREAD, SLOWED = 0.02, 0.5  # of log times; what an outlier adds


def test_the_usual_spread_is_found_although_a_tenth_of_the_processes_are_slow() -> None:
    rng = np.random.default_rng(0)
    logs = rng.normal(0, SPREAD, (500, 4)) + SLOWED * (rng.random((500, 4)) < 0.1)
    found = usual_spread([dict(enumerate(own)) for own in logs.tolist()])
    assert found == pytest.approx(SPREAD, rel=0.3)
    assert found < 0.3 * np.std(logs)


def test_without_two_rounds_there_is_no_spread() -> None:
    assert usual_spread([{0: 1.0}, {}]) == 0.0


@settings(max_examples=50)
@given(
    st.lists(st.floats(-0.05, 0.05), min_size=3, max_size=8),
    st.sampled_from([-2.0, 1.5, 3.0]),
    st.integers(0, 8),
)
def test_mean_and_error_are_those_of_the_rounds_that_agree(
    usual: list[float], far: float, place: int
) -> None:
    logs = dict(enumerate([*usual[:place], far, *usual[place:]]))
    found = set_aside(logs, spread=0.05)
    (aside,) = found.aside
    assert logs[aside] == far
    assert found.degrees == len(usual) - 1
    values = list(found.logs.values())
    assert list(found.logs) == list(logs)
    assert np.mean(values) == pytest.approx(np.mean(usual), abs=1e-12)
    # Yuen's standard error of a trimmed mean, with the outlier moved to its nearest neighbour
    moved = np.array([*usual, max(usual) if far > 0 else min(usual)])
    error = np.sum((moved - np.mean(moved)) ** 2) / (len(usual) * (len(usual) - 1))
    assert np.var(values, ddof=1) / len(values) == pytest.approx(error, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(
    "logs",
    [
        [0.0, 0.5],  # nobody can say which
        [0.0, 0.001, 0.5],
        [0.0, 0.0, 0.5, 0.5],
        [0.0, 0.3, 0.5, 0.7, 0.9],
        [0.0, 0.03, 0.06, 0.25],  # the cell is noisier than others
        [0.0, 0.0, 0.0, 0.5, 0.5],  # three of five are too few
        [0.0, 0.01, 0.02, 0.03],  # as usual
    ],
)
def test_where_the_rounds_do_not_agree_all_of_them_count(logs: list[float]) -> None:
    found = set_aside(dict(enumerate(logs)), spread=0.02)
    assert found.aside == frozenset()
    assert found.logs == dict(enumerate(logs))


def test_less_than_a_percent_is_never_set_aside() -> None:
    logs = {0: 0.0, 1: 0.0, 2: 0.0, 3: 0.9 * LEAST}
    assert set_aside(logs, spread=0.0).aside == frozenset()
    assert set_aside(logs | {3: 1.1 * LEAST}, spread=0.0).aside == {3}


def noise_of(logs: NDArray[np.float64]) -> dict[int, CellNoise]:
    cells = {cell: dict(enumerate(own.tolist())) for cell, own in enumerate(logs)}
    return noise_of_cells({"group": cells}, lambda *_: "")


def test_a_slow_process_changes_no_interval() -> None:
    logs = np.random.default_rng(1).normal(0, SPREAD, (CELLS, 4))
    before = noise_of(logs)
    logs[5, 2] += SLOWED
    after = noise_of(logs)
    assert {cell: one.rounds.aside for cell, one in after.items() if one.rounds.aside} == {5: {2}}
    for cell in range(CELLS):
        assert after[cell].between.variance == pytest.approx(before[cell].between.variance, rel=0.3)
    kept = np.delete(logs[5], 2)
    effects = np.median(logs - logs.mean(axis=1, keepdims=True), axis=0)
    expected = np.mean(kept - np.delete(effects, 2)) + np.mean(effects)
    assert np.mean(list(after[5].rounds.logs.values())) == pytest.approx(expected, abs=1e-3)


def test_what_a_round_did_to_all_cells_is_no_reason_to_set_it_aside() -> None:
    logs = np.random.default_rng(2).normal(0, SPREAD, (CELLS, 4))
    logs[:, 1] += 1.0
    assert not any(one.rounds.aside for one in noise_of(logs).values())


def found_in(tables: int, slowdown: float, processes: NDArray[np.float64]) -> tuple[int, int]:
    """How many tables have a variant that surely differs, and how many variants of them do."""
    rng, some, found = np.random.default_rng(3), 0, 0
    for _ in range(tables):
        logs = rng.choice(processes, (CELLS, 5))
        logs[1:] += math.log(slowdown)
        noise = noise_of(logs)
        base = noise[0].rounds.logs
        estimates = estimate(
            [
                Comparison(
                    tuple([base[n] - log for n, log in noise[cell].rounds.logs.items()]),
                    0.0,
                    sides=(noise[cell].between, noise[0].between),
                )
                for cell in range(1, CELLS)
            ]
        )
        surely = [p < 0.05 for p in holm([one.p_value for one in estimates])]
        some, found = some + any(surely), found + sum(surely)
    return some, found


def test_verdicts_are_right_although_a_tenth_of_the_processes_are_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 100 tables, 10 with a false verdict would be likely if 5 in 100 had one."""
    rng = np.random.default_rng(7)
    processes = rng.normal(0, SPREAD, 5000) + SLOWED * (rng.random(5000) < 0.1)
    assert found_in(100, 1.0, processes)[0] <= 10
    _, found = found_in(40, 1.1, processes)
    monkeypatch.setattr(outlying_rounds, "FEWEST_ROUNDS", 6)
    _, before = found_in(40, 1.1, processes)
    assert found >= 0.6 * 40 * (CELLS - 1)
    assert before <= 0.6 * found


def test_a_grid_sets_a_slow_process_aside() -> None:
    seconds = np.exp(np.random.default_rng(4).normal(-5, 0.01, (FEWEST_CELLS, 4)))
    seconds[1, 3] *= 2
    names = ["V", *(f"FR(rank={n})" for n in range(1, FEWEST_CELLS))]
    records = [
        made.record(made.cell(name, "torch", "train", 64), float(time), round=number)
        for name, own in zip(names, seconds, strict=True)
        for number, time in enumerate(own)
    ]
    baseline, slow = (Key("", name, "torch", "train", 64) for name in names[:2])
    grid = Grid(records, names)
    compared = grid.compare(slow, baseline, "V")
    assert isinstance(compared, Comparison)
    assert np.mean(compared.log_ratios) == pytest.approx(
        np.log(seconds[0]).mean() - np.log(seconds[1, :3]).mean(), abs=0.01
    )
    assert grid.set_aside == {("", "torch", "train", 64): (1, 4 * FEWEST_CELLS)}
    memory = grid.compare(slow, baseline, "V", cost="peak_bytes")
    assert isinstance(memory, str) or len(memory.log_ratios) == 4


def test_a_reader_is_told_how_many_processes_were_set_aside() -> None:
    results = Path(__file__).parents[1] / "results" / "seq_scaling"
    with_some, without = (
        prepare(read_run(results / name)) for name in ("cpu-four-rounds", "cpu-first")
    )
    grid = with_some.cost_grid
    count, processes = (sum(pair[n] for pair in grid.set_aside.values()) for n in (0, 1))
    assert 0 < count < processes == 4 * len(grid.keys)
    table = noise(grid, with_some.context)
    assert table is not None
    assert table.columns[-1].label == "set aside"
    assert sum(int(str(row[-1]).split(" of ")[0]) for row in table.rows) == count
    assert f"Without {count} of {processes} processes" in ratios(grid, with_some.context).note
    assert f"outliers {count}" in trust(with_some)
    table = noise(without.cost_grid, without.context)
    assert table is not None
    assert "set aside" not in [*[column.label for column in table.columns], table.note]
    assert not any("outliers" in part for part in trust(without))
