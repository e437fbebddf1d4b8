"""benchmarks/verdicts.py: where there is hardly any noise, every verdict is right."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.verdicts import (
    FEW_CELLS,
    LEAST,
    SPREADS,
    TABLES,
    VARIANTS,
    Drawn,
    Processes,
    Recorded,
    by_table,
    described,
    recorded_noise,
    sequential,
    unequal,
)
from synthbench.analysis.comparison import Rule
from synthbench.report.data.grid import Grid
from synthbench.report.data.prepared import prepare
from synthbench.store import read_run
from synthbench.suites.suite import load_suite
from tests.test_paired_ratio import timed, with_warning
from tests.test_tables import cell, record

RUNS = Path(__file__).resolve().parents[1] / "results" / "seq_scaling"
CALM = Recorded([Processes(np.array([-1e-4, 0.0, 1e-4]))], is_paired=False)
PAIRED = CALM._replace(is_paired=True)


@pytest.mark.parametrize("noise", [CALM, PAIRED], ids=["times", "ratios"])
@pytest.mark.parametrize(("slowdown", "verdict"), [(1.0, "same"), (1.02, "same"), (1.1, "slower")])
def test_without_noise_every_verdict_is_right(
    noise: Recorded, slowdown: float, verdict: str
) -> None:
    judged, rounds = sequential(noise, slowdown, 6, np.random.default_rng(0))
    assert Counter(one.verdict for one in judged) == {verdict: TABLES * VARIANTS}
    assert rounds == LEAST


def test_with_too_much_noise_all_rounds_are_used_and_nothing_is_said() -> None:
    noisy = CALM._replace(by_length=[Processes(np.array([-0.5, 0.5]))])
    judged, rounds = sequential(noisy, 1.0, 4, np.random.default_rng(0))
    assert {one.verdict for one in judged} == {"undecided"}
    assert rounds == 4


def test_false_verdicts_are_counted() -> None:
    said = described(CALM, 1.1, runs=2, at_most=3)
    assert said.startswith(
        "10% slower: a false verdict in 0.0% of tables, 0% of runs; slower 100.0%"
    )
    assert "false verdict in 100.0% of tables, 100% of runs; same" in described(
        CALM, 1.01, runs=2, at_most=3
    )


def test_the_noise_is_what_rounds_of_one_cell_differ_by() -> None:
    """Two rounds of 10 and 20 ms: each is log(sqrt(2)) from the mean, times sqrt(2)."""
    one = cell("V", "torch", "train", 64)
    long = cell("V", "torch", "train", 128)
    found = [record(one, 0.01), record(one, 0.02, round=1), record(cell("R", "jax", "train", 64))]
    found += [record(long, 0.01), record(long, 0.03, round=1)]
    noise = recorded_noise(Grid(found, ["V", "R"]), "torch")
    assert not noise.is_paired
    for of_length, ratio in zip(noise.by_length, (2, 3), strict=True):
        half = np.log(ratio) / np.sqrt(2)
        assert sorted(of_length.logs) == pytest.approx([-half, half])


def test_the_noise_of_ratios_within_processes_is_what_these_differ_by() -> None:
    """Whatever the times were: 2 and 3 times as fast."""
    found = [
        timed("V", 0.5, 0), timed("V", 0.7, 1), timed("R", 0.01, 0, 0.02), timed("R", 0.5, 1, 1.5),
        *[timed("V", 0.1, number, 0.1, replica=1) for number in range(2)],
    ]  # fmt: skip
    noise = recorded_noise(Grid(found, ["V", "R"]), "torch")
    assert noise.is_paired
    half = np.log(1.5) / np.sqrt(2)
    assert sorted(noise.by_length[0].logs) == pytest.approx([-half, 0, 0, half])


def test_disturbed_cells_have_a_noise_of_their_own() -> None:
    """R, with a warning in its second round; the calm cells at its length keep their noise."""
    lengths = [64 + n for n in range(FEW_CELLS)]
    calm = [cell("V", "torch", "train", length) for length in lengths]
    disturbed = [cell("R", "torch", "train", length) for length in lengths]
    found = [record(one, seconds, round=n) for one in calm for n, seconds in enumerate((1, 2))]
    found += [record(one, 1) for one in disturbed]
    found += [with_warning(record(one, 5, round=1)) for one in disturbed]
    noise = recorded_noise(Grid(found, ["V", "R"]), "torch")
    assert noise.share == 0.5
    calm_half, half = (np.log(ratio) / np.sqrt(2) for ratio in (2, 5))
    assert sorted(noise.by_length[0].logs) == pytest.approx([-calm_half, calm_half])
    assert sorted(noise.disturbed.logs) == pytest.approx([-half] * FEW_CELLS + [half] * FEW_CELLS)


def test_few_disturbed_cells_count_among_the_others() -> None:
    """A cell alone would give the same two values again and again, as if it had no noise."""
    found = [
        record(cell(variant, "torch", "train", 64), seconds, round=number)
        for variant in ("V", "R")
        for number, seconds in enumerate((0.01, 0.02))
    ]
    found[-1] = with_warning(found[-1])
    noise = recorded_noise(Grid(found, ["V", "R"]), "torch")
    assert noise.share == 0 and len(noise.disturbed.logs) == 0
    assert len(noise.by_length[0].logs) == 4


def test_a_cell_without_a_baseline_beside_it_is_left_out() -> None:
    names = [f"FR(rank={rank})" for rank in range(1, 21)]
    found = [timed(name, 0.5, number, 1.0) for name in names for number in (0, 1)]
    found += [timed("V", 0.1, number, 0.1, replica=1) for number in (0, 1)]
    found += [timed(alone, 0.5, number) for alone in ("V", "D") for number in (0, 1)]
    noise = recorded_noise(Grid(found, ["V", *names, "D"]), "torch")
    assert noise.is_paired
    assert len(noise.by_length[0].logs) == 2 * len([*names, "the twin of V"])


@pytest.mark.parametrize("is_paired", [False, True], ids=["times", "ratios"])
def test_disturbed_cells_leave_the_verdicts_of_others_as_they_are(is_paired: bool) -> None:
    """The first two variants of each table, whose noise is a hundred times that of others."""
    rng = np.random.default_rng(0)
    first = 1 if is_paired else 2
    disturbed = np.zeros((TABLES, first + VARIANTS), dtype=bool)
    disturbed[:, first : first + 2] = True
    noise = rng.normal(0, 1, (LEAST, *disturbed.shape)) * np.where(disturbed, 0.3, 0.003)
    run = Drawn(
        noise, np.ones_like(noise), np.full((TABLES, VARIANTS), LEAST), is_paired, disturbed
    )
    found = [[one.verdict for one in table] for table in by_table(run.judged(1.1, Rule()))]
    assert {one for table in found for one in table[2:]} == {"slower"}
    of_disturbed = [one for table in found for one in table[:2]]
    assert of_disturbed.count("undecided") > 0.8 * len(of_disturbed)


def test_noise_of_ratios_has_no_part_of_a_baseline_that_they_share() -> None:
    """With the same spread of each process, times have the noise of two in a ratio."""
    rng = np.random.default_rng(3)
    noise = Recorded([Processes(rng.normal(0, 0.02, 4000))], is_paired=True)
    of_ratios, of_times = (
        np.var([one.estimate.log_ratio for _ in range(3)
                for one in sequential(each, 1.0, LEAST, rng)[0]])
        for each in (noise, noise._replace(is_paired=False))
    )  # fmt: skip
    assert of_ratios == pytest.approx(0.02**2 / LEAST, rel=0.25)
    assert of_times == pytest.approx(2 * 0.02**2 / LEAST, rel=0.4)


@pytest.mark.long_but("*scatter-jax")
@pytest.mark.parametrize("framework", ["torch", "jax"])
@pytest.mark.parametrize(
    ("name", "of_five_percent", "undecided"),
    [
        ("cpu-second-machine", 0.90, 0.05),
        ("cpu-slower-machine", 0.85, 0.15),
        ("cpu-reference", 0.85, 0.30),
    ],
    ids=["a quiet machine", "one whose cores move apart", "one whose samples scatter"],
)
def test_seq_scaling_gives_the_verdicts_that_it_asks_for(
    name: str, of_five_percent: float, undecided: float, framework: str
) -> None:
    """On the noise of a committed run, with the suite's own rounds and resolution."""
    settings = load_suite("seq_scaling").settings("cpu")
    rounds = settings.measure.most_rounds
    noise = recorded_noise(prepare(read_run(RUNS / name)).cost_grid, framework)
    rng, runs = np.random.default_rng(0), 20
    found: dict[float, Counter[str]] = {}
    wrong = 0
    for slowdown in (1.0, 1.05, 1.10):
        found[slowdown] = Counter()
        for _ in range(runs):
            judged, _ = sequential(noise, slowdown, rounds, rng, settings.resolution)
            found[slowdown].update(one.verdict for one in judged)
            if slowdown == 1.0:
                wrong += sum(
                    any(one.verdict in ("faster", "slower") for one in table)
                    for table in by_table(judged)
                )
    every = runs * TABLES * VARIANTS
    assert wrong <= 0.05 * runs * TABLES
    assert found[1.10]["slower"] >= 0.95 * every
    assert found[1.05]["slower"] >= of_five_percent * every
    assert found[1.0]["undecided"] <= undecided * every


@pytest.mark.parametrize("spreads", SPREADS.values(), ids=SPREADS.keys())
def test_with_many_rounds_unequal_spreads_give_few_false_verdicts(
    spreads: tuple[float, list[float]],
) -> None:
    assert unequal(spreads, 12, 200) <= 0.05


@pytest.mark.parametrize("rounds", [2, 3, 4])
@pytest.mark.parametrize("spreads", SPREADS.values(), ids=SPREADS.keys())
def test_with_few_rounds_too_the_share_of_false_verdicts_is_small(
    spreads: tuple[float, list[float]], rounds: int
) -> None:
    """Not only where all are alike; of 2 rounds, docs/measuring.md states the limit."""
    assert unequal(spreads, rounds, 200) <= (0.16 if rounds == 2 else 0.1)


def test_hardly_any_noise_gives_no_false_verdict() -> None:
    assert unequal((1e-4, [1e-4] * VARIANTS), 2, 20) == 0
