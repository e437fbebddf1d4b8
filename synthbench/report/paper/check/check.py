"""Every claim of the paper, checked against runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from synthbench.report.data.cell_layout import FRAMEWORKS
from synthbench.report.data.prepared import prepare
from synthbench.report.paper.check.answer import Answer, together
from synthbench.report.paper.check.counts import counts
from synthbench.report.paper.check.evidence import Evidence
from synthbench.report.paper.check.quality import quality
from synthbench.report.paper.check.question import Question, questions
from synthbench.report.paper.check.speed import speed
from synthbench.report.paper.claims import Claim, Claims
from synthbench.store import Run


@dataclass(frozen=True)
class CheckedPair:
    """A pair of a claim: what every run says about it, in each framework, the nearest first."""

    question: Question
    found: Mapping[str, tuple[Evidence, ...]]  # framework -> evidence

    @property
    def is_measured(self) -> bool:
        """Whether a run says anything about it."""
        return any(self.found.values())

    def nearest(self, framework: str) -> Evidence | None:
        """The evidence that decides, from the run whose setting is nearest to the paper's."""
        return next(iter(self.found[framework]), None)

    def answer(self, framework: str) -> Answer:
        """Whether the claim holds for this pair."""
        nearest = self.nearest(framework)
        return "not measured" if nearest is None else nearest.answer


@dataclass(frozen=True)
class CheckedClaim:
    """A claim with its pairs."""

    key: str
    claim: Claim
    label: str  # of its column
    pairs: tuple[CheckedPair, ...]

    def answer(self, framework: str) -> Answer:
        """The answer in one framework: of its pairs the worst."""
        return together(pair.answer(framework) for pair in self.pairs)

    @cached_property
    def quantity(self) -> str:
        """What it is about."""
        return self.pairs[0].question.column.quantity


def check_claims(claims: Claims, runs: Sequence[Run]) -> list[CheckedClaim]:
    """The answer to each claim, from all runs together."""
    asked = questions(claims)
    evidence: dict[tuple[str, str, str], list[Evidence]] = {}
    newest_first = sorted(runs, key=lambda run: (run.info.started, run.path.name), reverse=True)
    for run in newest_first:
        prepared = prepare(run)
        for one in (
            *speed(prepared, asked), *counts(run, asked), *quality(prepared, asked)
        ):  # fmt: skip
            evidence.setdefault((*_name(one.question), one.framework), []).append(one)
    pairs: dict[str, list[CheckedPair]] = {}
    for question in asked:
        found = {
            framework: tuple(
                sorted(evidence.get((*_name(question), framework), []), key=lambda one: one.rank)
            )
            for framework in FRAMEWORKS
        }
        pairs.setdefault(question.key, []).append(CheckedPair(question, found))
    return [
        CheckedClaim(key, claim, claims.columns[claim.column].label, tuple(pairs[key]))
        for key, claim in claims.claims.items()
    ]


def _name(question: Question) -> tuple[str, str]:
    return question.key, question.rows
