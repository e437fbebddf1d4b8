"""What the benchmark reports: one finding per fault that was not handled."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TextIO

GROUPS = ("inputs", "kills", "conditions")


@dataclass(frozen=True)
class Finding:
    """One problem: in which group and case, what is wrong, and what was printed."""

    group: str
    case: str
    problem: str
    output: str = ""

    def line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))


@dataclass
class Count:
    """How many cases of one kind were tried, skipped and found to be wrong."""

    tried: int = 0
    skipped: int = 0
    problems: int = 0


@dataclass
class Report:
    """All findings, the number of cases per group and kind, and why cases were skipped."""

    findings: list[Finding] = field(default_factory=list)
    counts: dict[tuple[str, str], Count] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    out: TextIO | None = None  # where each finding is written at once

    def add(self, group: str, kind: str, case: str, problems: list[str], output: str = "") -> None:
        """Count a case that was tried, and keep its problems."""
        count = self.counts.setdefault((group, kind), Count())
        count.tried += 1
        count.problems += bool(problems)
        found = [Finding(group, case, problem, output[-2000:]) for problem in problems]
        self.findings += found
        if self.out is not None and found:
            self.out.write("".join(finding.line() + "\n" for finding in found))
            self.out.flush()

    def skip(self, group: str, kind: str, case: str, reason: str) -> None:
        """Count a case that is not possible on this machine."""
        self.counts.setdefault((group, kind), Count()).skipped += 1
        self.skipped.append(f"{group}: {case}: {reason}")
