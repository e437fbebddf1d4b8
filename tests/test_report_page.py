"""The page of a run: complete, self-contained, and safe whatever the records say."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings

from synthbench.cli.app import main
from synthbench.metrics import Metric
from synthbench.printable import one_line
from synthbench.record import Record
from synthbench.report.data.grid import TWIN
from synthbench.report.page.chart_data import chart_points
from synthbench.report.page.details import details as details_of
from synthbench.report.page.locate import cell_ids
from synthbench.report.page.page import report_page
from synthbench.report.page.run_data import RunData
from synthbench.report.tables.catalog import make_tables
from synthbench.store import Run, append_record, create_run, read_run
from synthbench.tasks.base import Task
from synthbench.tasks.catalog import TASKS
from tests.learning_records import declare, learning_records, with_failures
from tests.test_escaping import NASTY, TEXTS, forged
from tests.test_tables import all_records, cell, info, record, run_of

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "results" / "seq_scaling" / "cpu-reference"
MOST_BYTES = 3_000_000
FEW = settings(max_examples=8, suppress_health_check=list(HealthCheck))
HOSTILE = (
    "</script><img src=x onerror=alert(1)>", "</style><svg onload=alert(1)>", "<!--<script>",
    "\" onmouseover=\"alert(1)", "' autofocus onfocus='alert(1)", "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)", "]]>", "</title><base href=//x>", "`<b>`", "datum.x]; alert(1)",
)  # fmt: skip
Captured = pytest.CaptureFixture[str]


def with_data_unpacked(page: str) -> str:
    """A page with what its packed data are: other versions of zlib pack them differently."""

    def content(found: re.Match[str]) -> str:
        return hashlib.sha256(gzip.decompress(base64.b64decode(found[0]))).hexdigest()

    return re.sub(r"H4sI[A-Za-z0-9+/]+=*", content, page)


def test_the_committed_page_is_that_of_its_run() -> None:
    """Make it again with `make report`."""
    locked = (ROOT / "requirements.lock").read_text()
    if f"vl-convert-python=={metadata.version('vl-convert-python')}\n" not in locked:
        pytest.skip("the page has the scripts of another version of vl-convert-python")
    committed = (ROOT / "docs" / "seq_scaling.html").read_text()
    assert committed.count("H4sI") > 1
    assert len(committed) < MOST_BYTES
    assert with_data_unpacked(committed) == with_data_unpacked(report_page([read_run(REFERENCE)]))


class Audit(HTMLParser):
    """What a page consists of."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.data: list[tuple[str, str]] = []  # type and content of scripts that are data
        self.policy = ""
        self.texts: list[str] = []
        self._open = ""
        self._type = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        found = {name: value or "" for name, value in attrs}
        self.attributes += [(tag, name, value) for name, value in found.items()]
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"]
        if tag in self.inside:
            self._open, self._type = tag, found.get("type", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._open:
            self._open = ""

    def handle_data(self, data: str) -> None:
        if not self._open:
            self.texts.append(data)
        elif self._type:
            self.data.append((self._type, data))
        else:
            self.inside[self._open].append(data)


def unpacked(audit: Audit) -> list[Any]:
    """The data of the charts, if there are any, and the details of each run."""
    assert {kind for kind, _ in audit.data} <= {"application/octet-stream"}
    return [json.loads(gzip.decompress(base64.b64decode(text))) for _, text in audit.data]


def details(audit: Audit) -> Any:
    """The details of the only run."""
    return unpacked(audit)[-1]


def assert_is_safe(audit: Audit) -> None:
    """Only the tags of the template; nothing is loaded; the policy allows what is there."""
    assert not audit.tags & {"link", "iframe", "object", "embed", "base", "svg", "math", "video"}
    for tag, name, value in audit.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name != "style"
        if name in ("src", "href", "action", "srcset", "poster", "data", "formaction"):
            assert value.startswith(("#", "data:image/svg+xml;base64,")), (tag, name, value)
    directives = dict(part.split(" ", 1) for part in audit.policy.split("; "))
    assert directives["default-src"] == "'none'"
    assert "unsafe" not in audit.policy
    assert "http" not in audit.policy
    for tag in ("script", "style"):
        allowed = directives[f"{tag}-src"].split()
        hashes = [hashlib.sha256(text.encode()).digest() for text in audit.inside[tag]]
        assert allowed == [f"'sha256-{base64.b64encode(one).decode()}'" for one in hashes]


@pytest.fixture(scope="module")
def reference() -> Run:
    return read_run(REFERENCE)


@pytest.fixture(scope="module")
def page(reference: Run) -> str:
    return report_page([reference])


def test_the_page_of_the_reference_run_is_small_and_loads_nothing(page: str) -> None:
    assert len(page.encode()) < MOST_BYTES
    audit = Audit(page)
    assert_is_safe(audit)
    assert "img" not in audit.tags
    without_scripts = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"https?://", without_scripts)
    assert not re.search(r"@import|url\(", "".join(audit.inside["style"]))


