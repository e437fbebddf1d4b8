"""A run.json that is damaged, or whose values are not allowed."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.faults.case import FIFO, FOLDER, Case, Content, Special
from benchmarks.faults.inputs.examples import INFO, RUN, changed, run_files, without

TEXTS: dict[str, str | bytes] = {
    "empty": "",
    "null": "null",
    "a number": "3",
    "a list": "[]",
    "an empty object": "{}",
    "cut off": json.dumps(INFO)[:200],
    "text after it": json.dumps(INFO) + "x",
    "two objects": json.dumps(INFO) * 2,
    "deep lists": "[" * 100_000,
    "5000 digits": json.dumps(INFO).replace("0.03", "9" * 5000),
    "not UTF-8": json.dumps(INFO).encode().replace(b"tiny", b"caf\xe9"),
    "NUL bytes": b"\0" * 500,
    "YAML": "suite: tiny\n",
}

VALUES: dict[str, Any] = {
    "schema_version": [1, 3, 2**70, -1],
    "suite": [None, 3, ["tiny"]],
    "settings": [None, 3, []],
    "device": [None, 3],
    "machines": [None, 3, {}, [3], [{}]],
    "started": [None, 3],
    "finished": [3, []],
    "resumed": [None, 3, [3]],
    "plugins": [None, 3, [3]],
    "executor": [None, 3],
}

RUN_FILES: list[Case] = [
    *(
        Case("run.json", name, ("tables", RUN, "--check"), run_files(text), says="run.json")
        for name, text in TEXTS.items()
    ),
    *(
        Case(
            "run.json", f"{name} {value!r:.40}", ("tables", RUN),
            run_files(changed(INFO, name, value)), says="run.json",
        )
        for name, values in VALUES.items()
        for value in values
    ),
    *(
        Case("run.json", f"no {name}", ("export", RUN, "--format", "csv"),
             run_files(without(INFO, name)), says="run.json")
        for name in ("suite", "settings", "device", "started")
    ),
    Case("run.json", "an unknown key", ("plot", RUN), run_files({**INFO, "nonsense": 1}),
         says="run.json"),
]  # fmt: skip

KINDS: dict[str, Content] = {
    "a folder": FOLDER,
    "a FIFO": FIFO,
    "a link to itself": Special("link", "run.json"),
    "a link to nothing": Special("link", "nowhere"),
    "a link to /dev/zero": Special("link", "/dev/zero"),
}
RUN_FILES += [
    Case(
        "run.json",
        f"{name} ({command[0]})",
        (*command, RUN),
        {**run_files(), f"{RUN}/run.json": content},
    )
    for name, content in KINDS.items()
    for command in (("tables",), ("export", "--format", "csv"))
]
