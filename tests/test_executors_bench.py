"""The comparison of executors: its figures, its page, and a run of it through `local`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.executors import __main__ as command_line
from benchmarks.executors import runs
from benchmarks.executors.__main__ import main
from benchmarks.executors.ablation import parts
from benchmarks.executors.measured import NAME, Agreed, Measured, Ran
from benchmarks.executors.page import DEVICES, ablation_table, fill, tables
from synthbench.errors import NotationError, ResultsError
from synthbench.store import read_run
from tests.ray_cluster import TINY

ROOT = Path(__file__).resolve().parents[1]
COMMITTED = ROOT / "results" / "executors" / "cpu-reference"
PAGE = ROOT / "docs" / "clusters.md"

EXAMPLE = Measured(
    suite="smoke",
    selection="21 variants in torch and jax",
    machine="a-machine",
    commit="0123456789ab",
    begun="2026-01-02T03:04:05+00:00",
    runs=(
        Ran("local", "local", records=60, shards=4, seconds=120.0, cell_seconds=100.0),
        Ran("slurm", "slurm", skipped="no | sbatch"),
        Ran("ray", "ray", records=60, shards=4, seconds=240.0, cell_seconds=104.0),
    ),
    agreed=(Agreed("local", "ray", agreeing=39, shared=40, contradicting=0),),
)


def rows_of(table: str) -> list[list[str]]:
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_the_page_has_the_tables_of_the_committed_comparison() -> None:
    page = PAGE.read_text(encoding="utf-8")
    committed = Measured.read(COMMITTED) if COMMITTED.exists() else None
    assert fill(page, committed) == page, (
        "write them with python -m benchmarks.executors --tables results/executors/cpu-reference "
        "--page docs/clusters.md"
    )


def test_a_page_without_a_table_is_refused() -> None:
    page = PAGE.read_text(encoding="utf-8")
    with pytest.raises(NotationError, match="it must have each of these once"):
        fill(page.replace("<!-- begin agreement -->", ""), EXAMPLE)


def test_what_an_executor_costs() -> None:
    local, slurm, ray = rows_of(tables(EXAMPLE)["executors"])
    assert local == ["local", "60", "4", "100.0", "5.0", "1,800"]
    assert ray == ["ray", "60", "4", "104.0", "34.0", "900"]
    assert slurm[:2] == ["slurm", r"skipped: no \| sbatch"]
    (agreed,) = rows_of(tables(EXAMPLE)["agreement"])
    assert agreed == ["local, ray", "39 of 40", "97.5%", "0"]


def test_the_ablation_is_the_largest_one() -> None:
    cost, quality = parts()
    assert len({cell.variant for cell in cost.plan.cells}) == 21
    alone = [cell for cell in cost.plan.cells if not cell.replica]
    assert len(alone) == 21 * 2 * 2 * 7 * 3
    assert cost.records == 5 * len(cost.plan.cells)
    assert cost.shards == 2 * 7 * 3
    assert len(quality.plan.cells) + len(quality.plan.skipped) == 21 * 2 * 8 * 3
    assert {skip.cell.variant for skip in quality.plan.skipped} == {"linformer"}
    assert len({cell.task for cell in quality.plan.cells}) == 8
    assert len({cell.seed for cell in quality.plan.cells}) == 3


def test_hours_are_those_of_the_device_with_the_most_shards() -> None:
    cost, _ = parts()
    assert cost.hours_at(cost.records, 1) == pytest.approx(1.0)
    assert cost.hours_at(cost.records, 8) == pytest.approx(6 / 42)  # 42 shards on 8 devices
    assert cost.hours_at(cost.records, 64) == pytest.approx(1 / 42)
    rows = rows_of(ablation_table(EXAMPLE, parts()))
    assert [row[4] for row in rows] == [
        "local: 1,800 cells per hour", "ray: 900 cells per hour", "the suite's limits",
        "the suite's limits",
    ]  # fmt: skip
    assert len(rows[0]) == 5 + len(DEVICES)


def test_a_comparison_is_read_as_it_was_written(tmp_path: Path) -> None:
    EXAMPLE.write(tmp_path)
    assert Measured.read(tmp_path) == EXAMPLE
    (tmp_path / NAME).write_text("[]")
    with pytest.raises(ResultsError, match="is not a comparison of executors"):
        Measured.read(tmp_path)


@pytest.mark.long
def test_the_program_compares_two_local_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_ray = {**runs.RUNS, "ray": ("ray", lambda: "there is no Ray here", runs.on_ray)}
    for module in (runs, command_line):
        monkeypatch.setattr(module, "RUNS", without_ray)
    (tmp_path / "tiny.yaml").write_text(TINY)
    out = tmp_path / "out"
    call = ["--suite", str(tmp_path / "tiny.yaml"), "--seq-len", "8,12,16"]
    assert main(["--out", str(out), *call, "--executors", "local,ray"]) == 0
    printed = capsys.readouterr().out
    first, second, ray = rows_of(printed)[:3]
    assert first[:3] == ["local", "12", "3"]
    assert second[:3] == ["local again", "12", "3"]
    assert ray[:2] == ["ray", "skipped: there is no Ray here"]
    found = Measured.read(out)
    records = read_run(out / "local-again").records
    assert found.runs[1].cell_seconds == pytest.approx(sum(r.wall_seconds for r in records))
    assert found.runs[1].seconds > found.runs[1].cell_seconds
    assert [(each.first, each.second) for each in found.agreed] == [("local", "local again")]
    assert found.agreed[0].shared == 3
    assert main(["--tables", str(out)]) == 0
    assert capsys.readouterr().out == printed
    assert main(["--out", str(out), *call]) == 2
    assert "has a comparison already" in capsys.readouterr().err


def test_an_unknown_executor_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(tmp_path / "out"), "--executors", "local,slurn"]) == 2
    assert capsys.readouterr().err == (
        "benchmarks.executors: --executors slurn: use some of local, ray, slurm\n"
    )
