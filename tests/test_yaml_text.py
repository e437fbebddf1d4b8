"""YAML that is made to be slow, huge or unreadable: one message, without delay."""

from __future__ import annotations

import pytest

from synthbench.errors import NotationError
from synthbench.suites.suite import parse_suite
from synthbench.suites.yaml_text import MAX_CHARACTERS, MAX_DEPTH, read_yaml


def bomb(entry: str) -> str:
    """40 levels, each with nine aliases of the one before: 9^40 values."""
    levels = [entry.format(n, ", ".join([f"*a{n - 1}"] * 9)) for n in range(1, 40)]
    return "\n".join(["a0: &a0 {k: 1, l: 2}", *levels])


SUITE = "axes: {variant: [V], seq_len: [%s]}\nmodel: {d_model: 8, heads: 2}\n"
DEEP = "\n".join(" " * depth + "a:" for depth in range(400))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (bomb("a{0}: &a{0} [{1}]"), "more than 100000 values with aliases"),
        (bomb("a{0}: &a{0} {{{{<<: [{1}]}}}}"), "more than 100000 values with aliases"),
        (bomb("? &a{0} [{1}]\n: 1"), "more than 100000 values with aliases"),
        ("a: &a {<<: *a}", "a.<<: circular YAML alias"),
        ("a: &a {<<: [{b: 1}, *a]}", "circular YAML alias"),
        ("a: &a [[*a]]", "a.0.0: circular YAML alias"),
        ("a: " + "[" * 50_000, "nested too deeply"),
        (DEEP, "nested too deeply"),
        ("a: &a {b: &b {c: &c {}}}\n" + "d: " + "{e: " * 60 + "*a" + "}" * 60, "nested too deeply"),
        ("a: " + "9" * 5000, "an integer of more than 1000 digits"),
        ("a: 0x" + "f" * 5000, "an integer of more than 1000 digits"),
        ("a: " + ":".join(["59"] * 20_000), "an integer of more than 1000 digits"),
        (SUITE % ("0x" + "f" * 5000), "an integer of more than 1000 digits"),
        ("a: b\n" * (MAX_CHARACTERS // 4), f"has at most {MAX_CHARACTERS}"),
        ("a: \0", "not valid YAML: unacceptable character"),
        ("a: !!python/object/apply:os.system [ls]", "not valid YAML: line 1: could not determine"),
        ("a:\n\tb: 1", "not valid YAML: line 2: a tab; indent with spaces"),
        ("a:\n  b: @1", "not valid YAML: line 2: a character that no value begins with"),
        ("a:\n  b: 1\n c: 2", "not valid YAML: line 3: this line is indented unlike"),
        ("a: b: 1", "not valid YAML: line 1: a `:` that cannot be here"),
        ("a:\n  b 1\n  c: 2", "not valid YAML: line 3: a `:` that cannot be here"),
        ('a: "b\nc: 1', "not valid YAML: line 2: the file ends inside quotation marks"),
        ("a: 1\nb\nc: 1", "not valid YAML: line 3: a key without `:`"),
        ("a: [1\nb: 2", "not valid YAML: line 2: inside [...], after a value comes `,` or `]`"),
        ("a: {b: 1\nc: 2", "not valid YAML: line 2: inside {...}, after a value comes `,` or `}`"),
        ("a: *b", "not valid YAML: line 1: found undefined alias 'b'\n  a: *b\n     ^"),
    ],
    ids=lambda value: value[:20],
)
def test_what_cannot_be_read_is_one_message(text: str, part: str) -> None:
    with pytest.raises(NotationError) as caught:
        parse_suite(text, name="mine", source="mine.yaml")
    message = str(caught.value)
    assert message.startswith("mine.yaml: ")
    assert part in message
    assert len(message) < 1000


def test_large_integers_are_shown_without_a_traceback() -> None:
    with pytest.raises(NotationError, match=r"mine\.yaml: axes\.seq_len"):
        parse_suite(SUITE % ("-0x" + "f" * 900), name="mine", source="mine.yaml")


def test_a_file_as_deep_as_allowed_is_read() -> None:
    depth = MAX_DEPTH - 2
    content = read_yaml("a: " + "[" * depth + "]" * depth, "mine.yaml")
    for _ in range(depth - 1):
        content = content["a"] if isinstance(content, dict) else content[0]
    assert content == [[]]


def test_a_merged_key_may_be_replaced_in_any_order() -> None:
    """The second alias is made a value before the mapping that it refers to."""
    text = "outer: {b: &b {<<: {x: 1, y: 1}, x: 2}}\nc: {<<: *b}\nd: {<<: *b, x: 3}"
    assert read_yaml(text, "mine.yaml") == {
        "outer": {"b": {"x": 2, "y": 1}}, "c": {"x": 2, "y": 1}, "d": {"x": 3, "y": 1},
    }  # fmt: skip


@pytest.mark.parametrize("text", ["a: 1\na: 2", "b: {c: {a: 1, a: 2}}", "b: {<<: {a: 1, a: 2}}"])
def test_a_key_that_is_given_twice_is_refused(text: str) -> None:
    with pytest.raises(NotationError, match="key 'a' is given twice"):
        read_yaml(text, "mine.yaml")


def test_an_empty_file_has_no_content() -> None:
    assert read_yaml("", "mine.yaml") is None
    assert read_yaml("a: 1_000\nb: 0x10\nc: 1:30", "mine.yaml") == {"a": 1000, "b": 16, "c": 90}
