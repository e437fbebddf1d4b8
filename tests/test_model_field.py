"""A property of models is one field: a copy of the package gets one, and nothing else changes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
AFTER = """    labels: Size | None = Field("""
FIELD = """    dropout: float = Field(0.0, description="Share of dropped values.", examples=[0.1])
"""
CODE = """
import json
from synthbench.measure.parity import parity_key
from synthbench.record import Measurements, Record, Timing
from synthbench.run_info import RunInfo
from synthbench.report.data.grid import Grid
from synthbench.report.data.frame import record_frame
from synthbench.suites.cell import model_of
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import parse_suite

SUITE = '''
axes: {variant: [V], framework: [torch], mode: [forward], seq_len: [8]}
models:
  without: {d_model: 8, heads: 2}
  with: {d_model: 8, heads: 2, dropout: 0.5}
'''
cells = make_plan(parse_suite(SUITE, name="mine", source="mine.yaml"), "cpu").cells
timing = Timing(build_seconds=0, compile_seconds=0, first_step_seconds=0, warmup_steps=0,
                samples=[1.0], clock="none")
records = [Record(id=c.id, cell=c, outcome="ok", started="2026-01-01", wall_seconds=1,
                  measurements=Measurements(timing=timing)) for c in cells]
without, dropped = cells
frame = record_frame(records)
grid = Grid(records, ["V"])
print(json.dumps({
    "cells": [c.model.model_dump()["dropout"] for c in cells],
    "models": [model_of(c).spec.dropout for c in cells],
    "parities": len({parity_key(c) for c in cells}),
    "column": list(frame["dropout"]),
    "settings": grid.settings(),
    "id": without.model_copy(update={"label": ""}).model_dump_json(exclude_defaults=True),
    "read": [Record.model_validate_json(r.model_dump_json()).cell.model.dropout for r in records],
}))
"""


def run(folder: Path, code: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package in which models/spec.py has one more field."""
    folder = tmp_path_factory.mktemp("package")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "synthbench", folder / "synthbench", ignore=ignored)
    spec = folder / "synthbench" / "models" / "spec.py"
    text = spec.read_text()
    assert text.count(AFTER) == 1
    spec.write_text(text.replace(AFTER, FIELD + AFTER))
    return folder


def test_a_field_reaches_suites_cells_models_records_and_tables(changed: Path) -> None:
    found = run(changed, CODE)
    for name in ("cells", "models", "read", "column"):
        assert found[name] == [0.0, 0.5], name
    assert found["parities"] == 2  # code that may differ is checked apart
    assert found["settings"] == ["label=with", "label=without"]  # told apart, by the model's name
    assert "dropout" not in str(found["id"])  # so that ids of cells without it stay what they were
