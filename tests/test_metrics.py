"""A metric is declared in one place: the frame, CSV and the tables follow from the declaration."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from synthbench import load_results
from synthbench.errors import NotationError, ResultsError, UnsupportedError
from synthbench.metrics import Metric, value_of
from synthbench.record import Measurements, Record
from synthbench.report.data.frame import pool_rounds, record_frame
from synthbench.report.data.metrics import metric_named, recorded_metrics
from synthbench.report.export.benchmark import extra_info
from synthbench.report.export.frames import csv_text, parquet_frame
from synthbench.report.tables.catalog import TABLES, make_tables
from synthbench.report.text.markdown import markdown
from synthbench.store import append_record, create_run, read_run
from synthbench.tasks.base import Task
from synthbench.tasks.catalog import TASK_REGISTRY
from synthbench.tasks.derived_metrics import DERIVED
from tests.test_tables import cell, info, record, run_of

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = """
from typing import ClassVar

from synthbench.metrics import Metric, percent
from synthbench.tasks.base import Task


class Echo(Task):
    name: ClassVar[str] = "echo"
    metrics: ClassVar[dict[str, Metric]] = {
        "hit_rate": Metric("correct %", "%", "higher", percent, scale=100, pool="median"),
        "examples": Metric("examples", type="count", pool="sum"),
    }

    def run(self, context):
        return []
