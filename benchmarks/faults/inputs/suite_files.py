"""Suite files that are not YAML, not a mapping, or whose text is hostile."""

from __future__ import annotations

from benchmarks.faults.case import Case, Content
from benchmarks.faults.inputs.examples import SUITE

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
MERGE_BOMB = "m0: &m0 {k: 1}\n" + "".join(
    f"m{n}: &m{n}\n  <<: [{', '.join([f'*m{n - 1}'] * 9)}]\n" for n in range(1, 12)
)

TEXTS: dict[str, Content] = {
    "empty": "",
    "only a comment": "# nothing\n",
    "null": "null",
    "a number": "3",
    "a text": "hello",
    "a list": "[1, 2]",
    "a list of mappings": "- axes: {}\n- model: {}\n",
    "a date": "2026-01-01",
    "a set": "!!set {a, b}",
    "an omap": "!!omap [a: 1]",
    "two documents": f"{SUITE}---\n{SUITE}",
    "an empty mapping": "{}",
    "a tab for indentation": "axes:\n\tvariant: [V]\n",
    "an open bracket": "axes: {variant: [V\n",
    "an open quote": "axes: 'variant\n",
    "a closing bracket": "axes: ]\n",
    "a bad escape": 'axes: "\\q"\n',
    "a bad indentation": "axes:\n  variant: [V]\n seq_len: [8]\n",
    "an unknown anchor": "axes: *nowhere\n",
    "a circular alias": "axes: &a {variant: *a}\n",
    "a circular list": "axes: &a [*a]\n",
    "an alias bomb": BOMB + SUITE,
    "a merge bomb": MERGE_BOMB + SUITE,
    "a merge of a number": f"<<: 3\n{SUITE}",
    "a merge of itself": "axes: &a\n  <<: *a\n",
    "a Python object": "axes: !!python/object/apply:os.system ['touch hacked']\n",
    "a Python name": "axes: !!python/name:os.system\n",
    "an unknown tag": "axes: !nonsense {}\n",
    "a directive": "%YAML 9.9\n---\n" + SUITE,
    "5000 digits": SUITE + f"margin: {'9' * 5000}\n",
    "5000 hexadecimal digits": SUITE + f"margin: 0x{'f' * 5000}\n",
    "a number in base 60": SUITE + f"margin: 1{':59' * 3000}\n",
    "deep lists": "axes: " + "[" * 20_000,
    "deep closed lists": "axes: " + "[" * 5_000 + "]" * 5_000,
    "deep mappings": "{a: " * 5_000 + "1" + "}" * 5_000,
    "a duplicate key": SUITE + "margin: 0.1\nmargin: 0.2\n",
    "a key that is a list": "? [a, b]\n: c\n" + SUITE,
    "a key that is a mapping": "? {a: b}\n: c\n" + SUITE,
    "a key that is a number": "1: 2\n" + SUITE,
    "a key that is null": "~: 2\n" + SUITE,
    "a key that is a date": "2026-01-01: 2\n" + SUITE,
    "Latin-1": b"description: caf\xe9\n" + SUITE.encode(),
    "UTF-16": SUITE.encode("utf-16"),
    "UTF-32": SUITE.encode("utf-32"),
    "a truncated UTF-8 character": SUITE.encode() + b"description: \xe2\x82",
    "an encoded surrogate": SUITE.encode() + b"description: \xed\xb3\xa9\n",
    "an escaped surrogate in a variant": SUITE.replace("[V, R]", '["V\\udce9"]'),
    "a NUL": SUITE + "description: a\0b\n",
    "a control character": SUITE + "description: a\x07b\n",
    "an escape sequence in a key": SUITE + '"\\e[31mred": 1\n',
    "a newline in a key": SUITE + '"a\\nb": 1\n',
    "markup in a key": SUITE + '"[/red]": 1\n',
    "a very long key": SUITE + f"? {'k' * 20_000}\n: 1\n",
    "a zip file": b"PK\x03\x04" + b"\0" * 100,
    "JSON that is cut off": '{"axes": {"variant": ["V"',
    "a run.json": '{"schema_version": 2, "suite": "tiny", "settings": {}}',
}

SUITE_FILES = [
    Case(
        "suite file", name, ("run", "--suite", "wrong.yaml", "--device", "cpu", "--dry-run"),
        {"wrong.yaml": content}, says="wrong.yaml", lines=9,
    )
    for name, content in TEXTS.items()
]  # fmt: skip
