"""Tables from records: the numbers in them are known, and the same records give the same bytes."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from synthbench.metrics import scientific, si, significant
from synthbench.record import (
    Flops,
    Measurements,
    Memory,
    Outcome,
    Parity,
    PredictedMemory,
    Record,
    Timing,
)
from synthbench.report.data.frame import pool_rounds, record_frame
from synthbench.report.data.table import Table, for_reading
from synthbench.report.tables.catalog import TABLES, make_tables
from synthbench.report.text.comma_separated import csv_text
from synthbench.report.text.files import check, render, write_tables
from synthbench.report.text.latex import latex
from synthbench.report.text.markdown import markdown
from synthbench.report.text.terminal import print_tables
from synthbench.run_info import Machine, RunInfo
from synthbench.store import Run, append_record, create_run, read_run
from synthbench.suites.cell import Cell

SUITE_ORDER = ["V", "R", "FR(rank=32)+V", "D(tie_query=true)+V", "linformer"]
LENGTHS = (64, 128)
# Tables of other runs: test_forms.py, test_metrics.py, test_choices_table.py, test_throughput.py,
# test_decode_cells.py, test_quality.py, test_devices_table.py, test_calibration.py.
OF_OTHER_RUNS = {
    "noise", "forms", "kernels", "metrics", "choices", "throughput", "decode", "quality",
    "quality_frameworks", "final_metrics", "learning_curves", "devices", "machine_speed",
}  # fmt: skip
SPECIAL = r"50% of #1 & $2 _x_ {y} ~z^ \w | <b>"


def cell(variant: str, framework: str, mode: str, seq_len: int, **fields: Any) -> Cell:
    sizes = {"batch": 2, "model": "mixer", "d_model": 64, "heads": 4, "max_len": seq_len}
    compiled = "eager" if framework == "torch" else "compiled"
    content = {"variant": variant, "framework": framework, "mode": mode, "seq_len": seq_len}
    return Cell.from_flat(**(content | sizes | {"compile": compiled} | fields))


def record(
    cell: Cell,
    seconds: float = 0.01,
    outcome: Outcome = "ok",
    reason: str = "",
    round: int = 0,
    **changes: Any,
) -> Record:
    """A record whose samples are 0.9, 1 and 1.1 times `seconds`; no timing if it is not ok."""
    timing = Timing(
        build_seconds=0.001, compile_seconds=0.002, first_step_seconds=0.003, warmup_steps=3,
        samples=[0.9 * seconds, seconds, 1.1 * seconds], clock="perf_counter, waited",
    )  # fmt: skip
    parity = Parity(
        against="numpy", forward=1e-7, gradient=2e-7, tolerance=2e-5, gradient_tolerance=3e-5,
        passed=True,
    )  # fmt: skip
    measured: dict[str, Any] = {
        "parameters": 16384, "constants": 0, "declared_parameters": 16384, "parity": parity,
        "timing": timing if outcome == "ok" else None,
        "flops": Flops(formula=6291456, traced=6291456, traced_tool="tool"),
        "memory": Memory(parameters=1, optimizer=1, batch=1, peak=2_500_000, method="rss"),
    }  # fmt: skip
    return Record(
        id=cell.id, round=round, cell=cell, outcome=outcome, reason=reason,
        measurements=Measurements(**measured | changes), started="2026-01-02T03:04:05+00:00",
        wall_seconds=1.0,
    )  # fmt: skip


def all_records() -> Iterator[Record]:
    """Two rounds of two frameworks; every outcome, and one cell that was never run."""
    ways = [(f, m, n) for f in ("torch", "jax") for m in ("forward", "train") for n in LENGTHS]
    not_ok: dict[tuple[str, str, str, int], Outcome] = {
        ("R", "torch", "train", 128): "oom",
        ("R", "jax", "train", 128): "oom_predicted",
        ("FR(rank=32)+V", "torch", "train", 128): "timeout",
        ("FR(rank=32)+V", "jax", "train", 128): "quarantined",
        ("linformer", "torch", "forward", 128): "unsupported",
    }
    medians = {  # seconds of round 0 and round 1
        ("V", "torch", "forward", 128): (0.010, 0.020),
        ("R", "torch", "forward", 128): (0.005, 0.004),
        ("R", "jax", "forward", 128): (0.001, 0.001),
    }
    for variant in SUITE_ORDER:
        for framework, mode, length in ways:
            place = (variant, framework, mode, length)
            if place == ("D(tie_query=true)+V", "torch", "forward", 64):
                continue
            for number in (0, 1):
                outcome = not_ok.get(place, "ok")
                if place == ("linformer", "jax", "forward", 64) and number == 1:
                    outcome = "crashed"
                seconds = medians.get(place, (0.01, 0.01))[number]
                reason = "" if outcome == "ok" else f"because of {SPECIAL}"
                busy = {"warnings": ["busy"]} if place == ("V", "jax", "train", 64) else {}
                yield record(cell(*place), seconds, outcome, reason, number, **busy)


def info(**changes: Any) -> RunInfo:
    environment = {
        "cpu": "Some CPU", "cores": [0, 1], "memory_bytes": 8_000_000_000, "python": "3.11.7",
        "versions": {"torch": "2.13.0", "jax": "0.10.2", "flax": None},
    }  # fmt: skip
    content: dict[str, Any] = {
        "suite": "made_up", "settings": {"axes": {"variant": SUITE_ORDER}, "baseline": "V"},
        "device": "cpu", "started": "2026-01-02T03:04:05+00:00",
        "finished": "2026-01-02T03:14:05+00:00",
    }  # fmt: skip
    ceilings = changes.pop("ceilings", [])
    machine = Machine(id="some-cpu", environment=environment, ceilings=ceilings)
    return RunInfo(**{"machines": [machine]} | content | changes)


def run_of(records: Sequence[Record], **changes: Any) -> Run:
    return Run(Path("results/made_up/one"), info(**changes), records, [])


@pytest.fixture(scope="module")
def tables() -> dict[str, Table]:
    return {table.name: table for table in make_tables(run_of(list(all_records())))}


def value(table: Table, column: str, **keys: Any) -> Any:
    """The value of a column in the one row that has these keys."""
    frame = table.frame
    for key, wanted in keys.items():
        frame = frame[frame[key] == wanted]
    assert len(frame) == 1
    return frame[column].iloc[0]


def made(records: list[Record]) -> dict[str, Table]:
    return {table.name: table for table in make_tables(run_of(records))}


def test_medians_and_ratios_are_the_known_ones(tables: dict[str, Table]) -> None:
    assert value(tables["forward"], "torch steps/s", variant="V") == pytest.approx(1 / 0.015)
    assert value(tables["forward"], "torch speed vs V", variant="V") == 1
    # 2 in the first round and 5 in the second: the ratio is taken within a round
    assert value(tables["forward"], "torch speed vs V", variant="R") == pytest.approx(10**0.5)
    assert value(tables["forward"], "torch MB", variant="R") == pytest.approx(2.5)
    assert value(tables["forward"], "parameters", variant="R") == 16384
    across = tables["frameworks"]
    assert value(across, "L=128", mode="forward", variant="R") == pytest.approx(20**0.5)  # 5 and 4
    steady = value(tables["phases"], "torch steady", mode="forward", variant="V")
    assert steady == pytest.approx(15)  # milliseconds


def test_the_interval_spans_those_of_the_rounds(tables: dict[str, Table]) -> None:
    v = cell("V", "torch", "forward", 64)
    pooled = pool_rounds(record_frame([record(v, 0.010), record(v, 0.020, round=1)])).iloc[0]
    assert pooled["low_seconds"] == pytest.approx(0.009)
    assert pooled["high_seconds"] == pytest.approx(0.022)
    assert pooled["half_width_percent"] == pytest.approx(50 * (0.022 - 0.009) / 0.015)
    assert (pooled["rounds"], pooled["samples"]) == (2, 6)
    assert "of several rounds, half of what their intervals span" in tables["speed"].note


def test_an_outcome_stands_in_place_of_a_number(tables: dict[str, Table]) -> None:
    summary = tables["train"]
    train, words = "torch steps/s", {"R": "oom", "FR(rank=32)+V": "timeout"}
    for variant, word in words.items():
        assert value(summary, train, variant=variant) == word
        assert value(tables["train"], "torch speed vs V", variant=variant) == word
        assert value(tables["train"], "torch MB", variant=variant) == word
    assert value(tables["train"], "jax steps/s", variant="R") == "oom_predicted"
    assert value(tables["train"], "jax steps/s", variant="FR(rank=32)+V") == "quarantined"
    assert value(tables["forward"], "torch MB", variant="linformer") == "unsupported"
    across = tables["frameworks"]
    assert value(across, "L=128", mode="train", variant="R") == "jax oom_predicted"
    assert value(across, "L=128", mode="forward", variant="linformer") == "torch unsupported"
    row = {"framework": "jax", "mode": "forward", "variant": "linformer"}
    assert value(tables["speed"], "L=64 steps/s", **row) == "crashed"  # in one of two rounds
    row = {"framework": "torch", "mode": "forward", "variant": "D(tie_query=true)+V"}
    assert value(tables["memory"], "L=64 MB", **row) == "not run"


def test_no_value_is_blank(tables: dict[str, Table]) -> None:
    assert tables.keys() == TABLES.keys() - OF_OTHER_RUNS
    for table in tables.values():
        assert table.rows
        for row in table.rows:
            assert len(row) == len(table.columns)
            for column, entry in zip(table.columns, row, strict=True):
                assert entry != ""
                assert not isinstance(entry, float) or math.isfinite(entry)
                assert for_reading(column, entry).strip()


def test_every_cell_without_numbers_is_listed_with_its_reason(tables: dict[str, Table]) -> None:
    outcomes = tables["outcomes"]
    found = {(r[0], *r[1:4]): r[4:] for r in outcomes.rows}
    assert len(found) == len(outcomes.rows) == 7
    assert found["linformer", "jax", "forward", 64][:2] == ("crashed", "1 of 2")
    assert found["R", "torch", "train", 128] == ("oom", "2 of 2", f"because of {SPECIAL}")
    assert found["D(tie_query=true)+V", "torch", "forward", 64][0] == "not run"
    assert outcomes.note == "7 of 40 cells have no numbers."
    fine = make_tables(run_of([record(cell("V", "torch", "forward", 64))]))[-1]
    assert (fine.rows, fine.note) == ([], "All 1 cells are ok.")


def test_cost_names_each_disagreement() -> None:
    v, r, d = (cell(name, "torch", "forward", 64) for name in ("V", "R", "D"))
    wrong = Flops(formula=100, traced=110, traced_tool="tool")
    unknown = Flops(formula=100, traced=100, traced_tool="tool", uncounted={"aten::fft": 2})
    records = [record(v), record(r, flops=wrong, parameters=5), record(d, flops=unknown)]
    cost = made(records)["cost"]
    assert value(cost, "agreement", variant="V") == "agree"
    assert value(cost, "agreement", variant="R") == "parameters: torch -99.97%; FLOPs: torch +10%"
    assert value(cost, "agreement", variant="D") == "torch did not count aten::fft (2)"
    assert value(cost, "FLOPs traced torch", variant="R") == 110


def test_cost_shows_what_xla_counts_and_flags_what_is_far_off() -> None:
    near = Flops(formula=100, traced=100, traced_tool="tool", compiler=120.0)
    halved = Flops(formula=100, traced=100, traced_tool="tool", compiler=50.0)
    records = [
        record(cell("V", "jax", "forward", 64), flops=near),
        record(cell("R", "jax", "forward", 64), flops=halved),
        record(cell("V", "torch", "forward", 64)),
    ]
    cost = made(records)["cost"]
    assert value(cost, "FLOPs XLA", variant="V") == 120
    assert value(cost, "agreement", variant="R") == "XLA -50%"
    assert "counts the body of a loop once" in cost.note
    alone = made([record(cell("V", "torch", "forward", 64))])["cost"]
    assert "FLOPs XLA" not in [column.name for column in alone.columns]


def test_operations_no_counter_knows_are_named_once_for_all_lengths() -> None:
    def unknown(**met: int) -> Flops:
        return Flops(formula=100, traced=100, traced_tool="tool", uncounted=met)

    short, long = (cell("R", "torch", "train", n) for n in LENGTHS)
    records = [record(short, flops=unknown(fft=2, sort=1)), record(long, flops=unknown(fft=3))]
    verdict = value(made(records)["train_flops"], "agreement", variant="R")
    assert verdict == "torch did not count fft (3); torch did not count sort (1) at length 64"


def test_train_flops_stand_beside_three_times_the_formula() -> None:
    def counted(traced: int, compiler: float | None = None) -> Flops:
        return Flops(formula=100, traced=traced, traced_tool="tool", compiler=compiler)

    records = [
        record(cell("V", "torch", "train", 64), flops=counted(270)),
        record(cell("V", "jax", "train", 64), flops=counted(270, 300.0)),
        record(cell("R", "torch", "train", 64), flops=counted(270)),
        record(cell("R", "jax", "train", 64), flops=counted(300, 100.0)),
    ]
    table = made(records)["train_flops"]
    assert value(table, "3 x formula", variant="V") == 300
    assert value(table, "torch torch counter", variant="V") == 270
    assert value(table, "torch of 3 x formula", variant="V") == pytest.approx(0.9)
    assert value(table, "jax of 3 x formula", variant="R") == 1
    assert value(table, "jax XLA", variant="V") == 300
    assert value(table, "agreement", variant="V") == "agree"
    assert value(table, "agreement", variant="R") == "FLOPs: torch and jax differ; XLA -66.67%"
    forward = made([record(cell("V", "torch", "forward", 64))])["train_flops"]
    assert (forward.rows, forward.note) == ([], "This run has no cells of mode train.")


def test_memory_is_taken_apart_and_set_beside_the_prediction() -> None:
    memory = Memory(parameters=40, optimizer=80, batch=5, peak=1125, method="rss")
    predicted = PredictedMemory(bytes=900, tool="a plan")
    v, r = (cell(name, "torch", "train", 64) for name in ("V", "R"))
    records = [
        record(v, memory=memory, predicted_memory=predicted),
        record(r, outcome="oom_predicted", reason="big", memory=None, predicted_memory=predicted),
        record(cell("D", "torch", "train", 64), memory=memory),  # of an older version
    ]
    parts = made(records)["memory_parts"]
    row = next(row for row in parts.rows if row[1] == "V")
    assert row[2:8] == (40, 80, 5, 1000, 1125, 900)
    assert value(parts, "torch predicted/peak", variant="V") == pytest.approx(0.8)
    assert value(parts, "torch predicted", variant="R") == pytest.approx(0.0009)
    assert value(parts, "torch peak", variant="R") == "oom_predicted"
    assert value(parts, "torch predicted", variant="D") == "not measured"
    assert "before the first step: torch by a plan." in parts.note


def test_parity_shows_the_largest_error_and_the_verdict() -> None:
    def checked(forward: float | None, passed: bool, against: str = "numpy") -> Parity:
        return Parity(against=against, forward=forward, gradient=forward, tolerance=2e-5,
                      gradient_tolerance=None, passed=passed)  # fmt: skip

    v64, v128 = (cell("V", "torch", "forward", n) for n in LENGTHS)
    r, fnet = cell("R", "torch", "forward", 64), cell("fnet", "torch", "forward", 64)
    records = [
        record(v64, parity=checked(1e-6, True)),
        record(v128, parity=checked(3e-6, True)),
        record(r, outcome="quarantined", reason="off", parity=checked(0.5, False)),
        record(fnet, parity=checked(None, True, "none: the mixer gives no reference")),
    ]
    parity = made(records)["parity"]
    assert value(parity, "forward error", variant="V") == 3e-6
    assert value(parity, "verdict", variant="V") == "passed"
    assert value(parity, "forward error", variant="R") == 0.5
    assert value(parity, "verdict", variant="R") == "FAILED in 1 of 1 cells"
    assert value(parity, "forward error", variant="fnet") == "no reference"
    assert value(parity, "verdict", variant="fnet") == "not checked"


@pytest.mark.parametrize("alone", [True, False])
def test_an_infinite_error_is_not_lost_in_a_stored_record(alone: bool) -> None:
    """JSON has no infinity: a stored record has none in its place."""
    own, beside = (cell("R", "torch", "train", n) for n in LENGTHS)
    broken = record(own, outcome="quarantined", reason="off", parity=checked(False, math.inf))
    stored = Record.model_validate_json(broken.model_dump_json())
    records = [stored] if alone else [stored, record(beside, parity=checked(True, 1e-7))]
    parity = made(records)["parity"]
    assert value(parity, "forward error", variant="R") == math.inf
    assert value(parity, "verdict", variant="R").startswith("FAILED in 1 of")
    assert "not finite" in markdown(parity)


def checked(passed: bool, forward: float | None = 1e-6) -> Parity:
    return Parity(against="numpy", forward=forward, gradient=forward, tolerance=2e-5,
                  gradient_tolerance=None, passed=passed)  # fmt: skip


@pytest.mark.parametrize("other", ["crashed", "ok"])
def test_a_failed_check_does_not_disappear_behind_another_round(other: Outcome) -> None:
    """A round that crashed has no check, and one that is ok has passed it."""
    own, beside = cell("R", "torch", "train", 64), cell("R", "torch", "train", 128)
    for first in (0, 1):
        parity = made([
            record(own, outcome="quarantined", round=first, parity=checked(False, 0.5)),
            record(own, outcome=other, round=1 - first,
                   parity=checked(True) if other == "ok" else None),
            record(beside, parity=checked(True)),
        ])["parity"]  # fmt: skip
        assert value(parity, "verdict", variant="R") == "FAILED in 1 of 2 cells"
        assert value(parity, "forward error", variant="R") == 0.5
        assert value(parity, "forward tolerance", variant="R") == 2e-5
        assert value(parity, "against", variant="R") == "numpy"


def test_a_check_that_could_not_be_made_has_failed() -> None:
    """Its process died each time; not so where the suite wants no check, or time ran out."""
    lengths = [cell("R", "torch", "train", n) for n in LENGTHS]
    crashed = record(lengths[0], outcome="quarantined", parity=None)
    alone = made([crashed])["parity"]
    assert [row[2:] for row in alone.rows] == [
        (*["quarantined"] * 5, "FAILED in 1 of 1 cells")
    ]  # fmt: skip
    beside = made([crashed, record(lengths[1], parity=checked(True))])["parity"]
    assert value(beside, "verdict", variant="R") == "FAILED in 1 of 2 cells"
    assert value(beside, "forward error", variant="R") == 1e-6
    unchecked = made([record(lengths[0], outcome="unchecked", parity=None)])["parity"]
    assert value(unchecked, "verdict", variant="R") == "not checked"
    settings = {"axes": {"variant": ["R"]}, "measure": {"parity": False}}
    (off,) = (one for one in make_tables(run_of([crashed], settings=settings))
              if one.name == "parity")  # fmt: skip
    assert value(off, "verdict", variant="R") == "not checked"


def test_a_mixer_without_reference_may_fail_the_check() -> None:
    """It reads what a mask hides."""
    fnet = cell("fnet", "torch", "train", 64)
    found = checked(False, None).model_copy(update={"against": "none: no reference"})
    parity = made([record(fnet, outcome="quarantined", parity=found)])["parity"]
    assert value(parity, "verdict", variant="fnet") == "FAILED in 1 of 1 cells"
    assert value(parity, "forward error", variant="fnet") == "no reference"


def test_seeds_share_a_check() -> None:
    def of(task: str, passed: bool, **fields: Any) -> list[Record]:
        made = [cell("V", "torch", "train", 64, task=task, seed=n, **fields) for n in (0, 1, 2)]
        return [record(own, parity=checked(passed or own.seed < 2)) for own in made]

    assert made(of("cost", True))["parity"].rows == [
        ("V", "torch", 1e-6, 2e-5, 1e-6, "no reference", "numpy", "passed")
    ]
    two = made([*of("cost", True, batch=2), *of("cost", False, batch=4)])["parity"]
    assert [(*row[:3], row[-1]) for row in two.rows] == [
        ("batch=2", "V", "torch", "passed"),
        ("batch=4", "V", "torch", "FAILED in 1 of 3 cells"),
    ]


def test_rows_follow_the_suite_and_the_order_of_records_changes_nothing() -> None:
    records = list(all_records())
    shuffled = random.Random(1).sample(records, len(records))
    assert render(run_of(records)) == render(run_of(shuffled))
    summary = made(shuffled)["forward"]
    assert [row[0] for row in summary.rows] == SUITE_ORDER


def test_what_differs_in_more_than_the_variant_is_not_mixed() -> None:
    records = [
        record(cell(variant, "torch", "forward", 64, dtype=dtype), seconds)
        for variant in ("V", "R")
        for dtype, seconds in (("float32", 0.01), ("bfloat16", 0.002))
    ]
    summary = made(records)["forward"]
    row = {"setting": "dtype=bfloat16", "variant": "R"}
    assert value(summary, "torch steps/s", **row) == pytest.approx(500)
    assert value(summary, "torch speed vs V", **row) == 1  # to the V of its own setting
    assert any("differ in dtype" in line for line in summary.context)


def test_a_run_without_the_baseline_shows_no_ratio() -> None:
    summary = made([record(cell("R", "torch", "forward", 64))])["forward"]
    assert not [column for column in summary.columns if column.metric == "ratio"]


def test_a_resumed_record_counts_in_place_of_the_earlier() -> None:
    v = cell("V", "torch", "forward", 64)
    frame = record_frame([record(v, outcome="crashed", reason="lost"), record(v, 0.02)])
    assert list(frame["outcome"]) == ["ok"]
    assert frame["median_seconds"].iloc[0] == pytest.approx(0.02)


def test_large_counts_stay_exact_beside_missing_ones() -> None:
    large = Flops(formula=2**60 + 1, traced=None, traced_tool=None)
    v, r = (cell(name, "torch", "forward", 64) for name in ("V", "R"))
    cost = made([record(v, flops=large), record(r, flops=None)])["cost"]
    assert value(cost, "FLOPs formula", variant="V") == 2**60 + 1
    assert value(cost, "FLOPs traced torch", variant="V") == "not measured"


def test_an_empty_and_an_unfinished_run_have_tables_that_say_so() -> None:
    for table in make_tables(run_of([], finished=None)):
        assert table.rows == []
        assert any("not finished" in line for line in table.context)


def test_context_says_what_was_measured(tables: dict[str, Table]) -> None:
    text = "\n".join(tables["train"].context)
    for part in (
        "model mixer, d_model 64, heads 4, head_dim 16, max_len = the length, batch 2, float32",
        "torch eager, jax compiled", "Device cpu: Some CPU, 2 cores, 8.0 GB", "Python 3.11.7",
        "torch 2.13.0, jax 0.10.2.", "suite made_up, 2 rounds",
    ):  # fmt: skip
        assert part in text


def test_latex_escapes_and_markdown_rows_hold_together(tables: dict[str, Table]) -> None:
    text = latex(tables["outcomes"])
    assert r"D(tie\_query=true)+V" in text
    assert r"50\% of \#1 \& \$2 \_x\_ \{y\} \textasciitilde{}z\^{} \textbackslash{}w" in text
    assert r"$\pm$" in latex(tables["speed"]).partition(r"\toprule")[2]
    for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert text.count(rule) == 1
    for table in tables.values():
        width = len(table.columns)
        body = latex(table).partition(r"\midrule")[2].partition(r"\bottomrule")[0]
        for line in body.strip().splitlines():
            assert line.replace(r"\&", "").count("&") == width - 1
        lines = [line for line in markdown(table).splitlines() if line.startswith("|")]
        assert len(lines) == len(table.rows) + 2
        assert {line.replace(r"\|", "").count("|") for line in lines} == {width + 1}


def test_csv_reads_back_as_the_numbers(tables: dict[str, Table]) -> None:
    for table in tables.values():
        read = pd.read_csv(io.StringIO(csv_text(table)), dtype=str, keep_default_na=False)
        assert list(read.columns) == [column.name for column in table.columns]
        for column in table.frame.columns:
            for text, entry in zip(read[column], table.frame[column], strict=True):
                same = text == entry if isinstance(entry, str) else float(text)
                assert same == pytest.approx(entry) if same is not True else same


def test_the_terminal_form_fits_its_width(tables: dict[str, Table]) -> None:
    out = io.StringIO()
    print_tables(Console(file=out, width=100), list(tables.values()))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].endswith("every variant at length 128")
    rows = [line for line in lines if line.startswith("FR(rank=32)+V ")]
    assert any("66.7" in line for line in lines if line.startswith("V "))
    assert any("quarantined" in line for line in rows)


def test_a_long_text_wraps_before_a_key_is_cut() -> None:
    reason = "attention has no form 'fused'; use form auto or reference."
    cells = [
        record(cell("D(tie_query=true)+V", "torch", "train", 64, form="reference")),
        record(cell("D(tie_query=true)+V", "torch", "train", 64, form="fused"),
               outcome="unsupported", reason=reason),
    ]  # fmt: skip
    out = io.StringIO()
    print_tables(Console(file=out, width=100), [made(cells)["outcomes"]])
    assert out.getvalue().count("form=fused  D(tie_query=true)+V  torch") == 2
    assert max(map(len, out.getvalue().splitlines())) <= 100
    assert "reference." in out.getvalue()


def made_run(folder: Path) -> Path:
    create_run(folder, info())
    for one in all_records():
        append_record(folder, one)
    return folder


def test_check_finds_a_changed_byte_a_missing_and_a_strange_file(tmp_path: Path) -> None:
    run_dir = made_run(tmp_path / "run")
    tables = run_dir / "tables"
    assert len(check(run_dir)) == 1 + 3 * len(TABLES.keys() - OF_OTHER_RUNS)  # all missing
    write_tables(read_run(run_dir))
    first = {path.name: path.read_bytes() for path in tables.iterdir()}
    assert {"README.md", "train.md", "train.csv", "train.tex"} <= first.keys()
    assert check(run_dir) == []
    write_tables(read_run(run_dir))
    assert {path.name: path.read_bytes() for path in tables.iterdir()} == first

    content = bytearray(first["speed.csv"])
    content[-3] ^= 1
    (tables / "speed.csv").write_bytes(content)
    (tables / "cost.tex").unlink()
    (tables / "notes.md").write_text("mine")
    problems = check(run_dir)
    assert len(problems) == 3
    for problem, words in zip(
        problems,
        (("cost.tex", "missing"), ("notes.md", "not a table"), ("speed.csv", "does not match")),
        strict=True,
    ):  # fmt: skip
        assert all(word in problem for word in words)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (significant(1234.5), "1234"), (significant(12.345), "12.3"), (significant(9.999), "10.0"),
        (significant(0.01234), "0.0123"), (significant(0), "0"), (si(950), "950"),
        (si(131072), "131.1k"), (si(999_999_999), "1.000G"), (si(6291456), "6.291M"),
        (scientific(3.14e-7), "3.1e-07"), (scientific(0), "0"),
    ],
)  # fmt: skip
def test_numbers_are_printed_with_the_digits_asked_for(text: str, expected: str) -> None:
    assert text == expected
