"""A learning task whose examples count upwards; its process can be killed at a step, once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from synthbench.backends.base import Batch
from synthbench.metrics import Metric
from synthbench.mixers.base import Array
from synthbench.models.model import Model
from synthbench.models.spec import ModelKind
from synthbench.tasks.learning.base import LearningTask
from synthbench.tasks.learning.evaluation import Answer
from synthbench.tasks.learning.examples import Examples, digest_of


@dataclass(frozen=True)
class Counting(LearningTask):
    """Tokens that grow by 1, 2 or 3 from a random start."""

    name: ClassVar[str] = "counting"
    kinds: ClassVar[tuple[ModelKind, ...]] = ("decoder",)
    metric: ClassVar[str] = "accuracy"
    metrics: ClassVar[Mapping[str, Metric]] = {"accuracy": Metric("accuracy", better="higher")}

    kill_at: int = -1  # the number of an example whose batch kills the process, once
    marker: str = ""  # a file that says that it was killed
    size: int = 0  # of the splits; 0: no end
    pause: float = 0.0  # seconds before each batch

    def examples(self, model: Model, seq_len: int, seed: int) -> Mapping[str, Examples]:
        def split(offset: int) -> Examples:
            def batch(numbers: Array) -> Batch:
                time.sleep(self.pause)
                if offset == 0 and self.kill_at in numbers and not Path(self.marker).exists():
                    Path(self.marker).touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                drawn = [np.random.default_rng([seed, offset, int(n)]) for n in numbers]
                pairs = np.array([g.integers(model.vocabulary or 0, size=2) for g in drawn])
                grown = np.arange(seq_len + 1) * (1 + pairs[:, 1:] % 3)
                tokens = (pairs[:, :1] + grown) % (model.vocabulary or 1)
                return Batch(tokens[:, :-1], tokens[:, 1:])

            return Examples(digest_of(self.name, offset, seed), batch, self.size or None)

        return {"train": split(0), "test": split(1)}

    def scores(self, model: Model, answers: Sequence[Answer]) -> dict[str, float]:
        right = [(answer.predictions == answer.batch.targets).ravel() for answer in answers]
        return {"accuracy": float(np.concatenate(right).mean())}
