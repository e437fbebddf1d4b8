"""Exports: pytest-benchmark's own program reads the file, CSV and Parquet hold the records."""

from __future__ import annotations

import csv
import io
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_benchmark.stats import Stats

from synthbench import load_results
from synthbench.cli.app import main
from synthbench.record import Flops, Measurements, Memory, Outcome, Record, Timing
from synthbench.report.export.benchmark import benchmark_names, group_names, setting_name
from synthbench.report.export.frames import SAMPLES, csv_text, parquet_frame, write_parquet
from synthbench.report.export.pytest_benchmark import pytest_benchmark_text, same_machine
from synthbench.report.export.quartiles import benchmark_statistics
from synthbench.run_info import Machine, RunInfo
from synthbench.store import append_record, create_run, read_run
from synthbench.suites.cell import Cell

Captured = pytest.CaptureFixture[str]
REFERENCE = Path(__file__).parents[1] / "results" / "seq_scaling" / "cpu-reference"


def cell(variant: str = "V", seq_len: int = 128, **fields: Any) -> Cell:
    content = {
        "variant": variant, "framework": "torch", "mode": "forward", "seq_len": seq_len, "batch": 1,
        "model": "mixer", "d_model": 8, "heads": 2, "max_len": seq_len, "compile": "eager",
    }  # fmt: skip
    return Cell.from_flat(**(content | fields))


def record(
    cell: Cell,
    *samples: float,
    round: int = 0,
    outcome: Outcome = "ok",
    reason: str = "",
    attempt: int = 0,
) -> Record:
    timing = Timing(
        build_seconds=1, compile_seconds=2, first_step_seconds=3, warmup_steps=2,
        samples=list(samples), clock="perf_counter, waited",
    )  # fmt: skip
    measured = Measurements(
        form="reference",
        parameters=256,
        flops=Flops(formula=2**60 + 1, traced=None, traced_tool=None, uncounted={"fft": round}),
        memory=Memory(parameters=1, optimizer=1, batch=1, peak=100 + round, method="rss"),
        timing=timing if samples else None,
        warnings=["busy"] if round else [],
    )
    return Record(
        id=cell.id, round=round, attempt=attempt, cell=cell, outcome=outcome, reason=reason,
        measurements=measured, started="2026-01-01", wall_seconds=1,
    )  # fmt: skip


def some_records() -> list[Record]:
    """V in two rounds, R slower, D ok in one round only, and a cell that ran out of memory."""
    return [
        record(cell("V"), 0.9),  # does not count: measured again
        record(cell("V"), 0.010, 0.012, 0.011, attempt=1),
        record(cell("V"), 0.020, 0.021, round=1),
        record(cell("R"), 0.100, 0.200),
        record(cell("D"), 0.001),
        record(cell("D"), round=1, outcome="crashed", reason="it fell"),
        record(cell("V", 256), outcome="oom", reason="too large"),
    ]


