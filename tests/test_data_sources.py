"""Where texts come from: a seed gives the same rows, and no text is both learned and tested."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synthbench.errors import (
    DataError,
    NotationError,
    PackageMissingError,
    SynthbenchError,
    UnknownNameError,
)
from synthbench.tasks.data.base import DataSource, Rows
from synthbench.tasks.data.catalog import source_of
from synthbench.tasks.data.generated import DOCUMENT, FOLLOWERS, GROUPS, Generated
from synthbench.tasks.data.read import read_splits

GOLDEN = {
    ("text", "label"): "722001f75402",
    ("source", "target"): "b0fb95d2133f",
    ("document", "summary"): "e9a9c508bc73",
}
Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """A function that writes a file into an empty working directory."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, content: str | bytes) -> Path:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return Path(name)

    return write


def texts(data: Any, *columns: str, seed: int = 0) -> dict[str, dict[str, list[str]]]:
    """Split -> column -> texts."""
    found = read_splits(source_of(data), columns, seed)
    return {
        split: {name: list(own) for name, own in rows.columns.items()}
        for split, rows in found.items()
    }


# --- generated -----------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", GROUPS)
def test_a_seed_gives_the_same_rows_on_every_machine(columns: tuple[str, str]) -> None:
    rows = read_splits(source_of("generated"), columns, 0)
    assert rows["train"].digest[:12] == GOLDEN[columns]
    assert (len(rows["train"]), len(rows["test"])) == (18_000, 2_000)
    other = read_splits(source_of("generated"), columns, 1)
    assert rows["train"].digest != other["train"].digest


def test_translations_replace_each_word_and_reverse_the_order() -> None:
    rows = texts({"generated": 500}, "source", "target")
    pairs: dict[str, set[str]] = {}
    for split in rows.values():
        for source, target in zip(split["source"], split["target"], strict=True):
            words = zip(source.split()[:-1], target.split()[-2::-1], strict=True)
            for one, other in words:
                pairs.setdefault(one, set()).add(other)
    assert len(pairs) == 64
    assert all(len(others) == 1 for others in pairs.values())
    assert len(set.union(*pairs.values())) == 64


def test_a_summary_is_the_first_word_of_each_sentence() -> None:
    rows = texts({"generated": 500}, "document", "summary")["train"]
    for document, summary in zip(rows["document"], rows["summary"], strict=True):
        sentences = document.removesuffix(" .").split(" . ")
        assert DOCUMENT[0] <= len(sentences) <= DOCUMENT[1]
        assert summary == " ".join(sentence.split()[0] for sentence in sentences) + " ."


def test_each_label_has_its_own_rule_for_the_next_word() -> None:
    rows = texts({"generated": {"rows": 2000, "labels": 3}}, "text", "label")["train"]
    followers: dict[tuple[str, str], set[str]] = {}
    for text, label in zip(rows["text"], rows["label"], strict=True):
        words = text.split()[:-1]
        for one, other in itertools.pairwise(words):
            followers.setdefault((label, one), set()).add(other)
    assert {label for label, _ in followers} == {"label0", "label1", "label2"}
    assert max(map(len, followers.values())) <= FOLLOWERS
    differ = [w for (label, w) in followers if label == "label0"
              and followers[label, w] != followers.get(("label1", w))]  # fmt: skip
    assert len(differ) > 30
    used = [{word for own, word in followers if own == label} for label in ("label0", "label1")]
    assert [len(words) for words in used] == [48, 48]  # of 64
    assert used[0] != used[1]


@pytest.mark.parametrize("columns", GROUPS)
def test_no_generated_text_is_both_learned_and_tested(columns: tuple[str, str]) -> None:
    rows = texts({"generated": 3000}, *columns, seed=5)
    first = [rows[split][columns[0]] for split in ("train", "test")]
    assert len(set(first[0]) | set(first[1])) == 3000


def test_a_language_that_is_too_small_says_how_many_rows_it_has() -> None:
    with pytest.raises(DataError, match=r"2 words make only \d+ different rows of text"):
        Generated(rows=5000, words=2).splits(["text"], 0)


# --- file ----------------------------------------------------------------------------------------

ROWS = st.lists(
    st.tuples(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=20),
              st.sampled_from("ab")),
    min_size=2, max_size=12, unique_by=lambda row: row[0],
)  # fmt: skip


