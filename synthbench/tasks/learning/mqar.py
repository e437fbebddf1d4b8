"""The task `mqar`: multi-query associative recall (Arora et al. 2023, arXiv 2312.04927, section 4).

A sequence begins with key-value pairs. Each key comes once more later; there the model has to
predict its value. As in the authors' generator (HazyResearch/zoology, as configured for Figure 2):

    keys     different tokens of 1 .. V/2 - 1;  values: different tokens of V/2 .. V - 1
    queries  at even distances from the end of the pairs; the i-th place is drawn with a probability
             in proportion to i^(POWER - 1), without repetition
    others   the token 0, which is no target
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from synthbench.backends.base import Batch
from synthbench.errors import NotationError, UnsupportedError
from synthbench.metrics import Metric
from synthbench.mixers.base import Array
from synthbench.models.model import Model
from synthbench.models.spec import ModelKind
from synthbench.tasks.learning.base import LearningTask
from synthbench.tasks.learning.draws import choose, choose_weighted
from synthbench.tasks.learning.evaluation import Answer
from synthbench.tasks.learning.examples import Examples
from synthbench.tasks.learning.generated import Draw, generate, require_examples
from synthbench.tasks.learning.metrics import ACCURACY, accuracy

POWER = 0.01


@dataclass(frozen=True)
class Mqar(LearningTask):
    """Recall the value of each key."""

    pairs: int = 8  # of a key and a value, in each sequence

    name: ClassVar[str] = "mqar"
    description: ClassVar[str] = "recall the values of several keys (associative recall)"
    kinds: ClassVar[tuple[ModelKind, ...]] = ("decoder",)
    pads: ClassVar[bool] = False
    metric: ClassVar[str] = "accuracy"
    metrics: ClassVar[Mapping[str, Metric]] = {"accuracy": ACCURACY}

    def check_sizes(self, model: Model, seq_len: int) -> None:
        pairs, keys, values = self.pairs, model.classes // 2 - 1, (model.classes + 1) // 2
        if pairs < 1:
            raise NotationError(f"task {self.name}: pairs is {pairs}; give it at least 1")
        if seq_len < 4 * pairs:
            raise UnsupportedError(
                f"task {self.name}: {pairs} pairs and their queries need seq_len {4 * pairs}; got "
                f"{seq_len}: raise it, or lower pairs"
            )
        if keys < pairs:
            raise UnsupportedError(
                f"task {self.name}: {pairs} pairs need a vocabulary of {2 * pairs + 2}; got "
                f"{model.classes}: raise it, or lower pairs"
            )
        possible = math.perm(keys, pairs) * math.perm(values, pairs)
        require_examples(self.name, min(possible, 10**9), "a larger vocabulary or more pairs")

    def examples(self, model: Model, seq_len: int, seed: int) -> Mapping[str, Examples]:
        pairs, first_value = self.pairs, model.classes // 2
        places = np.arange(1, (seq_len - 2 * pairs) // 2 + 1)
        facts = {"vocabulary": model.classes, "seq_len": seq_len, "pairs": pairs, "power": POWER}

        def make(words: Array) -> Batch:
            keys = 1 + choose(words[:, :pairs], first_value - 1)
            values = first_value + choose(words[:, pairs : 2 * pairs], model.classes - first_value)
            place = choose_weighted(words[:, 2 * pairs :], places ** (POWER - 1), pairs)
            queries = 2 * pairs + 2 * place
            inputs = np.zeros((len(words), seq_len), dtype=np.int64)
            targets, weights = np.zeros_like(inputs), np.zeros(inputs.shape, dtype=np.float32)
            inputs[:, 0 : 2 * pairs : 2] = keys
            inputs[:, 1 : 2 * pairs : 2] = values
            np.put_along_axis(inputs, queries, keys, axis=1)
            np.put_along_axis(targets, queries, values, axis=1)
            np.put_along_axis(weights, queries, 1, axis=1)
            return Batch(inputs, targets, weights=weights)

        return generate(self.name, facts, seed, Draw(2 * pairs + len(places), make))

    def scores(self, model: Model, answers: Sequence[Answer]) -> dict[str, float]:
        return {"accuracy": accuracy(answers)}
