"""Histories as JSON: every run and every number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from synthbench.report.history.history import History, Line

FORMAT_VERSION = 1


def histories_json(histories: Sequence[History], *, marked: bool) -> str:
    """All histories; `marked`: whether changes were looked for, else they are null."""
    content = {
        "format_version": FORMAT_VERSION,
        "histories": [_history(one, marked) for one in histories],
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _history(history: History, marked: bool) -> dict[str, Any]:
    return {
        "suite": history.suite,
        "device": history.device,
        "machine": history.machine,
        "margin": history.margin,
        "runs": [
            {
                "name": point.name,
                "commit": point.commit,
                "date": point.date.isoformat(),
                "is_commit_date": point.is_commit_date,
                "started": point.started,
            }
            for point in history.points
        ],
        "lines": [_line(line, marked) for line in history.lines],
    }


def _line(line: Line, marked: bool) -> dict[str, Any]:
    changes = [
        {"run": change.at, "ratio": change.ratio, "verdict": change.verdict}
        for change in line.changes
    ]
    return {
        "setting": line.place.setting,
        "framework": line.place.framework,
        "mode": line.place.mode,
        "variant": line.place.variant,
        "seq_len": line.place.seq_len,
        "seconds": line.seconds,
        "changes": changes if marked else None,
    }
