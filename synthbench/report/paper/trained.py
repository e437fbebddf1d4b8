"""What our trainings reached, for the columns of the paper's tables that are about quality."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from synthbench.errors import ResultsError
from synthbench.record import Record
from synthbench.report.data.cell_layout import FRAMEWORKS
from synthbench.report.data.training_groups import training_records
from synthbench.report.paper.check.evidence import Evidence
from synthbench.report.paper.check.question import Question, Side
from synthbench.report.paper.check.setting import differences, shown
from synthbench.report.paper.check.trainings import trained_pairs
from synthbench.report.paper.claims import Claim, read_claims
from synthbench.store import Run, list_runs, read_run


@dataclass
class Trainings:
    """The finished runs that have trainings; `used` are those whose values were taken."""

    runs: Sequence[Run]
    used: dict[str, None] = field(default_factory=dict)

    @cached_property
    def _records(self) -> list[tuple[Run, list[Record]]]:
        """Each run with the records of its trainings."""
        return [(run, training_records(run.records)) for run in self.runs]

    @classmethod
    def find(cls, results: Path) -> Trainings:
        """Those in a folder that can be read, the newest first."""
        found: list[Run] = []
        for folder in list_runs(results):
            with contextlib.suppress(ResultsError):  # other runs may still be readable
                run = read_run(folder)
                is_trained = any(r.measurements.training is not None for r in run.records)
                if is_trained and run.info.finished is not None:
                    found.append(run)
        return cls(sorted(found, key=lambda run: run.info.started, reverse=True))

    def values(self, column: str, row: str) -> dict[str, Evidence]:
        """By framework, the mean over seeds from the run nearest to the paper's setting.

        In the unit that the paper prints. A value is the paper's own metric, of its own task.
        """
        question = question_of(column, row)
        found: dict[str, Evidence] = {}
        for run, records in self._records:
            for one in _evidence(run, records, question):
                known = found.get(one.framework)
                if known is None or one.rank < known.rank:
                    found[one.framework] = one
        ordered = {name: found[name] for name in FRAMEWORKS if name in found}
        for one in ordered.values():
            remark = f"; {one.remark}" if one.remark else ""
            self.used[f"run `{one.name}` ({shown(one.differences)}{remark})"] = None
        return ordered

    @property
    def described(self) -> str:
        """Which runs the values come from that were asked for; empty without any."""
        return f"Our quality: {'; '.join(self.used)}." if self.used else ""


def question_of(column: str, row: str) -> Question:
    """What is asked for one published number."""
    claims = read_claims()
    declared = claims.columns[column]
    own = dict(list(declared.tasks.items())[:1])
    claim = Claim(says="as printed", column=column, compare=((row,),), expect="value")
    side = Side(claim.table, row)
    only = declared.model_copy(update={"tasks": own})
    return Question("", claim, only, claims.setting(column), side, None)


def _evidence(run: Run, records: Sequence[Record], question: Question) -> Iterator[Evidence]:
    for trained in trained_pairs(records, (), question):
        values = trained.known(0).values()
        if values:
            pair = trained.pair
            yield Evidence(
                question, pair, pair.one.framework, run, "undecided", "value",
                trained.declared.scale * statistics.fmean(values), remark=trained.without_result,
                differences=differences(question, pair, task=pair.one.task, steps=trained.steps),
            )  # fmt: skip
