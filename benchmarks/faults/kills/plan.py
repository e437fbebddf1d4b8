"""Which process is killed, how and when: every combination, in a random order."""

from __future__ import annotations

import random
import signal
from dataclasses import dataclass
from typing import Literal

Target = Literal["parent", "host", "child"]

SIGNALS = {
    "SIGKILL": (signal.SIGKILL,),
    "SIGTERM": (signal.SIGTERM,),
    "SIGHUP": (signal.SIGHUP,),
    "Ctrl-C": (signal.SIGINT,),
    "Ctrl-C twice": (signal.SIGINT, signal.SIGINT),
}
# What the parent may exit with; 0 or 1: it had done its work already.
EXIT_CODES = {
    "SIGKILL": (-9,),
    "SIGTERM": (-15, 143),
    "SIGHUP": (-1, 129),
    "Ctrl-C": (130,),
    "Ctrl-C twice": (130, -2),
}
IGNORED_BY_HOSTS = ("Ctrl-C", "Ctrl-C twice")  # the parent decides when its hosts stop
LATEST_SECONDS = 0.3  # of a kill, after a record was stored
TWICE_SECONDS = 0.3  # between two Ctrl-C, at most


@dataclass(frozen=True)
class Kill:
    """One kill: the process, the signals, and whether to wait for a new record before."""

    target: Target
    signals: str  # a name in SIGNALS
    after_record: bool
    moment: float  # 0 to 1: when, as a share of the longest wait
    pause: float  # seconds between the signals

    @property
    def title(self) -> str:
        """How findings name it."""
        when = "after a record" if self.after_record else "at any time"
        return f"{self.signals} to the {self.target}, {when}"


COMBINATIONS: list[tuple[Target, str, bool]] = [
    *[("parent", name, after) for name in SIGNALS for after in (False, True)],
    *[("host", name, True) for name in SIGNALS],
    *[("child", name, True) for name in SIGNALS],
]  # fmt: skip


def make_kills(number: int, seed: int) -> list[Kill]:
    """So many kills; each combination is as frequent as the others, up to one."""
    chance = random.Random(seed)
    kills: list[Kill] = []
    while len(kills) < number:
        order = chance.sample(COMBINATIONS, len(COMBINATIONS))
        kills += [
            Kill(*combination, chance.random(), chance.uniform(0, TWICE_SECONDS))
            for combination in order
        ]
    return kills[:number]
