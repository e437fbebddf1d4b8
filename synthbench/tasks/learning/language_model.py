"""The task `language_model`: predict the next token of a text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from synthbench.backends.base import Batch
from synthbench.metrics import Metric
from synthbench.mixers.base import Array
from synthbench.models.model import Model
from synthbench.models.spec import ModelKind
from synthbench.tasks.learning.evaluation import Answer
from synthbench.tasks.learning.examples import Examples
from synthbench.tasks.learning.metrics import PERPLEXITY, perplexity
from synthbench.tasks.learning.sequences import pieces_of, stream
from synthbench.tasks.learning.text import Corpus, TextTask
from synthbench.tasks.learning.tokenizers.base import BOS


@dataclass(frozen=True)
class LanguageModel(TextTask):
    """The texts in their order, EOS behind each, cut into pieces of the model's length."""

    name: ClassVar[str] = "language_model"
    description: ClassVar[str] = "predict the next token of a text"
    kinds: ClassVar[tuple[ModelKind, ...]] = ("decoder",)
    pads: ClassVar[bool] = False
    columns: ClassVar[tuple[str, ...]] = ("text",)
    metric: ClassVar[str] = "bits_per_byte"
    metrics: ClassVar[Mapping[str, Metric]] = {
        "bits_per_byte": Metric("bits/byte", "bit", "lower", lower_bound=0),
        "perplexity": PERPLEXITY,
    }

    def examples_of(
        self, split: str, corpus: Corpus, model: Model, seq_len: int, seed: int
    ) -> Examples:
        rows = corpus.rows[split]
        targets = stream(corpus.tokenizer, rows)
        inputs = np.concatenate([[BOS], targets[:-1]])

        def batch(numbers: Array) -> Batch:
            places = numbers[:, None] * seq_len + np.arange(seq_len)
            return Batch(inputs[places], targets[places])

        return Examples(rows.digest, batch, pieces_of(targets, seq_len, self.name, split))

    def scores(self, model: Model, answers: Sequence[Answer]) -> dict[str, float]:
        """Bits per byte of text, in which EOS is the one byte of a line's end; perplexity."""
        lengths = self.corpus.tokenizer.byte_lengths
        spent = sum(answer.loss_sum for answer in answers) / math.log(2)
        size = sum(int(lengths[answer.batch.targets].sum()) for answer in answers)
        return {"bits_per_byte": spent / size, "perplexity": perplexity(answers)}
