"""Numbers that cannot be true."""

from __future__ import annotations

import statistics

from synthbench.errors import SynthbenchError
from synthbench.record import Ceiling, Flops, Timing

# A ceiling is itself measured, for a second or so: a cell may find the device in a better moment.
CEILING_NOISE = 0.10
# The smallest step makes an addition; one that makes nothing at all is a little faster.
DISPATCH_SHARE = 0.5


class ImplausibleError(SynthbenchError):
    """A measurement that cannot be true, with the reason; its cell is quarantined."""


def step_flops(mode: str, formula: int | None, traced: int | None) -> int | None:
    """FLOPs of one whole step: as traced, else of a forward step by formula; None if not known."""
    if traced is not None:
        return traced
    return formula if mode == "forward" else None


def require_plausible(
    mode: str,
    timing: Timing,
    flops: Flops | None,
    ceiling: Ceiling | None,
    needed_share: float = 1.0,
) -> list[str]:
    """Raise ImplausibleError for a median below dispatch, or above the device's ceiling.

    `needed_share` of the FLOPs must be done by any exact implementation: a fused form may leave
    out the rest, as what a causal mask hides. A ceiling that was itself disturbed refuses nothing:
    to be above it is a warning, returned.
    """
    median = statistics.median(timing.samples)
    dispatch = timing.dispatch_seconds
    if dispatch is not None and median < DISPATCH_SHARE * dispatch:
        raise ImplausibleError(
            f"a step takes {median * 1e6:.2f} us, under half of the smallest step there is "
            f"({dispatch * 1e6:.2f} us): it was not run, or not waited for"
        )
    counted = None if flops is None else step_flops(mode, flops.formula, flops.traced)
    if not counted or ceiling is None:
        return []
    share = counted / median / ceiling.flops_per_second
    if share * needed_share <= 1 + CEILING_NOISE:
        return []
    needed = f", {needed_share:.0%} of which must be done," if needed_share < 1 else ""
    reason = (
        f"a step of {counted} FLOPs{needed} in {median * 1e6:.3g} us is {share:.0%} of "
        f"this device's best matrix-product rate ({ceiling.flops_per_second / 1e9:.4g} GFLOP/s in "
        f"{ceiling.framework} {ceiling.dtype})"
    )
    if ceiling.warnings:
        return [f"{reason}, which was disturbed when it was measured"]
    raise ImplausibleError(f"{reason}; the time, the count or the ceiling is wrong")
