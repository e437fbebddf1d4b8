"""What one run says about one pair of a claim, in one framework."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from synthbench.devices import is_host
from synthbench.report.paper.check.answer import Answer
from synthbench.report.paper.check.question import Pair, Question
from synthbench.report.paper.check.setting import Difference
from synthbench.store import Run

Figure = Literal["ratio", "difference", "value"]


@dataclass(frozen=True)
class Evidence:
    """Our figure for a pair, and what it says about the claim.

    `figure`: of the first to the second, in the unit of `kind`; None where a cell has no number.
    `remark`: why it is undecided, or why there is no figure.
    """

    question: Question
    pair: Pair
    framework: str
    run: Run
    answer: Answer
    kind: Figure
    figure: float | None = None
    interval: tuple[float, float] | None = None
    remark: str = ""
    unit: str = ""  # of a difference or a value
    differences: tuple[Difference, ...] = ()

    @property
    def name(self) -> str:
        """The run, as suite/run."""
        return f"{self.run.info.suite}/{self.run.full_path.name}"

    @property
    def rank(self) -> tuple[bool, int, int, int, bool, bool]:
        """The lowest is the nearest to the paper's setting: the rule by which a run is chosen.

        A figure before none; the same variant; the same task and kind of model; the fewest
        differences; an accelerator before a CPU; the suite that is named after the table.
        """
        names = {difference.name for difference in self.differences}
        other_kind = len(names & {"task", "model"})
        info = self.run.info
        return (
            self.figure is None, self.pair.distance, other_kind, len(self.differences),
            is_host(info.device), info.suite != self.question.claim.table,
        )  # fmt: skip
