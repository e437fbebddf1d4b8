"""The paper's tables: what is published, ours from the records, and why they differ."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.record import Measurements, Record, Timing
from synthbench.report.data.table import Table
from synthbench.report.paper.formulas import TABLE_1
from synthbench.report.paper.measured import NO_RUN, NO_SHARED_SETTING
from synthbench.report.paper.published import published
from synthbench.report.paper.reasons import EXPLAINED, REASONS, why_different
from synthbench.report.paper.tables import TABLES, paper_tables
from synthbench.report.text.files import check_paper, write_paper
from synthbench.run_info import RunInfo
from synthbench.store import append_record, create_run
from synthbench.suites.cell import Cell, model_of
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import load_suite

STEP = {"V": 0.5, "R": 0.25, "D(sharing=heads)": 1.0}  # seconds, of every other variant 0.75


def counted(cell: Cell) -> Record:
    """A record with the declared count, and times that are known."""
    declared = model_of(cell).parameters().values()
    timing = Timing(
        build_seconds=0.1, compile_seconds=0, first_step_seconds=1, warmup_steps=2,
        samples=[STEP.get(cell.variant, 0.75)] * 5, clock="perf_counter, waited",
    )  # fmt: skip
    trained = sum(p.size for p in declared if p.trainable)
    return Record(
        id=cell.id, cell=cell, outcome="ok", started="2026-01-02T03:04:05+00:00", wall_seconds=1,
        measurements=Measurements(parameters=trained, timing=timing),
    )  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of each table's suite on a CPU, as if it had been measured."""
    folder = tmp_path_factory.mktemp("results")
    for name in TABLES:
        plan = make_plan(load_suite(name), "cpu")
        run_dir = folder / name / "made"
        info = RunInfo(
            suite=name, settings=plan.settings.model_dump(mode="json"), device="cpu",
            started="2026-01-02T03:04:05+00:00",
            finished="2026-01-02T04:04:05+00:00",
        )  # fmt: skip
        create_run(run_dir, info)
        for cell in plan.cells:
            append_record(run_dir, counted(cell))
    return folder


@pytest.fixture(scope="module")
def tables(results: Path) -> dict[str, Table]:
    return {table.name: table for table in paper_tables(results)}


def row(table: Table, *keys: str) -> dict[str, str]:
    names = [column.name for column in table.columns]
    found = [r for r in table.rows if tuple(r[: len(keys)]) == keys]
    assert len(found) == 1, (keys, found)
    return {name: str(value) for name, value in zip(names, found[0], strict=True)}


@pytest.mark.parametrize(
    ("variant", "paper", "ours"),
    [("V", "223", "222.90"), ("R", "254", "254.36"), ("R+V", "292", "292.11"),
     ("D", "224", "224.48"), ("D+V", "243", "243.35"), ("light_conv", "224", "224.16")],
)  # fmt: skip
def test_table_4_parameters(tables: dict[str, Table], variant: str, paper: str, ours: str) -> None:
    found = row(tables["table4"], variant, "parameters, M")
    assert (found["paper"], found["ours torch"], found["ours jax"]) == (paper, ours, ours)
    assert found["why"] == REASONS["agrees"]


def test_what_nothing_explains_is_said_to_be_so(tables: dict[str, Table]) -> None:
    assert row(tables["table4"], "dynamic_conv", "parameters, M")["why"] == "not explained"
    found = row(tables["table2"], "D", "parameters of translation, M")
    assert (found["paper"], found["compared"], found["why"]) == ("62", "-2.32", "not explained")
    assert (
        row(tables["table2"], "R", "parameters of language model, M")["why"]
        == (REASONS["contradiction"])
    )


def test_the_note_of_table_2_names_the_rows_that_agree_and_those_that_do_not(
    tables: dict[str, Table],
) -> None:
    table = tables["table2"]
    found = re.search(r"by about 5\.7M in (.*), which agree .*? constant\. (.*) do not", table.note)
    assert found is not None
    named = [text.replace(" and ", ", ").split(", ") for text in found.groups()]
    for names, reason in zip(named, (REASONS["constant"], REASONS["unexplained"]), strict=True):
        rows = [r for r in table.rows if r[1] == "parameters of translation, M" and r[-1] == reason]
        assert names == [r[0] for r in rows]
        if reason == REASONS["constant"]:
            assert all(abs(float(r[2]) - float(r[3]) - 5.7) < 0.5 for r in rows)


def test_ratios_of_speed_are_those_of_the_records(tables: dict[str, Table]) -> None:
    found = row(tables["table4"], "R", "steps/s over V's")
    assert (found["paper"], found["ours torch"]) == ("1.09", "2.00")
    assert found["compared"].split()[0] == "x1.83"
    assert row(tables["table4"], "D", "steps/s over V's")["ours jax"] == "0.500"


FACTOR = {"bfloat16": 1.0, "float32": 8.0}  # of the times


