"""Each extension point: an entry from a file outside the package is listed, run, and refused."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import synthbench
from synthbench.cli import main
from synthbench.errors import NotationError, SynthbenchError
from synthbench.run.extensions import REGISTRIES, load_plugin
from synthbench.store import read_run
from synthbench.suites.cell import model_of
from synthbench.tasks.catalog import task_of
from synthbench.tasks.data.catalog import source_of
from synthbench.tasks.data.read import read_splits
from synthbench.tasks.learning.language_model import LanguageModel

ROOT = Path(__file__).resolve().parents[1]
Captured = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("registry")

MODULE_OF = {"docs/adding_a_task.md": "my_tasks", "docs/adding_an_executor.md": "my_executors",
             "docs/adding_a_data_source.md": "my_data"}  # fmt: skip

SMALL = """
axes: {variant: [V, R], framework: [torch], mode: [train], seq_len: [8, 12]}
model: {kind: decoder, d_model: 8, heads: 2, vocabulary: 16}
measure: {min_samples: 1, min_seconds: 0.001, max_seconds: 0.1, ceiling: false, rounds: 2}
"""


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no {language} block"
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the modules of the pages, as they are written there."""
    for page, module in MODULE_OF.items():
        (block,) = blocks(page, "python")
        assert block.startswith(f"# {module}.py")
        (tmp_path / f"{module}.py").write_text(block, encoding="utf-8")
        monkeypatch.delitem(sys.modules, module, raising=False)
    (tmp_path / "rounding.yaml").write_text(blocks("docs/adding_a_task.md", "yaml")[0])
    (tmp_path / "sums.yaml").write_text(blocks("docs/adding_a_data_source.md", "yaml")[0])
    (tmp_path / "small.yaml").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    importlib.invalidate_caches()
    return tmp_path


def call(capsys: Captured, line: str) -> tuple[int, str]:
    """Exit code and everything printed of a command of a page."""
    capsys.readouterr()
    code: Any = 0
    words = [word.strip('"') for word in line.split()]
    assert words[0] == "synthbench"
    try:
        main(words[1:])
    except SystemExit as ended:
        code = ended.code or 0
    out, err = capsys.readouterr()
    return code, out + err


def commands(page: str) -> list[str]:
    return [line for block in blocks(page, "bash") for line in block.splitlines()]


@pytest.mark.long
def test_the_task_of_the_page_runs_as_written(folder: Path, capsys: Captured) -> None:
    listed, run, export = commands("docs/adding_a_task.md")
    code, printed = call(capsys, listed)
    assert (code, "rounding" in printed) == (0, True)
    code, printed = call(capsys, run)
    assert code == 0, printed
    records = read_run(folder / "results" / "rounding" / "first").records
    assert {record.outcome for record in records} == {"ok"}
    assert len(records) == 3 * 2 * 2  # variants, frameworks, dtypes
    errors = {(r.cell.framework, r.cell.dtype): r.measurements.values["rounding_error"]
              for r in records if r.cell.variant == "V"}  # fmt: skip
    for framework in ("torch", "jax"):
        wide, narrow = errors[framework, "float32"], errors[framework, "bfloat16"]
        assert wide is not None and narrow is not None
        assert 0 < wide < 1e-5 < narrow < 0.1
    assert all(record.measurements.parity is not None for record in records)
    code, printed = call(capsys, export)
    assert code == 0
    assert "rounding_error" in printed.splitlines()[0]


def test_a_task_refuses_cells_and_options_clearly(folder: Path, capsys: Captured) -> None:
    text = (folder / "rounding.yaml").read_text()
    (folder / "long.yaml").write_text(text.replace("seq_len: [32]", "seq_len: [5000]"))
    run = "synthbench run --suite {} --device cpu --plugin my_tasks --out out"
    code, printed = call(capsys, run.format("long.yaml"))
    assert code == 2
    assert "rounding takes lengths up to 4096, got 5000" in printed
    (folder / "wrong.yaml").write_text(text.replace("{norm: largest}", "{norn: largest}"))
    code, printed = call(capsys, run.format("wrong.yaml"))
    assert code == 2
    assert "option of task rounding 'norn' not known" in printed
    (folder / "other.yaml").write_text(text.replace("norm: largest", "norm: 3"))
    code, printed = call(capsys, run.format("other.yaml"))
    assert (code, "norm is 3; expected str" in printed) == (2, True)
    (folder / "unknown.yaml").write_text(text.replace("[rounding]", "[roundin]"))
    code, printed = call(capsys, run.format("unknown.yaml"))
    assert (code, "task 'roundin' not known" in printed) == (2, True)
    (folder / "train.yaml").write_text(text.replace("mode: [forward]", "mode: [train]"))
    code, printed = call(capsys, run.format("train.yaml"))
    assert (code, "task rounding has no mode train; use forward" in printed) == (2, True)
    assert "Traceback" not in printed


@pytest.mark.long
def test_a_value_that_is_not_possible_is_the_outcome_of_its_cell(
    folder: Path, capsys: Captured
) -> None:
    """The run goes on, though the task has said what comes next after it filled that in."""
    text = (folder / "my_tasks.py").read_text()
    stage = 'context.stage("running the framework")'
    wrong = 'context.measured.values["guess"] = "high"'
    assert stage in text
    (folder / "my_tasks.py").write_text(text.replace(stage, f"{wrong}; {stage}"))
    run = "synthbench run --suite rounding.yaml --device cpu --framework torch --variants V,R "
    code, printed = call(capsys, run + "--plugin my_tasks --out out")
    assert (code, "Traceback" in printed) == (1, False)
    records = read_run(folder / "out").records
    assert [record.outcome for record in records] == ["quarantined"] * 4
    assert all("values.guess is 'high', which is not possible" in r.reason for r in records)


