"""The task `walks`: random walks on a graph, for any model; it is there for trying things out.

The seed draws the graph, in which each token is followed by one of FOLLOWERS others. What the model
has to predict depends on its kind:

    decoder          the next token
    encoder, mixer   the token DISTANCE positions before (for a bare mixer: its largest channel)
    classifier       which of several graphs the walk was made on
    encoder_decoder  the tokens of the source in reverse order
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from synthbench.backends.base import Batch
from synthbench.errors import UnsupportedError
from synthbench.metrics import Metric
from synthbench.mixers.base import Array
from synthbench.models.model import Model
from synthbench.models.spec import KINDS, ModelKind
from synthbench.tasks.learning.base import LearningTask
from synthbench.tasks.learning.draws import below, random_words, uniform
from synthbench.tasks.learning.evaluation import Answer
from synthbench.tasks.learning.examples import SPLITS, Examples
from synthbench.tasks.learning.generated import Draw, generate, require_examples
from synthbench.tasks.learning.metrics import ACCURACY, accuracy

FOLLOWERS = 4
DISTANCE = 3
LEAST_VOCABULARY = 8  # with fewer tokens a graph may have hardly any walks


@dataclass(frozen=True)
class Walks(LearningTask):
    """Predict tokens of random walks on a graph."""

    name: ClassVar[str] = "walks"
    description: ClassVar[str] = "random walks on a graph, for trying things out"
    kinds: ClassVar[tuple[ModelKind, ...]] = KINDS
    pads: ClassVar[bool] = False
    metric: ClassVar[str] = "accuracy"
    metrics: ClassVar[Mapping[str, Metric]] = {"accuracy": ACCURACY}

    def check_sizes(self, model: Model, seq_len: int) -> None:
        if not model.is_stack:
            return
        vocabulary = model.vocabulary or 0
        if vocabulary < LEAST_VOCABULARY:
            raise UnsupportedError(
                f"task {self.name} needs a vocabulary of at least {LEAST_VOCABULARY}; got "
                f"{vocabulary}: raise it"
            )
        # Followers of a token may be equal, so that there are fewer walks than FOLLOWERS suggests.
        possible = vocabulary * 2.0 ** min(seq_len - 1, 100)
        require_examples(self.name, possible, "a larger vocabulary or seq_len")

    def examples(self, model: Model, seq_len: int, seed: int) -> Mapping[str, Examples]:
        facts = {
            "kind": model.kind, "d_model": model.sizes.d_model, "vocabulary": model.vocabulary,
            "labels": model.labels, "target_len": model.target_len, "seq_len": seq_len,
        }  # fmt: skip
        if not model.is_stack:
            shape = (seq_len, model.sizes.d_model)
            draw = Draw(shape[0] * shape[1], lambda words: vectors(words.reshape(-1, *shape)))
            return generate(self.name, facts, seed, draw)
        graphs = graphs_of(model, seed)

        def make(words: Array) -> Batch:
            labels = below(words[:, 0], len(graphs))
            return batch_of(model, seq_len, walks(words[:, 1:], graphs, labels), labels)

        return generate(self.name, facts, seed, Draw(seq_len + 2, make))

    def scores(self, model: Model, answers: Sequence[Answer]) -> dict[str, float]:
        return {"accuracy": accuracy(answers)}


def vectors(words: Array) -> Batch:
    """What a bare mixer learns from: uniform values [B,L,d] of variance 1."""
    x = ((2 * uniform(words) - 1) * 3**0.5).astype(np.float32)
    return Batch(x, np.roll(x.argmax(axis=-1), DISTANCE, axis=1))


def graphs_of(model: Model, seed: int) -> Array:
    """The followers of each token [labels,V,FOLLOWERS]; one graph where there are no labels."""
    shape = (model.labels or 1, model.vocabulary or 0, FOLLOWERS)
    words = random_words(seed, (len(SPLITS),), shape[0] * shape[1] * shape[2])
    return below(words, shape[1]).reshape(shape)


def walks(words: Array, graphs: Array, labels: Array) -> Array:
    """Token ids, one per word: walks from random starts, each on the graph of its label."""
    tokens = np.empty(words.shape, dtype=np.int64)
    tokens[:, 0] = below(words[:, 0], graphs.shape[1])
    for t in range(1, words.shape[1]):
        choice = below(words[:, t], graphs.shape[2])
        tokens[:, t] = graphs[labels, tokens[:, t - 1], choice]
    return tokens


def batch_of(model: Model, seq_len: int, tokens: Array, labels: Array) -> Batch:
    """Inputs and targets as the model takes them, of walks [B,L+1]."""
    source = tokens[:, :seq_len]
    if model.kind == "classifier":
        return Batch(source, labels)
    if model.kind == "decoder":
        return Batch(source, tokens[:, 1:])
    if model.kind == "encoder":
        return Batch(source, np.roll(source, DISTANCE, axis=1))
    target = source[:, ::-1][:, np.arange(model.target_len or seq_len) % seq_len]
    shifted = np.concatenate([np.zeros_like(target[:, :1]), target[:, :-1]], axis=1)
    return Batch(np.concatenate([source, shifted], axis=1), target)
