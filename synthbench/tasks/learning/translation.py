"""The task `translation`: sentences of one language in another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from synthbench.metrics import Metric, two_decimals
from synthbench.models.model import Model
from synthbench.suites.cell import Cell
from synthbench.tasks.learning.evaluation import Answer
from synthbench.tasks.learning.text_pairs import TextPairTask
from synthbench.tasks.packages import require_package


@dataclass(frozen=True)
class Translation(TextPairTask):
    """Scored by corpus BLEU (Papineni et al. 2002) as sacrebleu computes it (Post 2018)."""

    name: ClassVar[str] = "translation"
    description: ClassVar[str] = "sentences of one language in another, scored by BLEU"
    columns: ClassVar[tuple[str, ...]] = ("source", "target")
    metric: ClassVar[str] = "bleu"
    metrics: ClassVar[Mapping[str, Metric]] = {
        "bleu": Metric("BLEU", "1", "higher", two_decimals, lower_bound=0, upper_bound=100),
    }

    def check(self, cell: Cell) -> None:
        super().check(cell)
        require_package("sacrebleu", "task translation")

    def scores(self, model: Model, answers: Sequence[Answer]) -> dict[str, float]:
        written, wanted = self.written_and_wanted(answers)
        return {"bleu": float(_bleu().corpus_score(written, [wanted]).score)}

    def notes(self) -> list[str]:
        """The signature of sacrebleu, without which a BLEU cannot be compared."""
        return [f"BLEU: {_bleu(references=[['']]).get_signature()}"]


def _bleu(**options: Any) -> Any:
    """sacrebleu's metric with its default settings."""
    require_package("sacrebleu", "task translation")
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(force=True, **options)  # no warning where a text ends with a separate full stop