@pytest.mark.long
def test_the_executor_of_the_page_runs_as_written(folder: Path, capsys: Captured) -> None:
    listed, run = commands("docs/adding_an_executor.md")
    assert "shard_by_shard" in call(capsys, listed)[1]
    quick = run.replace("--suite smoke", "--suite small.yaml --out out --device cpu")
    code, printed = call(capsys, quick)
    assert code == 0, printed
    assert "shard 2 of 2: 3 cells" in printed  # V, its A/A twin, R
    read = read_run(folder / "out")
    assert read.info.executor == "shard_by_shard"
    assert [record.cell.seq_len for record in read.records] == [8] * 6 + [12] * 6
    (machine,) = read.info.machines
    assert {record.machine for record in read.records} == {machine.id}


def test_an_unknown_executor_is_one_message(folder: Path, capsys: Captured) -> None:
    code, printed = call(capsys, "synthbench run --suite small.yaml --device cpu --executor slurn")
    assert code == 2
    assert "executor 'slurn' not known" in printed and "local" in printed


@pytest.mark.long
def test_the_data_source_of_the_page_runs_as_written(folder: Path, capsys: Captured) -> None:
    listed, run = commands("docs/adding_a_data_source.md")
    assert re.search(
        r"^sums +sums of two numbers, even and odd +largest=99", call(capsys, listed)[1], re.M
    )
    code, printed = call(capsys, f"{run} --device cpu --variants V --out out")
    assert code == 0, printed
    (record,) = read_run(folder / "out").records
    training = record.measurements.training
    assert training is not None
    first, *_, last = (evaluation.metrics["bits_per_byte"] for evaluation in training.evaluations)
    assert last < first / 2
    load_plugin("my_data")
    task = task_of(record.cell)
    assert isinstance(task, LanguageModel)
    splits = task.examples(model_of(record.cell), record.cell.seq_len, record.cell.seed)
    assert training.data == {split: examples.digest for split, examples in splits.items()}
    train, test = (task.corpus.rows[split].columns["text"] for split in ("train", "test"))
    assert (len(train), len(test)) == (2000, 500)  # 50 times 50 sums
    assert not set(train) & set(test)
    (folder / "wrong.yaml").write_text((folder / "sums.yaml").read_text().replace("{sums", "{sum"))
    code, printed = call(capsys, run.replace("sums.yaml", "wrong.yaml") + " --device cpu")
    assert (code, "data source 'sum' not known" in printed) == (2, True)
    assert "Did you mean sums?" in printed and "Traceback" not in printed


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("class A(synthbench.Task):\n    name = 'a'", r"A has no run\(\)"),
        ("class A(synthbench.Task):\n    name = 'A b'\n    def run(self, c): pass", "lower-case"),
        ("class A(synthbench.Task):\n    name = 'cost'\n    def run(self, c): pass", "is taken"),
        ("class A(synthbench.Task):\n    name = 'a'\n    metrics = {'m': 3}\n"
         "    def run(self, c): pass", r"metrics\['m'\] is 3; give a synthbench.Metric"),
        ("class A(synthbench.Executor):\n    name = 'a'", r"A has no start\(\)"),
        ("class A(synthbench.Executor):\n    name = 'a'\n    def start(self, w): pass",
         r"A has no measure\(\)"),
        ("class A(synthbench.DataSource):\n    name = 'a'", r"A has no splits\(\)"),
        ("class A(synthbench.Mixer):\n    name = 'a'", r"A has no parameters\(\)"),
        ("class A(synthbench.Component):\n    name = 'a'", r"A has no parameters\(\)"),
        ("x = 3", "defines no subclass of"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_class_is_one_message(
    folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    (folder / "wrong_plugin.py").write_text(f"import synthbench\n\n\n{code}\n")
    monkeypatch.delitem(sys.modules, "wrong_plugin", raising=False)
    importlib.invalidate_caches()
    with pytest.raises(SynthbenchError, match=message):
        load_plugin("wrong_plugin")


def test_a_data_source_without_a_split_is_refused() -> None:
    class Half(synthbench.DataSource):
        name = "half"

        def splits(self, columns: Sequence[str], seed: int) -> Mapping[str, synthbench.Rows]:
            return {"train": synthbench.Rows({"text": ["a"]})}

    synthbench.register(Half)
    with pytest.raises(NotationError, match="must give the splits train and test"):
        read_splits(source_of("half"), ["text"], 0)


@pytest.mark.parametrize("page", MODULE_OF)
def test_the_entry_points_of_the_pages_name_their_classes(folder: Path, page: str) -> None:
    (block,) = blocks(page, "toml")
    ((group, points),) = tomllib.loads(block)["project"]["entry-points"].items()
    assert group in {registry.group for registry in REGISTRIES}
    classes = {cls.name: cls for cls in load_plugin(MODULE_OF[page])}
    for name, target in points.items():
        module, _, attribute = target.partition(":")
        assert getattr(importlib.import_module(module), attribute) is classes[name]


def test_each_extension_point_has_a_page() -> None:
    for registry in REGISTRIES:
        assert (ROOT / registry.page).is_file(), registry.page