def as_csv(path: Path, rows: list[tuple[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])


def as_tsv(path: Path, rows: list[tuple[str, str]]) -> None:
    lines = ["\t".join(row) for row in [("text", "label"), *rows]]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")


def as_jsonl(path: Path, rows: list[tuple[str, str]]) -> None:
    lines = [json.dumps({"label": label, "text": text}, ensure_ascii=False) for text, label in rows]
    path.write_text("\n".join(lines), encoding="utf-8", newline="")


@pytest.mark.parametrize("writer", [as_csv, as_tsv, as_jsonl])
@given(rows=ROWS, seed=st.integers(0, 3))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(
    tmp_path: Path, writer: Callable[..., None], rows: list[tuple[str, str]], seed: int
) -> None:
    if writer is as_tsv:
        rows = [(text.replace("\t", " "), label) for text, label in rows]
        rows = list(dict(rows).items())
        if len(rows) < 2:
            return
    path = tmp_path / f"rows.{writer.__name__.removeprefix('as_')}"
    writer(path, rows)
    found = texts({"file": {"path": str(path), "test": 0.3}}, "text", "label", seed=seed)
    both = [(t, lab) for own in found.values() for t, lab in zip(*own.values(), strict=True)]
    assert sorted(both) == sorted(rows)
    assert len(found["test"]["text"]) == min(max(1, round(0.3 * len(rows))), len(rows) - 1)


def test_the_lines_of_a_text_stay_together(write: Write) -> None:
    lines = [f"line {n}" for n in range(40)]
    path = write("a.txt", "\n\n".join(lines) + "\r\n")
    pieces = {seed: texts({"file": str(path)}, "text", seed=seed) for seed in range(4)}
    for found in pieces.values():
        test = found["test"]["text"]
        first = lines.index(test[0])
        assert test == lines[first : first + 4]
        assert found["train"]["text"] == lines[:first] + lines[first + 4 :]
    assert len({found["test"]["text"][0] for found in pieces.values()}) > 1


def test_what_is_tested_is_left_out_of_training(write: Write) -> None:
    write("train.csv", "text,label\na,1\nb,2\na,2\nc,1\nc,1\n")
    write("test.csv", "text,label\na,1\nd,2\n")
    found = texts({"file": {"path": "train.csv", "test": "test.csv"}}, "text", "label")
    assert found == {
        "train": {"text": ["b", "c", "c"], "label": ["2", "1", "1"]},
        "test": {"text": ["a", "d"], "label": ["1", "2"]},
    }
    write("same.csv", "text\na\na\n")
    with pytest.raises(DataError, match="every text of its split train is in its split test too"):
        texts({"file": "same.csv"}, "text")


def test_columns_have_the_names_or_the_places_of_the_file(write: Write) -> None:
    write("a.jsonl", '{"pair": {"en": "one", "de": "eins"}}\n{"pair": {"en": "two", "de": "zwei"}}')
    nested = {"path": "a.jsonl", "columns": {"source": "pair.en", "target": "pair.de"}}
    found = texts({"file": nested}, "source", "target")
    assert {own["source"][0]: own["target"][0] for own in found.values()} == {
        "one": "eins", "two": "zwei",
    }  # fmt: skip
    write("b.csv", '"3","first ""one"""\n"1","second"\n')
    placed = {"path": "b.csv", "columns": {"label": 1, "text": 2}}
    found = texts({"file": placed}, "text", "label")
    assert {own["text"][0]: own["label"][0] for own in found.values()} == {
        'first "one"': "3", "second": "1",
    }  # fmt: skip


def test_a_tab_separated_file_may_hold_quotation_marks(write: Write) -> None:
    write("a.tsv", 'text\tlabel\n"so\t1\nit " is\t0\n')
    found = texts({"file": "a.tsv"}, "text", "label")
    assert {own["text"][0] for own in found.values()} == {'"so', 'it " is'}


def test_numbers_become_texts_and_a_byte_order_mark_is_left_out(write: Write) -> None:
    write("a.jsonl", "\ufeff" + '{"text": "a", "label": 1}\n\n{"text": "b", "label": 0}\n')
    found = texts({"file": "a.jsonl"}, "text", "label")
    assert sorted(own["label"][0] for own in found.values()) == ["0", "1"]


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("missing.csv", None, ["text"], "data file missing.csv is not there; give the path"),
        ("a.pdf", "x", ["text"], r"file a.pdf: its format '.pdf' not known. Known: .csv, .jsonl"),
        ("a.csv", "text,label\na,b\nc,d\n", ["source"],
         r"data file a.csv: there is no column 'source'; it has 'text, label'. Name the file's"),
        ("a.txt", "a\nb\n", ["text", "label"], "a.txt: there is no column 'label'; it has 'text'"),
        ("a.jsonl", '{"text": "a"}\n{"txt": "b"}\n', ["text"], "line 2: there is no column 'text'"),
        ("a.txt", b"fine\ncaf\xe9\n", ["text"], r"a.txt is not UTF-8 text \(.* at byte 8\)"),
        ("a.txt", "\n \n", ["text"], "data file a.txt has no rows"),
        ("a.csv", "", ["text"], "there is no column 'text'; it has 'none'"),
        ("a.csv", "text,label,text\na,b,c\n", ["text"], "a.csv: 2 columns are called 'text'; give"),
        ("a.csv", "text\n", ["text"], "data file a.csv has no rows"),
        ("a.jsonl", "", ["text"], "data file a.jsonl has no rows"),
        ("a.txt", "one\n", ["text"], "data file a.txt has 1 row; at least 2 are needed"),
        ("a.csv", "text,label\na,b\nc\n", ["text"], "line 3: 1 fields, and the first line has 2"),
        ("a.csv", 'text\n"a\n', ["text"], "a.csv, line 2: unexpected end of data"),
        ("a.jsonl", '{"text": 1}\n{"text":}\n', ["text"], "line 2: '{\"text\":}' is not JSON"),
        ("a.jsonl", '["a"]\n', ["text"], r"line 1: \['a'\] is not a JSON object"),
        ("a.jsonl", '{"text": null}\n', ["text"], "line 1: text is None; expected a text"),
        ("a.jsonl", '{"text": "\\ud800"}\n{"text": "b"}', ["text"], "of text is .*, not a text"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_one_line(
    write: Write, name: str, content: str | bytes | None, columns: list[str], message: str
) -> None:
    if content is not None:
        write(name, content)
    with pytest.raises(SynthbenchError, match=message) as raised:
        read_splits(source_of({"file": name}), columns, 0)
    assert "\n" not in str(raised.value)


def test_a_folder_is_no_file(write: Write, tmp_path: Path) -> None:
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(DataError, match=r"data file a.csv is a folder"):
        source_of({"file": "a.csv"}).check(["text"])


# --- hf ------------------------------------------------------------------------------------------


class Hub:
    """A made-up module `datasets`."""

    def __init__(self, **splits: list[dict[str, Any]]) -> None:
        self.splits = splits
        self.asked: list[Any] = []

    def load_dataset(self, *names: Any, revision: Any, split: str) -> list[dict[str, Any]]:
        self.asked.append((*names, revision, split))
        if split not in self.splits:
            raise ValueError(f'Unknown split "{split}".\nShould be one of {list(self.splits)}.')
        return self.splits[split]


def test_a_data_set_of_the_hub_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [{"translation": {"de": f"wort {n}", "en": f"word {n}"}} for n in range(4)]
    hub = Hub(train=pairs, validation=[{"translation": {"de": "neu", "en": "new"}}])
    monkeypatch.setitem(sys.modules, "datasets", hub)
    options = {
        "dataset": "wmt14", "config": "de-en", "revision": "abc", "test": "validation",
        "columns": {"source": "translation.en", "target": "translation.de"},
    }  # fmt: skip
    found = texts({"hf": options}, "source", "target")
    assert found["test"] == {"source": ["new"], "target": ["neu"]}
    assert found["train"]["target"] == [f"wort {n}" for n in range(4)]
    assert hub.asked == [("wmt14", "de-en", "abc", s) for s in ("train", "validation")]
    share = texts({"hf": options | {"test": 0.25}}, "source", "target", seed=1)
    assert (len(share["train"]["source"]), len(share["test"]["source"])) == (3, 1)


def test_a_data_set_that_cannot_be_had_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", Hub(train=[{"text": "a"}]))
    with pytest.raises(DataError) as raised:
        read_splits(source_of({"hf": "imdb"}), ["text"], 0)
    told = str(raised.value)
    assert "\n" not in told
    for part in ("hf: 'imdb' (split test) cannot be loaded: ValueError", "Unknown split",
                 "tried the Hugging Face hub and the cache", "give a file instead"):  # fmt: skip
        assert part in told
    with pytest.raises(DataError, match="hf: imdb, split train: there is no column 'label'; it"):
        read_splits(source_of({"hf": "imdb"}), ["label"], 0)

    def unreachable(*names: Any, **options: Any) -> None:
        raise ConnectionError("Couldn't reach 'imdb' on the Hub")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=unreachable))
    with pytest.raises(DataError, match=r"ConnectionError.*Couldn't reach.*give a file instead"):
        read_splits(source_of({"hf": "imdb"}), ["text"], 0)


