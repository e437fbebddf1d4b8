"""Data that cannot be used, through the command line: one line each, and the rest goes on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from synthbench.cli import main
from synthbench.store import read_run
from tests.clean_environment import clean_environment

SUITE = """
axes:
  task: [mqar, language_model, classification, translation, summarization, span_corruption]
  variant: [V]
  framework: [torch]
  mode: [train]
  seq_len: [24]
  batch: [2]
model: {kind: encoder_decoder, d_model: 8, heads: 2, vocabulary: 300, target_len: 24}
tasks:
  mqar: {pairs: 2, steps: 2, evaluations: 1, held_out: 2}
  language_model: {data: {file: latin1.txt}}
  classification: {data: {file: one_label.csv}}
  translation: {data: {file: wrong_columns.csv}}
  summarization: {data: {file: {path: pairs.csv, test: empty.csv}}}
  span_corruption: {data: {hf: imdb}}
by_task:
  mqar: {model: {kind: decoder}}
  language_model: {model: {kind: decoder}}
  classification: {model: {kind: classifier, labels: 2}}
measure: {timeout_seconds: 60, kernel_seconds: 0, ceiling: false}
"""
FILES = {
    "latin1.txt": "fine\ncaf\xe9\n".encode("latin-1"),
    "one_label.csv": b"text,label\na,x\nb,x\nc,x\nd,x\n",
    "wrong_columns.csv": b"german,english\nja,yes\nnein,no\n",
    "pairs.csv": b"document,summary\na b,a\nc d,c\n",
    "empty.csv": b"document,summary\n",
}
UNREACHABLE = """
def load_dataset(*names, **options):
    raise ConnectionError("Couldn't reach 'imdb' on the Hub")
"""
SAID = {
    "language_model": "latin1.txt is not UTF-8 text",
    "classification": "every text to train on has the label 'x'; give texts with at least two",
    "translation": "there is no column 'source'; it has 'german, english'",
    "summarization": "data file empty.csv has no rows",
    "span_corruption": 'on the Hub"; tried the Hugging Face hub and the cache of datasets',
}


@pytest.mark.long
def test_each_is_one_line_and_the_other_cells_are_run(tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "datasets.py").write_text(UNREACHABLE)
    (tmp_path / "mine.yaml").write_text(SUITE)
    environment = clean_environment()
    environment["PYTHONPATH"] += f":{modules}"
    ended = subprocess.run(
        [sys.executable, "-m", "synthbench", "run", "--suite", "mine.yaml", "--device", "cpu",
         "--out", "out"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    told = ended.stdout + ended.stderr
    assert "Traceback" not in told
    found = {record.cell.task: record for record in read_run(tmp_path / "out").records}
    assert found.pop("mqar").outcome == "ok", told
    assert found.keys() == SAID.keys()
    for task, record in found.items():
        assert record.outcome == "crashed" and SAID[task] in record.reason
        assert "\n" not in record.reason and "(in " not in record.reason
        assert sum(SAID[task] in line for line in ended.stderr.splitlines()) == 1
    assert ended.returncode == 1


@pytest.mark.parametrize(
    ("task", "model", "message"),
    [
        ("language_model", "kind: decoder, vocabulary: 6", "tokenizer bytes has 259 tokens"),
        ("classification", "kind: classifier, labels: 2, vocabulary: 6", "bytes has 259 tokens"),
        ("listops", "kind: classifier, labels: 2, vocabulary: 20", "got labels 2: set it to 10"),
        ("mqar", "kind: decoder, vocabulary: 6", "vocabulary"),
    ],
)
def test_a_vocabulary_or_labels_that_are_too_few_are_one_line(
    task: str, model: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(
        f"axes: {{task: [{task}], variant: [V], framework: [torch], mode: [train], "
        f"seq_len: [64]}}\nmodel: {{{model}, d_model: 8, heads: 2}}\n"
    )
    with pytest.raises(SystemExit) as ended:
        main(["run", "--suite", "mine.yaml", "--device", "cpu", "--out", "out"])
    captured = capsys.readouterr()
    told = re.sub(r"\s+", " ", captured.out + captured.err)
    assert ended.value.code != 0
    assert f"task {task}" in told and message in told
    assert "Traceback" not in told
