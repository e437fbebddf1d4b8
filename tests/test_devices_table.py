"""The table `devices`: steps per second, speed and efficiency, from records alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from synthbench.record import Calibration, Evaluation, Measurements, Outcome, Record, Training
from synthbench.report.data.table import Table
from synthbench.report.tables.catalog import make_tables, tables_from
from synthbench.report.text.markdown import markdown
from tests.test_paired_ratio import with_warning
from tests.test_places_in_tables import FAST, SLOW, prepared
from tests.test_tables import cell, record, run_of


def trained(
    devices: int, seconds: float | None, round: int = 0, outcome: Outcome = "ok", **fields: Any
) -> Record:
    """A training of 30 steps that took these seconds; None: it has no evaluation."""
    at = cell("V", "torch", "train", 64, task="counting", devices=devices, **fields)
    evaluations = [] if seconds is None else [
        Evaluation(
            step=step, tokens=step, seconds=seconds * step / 30, flops=None, train_loss=None,
            loss=1.0, metrics={"a": 1},
        )
        for step in (0, 30)
    ]  # fmt: skip
    training = Training(metric="a", data={}, steps=30, evaluations=evaluations)
    return Record(
        id=at.id, round=round, cell=at, outcome=outcome,
        measurements=Measurements(training=training),
        started="2026-01-02T03:04:05+00:00", wall_seconds=1,
    )  # fmt: skip


def table(*records: Record) -> Table:
    (found,) = (one for one in make_tables(run_of(list(records))) if one.name == "devices")
    return found


def test_efficiency_is_a_ratio_within_rounds() -> None:
    """The second round was twice as slow for both: that is no gain and no loss."""
    found = table(
        trained(1, 10.0), trained(2, 6.25), trained(4, 5.0),
        trained(1, 20.0, round=1), trained(2, 12.5, round=1), trained(4, 10.0, round=1),
    )  # fmt: skip
    assert [row[:4] for row in found.rows] == [("torch", "V", 64, n) for n in (1, 2, 4)]
    assert [row[4] for row in found.rows] == pytest.approx([2.25, 3.6, 4.5])
    assert [row[5] for row in found.rows] == pytest.approx([1, 1.6, 2])
    assert [row[6] for row in found.rows] == pytest.approx([1, 0.8, 0.5])
    assert [row[7:] for row in found.rows] == [
        (1, 1),
        (pytest.approx(0.8), pytest.approx(0.8)),
        (pytest.approx(0.5), pytest.approx(0.5)),
    ]
    text = markdown(found)
    assert "scaling efficiency (same batch) %" in text
    assert " 80.0 |" in text


def test_the_interval_of_an_efficiency_is_that_of_the_rounds() -> None:
    seconds = (6.0, 6.5, 7.0)
    rounds = [one for n, time in enumerate(seconds) for one in (
        trained(1, 10.0, round=n), trained(2, time, round=n))]  # fmt: skip
    logs = [math.log(10 / time) for time in seconds]
    half = stats.t.ppf(0.975, 2) * stats.sem(logs)
    _, *values = table(*rounds).rows[1][5:]
    assert values == pytest.approx(
        [math.exp(np.mean(logs) + sign * half) / 2 for sign in (0, -1, 1)]
    )
    machines = [r.model_copy(update={"machine": f"m{r.round // 2}"}) for r in rounds]
    means = [float(np.mean(logs[:2])), logs[2]]
    half = stats.t.ppf(0.975, 1) * stats.sem(means)
    _, *values = table(*machines).rows[-1][-4:]
    assert values == pytest.approx(
        [math.exp(np.mean(means) + sign * half) / 2 for sign in (0, -1, 1)]
    )
    apart = [r.model_copy(update={"machine": f"m{r.cell.devices}"}) for r in rounds]
    assert table(*apart).rows[1][-4:] == ("no shared round",) * 4


def test_only_cells_that_are_equal_in_all_else_are_compared() -> None:
    found = table(trained(1, 10.0, seed=0), trained(2, 5.0, seed=0), trained(2, 5.0, seed=1))
    assert [row[0] for row in found.rows] == ["seed=0", "seed=0", "seed=1"]
    assert [row[6:] for row in found.rows] == [
        (1, 1, 1, 1),
        (2, 1, "one round", "one round"),
        ("no cell with 1 device",) * 4,
    ]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (trained(2, 5.0, outcome="crashed"), ("crashed",) * 5),
        (trained(2, None), ("not measured", *["no shared round"] * 4)),
    ],
)
def test_what_is_missing_has_a_reason(other: Record, words: tuple[str, ...]) -> None:
    assert table(trained(1, 10.0), other).rows[1][4:] == words


def test_a_failed_cell_of_one_device_is_no_reference() -> None:
    """It may have times: those of its other rounds, or from before it failed."""
    for failed in (
        [trained(1, 10.0, outcome="quarantined")],
        [trained(1, 10.0), trained(1, 10.0, round=1, outcome="quarantined")],
    ):
        found = table(*failed, trained(2, 6.25), trained(2, 6.25, round=1))
        assert found.rows[0][4:] == ("quarantined",) * 5
        assert found.rows[1][4:] == (pytest.approx(4.8), *["1 device quarantined"] * 4)


def stepped(devices: int, seconds: float, round: int = 0, **fields: Any) -> Record:
    """A cell of the task cost whose median step took these seconds."""
    mode = fields.pop("mode", "train")
    return record(cell("V", "torch", mode, 64, devices=devices), seconds, round=round, **fields)


def test_cells_of_the_task_cost_have_rows_as_trainings_do() -> None:
    """The second round was twice as slow for both: that is no gain and no loss."""
    found = table(
        stepped(1, 0.010), stepped(2, 0.008), stepped(4, 0.005),
        stepped(1, 0.020, round=1), stepped(2, 0.016, round=1), stepped(4, 0.010, round=1),
    )  # fmt: skip
    assert [row[:4] for row in found.rows] == [("torch", "V", 64, n) for n in (1, 2, 4)]
    assert [row[4] for row in found.rows] == pytest.approx([75, 93.75, 150])
    assert [row[5] for row in found.rows] == pytest.approx([1, 1.25, 2])
    assert [row[6] for row in found.rows] == pytest.approx([1, 0.625, 0.5])
    for row, efficiency in zip(found.rows, (1, 0.625, 0.5), strict=True):
        assert row[7:] == pytest.approx((efficiency, efficiency))


def test_ratios_of_cost_cells_do_not_follow_the_speed_of_the_machine() -> None:
    """Two devices met a machine that was 1.5 times as slow in one round, and so did the product."""

    def beside(one: Record, slow: float) -> Record:
        timing = one.measurements.timing
        assert timing is not None
        fixed = Calibration(after=[0], seconds=[0.004 * slow])
        timing = timing.model_copy(update={"calibration": fixed})
        changed = one.measurements.model_copy(update={"timing": timing})
        return one.model_copy(update={"measurements": changed})

    slow = (1.0, 1.5, 1.0)
    found = table(*(
        one for n, factor in enumerate(slow) for one in (
            beside(stepped(1, 0.010, n), 1.0), beside(stepped(2, 0.005 * factor, n), factor))
    ))  # fmt: skip
    assert found.rows[1][5] == pytest.approx(2)
    assert found.rows[1][7:] == pytest.approx((1, 1))


def test_the_interval_of_a_cost_cell_is_that_of_the_rounds() -> None:
    seconds = (0.0060, 0.0065, 0.0070)
    rounds = [one for n, time in enumerate(seconds) for one in (
        stepped(1, 0.010, n), stepped(2, time, n))]  # fmt: skip
    logs = [math.log(0.010 / time) for time in seconds]
    half = stats.t.ppf(0.975, 2) * stats.sem(logs)
    _, *values = table(*rounds).rows[1][5:]
    assert values == pytest.approx(
        [math.exp(np.mean(logs) + sign * half) / 2 for sign in (0, -1, 1)]
    )


def test_a_cost_cell_that_failed_has_its_outcome() -> None:
    found = table(stepped(1, 0.010), stepped(2, 0.008, outcome="crashed"))
    assert found.rows[1][4:] == ("crashed",) * 5


def test_only_train_steps_are_shown() -> None:
    found = table(
        stepped(1, 0.010), stepped(2, 0.008), stepped(1, 0.002, mode="forward"),
        stepped(2, 0.002, mode="forward", outcome="unsupported"),
    )  # fmt: skip
    assert [row[3] for row in found.rows] == [1, 2]


def test_a_run_with_trainings_and_cost_cells_has_both() -> None:
    found = table(stepped(1, 0.010), stepped(2, 0.008), trained(1, 10.0), trained(2, 6.25))
    rows = {(row[0], row[4]): row[7] for row in found.rows}
    assert {setting for setting, _ in rows} == {"task=cost", "task=counting"}
    assert rows["task=cost", 2] == pytest.approx(0.625)
    assert rows["task=counting", 2] == pytest.approx(0.8)


def on(machines: str, length: int) -> list[Record]:
    """Both rounds of one and of two devices; `machines` has the name of that of each round."""
    return [
        record(
            cell("V", "torch", "train", length, devices=devices), 0.01 / devices, round=number
        ).model_copy(update={"machine": machine})
        for devices in (1, 2)
        for number, machine in enumerate(machines)
    ]


def test_rows_say_which_kind_of_machine_or_how_many_measured_them() -> None:
    of_numbers = table(*on("aa", 64), *on("ab", 128))
    assert [row[0] for row in of_numbers.rows] == ["machines=1"] * 2 + ["machines=2"] * 2
    assert [row[6] for row in of_numbers.rows] == [1, 2, 1, 2]
    run = prepared([*on("aa", 64), *on("bb", 128)], ("a", SLOW, 1e9), ("b", FAST, 1e9))
    (of_kinds,) = (one for one in tables_from(run) if one.name == "devices")
    assert [row[0] for row in of_kinds.rows] == (
        ["machine=fast-2-cores"] * 2 + ["machine=slow-1-cores"] * 2
    )


def test_the_rate_of_a_disturbed_cell_is_marked() -> None:
    """One of two rounds of the cell with two devices was disturbed."""
    found = table(
        stepped(1, 0.1), stepped(1, 0.1, round=1),
        stepped(2, 0.05), with_warning(stepped(2, 0.05, round=1)),
    )  # fmt: skip
    assert [row[4] for row in found.shown] == ["10.0", "20.0*"]
    assert not any("*" in str(value) for row in found.shown for value in row[5:])


def test_a_run_on_single_devices_has_no_such_table() -> None:
    names = [one.name for one in make_tables(run_of([trained(1, 10.0)]))]
    assert "devices" not in names
    assert "devices" not in [
        one.name for one in make_tables(run_of([record(cell("V", "torch", "train", 64))]))
    ]