def test_without_the_package_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(PackageMissingError, match=r"pip install 'synthbench\[data\]'"):
        source_of({"hf": "imdb"}).check(["text"])


# --- the option `data`, and what a source may give -----------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("fil", "data source 'fil' not known. Did you mean file?"),
        ("file", "data source file has no path; give one"),
        ("hf", "data source hf has no dataset; give its name"),
        (3, "data is 3; give the name of one data source"),
        ({}, "data is {}; give the name of one data source"),
        ({"file": "a.txt", "hf": "b"}, "give the name of one data source"),
        ({"file": {"pth": "a.txt"}}, "option of data source file 'pth' not known.*path"),
        ({"file": 3}, "data source file: path is 3; expected str"),
        ({"file": {"path": "a.txt", "test": True}}, "test is True; expected float or str"),
        ({"file": {"path": "a.txt", "test": 1}}, "test is 1; give a share of the rows between 0"),
        ({"file": {"path": "a.txt", "columns": "b"}}, "columns is 'b'; expected mapping"),
        ({"file": {"path": "a.txt", "columns": {"text": 0}}}, "columns: text is 0; give the name"),
        ({"hf": {"dataset": "a", "columns": {"text": 1}}}, "columns: text is 1; give the name"),
        ({"hf": {"dataset": "a", "config": 1}}, "config is 1; expected str"),
        ({"hf": {"dataset": "a", "test": 2.0}}, "test is 2.0; give a share"),
        ({"generated": {"rows": 1}}, "rows is 1; give 2 to 10000000"),
        ({"generated": {"words": 1}}, "words is 1; give 2 to"),
        ({"generated": {"test": 0.0}}, "test is 0.0; give a share"),
    ],
)
def test_a_wrong_option_data_is_one_line(data: Any, message: str) -> None:
    with pytest.raises((UnknownNameError, NotationError), match=message) as raised:
        source_of(data)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({"text": ["a"]}, "there is no column 'label'; it has text"),
        ({"text": ["a"], "label": []}, "its columns have different numbers of rows"),
        ({"text": [], "label": []}, "split train: it is empty"),
        ({"text": ["a", 3], "label": ["b", "c"]}, "row 2 of text is 3, not a text"),
    ],
)
def test_what_a_source_may_not_give_is_one_line(train: dict[str, list[Any]], message: str) -> None:
    class Wrong(DataSource):
        name = "wrong"

        def splits(self, columns: Any, seed: int) -> Mapping[str, Rows]:
            return {"train": Rows(train), "test": Rows({"text": ["x"], "label": ["y"]})}

    with pytest.raises(DataError, match=message):
        read_splits(Wrong(), ["text", "label"], 0)


def test_the_digest_is_of_every_text_and_its_place() -> None:
    rows = [
        {"text": ["ab", "c"]}, {"text": ["a", "bc"]}, {"text": ["c", "ab"]}, {"text": ["ab"]},
        {"texts": ["ab", "c"]}, {"text": ["ab", "c"], "label": ["1", "2"]},
        {"text": ["ab", "c"], "label": ["2", "1"]},
    ]  # fmt: skip
    assert len({Rows(one).digest for one in rows}) == len(rows)
    assert Rows({"a": ["1"], "b": ["2"]}).digest == Rows({"b": ["2"], "a": ["1"]}).digest