def test_the_same_records_give_the_same_page() -> None:
    run = run_of(list(all_records()))
    assert report_page([run]) == report_page([run])


def test_each_table_and_each_of_its_values_is_on_the_page() -> None:
    run = run_of(list(all_records()))
    texts = {text.strip() for text in Audit(report_page([run])).texts}
    for table in make_tables(run):
        assert table.title in texts
        for row in table.shown:
            assert {text.strip() for text in row} <= texts | {""}
    assert "Device cpu: Some CPU, 2 cores, 8.0 GB of memory." in texts


def test_each_number_leads_to_its_cell(reference: Run) -> None:
    """The ratio of a cell, in the table, is the one behind the number."""
    data = RunData(reference)
    table = next(one for one in data.tables if one.name == "ratios")
    by_id = {record.id: record.cell for record in reference.records}
    seen = 0
    for row in table.rows:
        ids = cell_ids(data.grid, table, row)
        assert ids[:3] == [None] * 3
        for column, cell_id in zip(table.columns[3:], ids[3:], strict=True):
            assert cell_id is not None
            found = by_id[cell_id]
            variant = f"{found.variant} {TWIN}" if found.replica else found.variant
            assert (found.framework, found.mode, variant) == row[:3]
            assert column.group == f"L={found.seq_len}"
            seen += 1
    assert seen == len(table.rows) * 20


def test_numbers_of_several_cells_lead_nowhere(reference: Run) -> None:
    data = RunData(reference)
    for name in ("frameworks", "scaling", "cost"):
        table = data.table(name)
        assert table is not None
        assert not any(any(cell_ids(data.grid, table, row)) for row in table.rows)


def test_behind_a_number_are_interval_rounds_samples_and_record() -> None:
    one = cell("V", "torch", "forward", 64)
    run = run_of([record(one, 0.01), record(one, 0.03, round=1)])
    content = details(Audit(report_page([run])))[one.id]
    assert content["title"] == "V, torch, forward, length 64"
    facts = dict(content["facts"])
    assert facts["outcome"] == "ok"
    assert facts["time of a step"] == (
        "20.0 ms; the 95% intervals of its rounds span 9.00 ms to 33.0 ms"
    )
    assert facts["peak_bytes"] == "2.50 x 10^6 bytes"
    headings, *rounds = content["rounds"]
    assert headings[:3] == ["round", "outcome", "steady (ms)"]
    assert [row[:3] for row in rounds] == [["0", "ok", "10.0"], ["1", "ok", "30.0"]]
    stored = [Record.model_validate(one) for one in content["records"]]
    assert stored == run.records


def test_a_single_round_has_an_interval_of_its_own() -> None:
    one = cell("V", "torch", "forward", 64)
    failed = record(one, outcome="crashed", round=1)
    for records in ([record(one, 0.01)], [record(one, 0.01), failed]):
        facts = dict(details(Audit(report_page([run_of(records)])))[one.id]["facts"])
        assert facts["time of a step"] == "10.0 ms, 95% interval 9.00 ms to 11.0 ms"


def test_a_metric_may_have_no_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Mine(Task):
        name: ClassVar[str] = "mine"
        metrics: ClassVar[dict[str, Metric]] = {"points": Metric("points", "")}

    monkeypatch.setitem(TASKS, "mine", Mine)
    one = cell("V", "torch", "forward", 64, task="mine")
    run = run_of([record(one, values={"points": 2.0})])
    assert ["points", "2.00"] in details(Audit(report_page([run])))[one.id]["facts"]


def test_times_of_what_ran_between_the_samples_are_not_on_the_page(reference: Run) -> None:
    """They would be a third of it; the samples are."""
    stored = [one for cell in details_of(RunData(reference)).values() for one in cell["records"]]
    timings = [one["measurements"]["timing"] for one in stored]
    paired = [timing for timing in timings if timing and timing["baseline"]]
    assert len(paired) > 500
    for timing in paired:
        assert all(isinstance(each, float) for each in timing["samples"])
        for name in ("baseline", "calibration"):
            assert re.fullmatch(r"\d+ numbers, in the records of the run", timing[name]["seconds"])