def made_run(folder: Path, records: list[Record] | None = None, **changes: Any) -> Path:
    environment = {"cpu": "Some CPU", "cpu_count": 4, "cores": [0, 1], "python": "3.11.7"}
    content: dict[str, Any] = {
        "suite": "tiny", "settings": {"measure": {"min_samples": 2}}, "device": "cpu",
        "machines": [Machine(id="some-cpu", environment=environment)],
        "started": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip
    create_run(folder, RunInfo(**content | changes))
    for one in some_records() if records is None else records:
        append_record(folder, one)
    return folder


def export(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `synthbench export`."""
    capsys.readouterr()
    code: Any = 0
    try:
        main(["export", *arguments])
    except SystemExit as exit:
        code = exit.code or 0
    return code, *capsys.readouterr()


# --- pytest-benchmark ----------------------------------------------------------------------------


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=40))
def test_statistics_are_those_of_pytest_benchmark(samples: list[float]) -> None:
    theirs: Any = Stats()  # type: ignore[no-untyped-call]
    for sample in samples:
        theirs.update(sample)
    expected = theirs.as_dict() | {"data": samples, "iterations": 1}
    assert benchmark_statistics(samples) == expected


def test_a_cell_is_named_by_what_is_special_of_it() -> None:
    usual = cell("FR(rank=32)+V", 64)
    special = cell(batch=8, dtype="bfloat16", form="fused", compile="compiled", device="cuda:1")
    compiled = cell(framework="jax", compile="compiled")
    twin, twelve = cell(replica=1), cell(d_model=12)
    cells = [usual, special, compiled, twin, cell(), twelve]
    names = benchmark_names(cells)
    assert names[usual.id] == "FR(rank=32)+V-torch-forward-64"
    assert names[special.id] == "V-torch-forward-128-batch8-bfloat16-fused-compiled-cuda1"
    assert setting_name(special) == "torch-forward-128-batch8-bfloat16-fused-compiled-cuda1"
    assert names[compiled.id] == "V-jax-forward-128"
    assert names[twin.id] == "V-torch-forward-128-twin"
    assert names[twelve.id] == f"V-torch-forward-128-{twelve.id}"  # another has the name too
    assert len(set(names.values())) == len(cells)


def test_cells_of_one_group_differ_in_the_variant_only(tmp_path: Path) -> None:
    """Two sizes, two numbers of devices, and another task, each for two variants."""
    sizes: list[dict[str, Any]] = [{"d_model": d, "devices": n} for d in (8, 16) for n in (1, 2)]
    places = [*sizes, {"d_model": 8, "devices": 1, "task": "other"}]
    cells = [cell(variant, **place) for place in places for variant in ("V", "R")]
    by_group: dict[str, list[Cell]] = {}
    for one in cells:
        by_group.setdefault(group_names(cells)[one.id], []).append(one)
    assert len(by_group) == len(places)
    for alike in by_group.values():
        assert [one.variant for one in alike] == ["V", "R"]
        assert alike[0].changed(variant="R") == alike[1]
    assert group_names(cells[:8])[cells[0].id] == "torch-forward-128-d_model=8-devices=1"
    run = read_run(made_run(tmp_path / "run", [record(one, 0.01, 0.02) for one in cells]))
    found = json.loads(pytest_benchmark_text(run))["benchmarks"]
    assert sorted(one["group"] for one in found) == sorted([*by_group, *by_group])
    assert {(one["params"]["task"], one["params"]["devices"]) for one in found} == {
        ("cost", 1), ("cost", 2), ("other", 1),
    }  # fmt: skip


def test_models_are_groups_of_their_own_and_heads_of_variants_are_not() -> None:
    """A suite with two models; the variant FR has its own number of heads in both."""
    cells = [
        cell(variant, label=label, d_model=d_model, heads=heads)
        for label, d_model in (("small", 8), ("large", 16))
        for variant, heads in (("V", 2), ("FR(rank=32)", 4))
    ]
    groups = [group_names(cells)[one.id] for one in cells]
    assert groups == [f"torch-forward-128-label={n}" for n in ("small",) * 2 + ("large",) * 2]


def test_each_ok_cell_is_a_benchmark_of_the_samples_of_all_rounds(tmp_path: Path) -> None:
    run = read_run(made_run(tmp_path / "tiny" / "one"))
    content = json.loads(pytest_benchmark_text(run))
    found = {benchmark["name"]: benchmark for benchmark in content["benchmarks"]}
    assert found.keys() == {"V-torch-forward-128", "R-torch-forward-128"}
    v = found["V-torch-forward-128"]
    assert v["fullname"] == "tiny::V-torch-forward-128"
    assert v["group"] == "torch-forward-128"
    assert v["params"]["variant"] == "V"
    assert v["stats"]["data"] == [0.010, 0.012, 0.011, 0.020, 0.021]
    assert v["stats"]["rounds"] == 5
    assert v["stats"]["median"] == 0.012
    assert v["options"]["timer"] == "perf_counter, waited"
    assert v["options"]["min_rounds"] == 2
    info = v["extra_info"]
    assert (info["outcome"], info["flops"], info["parameters"]) == ("ok", 2**60 + 1, 256)
    assert (info["peak_bytes"], info["rounds"]) == (101, 2)
    assert info["round_medians"] == [0.011, 0.0205]
    assert (info["framework"], info["mode"], info["warnings"]) == ("torch", "forward", ["busy"])
    left_out = {entry["name"]: entry for entry in content["synthbench"]["left_out"]}
    assert left_out["D-torch-forward-128"]["reason"] == "it fell"
    assert left_out["V-torch-forward-256"]["outcome"] == "oom"
    assert same_machine(
        {"python_version": "3.11.7", "cpu": {"brand_raw": "Some CPU", "count": 4}},
        content["machine_info"],
    )
    assert not same_machine({"python_version": "3.11.7"}, content["machine_info"])


def test_the_order_of_records_changes_nothing(tmp_path: Path) -> None:
    latest = some_records()[1:]
    shuffled = random.Random(1).sample(latest, len(latest))
    texts = {
        pytest_benchmark_text(read_run(made_run(tmp_path / str(number) / "one", records)))
        for number, records in enumerate((latest, shuffled))
    }
    assert len(texts) == 1


def test_pytest_benchmark_compares_the_files(tmp_path: Path, capsys: Captured) -> None:
    made_run(tmp_path / "tiny" / "one")
    made_run(tmp_path / "tiny" / "two", [record(cell("V"), 0.022, 0.024, 0.026)])
    for name in ("one", "two"):
        out = str(tmp_path / f"{name}.json")
        call = [f"tiny/{name}", "--results", str(tmp_path), "--out", out]
        code, printed, err = export(capsys, *call, "--format", "pytest-benchmark")
        assert (code, printed) == (0, ""), err
        assert ("2 of 4 cells are left out: 1 crashed, 1 oom" in err) == (name == "one")
    done = compare(tmp_path, "one.json", "--columns=median", "--csv=one")
    assert "benchmark 'torch-forward-128': 2 tests" in done
    rows = list(csv.DictReader(io.StringIO((tmp_path / "one.csv").read_text())))
    medians = {row["name"]: float(row["median"]) for row in rows}
    assert medians == pytest.approx(
        {"tiny::V-torch-forward-128": 0.012, "tiny::R-torch-forward-128": 0.15}
    )
    assert {row["param:variant"] for row in rows} == {"V", "R"}
    both = compare(tmp_path, "one.json", "two.json", "--between=median")
    assert "+100.0%" in next(line for line in both.splitlines() if line.startswith("V-torch"))
    by_variant = compare(tmp_path, "one.json", "two.json", "--group-by=param:variant")
    assert "benchmark 'variant=V': 2 tests" in by_variant


def compare(folder: Path, *arguments: str) -> str:
    """What `pytest-benchmark compare` prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest_benchmark", "compare", *arguments],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_committed_run_is_exported() -> None:
    content = json.loads(pytest_benchmark_text(read_run(REFERENCE)))
    assert len(content["benchmarks"]) + len(content["synthbench"]["left_out"]) == len(
        {record.id for record in read_run(REFERENCE).records}
    )
    assert all(benchmark["stats"]["median"] > 0 for benchmark in content["benchmarks"])


# --- CSV and Parquet -----------------------------------------------------------------------------


def test_csv_is_what_load_results_gives(tmp_path: Path, capsys: Captured) -> None:
    run = made_run(tmp_path / "tiny" / "one")
    code, printed, _ = export(capsys, str(run), "--format", "csv")
    assert code == 0
    frame = load_results(run)
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert list(rows[0]) == list(frame.columns)
    assert len(rows) == len(frame) == 6  # the one recorded twice counts once
    for row, (_, known) in zip(rows, frame.iterrows(), strict=True):
        assert row["variant"] == known["variant"]
        assert row["flops"] == str(2**60 + 1)  # not an integer becomes inexact
        assert row["head_dim"] == row["predicted_bytes"] == row["parity_passed"] == ""
        assert json.loads(row["uncounted"]) == known["uncounted"]
        missing = pd.isna(known["median_seconds"])
        assert row["median_seconds"] == ("" if missing else repr(float(known["median_seconds"])))


def test_columns_have_their_types_also_where_they_are_empty() -> None:
    timed, crashed = some_records()[3], some_records()[6]
    for records in ([timed], [timed, crashed]):
        frame = parquet_frame(records)
        for name, kind in {
            "variant": "str", "predicted_tool": "str", "uncounted": "str", "head_dim": "Int64",
            "seq_len": "Int64", "round": "Int64", "flops": "Int64", "predicted_bytes": "Int64",
            "median_seconds": "float64", "parity_passed": "boolean", SAMPLES: "object",
        }.items():  # fmt: skip
            assert frame[name].dtype == kind, name
        assert frame[SAMPLES].iloc[0] == [0.1, 0.2]
    assert csv_text([]).startswith("variant,framework,")


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, out = made_run(tmp_path / "tiny" / "one"), tmp_path / "one.parquet"
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, printed, err = export(capsys, str(run), "--format", "parquet", "--out", str(out))
    assert (code, printed) == (2, "")
    assert "pip install 'synthbench[parquet]'" in err
    assert "Traceback" not in err
    assert not out.exists()


def test_parquet_reads_back(tmp_path: Path, capsys: Captured) -> None:
    pytest.importorskip("pyarrow")
    run, out = made_run(tmp_path / "tiny" / "one"), tmp_path / "one.parquet"
    code, _, err = export(capsys, str(run), "--format", "parquet", "--out", str(out))
    assert code == 0, err
    read, expected = pd.read_parquet(out), parquet_frame(read_run(run).records)
    assert list(read.columns) == list(expected.columns)
    assert list(read["flops"]) == [2**60 + 1] * 6
    samples = [None if value is None else list(value) for value in read[SAMPLES]]
    assert samples == list(expected[SAMPLES])
    pd.testing.assert_frame_equal(
        read.drop(columns=SAMPLES), expected.drop(columns=SAMPLES),
        check_dtype=False, check_column_type=False,
    )  # fmt: skip


def test_parquet_has_text_that_is_no_utf8_escaped(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    crashed = some_records()[6].model_copy(update={"reason": "caf\udce9"})
    write_parquet([crashed], tmp_path / "one.parquet")
    assert list(pd.read_parquet(tmp_path / "one.parquet")["reason"]) == [r"caf\udce9"]


# --- the command ---------------------------------------------------------------------------------


def test_what_is_left_out_and_written_is_counted(tmp_path: Path, capsys: Captured) -> None:
    """Of a training, say, there are no samples; of a cell measured again, one record counts."""
    untimed = record(cell("R", task="other"))
    run = made_run(tmp_path / "tiny" / "one", [*some_records(), untimed])
    code, printed, err = export(capsys, str(run), "--format", "pytest-benchmark")
    assert code == 0
    content = json.loads(printed)
    assert (len(content["benchmarks"]), len(content["synthbench"]["left_out"])) == (2, 3)
    assert "3 of 5 cells are left out: 1 crashed, 1 ok without samples, 1 oom\n" in err
    assert f"{run}: 2 cells exported\n" in err
    code, printed, err = export(capsys, str(run), "--format", "csv")
    assert code == 0
    assert len(printed.splitlines()) - 1 == 7
    assert f"{run}: 7 records exported\n" in err


def test_without_a_run_the_newest_is_exported(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = export(capsys, "--format", "csv")
    assert code == 2
    assert "results has no runs" in err
    made_run(Path("results/tiny/b"))
    made_run(Path("results/other/a"), [record(cell("R"), 0.1)], started="2026-01-02")
    code, printed, err = export(capsys, "--format", "csv")
    assert code == 0
    assert len(printed.splitlines()) == 2
    assert "results/other/a: 1 records exported" in err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["run", "--format", "parquet"], "give one with --out"),
        (["run", "--format", "csv", "--out", "no/such/a.csv"], "folder no/such does not exist"),
        (["failed", "--format", "pytest-benchmark"], "no cell of failed has samples"),
        (["rum", "--format", "csv"], "run 'rum' not found"),
        (["run"], "Missing option"),
        (["run", "--format", "xml"], "'xml' is not one of"),
    ],
)
def test_a_mistake_is_one_clear_message(
    arguments: list[str],
    part: str,
    tmp_path: Path,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    made_run(Path("run"))
    made_run(Path("failed"), [some_records()[-1]])
    code, printed, err = export(capsys, *arguments)
    assert (code, printed) == (2, "")
    assert part in err
    assert "Traceback" not in err
