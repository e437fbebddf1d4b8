"""The command line as tests call it, and the runs and suites that they make up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from synthbench.cli.app import main
from synthbench.record import Record
from synthbench.run_info import RunInfo
from synthbench.store import append_record, create_run
from synthbench.suites.cell import Cell

REPOSITORY = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "200"}
TINY = """
axes: {variant: [V, R], framework: [torch], mode: [forward], seq_len: [8]}
model: {kind: %s, d_model: 8, heads: 2, vocabulary: 11}
measure: {min_samples: 3, min_seconds: 0.001, max_seconds: 0.1, threads: 1, ceiling: false}
"""
Captured = pytest.CaptureFixture[str]


def synthbench(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command, called in this process."""
    capsys.readouterr()
    code: Any = 0
    try:
        main(arguments)
    except SystemExit as exit:
        code = exit.code or 0
    out, err = capsys.readouterr()
    return code, out, err


def refused(capsys: Captured, *arguments: str) -> str:
    """The message of a command that must fail as a user's mistake: one, on standard error."""
    code, out, err = synthbench(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    return err


def cell(variant: str = "V", framework: str = "torch") -> Cell:
    return Cell.from_flat(
        variant=variant,
        framework=framework,
        mode="forward",
        seq_len=8,
        batch=1,
        model="mixer",
        d_model=8,
        heads=2,
        max_len=8,
        compile="compiled",
    )  # fmt: skip


def made_run(folder: Path, outcome: Any = "ok", **changes: Any) -> Path:
    """A run of one record."""
    content: dict[str, Any] = {
        "suite": folder.parent.name, "settings": {"baseline": "V"}, "device": "cpu",
        "started": f"2026-01-01T00:00:00+{folder.name}", "finished": "2026-01-02",
    }  # fmt: skip
    create_run(folder, RunInfo(**content | changes))
    record = Record(
        id=cell().id, cell=cell(), outcome=outcome, reason="so it was", started="2026-01-01",
        wall_seconds=1.0,
    )  # fmt: skip
    append_record(folder, record)
    return folder


def suite_file(folder: Path, kind: str = "mixer", more: str = "") -> str:
    path = folder / "tiny.yaml"
    path.write_text(TINY % kind + more)
    return str(path)
