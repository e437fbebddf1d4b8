"""The task `copying`: repeat a sequence of random tokens, or write it in reverse.

    encoder_decoder  the source is the sequence, and the target is its copy
    decoder          the sequence, the token 0, and the copy, of which each token is a target

No token of the sequence is 0. A model that is told the tokens before each target writes the whole
copy right if and only if greedy search does, so that `exact_match` needs no search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from synthbench.backends.base import Batch
from synthbench.errors import UnsupportedError
from synthbench.metrics import Metric, percent
from synthbench.mixers.base import Array
from synthbench.models.model import Model
from synthbench.models.spec import ModelKind
from synthbench.tasks.learning.base import LearningTask
from synthbench.tasks.learning.draws import below
from synthbench.tasks.learning.evaluation import Answer
from synthbench.tasks.learning.examples import Examples
from synthbench.tasks.learning.generated import Draw, generate, require_examples
from synthbench.tasks.learning.metrics import accuracy, weights_of

SEPARATOR = 0  # also before the first token of the target


@dataclass(frozen=True)
class Copying(LearningTask):
    """Repeat a sequence of random tokens."""

    reverse: bool = False  # whether the copy begins with the last token

    name: ClassVar[str] = "copying"
    description: ClassVar[str] = "repeat a sequence of random tokens"
    kinds: ClassVar[tuple[ModelKind, ...]] = ("encoder_decoder", "decoder")
    pads: ClassVar[bool] = False
    metric: ClassVar[str] = "exact_match"
    metrics: ClassVar[Mapping[str, Metric]] = {
        "exact_match": Metric(
            "exact match %", "%", "higher", percent, 100, lower_bound=0, upper_bound=1
        ),
        "token_accuracy": Metric(
            "token accuracy %", "%", "higher", percent, 100, lower_bound=0, upper_bound=1
        ),
    }

    def check_sizes(self, model: Model, seq_len: int) -> None:
        if model.kind == "encoder_decoder" and model.target_len != seq_len:
            raise UnsupportedError(
                f"task {self.name}: the copy is as long as the source; got target_len "
                f"{model.target_len} and seq_len {seq_len}: make them equal"
            )
        symbols, length = model.classes - 1, copied(model, seq_len)
        possible = 0 if not length else float(symbols) ** min(length, 20)
        require_examples(self.name, possible, "a larger vocabulary or seq_len")

    def examples(self, model: Model, seq_len: int, seed: int) -> Mapping[str, Examples]:
        length = copied(model, seq_len)
        facts = {
            "kind": model.kind, "vocabulary": model.classes, "seq_len": seq_len,
            "reverse": self.reverse,
        }  # fmt: skip

        def make(words: Array) -> Batch:
            source = 1 + below(words, model.classes - 1)
            copy = source[:, ::-1] if self.reverse else source
            separator = np.full((len(words), 1), SEPARATOR)
            if model.kind == "encoder_decoder":
                shifted = np.concatenate([source, separator, copy[:, :-1]], axis=1)
                return Batch(shifted, copy)
            tokens = np.concatenate([source, separator, copy, separator], axis=1)
            weights = np.zeros((len(words), seq_len), dtype=np.float32)
            weights[:, length : 2 * length] = 1
            return Batch(tokens[:, :seq_len], tokens[:, 1 : seq_len + 1], weights=weights)

        return generate(self.name, facts, seed, Draw(length, make))

    def scores(self, model: Model, answers: Sequence[Answer]) -> dict[str, float]:
        return {"exact_match": exact_match(answers), "token_accuracy": accuracy(answers)}


def copied(model: Model, seq_len: int) -> int:
    """How many tokens are copied."""
    return seq_len if model.kind == "encoder_decoder" else seq_len // 2


def exact_match(answers: Sequence[Answer]) -> float:
    """The share of examples all of whose targets were predicted."""
    whole = [
        np.all(
            (answer.predictions == answer.batch.targets) | (weights_of(answer.batch) == 0), axis=1
        )
        for answer in answers
    ]
    return float(np.concatenate(whole).mean())
