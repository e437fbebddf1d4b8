"""Means over machines whose results differ by more than their rounds do."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def cluster_means(values: Sequence[float], clusters: Sequence[str]) -> tuple[float, ...]:
    """The mean of the values of each cluster, in order of appearance.

    `clusters`: that of each value. All values as they are where there is one cluster or none.
    """
    if len(set(clusters)) < 2:
        return tuple(values)
    groups: dict[str, list[float]] = {}
    for value, cluster in zip(values, clusters, strict=True):
        groups.setdefault(cluster, []).append(value)
    return tuple(float(np.mean(group)) for group in groups.values())


def summary_error(means: Sequence[float], within: float, values: int) -> float:
    """The standard error of the mean of cluster means; it has len(`means`) - 1 degrees of freedom.

    The clusters are a random effect, so their means are the independent observations: a t test on
    one summary per cluster (Ibragimov and Mueller 2010, doi:10.1198/jbes.2009.08046; Hayes and
    Moulton 2017, Cluster Randomised Trials, chapter 10). At levels of at most 8% it stays within
    its level also where clusters have different variances, as those with fewer values do.

    The variance is not shrunk towards those of other comparisons: all of them share the machines,
    so together they know no more of how machines differ than one of them. It is not less than
    `within`, the standard error of one of so many `values`, implies.
    """
    least = within**2 * len(means) / values
    return math.sqrt(max(float(np.var(means, ddof=1)), least) / len(means))