def test_points_of_charts_have_the_units_of_the_tables(reference: Run) -> None:
    points = chart_points(RunData(reference))
    (one,) = (
        p for p in points
        if (p["variant"], p["framework"], p["mode"], p["length"])
        == ("linformer", "torch", "train", 2048)
    )  # fmt: skip

    def in_table(name: str, column: str) -> Any:
        table = pd.read_csv(REFERENCE / "tables" / f"{name}.csv")
        row = table.query("framework == 'torch' and mode == 'train' and variant == 'linformer'")
        (value,) = row[f"L=2048 {column}"]
        return value

    assert one["time"] == pytest.approx(1000 / in_table("speed", "steps/s"))
    assert one["memory"] == pytest.approx(in_table("memory", "MB"))
    assert one["ratio"] == pytest.approx(in_table("ratios", "speed vs V"))
    assert one["verdict"] == in_table("ratios", "verdict")
    assert one["time_low"] <= one["time"] <= one["time_high"]


def test_the_page_says_where_curves_and_their_table_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    declare(monkeypatch)
    text = "".join(Audit(report_page([run_of(with_failures(learning_records()))])).texts)
    assert "Every point of the curves is a row" not in text
    assert "also over seeds that diverged later" in text


def test_a_setting_is_chosen_by_its_name_as_it_is() -> None:
    """Without a value, a browser takes the text of an option with its spaces collapsed."""
    models = (("a  b", 8), ("c", 16))
    cells = [
        cell("V", "torch", "train", 64, label=label, d_model=d_model) for label, d_model in models
    ]
    audit = Audit(report_page([run_of([record(one) for one in cells])]))
    offered = {value for tag, name, value in audit.attributes if (tag, name) == ("option", "value")}
    charts, _ = unpacked(audit)
    drawn = {point["setting"] for point in charts["points"]}
    assert len(drawn) == 2
    assert drawn <= offered


def test_the_front_has_the_variants_that_no_other_beats_in_time_and_memory(reference: Run) -> None:
    longest = [
        p for p in chart_points(RunData(reference))
        if (p["framework"], p["mode"], p["length"]) == ("jax", "train", 2048)
    ]  # fmt: skip
    assert len(longest) > 20
    for point in longest:
        beaten = any(
            other["time"] <= point["time"] and other["memory"] <= point["memory"]
            and (other["time"], other["memory"]) != (point["time"], point["memory"])
            for other in longest
        )  # fmt: skip
        assert bool(point.get("front")) == (not beaten), point["variant"]


def test_a_run_without_records_or_numbers_has_a_page() -> None:
    empty = Audit(report_page([run_of([], finished=None)]))
    assert_is_safe(empty)
    assert "No records yet." in {text.strip() for text in empty.texts}
    crashed = record(cell("V", "torch", "forward", 64), outcome="crashed", reason="it broke")
    audit = Audit(report_page([run_of([crashed])]))
    assert_is_safe(audit)
    assert "it broke" in audit.texts


def test_figures_of_inspect_are_on_the_page(tmp_path: Path) -> None:
    run = Run(tmp_path, info(), [], [])
    (tmp_path / "inspect").mkdir()
    picture = "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
    (tmp_path / "inspect" / 'V"><b>-torch.svg').write_text(picture)
    audit = Audit(report_page([run]))
    assert_is_safe(audit)
    (source,) = (value for tag, name, value in audit.attributes if (tag, name) == ("img", "src"))
    assert base64.b64decode(source.partition(",")[2]).decode() == picture
    assert "b" not in audit.tags


# --- whatever records say ------------------------------------------------------------------------


@cache
def plain_tags() -> set[str]:
    """The tags of a page whose texts are harmless."""
    plain = run_of(forged("x"), suite="x", device="x", started="x", finished="x", plugins=["x"])
    return Audit(report_page([plain])).tags


