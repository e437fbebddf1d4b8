"""The notes of a plan in a session of pytest."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from synthbench.pytest_plugin import collection
from synthbench.pytest_plugin.collection import Suites
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import load_suite


def test_the_notes_of_a_plan_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = tmp_path / "mine.yaml"
    suite.write_text(
        "axes: {variant: [R, D, R+V], framework: [torch], mode: [forward], seq_len: [8]}\n"
        "model: {d_model: 8, heads: 2}\nbaseline: R+V\n"
    )

    def plan_suite(loaded: Any, device: str, frameworks: Any) -> Any:
        return make_plan(loaded, device, variants=["R", "D"])

    monkeypatch.setattr(collection, "plan_suite", plan_suite)
    monkeypatch.setattr(collection, "resolve_device", lambda *_: "cpu")
    options = {
        "synthbench": [str(suite)], "synthbench_plugin": [], "benchmark_disable": False,
        "file_or_dir": [], "synthbench_framework": [], "synthbench_device": "cpu",
    }  # fmt: skip
    config: Any = SimpleNamespace(getoption=lambda name, *_: options[name], args=[])
    printed: list[str] = []
    reporter: Any = SimpleNamespace(section=lambda *_, **__: None, write_line=printed.append)
    plugin = Suites(config)
    assert plugin.notes == list(make_plan(load_suite(suite), "cpu", variants=["R", "D"]).notes)
    plugin.pytest_terminal_summary(reporter)
    assert len(printed) == 1
    assert "no ratios: the baseline R+V is not among the variants selected" in printed[0]