def of_two_dtypes(folder: Path, listed: list[str], without: tuple[str, str] = ("", "")) -> Table:
    """Table 4 of a run in two data types whose V in bfloat16 was measured again at the end.

    `without`: a variant and the data type that it lacks.
    """
    plan = make_plan(load_suite("table4"), "cpu")
    content = plan.settings.model_dump(mode="json")
    content["axes"]["dtype"] = listed
    run_dir = folder / "table4" / "made"
    info = RunInfo(
        suite="table4", settings=content, device="cpu", started="2026-01-02T03:04:05+00:00",
        finished="2026-01-02T04:04:05+00:00",
    )  # fmt: skip
    create_run(run_dir, info)
    cells = [
        cell.changed(dtype=dtype) for dtype in FACTOR for cell in plan.cells if not cell.replica
    ]
    cells = [cell for cell in cells if (cell.variant, cell.dtype) != without]
    again = [cell for cell in cells if (cell.variant, cell.dtype) == ("V", "bfloat16")]
    for attempt, cell in [*((0, cell) for cell in cells), *((1, cell) for cell in again)]:
        found = counted(cell)
        timing = found.measurements.timing
        assert timing is not None
        timing.samples[:] = [FACTOR[cell.dtype] * seconds for seconds in timing.samples]
        append_record(run_dir, found.model_copy(update={"attempt": attempt}))
    return next(table for table in paper_tables(folder) if table.name == "table4")


@pytest.mark.parametrize("listed", [["bfloat16", "float32"], ["float32", "bfloat16"]])
def test_numbers_of_several_data_types_are_of_the_first_in_the_suite(
    listed: list[str], tmp_path: Path
) -> None:
    table = of_two_dtypes(tmp_path, listed)
    assert row(table, "R", "steps/s over V's")["ours torch"] == "2.00"
    assert row(table, "D", "steps/s over V's")["ours jax"] == "0.500"
    assert table.note.endswith(f" {listed[0]}.")


def test_numbers_of_two_data_types_are_not_compared(tmp_path: Path) -> None:
    table = of_two_dtypes(tmp_path, ["float32", "bfloat16"], without=("R", "float32"))
    found = row(table, "R", "steps/s over V's")
    assert (found["ours torch"], found["compared"]) == (NO_SHARED_SETTING, "")
    assert row(table, "R", "parameters, M")["ours torch"] == "254.36"
    assert row(table, "D", "steps/s over V's")["ours torch"] == "0.500"


def test_flops_ratios_are_at_the_papers_sizes_whatever_was_run(tables: dict[str, Table]) -> None:
    for variant in ("R", "R+V", "D", "D+V", "light_conv"):
        found = row(tables["table4"], variant, "FLOPs over V's")
        assert abs(float(found["ours torch"]) - float(found["paper"])) < 0.01
        assert found["why"] == REASONS["close"]


def test_table_1_is_equal_in_every_row(tables: dict[str, Table]) -> None:
    for variant in TABLE_1:
        found = row(tables["table1"], variant)
        assert found["compared"] == "equal"
        assert found["paper"] == found["declared"] == found["torch"] == found["jax"]


@given(
    heads=st.integers(1, 16), head_dim=st.integers(1, 64), a=st.integers(1, 30),
    b=st.integers(1, 30), rank=st.integers(1, 40),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_table_1_formulas_are_the_declared_parameters(
    heads: int, head_dim: int, a: int, b: int, rank: int
) -> None:
    d, N = heads * head_dim, a * b
    sizes = Sizes.of(d_model=d, heads=heads, max_len=N)
    variants = {"FR": f"FR(rank={rank})", "FD": f"FD(a={a}, b={b})"}
    for variant, (*_, formula) in TABLE_1.items():
        declared = parse(variants.get(variant, variant)).parameters(sizes)
        maps = heads if variant in ("R", "FR") else 1
        beside = sum(p.size for p in declared.values()) - 2 * d * d
        assert beside == maps * formula(d, N, rank, a, b)


def test_every_published_row_is_there_and_quality_is_theirs(tables: dict[str, Table]) -> None:
    for name in ("table2", "table4", "table7", "table8", "table9"):
        lines = published(name)
        assert len({r[0] for r in tables[name].rows}) == len(lines)
        theirs = [r for r in tables[name].rows if r[-1] == REASONS["paper only"]]
        assert len(theirs) >= len(lines)
        assert all(r[3:6] == ("", "", "") and r[2] for r in theirs)
    assert row(tables["table2"], "R+V", "BLEU en-de")["paper"] == "28.47"


def test_reasons_come_from_the_list() -> None:
    assert set(EXPLAINED.values()) <= REASONS.keys()
    for table, column, variant in EXPLAINED:
        lines = published(table)
        assert column in lines[0]
        assert variant == "*" or variant in {line["variant"] for line in lines}
    assert why_different("table4", "params_millions", "dynamic_conv") == "not explained"


def test_the_committed_page_is_the_one_that_is_checked() -> None:
    root = Path(__file__).parents[1]
    page = (root / "docs" / "paper.md").read_bytes()
    assert page == (root / "results" / "paper" / "README.md").read_bytes()
    assert NO_RUN not in page.decode()


def test_without_a_run_the_paper_still_stands(tmp_path: Path) -> None:
    found = row({t.name: t for t in paper_tables(tmp_path)}["table4"], "V", "parameters, M")
    assert (found["paper"], found["ours torch"], found["why"]) == (
        "223",
        "no run",
        REASONS["no run"],
    )


def test_files_are_what_the_records_give(results: Path, tmp_path: Path) -> None:
    page = tmp_path / "docs" / "paper.md"
    folder = write_paper(results, page)
    assert check_paper(results) == []
    assert page.read_bytes() == (folder / "README.md").read_bytes()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    write_paper(results)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    (folder / "table4.md").write_text("223 and some")
    assert check_paper(results) == [f"{folder / 'table4.md'}: does not match the records"]
