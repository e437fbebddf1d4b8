"""Statistics as pytest-benchmark defines them, so that its tables agree with an exported file."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any


def benchmark_statistics(samples: Sequence[float]) -> dict[str, Any]:
    """Every field of pytest-benchmark's `stats`, in seconds, for at least one sample."""
    data = sorted(samples)
    mean = statistics.mean(data)
    deviation = statistics.stdev(data) if len(data) > 1 else 0.0
    low, high = quartiles(data)
    spread = high - low
    fenced = [x for x in data if low - 1.5 * spread <= x <= high + 1.5 * spread]
    beyond_deviation = sum(not mean - deviation <= x <= mean + deviation for x in data)
    beyond_fence = len(data) - len(fenced)
    total = sum(samples)
    return {
        "min": data[0],
        "max": data[-1],
        "mean": mean,
        "stddev": deviation,
        "rounds": len(data),
        "median": statistics.median(data),
        "iqr": spread,
        "q1": low,
        "q3": high,
        "iqr_outliers": beyond_fence,
        "stddev_outliers": beyond_deviation,
        "outliers": f"{beyond_deviation};{beyond_fence}",
        "ld15iqr": fenced[0],
        "hd15iqr": fenced[-1],
        "ops": len(data) / total if total else 0.0,
        "total": total,
        "data": list(samples),
        "iterations": 1,
    }


def quartiles(data: Sequence[float]) -> tuple[float, float]:
    """First and third quartile of sorted data, as pytest-benchmark computes them."""
    count = len(data)
    if count == 1:
        return data[0], data[0]
    if count % 2 == 0:
        return statistics.median(data[: count // 2]), statistics.median(data[count // 2 :])
    n = count // 4
    if count % 4 == 1:
        low = 0.25 * data[n - 1] + 0.75 * data[n]
        return low, 0.75 * data[3 * n] + 0.25 * data[3 * n + 1]
    low = 0.75 * data[n] + 0.25 * data[n + 1]
    return low, 0.25 * data[3 * n + 1] + 0.75 * data[3 * n + 2]
