"""`synthbench claims`, docs/claims.md, and our quality beside the paper's in its tables."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from synthbench.record import Record
from synthbench.report.data.metrics import metric_named
from synthbench.report.data.table import Table
from synthbench.report.paper.check.check import CheckedClaim
from synthbench.report.paper.check.page import claims_tables
from synthbench.report.paper.claims import read_claims
from synthbench.report.paper.measured import Measured
from synthbench.report.paper.reasons import REASONS
from synthbench.report.paper.tables import paper_tables
from synthbench.run_info import RunInfo
from synthbench.store import append_record, create_run, list_runs
from tests.command_line import REPOSITORY, Captured, refused, synthbench
from tests.learning_records import learning_cell, learning_record
from tests.test_claims_check import LOSS, SPEED, claimed, count_run, shifted, step_run, trained_run
from tests.test_tables import cell, info, record

RESULTS = REPOSITORY / "results"
PAGE = REPOSITORY / "docs" / "claims.md"


def saved(folder: Path, records: Sequence[Record], **changes: object) -> Path:
    create_run(folder, RunInfo(**info().model_dump() | {"suite": folder.parent.name} | changes))
    for one in records:
        append_record(folder, one)
    return folder


def row(table: Table, *keys: str) -> dict[str, str]:
    names = [column.name for column in table.columns]
    (found,) = [r for r in table.rows if tuple(r[: len(keys)]) == keys]
    return {name: str(value) for name, value in zip(names, found, strict=True)}


def tables(found: CheckedClaim) -> dict[str, Table]:
    return {table.name: table for table in claims_tables([found])}


# --- tables -------------------------------------------------------------------------------------


def test_speed_is_told_with_interval_run_and_setting() -> None:
    found = claimed(step_run(1.2, 0.01), column=SPEED, compare="[[R, V]]", expect="higher")
    assert row(tables(found)["claims"], "it") == {
        "claim": "it", "torch": "holds", "jax": "not measured", "remark": "reduced",
        "source": "Table 4", "the paper says": "It is so.",
    }  # fmt: skip
    told = row(tables(found)["Speed"], "it", "R / V")
    assert told["paper"] == "1.09"
    assert told["torch"].startswith("holds: 1.20 (1.1") and told["torch"].endswith(")")
    assert (told["jax"], told["run"], told["others"]) == ("not measured", "made_up/one", "")
    assert "device cpu (paper: TPU)" in told["setting"]


def test_counts_are_told_in_full() -> None:
    found = claimed(
        count_run("V", 222_903_552), column="table4.params_millions", compare="[[V]]",
        expect="value",
    )  # fmt: skip
    told = row(tables(found)["Parameters"], "it", "V")
    assert (told["paper"], told["torch"]) == ("223M", "holds: 222.90M")
    assert told["setting"] == "the paper's sizes"
    assert row(tables(found)["claims"], "it")["remark"] == ""


def test_quality_is_told_in_the_unit_of_the_metric() -> None:
    run = trained_run({"R": shifted(-0.2), "dynamic_conv": shifted(0, 0)})
    found = claimed(run, column=LOSS, compare="[[R, dynamic_conv]]", expect="lower")
    told = row(tables(found)["Quality after training"], "it", "R / dynamic_conv")
    assert told["paper"] == "-0.068"
    assert told["torch"].startswith("holds: -0.200 ")
    one_seed = trained_run({"R": [2.0], "dynamic_conv": [4.0]})
    found = claimed(one_seed, column=LOSS, compare="[[R, dynamic_conv]]", expect="lower")
    told = row(tables(found)["Quality after training"], "it", "R / dynamic_conv")
    assert told["torch"].startswith("undecided, one seed: -2.00")


def test_why_a_claim_is_not_measured() -> None:
    found = claimed(column="table5.glue", compare="[[R+V, V (T5 base)]]", expect="higher")
    assert list(tables(found)) == ["claims"]
    assert row(tables(found)["claims"], "it")["remark"] == "no task"
    found = claimed(column=SPEED, compare="[[R, V]]", expect="higher")
    assert row(tables(found)["claims"], "it")["remark"] == "no run"


def test_answers_are_counted() -> None:
    found = claimed(step_run(1.2), column=SPEED, compare="[[R, V]]", expect="higher")
    note = tables(found)["claims"].note
    assert "torch: 1 holds, 0 not measured, 0 undecided, 0 does not hold" in note
    assert "jax: 0 holds, 1 not measured" in note


# --- the command --------------------------------------------------------------------------------


def test_the_committed_page_is_what_the_records_give(tmp_path: Path, capsys: Captured) -> None:
    page = tmp_path / "claims.md"
    # A run that somebody made here is named after its moment; those given a name are committed.
    runs = [str(run) for run in list_runs(RESULTS) if not re.search(r"-\d{8}T\d{6}Z", run.name)]
    code, out, err = synthbench(capsys, "claims", *runs, "--format", "markdown", "--out", str(page))
    assert (code, err) == (0, "")
    assert str(page) in out
    assert page.read_bytes() == PAGE.read_bytes(), "write it again with `make claims`"


def test_the_page_has_every_claim_and_is_linked() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for key in read_claims().claims:
        assert f"\n| {key} " in text
    for page in ("README.md", "docs/architecture.md"):
        assert "claims.md" in (REPOSITORY / page).read_text(encoding="utf-8")
    assert "docs/claims.md" in (REPOSITORY / "Makefile").read_text(encoding="utf-8")


@pytest.mark.long
def test_json_has_every_claim_and_all_evidence(capsys: Captured) -> None:
    code, out, _ = synthbench(capsys, "claims", "--format", "json", "--results", str(RESULTS))
    assert code == 0
    content = json.loads(out)
    claims = {one["claim"]: one for one in content["claims"]}
    assert list(claims) == list(read_claims().claims)
    answers = Counter(one["answers"]["torch"] for one in claims.values())
    assert set(answers) <= {"holds", "does not hold", "undecided", "not measured"}
    (pair,) = claims["R_faster_than_V"]["pairs"]
    assert pair["variants"] == ["R", "V"]
    first = pair["evidence"]["torch"][0]
    assert first["interval"][0] <= first["figure"] <= first["interval"][1]
    assert first["run"].startswith("table4/") and first["differences"]


def test_runs_are_chosen_by_name(tmp_path: Path, capsys: Captured) -> None:
    results = tmp_path / "results"
    saved(results / "fast" / "one", step_run(1.2).records)
    saved(results / "slow" / "one", step_run(0.8).records)
    for run, answer in (("fast/one", "holds"), ("slow", "does not hold")):
        _, out, _ = synthbench(capsys, "claims", run, "--format", "json", "--results", str(results))
        claims = {one["claim"]: one for one in json.loads(out)["claims"]}
        assert claims["R_faster_than_V"]["answers"]["torch"] == answer


def test_a_run_that_is_unfinished_counts_only_by_name(tmp_path: Path, capsys: Captured) -> None:
    results = tmp_path / "results"
    saved(results / "fast" / "one", step_run(1.2).records, finished=None)
    for names, answer in (([], "not measured"), (["fast/one"], "holds")):
        _, out, _ = synthbench(
            capsys, "claims", *names, "--format", "json", "--results", str(results)
        )
        claims = {one["claim"]: one for one in json.loads(out)["claims"]}
        assert claims["R_faster_than_V"]["answers"]["torch"] == answer


def test_a_damaged_run_is_named_and_left_out(tmp_path: Path, capsys: Captured) -> None:
    results = tmp_path / "results"
    saved(results / "fast" / "one", step_run(1.2).records)
    (saved(results / "slow" / "one", step_run(0.8).records) / "run.json").write_text("{")
    code, out, err = synthbench(capsys, "claims", "--results", str(results))
    assert code == 0
    assert "slow/one/run.json cannot be read" in err
    assert "R_faster_than_V" in out


def test_the_terminal_shows_every_claim(tmp_path: Path, capsys: Captured) -> None:
    results = tmp_path / "results"
    saved(results / "fast" / "one", step_run(1.2).records)
    code, out, _ = synthbench(capsys, "claims", "--results", str(results))
    assert code == 0
    for key in read_claims().claims:
        assert any(line.startswith(f"{key} ") for line in out.splitlines())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "run 'nowhere' not known"),
        (["--out", "claims.md"], "--out writes a file; add --format markdown or --format json"),
        (
            ["--format", "json", "--out", "no/such/a.json"],
            "cannot write no/such/a.json: the folder",
        ),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    saved(tmp_path / "results" / "fast" / "one", step_run(1.2).records)
    monkeypatch.chdir(tmp_path)
    err = refused(capsys, "claims", *arguments)
    assert err.startswith(f"synthbench: {message}")
    assert len(err.splitlines()) == 1


def test_without_any_run_it_says_how_to_make_one(tmp_path: Path, capsys: Captured) -> None:
    assert "no run found" in refused(capsys, "claims", "--results", str(tmp_path))


# --- the paper's tables -------------------------------------------------------------------------


def classified(accuracy: dict[str, list[float]], framework: str = "torch") -> list[Record]:
    """Variant -> the accuracy of each seed, of a small classifier."""
    found = []
    for variant, values in accuracy.items():
        for seed, value in enumerate(values):
            at = learning_cell(
                variant, framework, seed, task="classification", model="classifier", labels=4,
                options={"data": {"file": "news.csv"}},
            )  # fmt: skip
            one = learning_record(at, value, metric="accuracy")
            training = one.measurements.training
            assert training is not None
            for evaluation in training.evaluations:
                evaluation.metrics["accuracy"] = value
            found.append(one)
    return found


def test_our_quality_stands_beside_the_papers(tmp_path: Path) -> None:
    found = {t.name: t for t in paper_tables(tmp_path)}["table7"]
    assert row(found, "V", "accuracy AG News, %")["why"] == REASONS["paper only"]
    saved(tmp_path / "words" / "one", classified({"V": [0.5, 0.75], "FR(rank=32)+V": [0.9]}))
    found = {t.name: t for t in paper_tables(tmp_path)}["table7"]
    ours = row(found, "V", "accuracy AG News, %")
    mean = 0.625 * metric_named("accuracy").scale  # in percent, as the task declares it
    assert ours["ours torch"] == f"{mean:.2f}"
    assert (ours["paper"], ours["ours jax"]) == ("88.83", "no run")
    assert ours["compared"] == ""  # of other texts: a difference would say nothing
    assert ours["why"] == REASONS["reduced"]
    assert "run `words/one` (reduced: data file news.csv" in found.note
    best = row(found, "FR(rank=32)+V", "accuracy AG News, %")
    assert best["why"] == REASONS["reduced"]
    missing = row(found, "FR(rank=32)", "accuracy AG News, %")
    assert (missing["ours torch"], missing["why"]) == ("", REASONS["paper only"])


def test_a_similar_task_is_not_shown_as_the_papers(tmp_path: Path) -> None:
    saved(tmp_path / "words" / "one", trained_run({"V": [3.0], "R": [2.0]}).records)
    found = {t.name: t for t in paper_tables(tmp_path)}["table4"]
    assert row(found, "R", "log perplexity C4")["why"] == REASONS["paper only"]


def test_a_run_that_only_trained_gives_no_cost(tmp_path: Path) -> None:
    saved(tmp_path / "table7" / "cost", [record(cell("V", "torch", "train", 64))])
    later = {"started": "2027-01-01T00:00:00+00:00"}
    saved(tmp_path / "table7" / "words", classified({"V": [0.5]}), **later)
    measured = Measured.find("table7", tmp_path)
    assert measured.run is not None and measured.run.path.name == "cost"
    both = [record(cell("V", "torch", "train", 64)), *classified({"V": [0.5]})]
    saved(tmp_path / "table7" / "both", both, started="2028-01-01T00:00:00+00:00")
    found = Measured.find("table7", tmp_path).cell("torch", "V")
    assert found is not None and found.task == "cost"