"""


@pytest.fixture
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Task]:
    """A task of a module outside the package."""
    (tmp_path / "echo_task.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "echo_task", raising=False)
    monkeypatch.setattr(TASK_REGISTRY, "_plugins", {})
    return TASK_REGISTRY.register(__import__("echo_task").Echo)


def echo_record(variant: str, round: int = 0, **values: float | None) -> Record:
    at = cell(variant, "torch", "train", 64, task="echo")
    return Record(
        id=at.id, round=round, cell=at, outcome="ok", measurements=Measurements(values=values),
        started="2026-01-02T03:04:05+00:00", wall_seconds=1,
    )  # fmt: skip


def echo_records() -> list[Record]:
    return [
        echo_record("V", hit_rate=0.5, examples=2**53),
        echo_record("V", round=1, hit_rate=0.7, examples=1),
        echo_record("R", hit_rate=None, examples=3),
    ]


def test_a_metric_of_a_task_outside_the_package_is_everywhere(
    echo: type[Task], tmp_path: Path
) -> None:
    records = echo_records()
    frame = record_frame(records)
    assert list(frame["examples"]) == [2**53, 1, 3]
    assert frame["examples"].dtype == "Int64"
    assert frame["hit_rate"].dtype == "float64"
    pooled = pool_rounds(frame).set_index("variant")
    assert pooled.loc["V", "hit_rate"] == pytest.approx(0.6)
    assert pooled.loc["V", "examples"] == 2**53 + 1
    assert list(pooled["hit_rate"].isna()) == [False, True]

    rows = list(csv.DictReader(io.StringIO(csv_text(records))))
    assert [row["hit_rate"] for row in rows] == ["0.5", "0.7", ""]
    assert list(parquet_frame(records)["examples"]) == [2**53, 1, 3]
    assert extra_info(records[:2])["examples"] == 2**53 + 1

    run = tmp_path / "echo" / "one"
    create_run(run, info())
    for one in records:
        append_record(run, one)
    assert list(load_results(run)["hit_rate"].dropna()) == [0.5, 0.7]
    tables = {table.name: table for table in make_tables(read_run(run))}
    assert tables.keys() == {"metrics", "parity", "warnings", "outcomes"}  # none of cost's
    assert list(tables["metrics"].frame.columns) == [
        "framework", "mode", "variant", "length", "correct %", "examples",
    ]  # fmt: skip
    by_variant = {str(row[2]): row for row in tables["metrics"].rows}
    assert by_variant["V"][3:] == (64, 0.6, 2**53 + 1)
    assert by_variant["R"][4] == "not measured"
    text = markdown(tables["metrics"])
    assert " 60.0 |" in text
    assert "correct %: higher is better." in text


def test_results_of_a_task_that_is_not_loaded_are_shown() -> None:
    tables = {table.name: table for table in make_tables(run_of(echo_records()))}
    shown = tables["metrics"].frame.set_index("variant")
    assert shown.loc["V", "hit_rate"] == 0.5  # a plain number: of the first round
    assert list(record_frame(echo_records())["hit_rate"].dropna()) == [0.5, 0.7]


def test_a_run_of_two_tasks_keeps_their_tables_apart(echo: type[Task]) -> None:
    measured = [record(cell(variant, "torch", "train", 64)) for variant in ("V", "R")]
    tables = {table.name: table for table in make_tables(run_of([*measured, *echo_records()]))}
    assert [row[:3] for row in tables["speed"].rows] == [
        ("torch", "train", "V"), ("torch", "train", "R"),
    ]  # fmt: skip
    assert all("echo" in str(row[0]) for row in tables["metrics"].rows)
    assert len(tables["metrics"].rows) == 2


def test_a_run_of_cost_has_no_table_of_other_metrics() -> None:
    assert "metrics" not in {
        one.name for one in make_tables(run_of([record(cell("V", "torch", "train", 64))]))
    }


def test_a_count_that_is_not_an_integer_is_refused(echo: type[Task]) -> None:
    with pytest.raises(ResultsError, match=r"metric examples is 2\.5, which is not an integer"):
        record_frame([echo_record("V", examples=2.5)])


@pytest.mark.parametrize("name", ["variant", "ratio", "rounds", "warnings", "parameters"])
def test_a_name_of_synthbench_is_refused_before_anything_is_measured(
    name: str, echo: type[Task]
) -> None:
    class Other(echo):  # type: ignore[misc, valid-type]
        pass

    Other.name, Other.metrics = "other", {name: Metric("mine")}
    with pytest.raises(NotationError, match=rf"Other.metrics\['{name}'\]: .* another name"):
        TASK_REGISTRY.register(Other)


def test_a_name_of_another_task_is_refused(echo: type[Task]) -> None:
    class Other(echo):  # type: ignore[misc, valid-type]
        pass

    Other.name, Other.metrics = "other", {"flops": Metric("mine")}
    TASK_REGISTRY.register(Other)
    with pytest.raises(UnsupportedError, match=r"metric flops of task other: .* another name"):
        recorded_metrics()


def test_two_tasks_may_share_a_metric(echo: type[Task]) -> None:
    class Other(echo):  # type: ignore[misc, valid-type]
        name = "other"

    TASK_REGISTRY.register(Other)
    assert recorded_metrics()["hit_rate"] is echo.metrics["hit_rate"]


def test_every_number_of_a_table_has_a_declared_metric() -> None:
    records = [
        record(cell(v, f, m, 64))
        for v in "VR"
        for f in ("torch", "jax")
        for m in ("forward", "train")
    ]
    columns = [one for table in make_tables(run_of(records)) for one in table.columns]
    used = {column.metric for column in columns if column.metric is not None}
    assert len(used) > 10
    assert used <= recorded_metrics().keys() | DERIVED.keys()
    assert metric_named("not declared").label == "not declared"


def test_what_tables_compute_has_a_unit_and_a_better_side() -> None:
    assert {name: (m.label, m.unit, m.better) for name, m in DERIVED.items()} == {
        "utilisation": ("util %", "%", "higher"),
        "break_even_steps": ("break-even", "steps", "lower"),
        "ratio": ("ratio", "1", "higher"),
        "twin_ratio": ("A/A ratio", "1", "neither"),
        "noise_ratio": ("noise floor", "1", "lower"),
        "time_spread": ("spread %", "%", "lower"),
        "far_share": ("cores far %", "%", "lower"),
        "far_ratio": ("far over near", "1", "lower"),
        "p_value": ("p", "1", "neither"),
        "exponent": ("exponent", "1", "neither"),
        "length": ("length", "1", "neither"),
        "share": ("share", "1", "neither"),
        "exact_count": ("count", "1", "lower"),
        "relative_error": ("error", "1", "lower"),
        "scaling_efficiency": ("scaling efficiency (same batch) %", "%", "higher"),
        "learned": ("mean", "1", "neither"),
        "learned_difference": ("difference", "1", "neither"),
        "framework_difference": ("difference", "1", "neither"),
        "trained_steps": ("steps", "1", "lower"),
        "trained_seconds": ("seconds", "s", "lower"),
        "trained_flops": ("FLOPs", "1", "lower"),
        "trained_tokens": ("tokens", "1", "lower"),
        "learned_loss": ("loss", "1", "lower"),
    }
    printed = {name: m.format(1234.5678 * m.scale) for name, m in DERIVED.items()}
    assert printed["ratio"] == printed["length"] == printed["share"] == "1235"


def test_every_metric_reads_a_record_in_which_nothing_was_measured() -> None:
    empty = echo_record("V")
    values = {name: value_of(name, one, empty) for name, one in recorded_metrics().items()}
    kept = {name: value for name, value in values.items() if value is not None}
    assert kept == {"wall_seconds": 1, "samples": 0, "kernels": "", "warnings": ""}


def test_a_metric_added_to_the_declarations_is_everywhere(tmp_path: Path) -> None:
    """In a copy of the package, of which one file gets one more entry."""
    shutil.copytree(ROOT / "synthbench", tmp_path / "synthbench")
    declarations = tmp_path / "synthbench" / "tasks" / "cost_metrics.py"
    with open(declarations, "a") as file:
        file.write(
            'COST_METRICS["warmup_steps"] = Metric(\n'
            '    "warm-up", type="count", of=measured("timing", "warmup_steps"), pool="sum"\n)\n'
        )
    code = """
