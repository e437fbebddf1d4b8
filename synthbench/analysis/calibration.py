"""Times of steps relative to a fixed piece of work that was timed between them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence


def relative_times(
    samples: Sequence[float], after: Sequence[int], seconds: Sequence[float]
) -> list[float]:
    """Each sample over the mean time of the fixed work just before and just after it.

    `after`: how many samples came before each repetition of the fixed work, ascending, the first 0;
    `seconds`: how long each took. A machine that becomes slower for a while makes both longer, so
    their ratio changes less than either (a control variate; compare duet benchmarking, Bulej et al.
    2020, doi:10.1145/3358960.3379132). Raises ValueError unless the work was done before the first
    sample and took time.
    """
    if not after or after[0] != 0 or len(after) != len(seconds) or min(seconds) <= 0:
        raise ValueError(
            f"the fixed work was timed after {list(after)} samples in {list(seconds)} seconds; "
            "expected as many times as places, all above 0, the first place 0"
        )
    found = []
    for place, sample in enumerate(samples):
        before = bisect_right(after, place) - 1
        next_one = min(before + 1, len(seconds) - 1)
        found.append(2 * sample / (seconds[before] + seconds[next_one]))
    return found
