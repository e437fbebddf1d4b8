"""The answers to all claims as JSON, with the evidence of every run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from synthbench.report.data.cell_layout import FRAMEWORKS
from synthbench.report.paper.check.check import CheckedClaim, CheckedPair
from synthbench.report.paper.check.evidence import Evidence
from synthbench.report.paper.check.setting import UNKNOWN, is_reduced
from synthbench.report.paper.check.texts import why_not_measured

FORMAT_VERSION = 1


def claims_json(checked: Sequence[CheckedClaim]) -> str:
    """Every claim, its answer in each framework, and what every run says, the nearest first."""
    content = {"format_version": FORMAT_VERSION, "claims": [_claim(one) for one in checked]}
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _claim(one: CheckedClaim) -> dict[str, Any]:
    claim = one.claim
    return {
        "claim": one.key,
        "says": claim.says,
        "source": claim.source,
        "column": claim.column,
        "quantity": one.quantity,
        "expect": claim.expect,
        "within": claim.within,
        "by": claim.by,
        "answers": {framework: one.answer(framework) for framework in FRAMEWORKS},
        "pairs": [_pair(pair) for pair in one.pairs],
    }


def _pair(pair: CheckedPair) -> dict[str, Any]:
    question = pair.question
    return {
        "compared": [side.row for side in question.sides],
        "variants": [side.variant for side in question.sides],
        "reason": "" if pair.is_measured else why_not_measured(question),
        "evidence": {
            framework: [_evidence(one) for one in pair.found[framework]] for framework in FRAMEWORKS
        },
    }


def _evidence(one: Evidence) -> dict[str, Any]:
    return {
        "run": one.name,
        "answer": one.answer,
        "remark": one.remark,
        "kind": one.kind,
        "figure": one.figure,
        "interval": one.interval,
        "unit": one.unit,
        "cells": [cell.id for cell in one.pair.cells],
        "reduced": is_reduced(one.differences),
        "differences": [
            {
                "name": difference.name,
                "ours": difference.ours,
                "paper": None if difference.paper == UNKNOWN else difference.paper,
            }
            for difference in one.differences
        ],
    }