from pathlib import Path
import synthbench
from synthbench.report.data.frame import pool_rounds, record_frame
from synthbench.report.data.context import context_of
from synthbench.report.data.grid import Grid
from synthbench.report.data.noise import Noise
from synthbench.report.export.benchmark import extra_info
from synthbench.report.export.frames import csv_text
from synthbench.report.tables.layout import by_length
from tests.test_tables import cell, record, run_of
assert not Path(synthbench.__file__).is_relative_to(ROOT), synthbench.__file__
at = cell("V", "torch", "train", 64)
records = [record(at), record(at, round=1)]
assert list(record_frame(records)["warmup_steps"]) == [3, 3]
assert list(pool_rounds(record_frame(records))["warmup_steps"]) == [6]
assert "warmup_steps" in csv_text(records).splitlines()[0]
assert extra_info(records)["warmup_steps"] == 6
grid = Grid(records, ["V"])
context = context_of(run_of(records), grid, Noise())
table = by_length(grid, context, "a", "b", "c", ["warmup_steps"])
assert list(table.frame["L=64 warm-up"]) == [6]
"""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    done = subprocess.run(
        [sys.executable, "-c", code.replace("ROOT", repr(str(ROOT)))],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


# --- "to add a table, change Y" ------------------------------------------------------------------


def test_a_table_added_to_the_catalog_is_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from synthbench.cli.app import main
    from synthbench.report.data.table import Column, Table

    def builder(grid: Any, context: Any) -> Table:
        columns = (Column("variant", is_key=True), Column("cells", "exact_count"))
        rows: list[Any] = [(name, len(grid.ids)) for name in grid.variants("")]
        return Table("cells", "How many cells", "A note.", context.shared, columns, rows)

    monkeypatch.setitem(TABLES, "cells", builder)
    run = tmp_path / "made_up" / "one"
    create_run(run, info())
    append_record(run, record(cell("V", "torch", "train", 64)))

    def synthbench(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["tables", *arguments, "--results", str(tmp_path)])
        return int(ended.value.code or 0), capsys.readouterr().out

    code, printed = synthbench("made_up/one", "--table", "cells")
    assert code == 0
    assert "How many cells" in printed
    folder = run / "tables"
    assert "## How many cells" in (folder / "README.md").read_text()
    assert "## How many cells" in (folder / "cells.md").read_text()
    assert (folder / "cells.csv").read_text() == "variant,cells\nV,1\n"
    assert "% How many cells" in (folder / "cells.tex").read_text()
    assert synthbench("--check")[0] == 0
    (folder / "cells.csv").unlink()
    code, printed = synthbench("--check")
    assert (code, "cells.csv: missing" in printed) == (1, True)
