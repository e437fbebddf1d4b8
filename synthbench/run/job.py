"""The messages between runner, host and child: jobs and replies, as lines of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from synthbench.record import Outcome

Kind = Literal["cell", "parity", "devices", "call"]


@dataclass(frozen=True)
class Limits:
    """What a child may use; None: no limit."""

    timeout_seconds: float
    threads: int | None = None  # None: all usable cores
    memory_bytes: int | None = None  # in addition to what its host uses; CPU only


@dataclass(frozen=True)
class Job:
    """One thing to do in a child; `content` is JSON-able and depends on the kind."""

    kind: Kind
    content: dict[str, Any]
    limits: Limits

    def encode(self) -> bytes:
        """One line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Job:
        """Read what `encode` wrote."""
        raw = json.loads(line)
        return cls(raw["kind"], raw["content"], Limits(**raw["limits"]))


@dataclass(frozen=True)
class Reply:
    """How a job ended; `result` is what it produced, possibly in part."""

    outcome: Outcome
    reason: str = ""
    result: Any = None
    error: str = ""  # the class of a SynthbenchError that ended it
    facts: dict[str, Any] = field(default_factory=dict)  # of the child: threads, cores, pid
    wall_seconds: float = 0.0

    def encode(self) -> bytes:
        """One line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Reply:
        """Read what `encode` wrote."""
        return cls(**json.loads(line))
