"""The messages between runner, host and child: jobs and replies, as lines of JSON."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from synthbench.record import Outcome

Kind = Literal["cell", "parity", "own_length", "devices", "call", "plan"]


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

    @property
    def finished(self) -> bool:
        """Whether the child reached its end: it was neither killed nor out of time."""
        return "other_framework_loaded" in self.facts

    def encode(self) -> bytes:
        """One line."""
        return json.dumps(vars(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Reply:
        """Read what `encode` wrote; texts that are not valid Unicode are escaped."""
        return cls(**valid_unicode(json.loads(line)))


def sign(line: bytes, key: bytes) -> bytes:
    """A line with its signature in front, so that the host knows that the harness wrote it."""
    return hmac.digest(key, line, "sha256").hex().encode() + b" " + line


def signed_lines(lines: Iterable[bytes], key: bytes) -> list[bytes]:
    """The lines whose signature is right, without it; what a mixer wrote by itself is left out."""
    found = []
    for line in lines:
        signature, _, content = line.partition(b" ")
        expected = hmac.digest(key, content + b"\n", "sha256").hex().encode()
        if hmac.compare_digest(signature, expected):
            found.append(content)
    return found


def valid_unicode(tree: Any) -> Any:
    """The same JSON value, with lone surrogates in its texts written as escapes like \\udc80."""
    if isinstance(tree, str):
        return tree.encode("utf-8", "backslashreplace").decode()
    if isinstance(tree, list):
        return [valid_unicode(value) for value in tree]
    if isinstance(tree, dict):
        return {valid_unicode(key): valid_unicode(value) for key, value in tree.items()}
    return tree
