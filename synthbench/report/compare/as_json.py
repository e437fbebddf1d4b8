"""Comparisons as JSON: every cell, without rounding."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from synthbench.analysis.comparison import Judgement
from synthbench.analysis.scaling import Crossing
from synthbench.report.compare.comparison import (
    COSTS,
    CostChange,
    Measured,
    OutcomeChange,
    RunComparison,
)
from synthbench.report.compare.environment import short_commit
from synthbench.report.compare.gate import Violation
from synthbench.report.compare.side import Side
from synthbench.report.data.grid import Key

FORMAT_VERSION = 1
UNITS: dict[Measured, str] = {"time": "seconds", "memory": "bytes"}


def comparisons_json(comparisons: Sequence[RunComparison], found: Sequence[Violation]) -> str:
    """All comparisons, and the conditions that they meet."""
    content = {
        "format_version": FORMAT_VERSION,
        "comparisons": [_comparison(one) for one in comparisons],
        "failed": [
            {"condition": one.condition.text, "run": one.letter, "cells": one.found}
            for one in found
        ],
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _comparison(found: RunComparison) -> dict[str, Any]:
    content: dict[str, Any] = {
        "first": _run(found.first),
        "second": _run(found.second),
        "cells": {
            "both": len(found.match.pairs),
            "only_first": found.match.only[0],
            "only_second": found.match.only[1],
            "differing": {name: list(values) for name, values in found.match.differing.items()},
        },
        "environment": [one._asdict() for one in found.environment],
        "no_times": found.no_times,
        "measured_by_different_machines": found.elsewhere,
        "median_ratios": {name: found.typical(name) for name in COSTS},
    }
    for name in COSTS:
        content[name] = [_cost(one, UNITS[name]) for one in found.costs[name]]
    return content | {
        "outcomes": [_outcome(one) for one in found.outcomes],
        "no_conclusions": found.no_conclusions,
        "conclusions": [
            _place(one.place)
            | {"first": _judgement(one.first), "second": _judgement(one.second)}
            | {"agreement": one.agreement}
            for one in found.conclusions
        ],
        "crossings": [
            _place(one.place, with_length=False)
            | {"lengths": list(one.lengths)}
            | {"first": _crossing(one.first), "second": _crossing(one.second)}
            | {"moved": one.moved}
            for one in found.crossings
        ],
    }


def _run(side: Side) -> dict[str, Any]:
    info = side.run.info
    return {
        "letter": side.letter,
        "name": side.name,
        "suite": info.suite,
        "device": info.device,
        "machines": [machine.id for machine in info.machines],
        "commit": short_commit(info),
        "started": info.started,
        "finished": info.finished,
        "baseline": side.baseline,
        "rounds": len({record.round for record in side.run.records}),
        "damaged_lines": len(side.run.damaged),
    }


def _place(place: Key, *, with_length: bool = True) -> dict[str, Any]:
    content: dict[str, Any] = {
        "setting": place.setting,
        "framework": place.framework,
        "mode": place.mode,
        "variant": place.variant,
        "twin": bool(place.replica),
    }
    return content | ({"seq_len": place.seq_len} if with_length else {})


def _cost(change: CostChange, unit: str) -> dict[str, Any]:
    return _place(change.place) | {
        f"first_{unit}": change.first,
        f"second_{unit}": change.second,
        "ratio": change.ratio,
        "low": _finite(change.low),
        "high": _finite(change.high),
        "margin": change.margin,
        "verdict": change.verdict,
        "p": change.p,
        "remark": change.remark,
    }


def _outcome(change: OutcomeChange) -> dict[str, Any]:
    return _place(change.place) | {"first": change.first, "second": change.second}


def _judgement(judged: Judgement) -> dict[str, Any]:
    low, high = judged.estimate.interval()
    return {
        "speed": judged.estimate.ratio,
        "low": _finite(low),
        "high": _finite(high),
        "verdict": judged.verdict,
        "p": judged.p,
    }


def _crossing(found: Crossing) -> dict[str, Any]:
    """null: there is none within the measured lengths, or the interval is open at this end."""
    low, high = (_finite(end) or None for end in (found.low, found.high))
    return {"kind": found.kind, "length": _finite(found.length), "low": low, "high": high}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
