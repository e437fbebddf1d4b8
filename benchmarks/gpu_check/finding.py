"""What a step found out about one branch of the code: a line of JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

RAN, FAILED, ABSENT = "ran", "failed", "absent"  # absent: this machine or device does not have it
END = "the step"  # the branch of a finding that says that its step has ended, and how
REASON_LENGTH = 500


@dataclass(frozen=True)
class Finding:
    """One branch: whether it ran, whether its result was correct, and a figure."""

    step: str
    branch: str
    outcome: str = RAN
    correct: bool | None = None  # None: there is nothing to compare with
    figure: str = ""
    reason: str = ""
    seconds: float = 0.0

    @property
    def is_bad(self) -> bool:
        """Whether somebody has to look at it."""
        return self.outcome == FAILED or self.correct is False

    @property
    def is_end(self) -> bool:
        """Whether it says that its step has ended."""
        return self.branch == END

    def line(self) -> str:
        """As JSON, without what is empty."""
        content = {name: value for name, value in asdict(self).items() if value not in ("", None)}
        return json.dumps(content | {"seconds": round(self.seconds, 3)})

    @classmethod
    def read(cls, line: str) -> Finding:
        """What `line` made; ValueError or TypeError for any other text."""
        return cls(**json.loads(line))


Found = tuple[bool | None, str]  # correct, figure


def tried(step: str, branch: str, run: Callable[[], Found]) -> Finding:
    """Run a branch; what it raises is the reason why it failed."""
    begin = time.perf_counter()
    try:
        correct, figure = run()
    except Exception as error:  # whatever a GPU may raise: the next branch is tried all the same
        reason = f"{type(error).__name__}: {error}"[:REASON_LENGTH]
        seconds = time.perf_counter() - begin
        return Finding(step, branch, FAILED, reason=reason, seconds=seconds)
    return Finding(step, branch, RAN, correct, figure, seconds=time.perf_counter() - begin)


@dataclass(frozen=True)
class Settings:
    """What the steps are run on."""

    device: str = "cuda"  # or cpu, where nothing special can be tried
    small: bool = False  # small sizes: only to see that the step itself works
    frameworks: tuple[str, ...] = ("torch", "jax")

    @property
    def is_cuda(self) -> bool:
        return self.device != "cpu"

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> Settings:
        content: dict[str, Any] = json.loads(text)
        return cls(content["device"], content["small"], tuple(content["frameworks"]))


Step = Callable[[Settings], Iterator[Finding]]
