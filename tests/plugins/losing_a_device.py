"""Tasks that kill one of the processes of their own cell: at a step, or before it is timed."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from synthbench.backends.base import Batch
from synthbench.mixers.base import Array
from synthbench.models.model import Model
from synthbench.record import Measurements
from synthbench.tasks.base import TaskContext
from synthbench.tasks.cost import Cost
from synthbench.tasks.learning.examples import Examples
from tests.plugins.counting import Counting


def replicas(parent: int) -> list[int]:
    """The processes for further devices that a process has started."""
    listings = Path(f"/proc/{parent}/task").glob("*/children")
    children: list[int] = []
    for listing in listings:
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            children += map(int, listing.read_text().split())
    return [c for c in children if b"torch.replica" in Path(f"/proc/{c}/cmdline").read_bytes()]


@dataclass(frozen=True)
class LosingADevice(Counting):
    """Counts upwards, until the process of the second device is killed."""

    name: ClassVar[str] = "losing_a_device"

    lost_at: int = 50  # the number of the example whose batch kills it

    def examples(self, model: Model, seq_len: int, seed: int) -> Mapping[str, Examples]:
        """Those of Counting; making one of them has a side effect."""
        found = super().examples(model, seq_len, seed)
        train = found["train"]

        def batch(numbers: Array) -> Batch:
            if self.lost_at in numbers:
                (replica,) = replicas(os.getpid())
                os.kill(replica, signal.SIGKILL)
            return train.batch(numbers)

        return {**found, "train": replace(train, batch=batch)}


@dataclass(frozen=True)
class LosingAStep(Cost):
    """The task cost, until the process of the second device is killed."""

    name: ClassVar[str] = "losing_a_step"

    def run(self, context: TaskContext) -> list[str]:
        """As the task cost; the stage in which steps are timed begins with a kill."""
        report = context.report

        def report_and_kill(stage: str, measured: Measurements) -> None:
            report(stage, measured)
            if stage == "timing":
                (replica,) = replicas(os.getpid())
                os.kill(replica, signal.SIGKILL)

        context.report = report_and_kill
        return super().run(context)
