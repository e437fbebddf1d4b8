"""`synthbench history`: the order of runs, and changes whose place and size are known."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthbench.analysis.change_points import FEWEST, change_points
from synthbench.cli import history as command
from synthbench.measure.environment import ROOT, commit_dates
from synthbench.report.compare.side import Side
from synthbench.report.history.as_json import histories_json
from synthbench.report.history.history import Chosen, History, Line, histories
from synthbench.report.history.tables import bars_of, change_text, history_tables
from synthbench.run_info import Machine
from tests import test_calibration as calibrated
from tests.command_line import Captured, refused, synthbench
from tests.test_compare import LENGTHS, VARIANTS, on_machine, records, store
from tests.test_tables import cell, record, run_of

COMMITS = [letter * 40 for letter in "abcdefgh"]
Changes = dict[tuple[str, int], float]


# --- change points -------------------------------------------------------------------------------


def noisy(rng: np.random.Generator, runs: int, noise: float) -> list[float]:
    return list(rng.normal(-3, noise, runs))


@pytest.mark.parametrize("runs", [4, 8, 30])
@pytest.mark.parametrize("size", [1, 20])
def test_at_most_5_percent_of_histories_have_a_false_change(runs: int, size: int) -> None:
    """Series of different noise in each history; 100 histories."""
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(100):
        series = [noisy(rng, runs, 0.01 * rng.lognormal(0, 0.5)) for _ in range(size)]
        wrong += any(change_points(series))
    assert wrong <= 5


@pytest.mark.parametrize("at", [3, 5, 7])
def test_a_change_of_a_tenth_is_found_where_it_is(at: int) -> None:
    rng = np.random.default_rng(4)
    found = 0
    for _ in range(50):
        series = [noisy(rng, 10, 0.01) for _ in range(20)]
        series[7] = [x + math.log(1.1) * (i >= at) for i, x in enumerate(series[7])]
        found += change_points(series)[7] == [at]
    assert found >= 45


def test_a_change_of_all_series_is_found_in_all() -> None:
    rng = np.random.default_rng(5)
    series = [[x + 0.1 * (i >= 4) for i, x in enumerate(noisy(rng, 9, 0.005))] for _ in range(8)]
    assert change_points(series) == [[4]] * 8


def test_a_run_that_was_slow_once_is_two_changes() -> None:
    rng = np.random.default_rng(6)
    series = [noisy(rng, 12, 0.005) for _ in range(10)]
    series[0][5] += 0.3
    assert change_points(series)[0] == [5, 6]


@settings(max_examples=30)
@given(st.lists(st.lists(st.floats(-5, 5), min_size=0, max_size=12), max_size=4), st.floats(-3, 3))
def test_the_unit_of_time_changes_nothing(series: list[list[float]], shift: float) -> None:
    rounded = [[round(x, 3) for x in one] for one in series]
    found = change_points(rounded)
    assert [len(one) for one in found] == [
        0 if len(values) < FEWEST else len(one) for one, values in zip(found, rounded, strict=True)
    ]
    assert change_points([[x + round(shift, 3) for x in one] for one in rounded]) == found


def test_equal_times_have_no_change_and_few_runs_neither() -> None:
    assert change_points([[1.0] * 6, [1.0, 9.0, 9.0]]) == [[], []]
    assert change_points([]) == []
    assert change_points([[1.0, 1.0, 1.0, 2.0, 2.0, 2.0]]) == [[3]]  # without any noise


# --- runs ----------------------------------------------------------------------------------------


def side(number: int, changes: Changes | None = None, **changed: Any) -> Side:
    """Run `number` of commit `number`, with a noise of its own below 1%."""
    scale = 1 + 0.004 * math.sin(2.3 * number)
    git = {"git": {"commit": COMMITS[number], "dirty": False}}
    content = on_machine("some-cpu", **git) | {
        "started": f"2026-02-{number + 1:02}T00:00:00+00:00"
    }  # fmt: skip
    run = run_of(records(changes, scale=scale), **content | changed)
    return Side("", f"made_up/{number}", run)


def slow_from(first: int, count: int = 8) -> list[Side]:
    """Eight runs; R takes 1.2 times as long at 256 from one of them on."""
    return [side(n, {("R", 256): 1.2} if n >= first else None) for n in range(count)]


def only(sides: list[Side], *arguments: Any, **options: Any) -> History:
    (found,) = histories(sides, *arguments, **options)
    return found


def test_a_change_is_marked_at_its_run() -> None:
    found = only(slow_from(5), {}, detect=change_points)
    assert [line.place.variant for line in found.lines] == list(VARIANTS)
    assert {line.place.seq_len for line in found.lines} == {max(LENGTHS)}
    changed = {line.place.variant: line.changes for line in found.lines}
    assert changed["V"] == changed["FR(rank=32)+V"] == []
    (one,) = changed["R"]
    assert (one.at, one.verdict) == (5, "slower")
    assert one.ratio == pytest.approx(1.2, rel=0.01)
    assert change_text(found, one) == f"slower x{one.ratio:.2f} from run 6 (fffffff)"
    rows = history_tables(found, marked=True)[1].rows
    assert [row[-1] for row in rows] == ["none", change_text(found, one), "none"]


def test_a_change_below_the_margin_is_not_marked() -> None:
    quiet = [
        Side("", str(n), run_of(records({("R", 256): 1.02} if n >= 4 else None))) for n in range(8)
    ]
    assert only(quiet, {}, detect=change_points).lines[1].changes == []
    margin = {"margin": 0.01, "baseline": "V"}
    strict = [Side("", one.name, run_of(one.run.records, settings=margin)) for one in quiet]
    lines = {line.place.variant: line for line in only(strict, {}, detect=change_points).lines}
    assert [one.at for one in lines["R"].changes] == [4]


def test_the_longest_length_is_that_of_the_newest_run_of_each_variant() -> None:
    """An older run went further, and another variant is only in that one: no line is hidden."""
    long = record(cell("V", "torch", "train", 4096), 1.0)
    sides = slow_from(5)
    first = [*sides[0].run.records, long]
    sides[0] = side(0)
    sides[0] = Side("", "made_up/0", run_of(first, **on_machine("some-cpu")))
    for at in range(1, 8):
        kept = [one for one in sides[at].run.records if one.cell.variant != "FR(rank=32)+V"]
        started = f"2026-02-{at + 1:02}T00:00:00+00:00"
        sides[at] = Side("", str(at), run_of(kept, **on_machine("some-cpu"), started=started))
    found = only(sides, {}, detect=change_points)
    shown = {line.place.variant: line.place.seq_len for line in found.lines}
    assert shown == {"V": 256, "R": 256, "FR(rank=32)+V": 256}
    changed = {line.place.variant: line.changes for line in found.lines}
    assert [one.at for one in changed["R"]] == [5]
    (only_long,) = only(sides, {}, Chosen(lengths=(4096,))).lines
    assert only_long.seconds[0] == 1.0


def test_times_with_and_without_a_product_have_one_scale() -> None:
    """Relative times are those of fast steps: where products begin nothing became faster."""
    without = Side("", "0", run_of(calibrated.records(fixed=False), **on_machine("some-cpu")))
    same = [
        Side("", str(n), run_of(calibrated.records(), **on_machine("some-cpu"))) for n in (1, 2)
    ]
    for line in only([without, *same], {}).lines:
        assert line.seconds[0] == line.seconds[1] == line.seconds[2]


def test_runs_are_in_the_order_of_their_commits() -> None:
    """The commit of run 0 is the newest; commit 2 is not known, so its start counts."""
    dates = {
        COMMITS[0]: datetime(2026, 3, 1, tzinfo=UTC),
        COMMITS[1]: datetime(2026, 1, 1, tzinfo=UTC),
    }
    found = only([side(n) for n in range(3)], dates)
    assert [point.name[-1] for point in found.points] == ["1", "2", "0"]
    assert [point.is_commit_date for point in found.points] == [True, False, True]
    runs, _ = history_tables(found, marked=False)
    assert [row[2] for row in runs.rows] == [
        "2026-01-01 00:00", "2026-02-03 00:00 (start)", "2026-03-01 00:00",
    ]  # fmt: skip


def test_runs_of_one_commit_are_in_the_order_of_their_starts() -> None:
    later, sooner = side(0, started="2026-02-02T00:00:00Z"), side(0, started="2026-02-01T00:00:00Z")
    found = only([later, sooner], {COMMITS[0]: datetime(2026, 1, 1, tzinfo=UTC)})
    assert [point.started[9] for point in found.points] == ["1", "2"]


@pytest.mark.parametrize("started", ["yesterday", "0001-01-01T00:00:00+14:00", ""])
def test_a_start_that_is_no_date_comes_first(started: str) -> None:
    found = only([side(0), side(1, started=started)], {})
    assert found.points[0].started == started
    assert len(history_tables(found, marked=False)) == 2


def test_machines_and_devices_have_histories_of_their_own() -> None:
    other = side(3, machines=[Machine(id="another")])
    found = histories([side(0), other, side(1)], {})
    assert [(one.machine, len(one.points)) for one in found] == [("another", 1), ("some-cpu", 2)]


def shards(number: int, slow_length: int) -> Side:
    """A run of two machines, of which `b` needs twice the time and measures this length."""
    scaled = records({(variant, slow_length): 2.0 for variant in VARIANTS})
    found = [
        one.model_copy(update={"machine": "b" if one.cell.seq_len == slow_length else "a"})
        for one in scaled
    ]
    started = f"2026-02-{number + 1:02}T00:00:00+00:00"
    machines = [Machine(id=name) for name in "ab"[:: 1 - 2 * (number % 2)]]
    return Side("", f"made_up/{number}", run_of(found, machines=machines, started=started))


def test_a_cell_that_another_machine_measured_is_a_gap() -> None:
    """The machines swap lengths from run 4 on; no cell has become faster or slower."""
    sides = [shards(n, 128 if n < 4 else 256) for n in range(8)]
    chosen = Chosen(variants=("R",), lengths=(128, 256))
    found = histories(sides, {}, chosen, detect=change_points)
    assert [(one.machine, len(one.points)) for one in found] == [("a", 8), ("b", 8)]
    at_128, at_256 = (pytest.approx(1e-4 * length, rel=1e-3) for length in (128, 256))
    twice = [pytest.approx(2e-4 * length, rel=1e-3) for length in (128, 256)]
    gap = [None] * 4
    assert [[line.seconds for line in one.lines] for one in found] == [
        [gap + [at_128] * 4, [at_256] * 4 + gap],
        [[twice[0]] * 4 + gap, gap + [twice[1]] * 4],
    ]
    assert not any(line.changes for one in found for line in one.lines)


def test_the_order_of_the_machines_of_a_run_does_not_matter() -> None:
    """All of them measured each cell."""
    sides = []
    for number, names in enumerate(("ab", "ba")):
        own = [one.model_copy(update={"machine": "ab"[one.round % 2]}) for one in records()]
        machines = [Machine(id=name) for name in names]
        sides.append(Side("", str(number), run_of(own, machines=machines)))
    found = only(sides, {})
    assert (found.machine, len(found.points)) == ("a, b", 2)
    assert all(None not in line.seconds for line in found.lines)


def test_a_run_without_a_cell_is_in_the_history_of_its_machine() -> None:
    empty = Side("", "empty", run_of([], machines=[Machine(id="some-cpu")]))
    unknown = Side("", "unknown", run_of([], machines=[]))
    found = histories([side(0), empty, unknown], {})
    assert [(one.machine, len(one.points)) for one in found] == [
        ("some-cpu", 2), ("unknown machine", 1),
    ]  # fmt: skip


def test_a_cell_that_a_run_did_not_measure_is_a_gap() -> None:
    sides = slow_from(5)
    kept = [one for one in sides[2].run.records if one.cell.variant != "R"]
    sides[2] = Side("", "gap", run_of(kept))
    failed = [
        record(cell("R", "torch", "train", 256), outcome="oom") if one.cell == cell(
            "R", "torch", "train", 256) and one.round == 0 else one
        for one in sides[3].run.records
    ]  # fmt: skip
    sides[3] = Side(
        "", sides[3].name, sides[3].run.__class__(Path(), sides[3].run.info, failed, [])
    )
    dates: dict[str, datetime] = {}
    line = next(x for x in only(sides, dates, detect=change_points).lines if x.place.variant == "R")
    assert len(line.seconds) == 8
    assert sum(s is None for s in line.seconds) == 2
    assert bars_of(line, 1.03).count("·") == 2
    (one,) = line.changes
    names = [point.name for point in only(sides, dates).points]
    assert names[one.at] == "made_up/5"


def test_cells_are_chosen() -> None:
    found = only([side(0)], {}, Chosen(variants=("V", "R"), lengths=(64, 128)))
    assert [(line.place.variant, line.place.seq_len) for line in found.lines] == [
        ("V", 64), ("V", 128), ("R", 64), ("R", 128),
    ]  # fmt: skip
    assert only([side(0)], {}, Chosen(frameworks=("jax",))).lines == []


def test_bars_do_not_exaggerate_noise() -> None:
    place = only([side(0)], {}).lines[0].place
    assert bars_of(Line(place, [1.0, 1.0, None, 2.0], []), 1.03) == "▁▁·█"
    assert set(bars_of(Line(place, [1.0, 1.03, 1.01], []), 1.03)) <= set("▁▂▃▄▅")


def test_bars_of_equal_times_need_no_margin() -> None:
    place = only([side(0)], {}).lines[0].place
    assert bars_of(Line(place, [0.5], []), 1.0) == "▁"
    assert bars_of(Line(place, [2.0, None, 2.0], []), 1.0) == "▁·▁"
    assert bars_of(Line(place, [1.0, 2.0], []), 1.0) == "▁█"


def test_json_has_every_run_and_number() -> None:
    found = only(slow_from(5), {}, detect=change_points)
    content = json.loads(histories_json([found], marked=True))["histories"][0]
    assert [run["name"] for run in content["runs"]] == [f"made_up/{n}" for n in range(8)]
    lines = {line["variant"]: line for line in content["lines"]}
    assert lines.keys() == set(VARIANTS)
    assert all(len(line["seconds"]) == 8 for line in lines.values())
    assert [change["run"] for change in lines["R"]["changes"]] == [5]
    unmarked = json.loads(histories_json([found], marked=False))["histories"][0]
    assert {line["changes"] for line in unmarked["lines"]} == {None}


# --- commits -------------------------------------------------------------------------------------


def test_the_dates_of_commits_that_are_known(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *who, *arguments],
            check=True, capture_output=True, text=True,
            env={**os.environ, "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z"},
        )  # fmt: skip
        return done.stdout.strip()

    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "first")
    commit = git("rev-parse", "HEAD")
    expected = {commit: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)}
    assert commit_dates([commit, "0" * 40, "--output=x", "HEAD", ""], tmp_path) == expected
    assert commit_dates(["0" * 40], tmp_path) == {}
    assert commit_dates([], ROOT) == {}
    assert commit_dates([commit], tmp_path / "missing") == {}


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    for one in slow_from(5):
        store(one.run, folder / one.name)
    return folder


def test_the_command_shows_the_runs_and_marks_the_change(results: Path, capsys: Captured) -> None:
    where = ("--results", str(results))
    code, out, err = synthbench(capsys, "history", "made_up", *where)
    assert (code, err) == (0, "")
    assert "made_up/7" in out
    (line,) = [line for line in out.splitlines() if "slower x1.20 from run 6" in line]
    assert line.startswith("torch      train  R")
    code, out, _ = synthbench(capsys, "history", "made_up", "--format", "markdown", *where)
    assert code == 0 and out.count("\n| torch") == 3


def test_without_ruptures_the_history_has_no_marks_and_says_why(
    results: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    code, out, err = synthbench(
        capsys, "history", "made_up", "--results", str(results), "--format", "json"
    )
    assert code == 0
    assert json.loads(out)["histories"][0]["lines"][0]["changes"] is None
    assert err.count("\n") == 1 and "pip install 'synthbench[history]'" in err


def test_mistakes_are_one_line(results: Path, capsys: Captured) -> None:
    where = ("--results", str(results))
    message = refused(capsys, "history", "made_op", *where)
    assert "suite with runs 'made_op' not known. Did you mean made_up?" in message
    message = refused(capsys, "history", "made_up", "--variants", "glu", *where)
    assert message.count("\n") == 1 and "no run of made_up has measured such a cell" in message


def test_the_library_is_loaded_only_where_changes_are_looked_for() -> None:
    code = "import sys, synthbench.cli.app, synthbench.report.history.history; "
    code += "assert 'ruptures' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)


def test_a_machine_without_chosen_cells_has_no_empty_table(
    tmp_path: Path, capsys: Captured
) -> None:
    both = shards(0, slow_length=64)
    store(both.run, tmp_path / "made_up" / "0")
    where = ("--results", str(tmp_path), "--format", "json")
    shown = json.loads(synthbench(capsys, "history", "made_up", *where)[1])["histories"]
    assert len(shown) == 2
    chosen = synthbench(capsys, "history", "made_up", "--seq-len", "64", *where)[1]
    (only_one,) = json.loads(chosen)["histories"]
    assert {one["machine"] for one in shown} > {only_one["machine"]}
