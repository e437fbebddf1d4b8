"""Metrics that several learning tasks share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from synthbench.backends.base import Batch
from synthbench.metrics import Metric, percent
from synthbench.mixers.base import Array
from synthbench.tasks.learning.evaluation import Answer

LARGEST_EXPONENT = 700.0  # e to this is close to the largest number that a record can hold

ACCURACY = Metric("accuracy %", "%", "higher", percent, 100, lower_bound=0, upper_bound=1)
PERPLEXITY = Metric("perplexity", "1", "lower", lower_bound=1)
LOG_PERPLEXITY = Metric("log perplexity", "nat", "lower", lower_bound=0)


def weights_of(batch: Batch) -> Array:
    """The weight of each target: as given, else 1 for a real token and 0 for padding."""
    weights = batch.loss_weights
    if weights is None:
        return np.ones(batch.targets.shape)
    return weights.astype(np.float64)


def accuracy(answers: Sequence[Answer]) -> float:
    """The share of targets that were predicted, each with its weight."""
    right = total = 0.0
    for answer in answers:
        weights = weights_of(answer.batch)
        right += float(weights[answer.predictions == answer.batch.targets].sum())
        total += float(weights.sum())
    return right / total


def log_perplexity(answers: Sequence[Answer]) -> float:
    """Nats per target, by their weights: the mean loss."""
    weight = sum(float(answer.weight) for answer in answers)
    return sum(float(answer.loss_sum) for answer in answers) / weight


def perplexity(answers: Sequence[Answer]) -> float:
    """e to the log perplexity; at most e^700."""
    return math.exp(min(log_perplexity(answers), LARGEST_EXPONENT))