def safe_page(text: str) -> Audit:
    run = run_of(
        forged(text), suite=text, device=text, started=text, finished=text, executor=text,
        plugins=[text],
    )  # fmt: skip
    made = report_page([run])
    made.encode()  # also where the text has a lone surrogate
    audit = Audit(made)
    assert_is_safe(audit)
    assert audit.tags <= plain_tags() | {"code"}  # `code` in a sentence
    return audit


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_are_shown_as_they_are(text: str) -> None:
    audit = safe_page(text)
    assert text in audit.texts  # as the variant
    assert any(reason == text for reason in audit.texts)
    charts, _ = unpacked(audit)
    assert {point["variant"] for point in charts["points"]} == {"V", text}
    assert text in [
        record["reason"] for one in details(audit).values() for record in one["records"]
    ]


@pytest.mark.long
@given(text=TEXTS)
@example(text="".join(NASTY))
@FEW
def test_no_text_becomes_markup(text: str) -> None:
    audit = safe_page(text)
    assert not any(character in "".join(audit.texts) for character in "\x00\x1b\u202e")
    assert one_line(text) in audit.texts or not one_line(text).strip()


def test_commands_quote_what_a_shell_would_run() -> None:
    run = run_of(list(forged("x")), suite="a; rm -rf ~", plugins=["$(id)"])
    text = "".join(Audit(report_page([run])).texts)
    assert "synthbench run --suite 'a; rm -rf ~' --device cpu --plugin '$(id)'" in text
    assert "synthbench report made_up/one --out report.html" in text


def test_the_page_says_that_a_selection_is_no_part_of_the_command() -> None:
    axes = {"variant": ["V"], "framework": ["torch"], "seq_len": [64]}
    one = record(cell("V", "torch", "forward", 64))
    run = run_of([one], suite="seq_scaling", settings={"axes": axes})
    text = "".join(Audit(report_page([run])).texts)
    assert "variants, frameworks and lengths of the suite. This run may have others" in text


def test_the_page_gives_the_options_that_the_run_was_called_with() -> None:
    options = ["--variants=V", "--seq-len=64", "--plugin=mine"]
    one = record(cell("V", "torch", "forward", 64))
    run = run_of([one], suite="seq_scaling", options=options, plugins=["mine"])
    text = "".join(Audit(report_page([run])).texts)
    command = (
        "synthbench run --suite seq_scaling --device cpu --variants=V --seq-len=64 --plugin=mine"
    )
    assert command in text
    assert "has the options of this run" in text and "may have others" not in text


def test_the_page_of_a_run_with_plugins_is_made_with_them() -> None:
    """They declare the metrics of their tasks: unit, label, and what is better."""
    text = "".join(Audit(report_page([run_of(list(forged("x")), plugins=["mine"])])).texts)
    assert "synthbench report made_up/one --out report.html --plugin mine" in text


# --- the command ---------------------------------------------------------------------------------


def stored(folder: Path, finished: str | None = "2026-01-02") -> Path:
    run = run_of(list(all_records())[:8], finished=finished)
    create_run(folder, run.info)
    for one in run.records:
        append_record(folder, one)
    return folder


