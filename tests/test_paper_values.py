"""The paper's tables: which run and which cell a number comes from, and how it is compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from synthbench.cli.app import main
from synthbench.record import Record
from synthbench.report.paper.measured import Measured
from synthbench.report.paper.quantities import (
    Place,
    flops_ratio,
    one_hot_flops,
    parameters,
    step_ratio,
)
from synthbench.report.paper.reasons import REASONS
from synthbench.report.text.files import check_paper, write_paper
from synthbench.store import append_record, create_run
from synthbench.suites.cell import model_of
from tests.test_tables import cell, info, record, run_of

T4 = Place("table4", "params_millions", "V", "V")


def measured(*records: Record) -> Measured:
    return Measured("made_up", run_of(list(records)))


def at(variant: str, framework: str = "torch", mode: str = "train", n: int = 64, **x: Any) -> Any:
    return cell(variant, framework, mode, n, **x)


# --- which run ----------------------------------------------------------------------------------


def made_run(folder: Path, **changes: Any) -> None:
    create_run(folder, info(**{"suite": "table4"} | changes))
    append_record(folder, record(at("V")))


def test_the_newest_finished_run_counts_and_a_gpu_before_a_cpu(tmp_path: Path) -> None:
    assert Measured.find("table4", tmp_path).run is None

    def found() -> str:
        run = Measured.find("table4", tmp_path).run
        assert run is not None
        return run.path.name

    folder = tmp_path / "table4"
    made_run(folder / "b", started="2026-01-02T00:00:00+00:00")
    made_run(folder / "a", started="2026-01-03T00:00:00+00:00")
    assert found() == "a"
    made_run(folder / "c", started="2026-01-09T00:00:00+00:00", finished=None)
    made_run(folder / "d", started="2026-01-09T00:00:00+00:00", suite="other")
    assert found() == "a"
    made_run(folder / "e", started="2025-01-01T00:00:00+00:00", device="cuda")
    assert found() == "e"
    made_run(folder / "f", started="2025-01-02T00:00:00+00:00", device="cuda:1")
    assert found() == "f"


# --- which cell ---------------------------------------------------------------------------------


def test_a_train_cell_at_the_longest_length_stands_for_a_variant() -> None:
    cells = [
        at("V", mode="train", n=128), at("V", mode="forward", n=512), at("V", mode="train", n=256),
        at("V", mode="train", n=64), at("V", mode="train", n=1024, replica=1),
        at("R", mode="forward", n=64), at("R", mode="forward", n=128), at("V", "jax", n=32),
    ]  # fmt: skip
    for order in (cells, cells[::-1]):
        ours = measured(*map(record, order))
        assert ours.cell("torch", "V") == cells[2]
        assert ours.cell("torch", "dot_product") == cells[2]
        assert ours.cell("torch", "R") == cells[6]
        assert ours.cell("jax", "V") == cells[7]
        assert ours.cell("jax", "R") is None


def test_heads_and_labels_choose_among_cells() -> None:
    cells = [at("R", heads=4, n=64), at("R", heads=8, n=64), at("V", label="a"), at("V", label="b")]
    ours = measured(*map(record, cells))
    assert ours.cell("torch", "R", heads=4) == cells[0]
    assert ours.cell("torch", "R", heads=8) == cells[1]
    assert ours.cell("torch", "R", heads=2) is None
    assert ours.cell("torch", "V", "a") == cells[2]
    assert ours.cell("torch", "V") is None


# --- how it is compared -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paper", "torch", "jax", "compared", "why"),
    [
        ("223", 223_490_000, 222_510_000, "+0.49", "agrees"),
        ("223", 223_510_000, 223_000_000, "+0.51", "unexplained"),
        ("223", 223_000_000, 223_510_000, "+0.00", "unexplained"),
        ("61.2", 61_240_000, 61_160_000, "+0.04", "agrees"),
        ("61.2", 61_100_000, 61_200_000, "-0.10", "unexplained"),
    ],
)
def test_parameters_agree_if_both_round_to_the_printed_digits(
    paper: str, torch: int, jax: int, compared: str, why: str
) -> None:
    ours = measured(record(at("V"), parameters=torch), record(at("V", "jax"), parameters=jax))
    row = parameters(ours, T4, "parameters, M", paper)
    assert row == (
        "V", "parameters, M", paper, f"{torch / 1e6:.2f}", f"{jax / 1e6:.2f}", compared,
        REASONS[why],
    )  # fmt: skip


def test_one_framework_is_enough_and_none_is_said() -> None:
    alone = measured(record(at("V", "jax"), parameters=223_000_000))
    assert parameters(alone, T4, "q", "223")[3:] == ("no run", "223.00", "+0.00", REASONS["agrees"])
    nothing = Measured("made_up", None)
    assert parameters(nothing, T4, "q", "223")[3:] == ("no run", "no run", "", REASONS["no run"])


def test_a_ratio_of_steps_is_taken_within_rounds_and_over_the_papers() -> None:
    records = [
        record(at("V"), 0.4, round=0), record(at("V"), 0.9, round=1),
        record(at("R"), 0.1, round=0), record(at("R"), 0.9, round=1),
    ]  # fmt: skip
    place = Place("table4", "steps_per_sec", "R", "R")
    row = step_ratio(measured(*records), place, T4, "steps/s over V's", 1.6)
    assert row == ("R", "steps/s over V's", "1.60", "2.00", "no run", "x1.25", REASONS["device"])


def test_a_ratio_of_flops_is_at_the_papers_lengths_with_one_hot_look_ups() -> None:
    stack: dict[str, Any] = {
        "model": "encoder_decoder",
        "layers": 1,
        "feed_forward": 32,
        "vocabulary": 50,
    }
    shapes: dict[str, Any] = {"max_len": 512, "target_len": 64, **stack}
    ours = measured(*(record(at(v, f, **shapes)) for v in "VR" for f in ("torch", "jax")))
    cells = {v: ours.cell("torch", v) for v in "VR"}
    assert cells["V"] is not None and cells["R"] is not None
    model = model_of(cells["V"]).changed(target_len=114)
    flops = model.flops(batch=1, seq_len=512)
    assert flops is not None
    assert one_hot_flops(cells["V"]) == flops + 2 * (512 + 114) * 64 * model.classes
    exact = one_hot_flops(cells["R"]) / one_hot_flops(cells["V"])
    place = Place("table4", "tflops", "R", "R")
    for paper, why in ((exact - 0.0099, "close"), (exact + 0.0101, "unexplained")):
        row = flops_ratio(ours, place, T4, "FLOPs over V's", paper)
        assert row[3:5] == (f"{exact:.3f}",) * 2
        assert row[5:] == (f"{exact - paper:+.3f}", REASONS[why])


# --- tables --check -----------------------------------------------------------------------------


def test_check_covers_the_papers_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def synthbench(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["tables", *arguments, "--results", str(tmp_path)])
        return int(ended.value.code or 0), *capsys.readouterr()

    made_run(tmp_path / "table4" / "one")
    assert synthbench()[0] == 0
    assert synthbench("--check")[0] == 0  # no folder of the paper yet
    folder = write_paper(tmp_path)
    assert synthbench("--check")[0] == 0
    (folder / "table4.csv").write_text("changed\n")
    (folder / "table1.tex").unlink()
    (folder / "mine.md").write_text("mine\n")
    code, out, err = synthbench("--check")
    assert code == 1
    assert out.splitlines() == [
        f"{folder / 'table1.tex'}: missing",
        f"{folder / 'mine.md'}: not a table of this run; delete it",
        f"{folder / 'table4.csv'}: does not match the records",
    ]
    assert "3 files do not match" in err
    assert "with `synthbench tables --paper`" in " ".join(err.split())
    assert synthbench("table4/one", "--check")[0] == 0  # only this run
    assert len(check_paper(tmp_path)) == 3
