"""Numbers that cannot be true."""

from __future__ import annotations

import statistics

from synthbench.errors import SynthbenchError
from synthbench.record import Ceiling, Flops, Timing

# A ceiling is itself measured, for a second or so: a cell may find the device in a better moment.
CEILING_NOISE = 0.10


class ImplausibleError(SynthbenchError):
    """A measurement that cannot be true, with the reason; its cell is quarantined."""


def step_flops(mode: str, formula: int | None, traced: int | None) -> int | None:
    """FLOPs of one whole step: as traced, else of a forward step by formula; None if not known."""
    if traced is not None:
        return traced
    return formula if mode == "forward" else None


def require_plausible(
    mode: str, timing: Timing, flops: Flops | None, ceiling: Ceiling | None
) -> None:
    """Raise ImplausibleError for a median below dispatch, or above the device's ceiling."""
    median = statistics.median(timing.samples)
    dispatch = timing.dispatch_seconds
    if dispatch is not None and median < dispatch:
        raise ImplausibleError(
            f"a step takes {median * 1e6:.2f} us, less than the smallest step there is "
            f"({dispatch * 1e6:.2f} us): it was not run, or not waited for"
        )
    counted = None if flops is None else step_flops(mode, flops.formula, flops.traced)
    if not counted or ceiling is None:
        return
    share = counted / median / ceiling.flops_per_second
    if share > 1 + CEILING_NOISE:
        raise ImplausibleError(
            f"a step of {counted} FLOPs in {median * 1e6:.3g} us is {share:.0%} of this device's "
            f"best matrix-product rate ({ceiling.flops_per_second / 1e9:.4g} GFLOP/s in "
            f"{ceiling.framework} {ceiling.dtype}); the time, the count or the ceiling is wrong"
        )