def command(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit:
        main(["report", *arguments])
    printed = capsys.readouterr()
    assert isinstance(exit.value.code, int)
    assert "Traceback" not in printed.err
    return exit.value.code, printed.out, printed.err


def test_report_writes_one_file_for_several_runs(tmp_path: Path, capsys: Captured) -> None:
    one, two = stored(tmp_path / "made_up" / "one"), stored(tmp_path / "made_up" / "two", None)
    out = tmp_path / "new" / "r.html"
    out.parent.mkdir()
    code, printed, err = command(capsys, str(one), str(two), str(one), "--out", str(out))
    assert (code, printed) == (0, f"{out}\n")
    assert "two: not finished" in err
    made = out.read_text(encoding="utf-8")
    assert made.count("<article") == 2
    assert [path.name for path in out.parent.iterdir()] == ["r.html"]
    ids = [value for _, name, value in Audit(made).attributes if name == "id"]
    assert len(ids) == len(set(ids))


@pytest.mark.long
@pytest.mark.parametrize(("place", "given"), [("made_up", "one"), ("made_up/one", ".")])
def test_a_run_has_its_name_wherever_its_page_is_made(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, place: str, given: str
) -> None:
    stored(tmp_path / "made_up" / "one")
    monkeypatch.chdir(tmp_path / place)
    code, _, err = command(capsys, given, "--out", str(tmp_path / "r.html"))
    assert code == 0, err
    texts = Audit((tmp_path / "r.html").read_text(encoding="utf-8")).texts
    assert "synthbench tables made_up/one\n" in "".join(texts)
    assert "made_up on cpu, one" in texts
    with pytest.raises(SystemExit) as exit:
        main(["site", given, "--out", str(tmp_path / "site")])
    assert exit.value.code == 0
    index = Audit((tmp_path / "site" / "index.html").read_text(encoding="utf-8"))
    assert "made_up, one" in index.texts


def test_report_explains_what_it_cannot_do(tmp_path: Path, capsys: Captured) -> None:
    run = stored(tmp_path / "made_up" / "one")
    results = ["--results", str(tmp_path)]
    code, _, err = command(capsys, "made_up/on", *results)
    assert (code, "Did you mean" in err and "made_up/one" in err) == (2, True)
    code, _, err = command(capsys, "--results", str(tmp_path / "none"))
    assert (code, "no run found" in err) == (2, True)
    missing = tmp_path / "a" / "b" / "page.html"
    code, _, err = command(capsys, str(run), "--out", str(missing))
    assert code == 2
    assert err == (
        f"synthbench: cannot write {missing}: the folder {missing.parent} does not exist; create "
        "it, or choose another file with --out\n"
    )
    assert not (tmp_path / "a").exists()
    code, _, err = command(capsys, str(run), "--out", str(tmp_path))
    assert code == 2
    assert f"cannot write {tmp_path}: Is a directory; choose another file with --out" in err


def test_site_has_a_page_per_run_and_an_index(tmp_path: Path, capsys: Captured) -> None:
    results, out = tmp_path / "results", tmp_path / "site"
    stored(results / "made_up" / "one")
    stored(results / "made_up" / "t\"w'o <b>#1")
    stored(results / "made_up" / "torn")
    (results / "made_up" / "torn" / "run.json").write_text("{")
    with pytest.raises(SystemExit) as exit:
        main(["site", str(results), "--out", str(out)])
    printed = capsys.readouterr()
    assert (exit.value.code, printed.out) == (1, f"{out / 'index.html'}\n")
    assert "torn" in printed.err
    assert "Traceback" not in printed.err
    audit = Audit((out / "index.html").read_text(encoding="utf-8"))
    links = [unquote(value) for _, name, value in audit.attributes if name == "href"]
    assert sorted(links) == ["made_up/one/index.html", "made_up/t\"w'o <b>#1/index.html"]
    for link in links:
        assert_is_safe(Audit((out / link).read_text(encoding="utf-8")))
    assert "b" not in audit.tags
    assert "default-src 'none'" in audit.policy


def test_site_of_one_run_has_its_page_beside_the_index(tmp_path: Path, capsys: Captured) -> None:
    run, out = stored(tmp_path / "made_up" / "one"), tmp_path / "site"
    with pytest.raises(SystemExit) as exit:
        main(["site", str(run), "--out", str(out)])
    assert (exit.value.code, capsys.readouterr().out) == (0, f"{out / 'index.html'}\n")
    (link,) = re.findall(r'<a href="([^"]*)"', (out / "index.html").read_text(encoding="utf-8"))
    assert link == "one/index.html"
    assert_is_safe(Audit((out / link).read_text(encoding="utf-8")))


def test_site_without_runs_says_so(tmp_path: Path, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["site", str(tmp_path), "--out", str(tmp_path / "site")])
    assert exit.value.code == 2
    assert "no run found" in capsys.readouterr().err
    assert not (tmp_path / "site").exists()


def test_site_leaves_out_a_run_of_which_no_page_can_be_made(
    tmp_path: Path, capsys: Captured
) -> None:
    results, out = tmp_path / "results", tmp_path / "site"
    broken = stored(results / "made_up" / "a")
    (broken / "inspect" / "V.svg").mkdir(parents=True)  # a folder: it cannot be read as a picture
    stored(results / "made_up" / "b")
    with pytest.raises(SystemExit) as exit:
        main(["site", str(results), "--out", str(out)])
    assert exit.value.code == 1
    assert f"no page of {broken}: cannot read the figures" in capsys.readouterr().err
    index = (out / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'<a href="([^"]*)"', index) == ["made_up/b/index.html"]


def test_site_links_a_folder_whose_name_is_no_utf8(tmp_path: Path) -> None:
    stored(tmp_path / "results" / "made_up" / "caf\udce9")
    with pytest.raises(SystemExit) as exit:
        main(["site", str(tmp_path / "results"), "--out", str(tmp_path / "site")])
    assert exit.value.code == 0
    index = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert 'href="made_up/caf%E9/index.html"' in index
    assert (tmp_path / "site" / "made_up" / "caf\udce9" / "index.html").is_file()
