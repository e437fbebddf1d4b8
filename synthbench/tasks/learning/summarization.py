"""The task `summarization`: a short text that says what a document says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from statistics import fmean
from typing import Any, ClassVar

from synthbench.metrics import Metric, two_decimals
from synthbench.models.model import Model
from synthbench.suites.cell import Cell
from synthbench.tasks.learning.evaluation import Answer
from synthbench.tasks.learning.text_pairs import TextPairTask
from synthbench.tasks.packages import require_package

KINDS = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}  # ours -> rouge-score's


@dataclass(frozen=True)
class Summarization(TextPairTask):
    """Scored by ROUGE (Lin 2004) as rouge-score computes it: the mean F1 over summaries."""

    name: ClassVar[str] = "summarization"
    description: ClassVar[str] = "a summary of a document, scored by ROUGE"
    columns: ClassVar[tuple[str, ...]] = ("document", "summary")
    metric: ClassVar[str] = "rouge_l"
    metrics: ClassVar[Mapping[str, Metric]] = {
        name: Metric(label, "%", "higher", two_decimals, 100, lower_bound=0, upper_bound=1)
        for name, label in (
            ("rouge_1", "ROUGE-1"), ("rouge_2", "ROUGE-2"), ("rouge_l", "ROUGE-L")
        )
    }  # fmt: skip

    def check(self, cell: Cell) -> None:
        super().check(cell)
        require_package("rouge_score", "task summarization")

    def scores(self, model: Model, answers: Sequence[Answer]) -> dict[str, float]:
        scorer = _scorer()
        pairs = zip(*self.written_and_wanted(answers), strict=True)
        found = [scorer.score(target=wanted, prediction=written) for written, wanted in pairs]
        return {name: fmean(one[own].fmeasure for one in found) for name, own in KINDS.items()}

    def notes(self) -> list[str]:
        """What decides the value of ROUGE, beside the texts."""
        return [f"ROUGE: rouge-score {metadata.version('rouge-score')}, with stemming, mean F1"]


def _scorer() -> Any:
    """rouge-score's scorer with Porter stemming, as ROUGE is published."""
    require_package("rouge_score", "task summarization")
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(KINDS.values()), use_stemmer=True)
