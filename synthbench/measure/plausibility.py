"""Refuse numbers that cannot be right."""

from __future__ import annotations

import statistics

from synthbench.devices import is_host
from synthbench.errors import SynthbenchError
from synthbench.metrics import significant
from synthbench.record import Flops, Timing
from synthbench.run_info import Ceiling

# A ceiling is itself a measurement of about a second, and a cell may run at a better moment.
CEILING_NOISE = 0.10
# The smallest step is one addition; a step that does nothing is a little faster.
DISPATCH_SHARE = 0.5
# Formula and trace follow one convention and are equal for every built-in variant. A plug-in's
# formula may leave out small products; a tenth is less than any difference that a table is about.
FORMULA_SHARE = 0.10
# FLOPs of a train step in units of the formula. At least a forward pass: gradients that nothing
# needs are not computed. At most the forward pass, two products for each of its products, and the
# forward pass again where activations are computed anew.
TRAIN_STEP = (1, 4)
STEPS = {"forward": "a forward pass", "train": "a train step", "decode": "a decoded token"}


class ImplausibleError(SynthbenchError):
    """A measurement that cannot be right, with the reason; its cell is quarantined."""


def step_flops(mode: str, formula: int | None, traced: int | None) -> int | None:
    """FLOPs of one step: as traced, or by formula if it is not a train step; None: not known."""
    if traced is not None:
        return traced
    return None if mode == "train" else formula


NOTHING_COUNTED = (
    "; only matrix products and convolutions count, so flops() of a mixer without any returns 0"
)


def require_formula(mode: str, flops: Flops) -> None:
    """Raise ImplausibleError if the traced count and the formula differ by over FORMULA_SHARE.

    A count that misses operations is only checked for being too large. Without a formula or a trace
    nothing is checked.
    """
    formula, traced = flops.formula, flops.traced
    if formula is None or traced is None:
        return
    least, most = TRAIN_STEP if mode == "train" else (1, 1)
    too_few = traced < least * formula * (1 - FORMULA_SHARE) and not flops.uncounted
    if not too_few and traced <= most * formula * (1 + FORMULA_SHARE):
        return
    of = STEPS[mode]
    expected = f"{least * formula}" if least == most else f"{least * formula} to {most * formula}"
    raise ImplausibleError(
        f"{of} has {traced} FLOPs as traced ({flops.traced_tool}) and {expected} by the mixer's "
        f"formula; they may differ by {FORMULA_SHARE:.0%}: correct flops() of the mixer, or its "
        f"program{'' if traced else NOTHING_COUNTED}"
    )


def ceilings_of(ceiling: Ceiling, devices: int) -> int:
    """How many times the ceiling these devices have; on a CPU, they are shares of it."""
    return 1 if is_host(ceiling.device) else devices


def require_plausible(
    mode: str,
    timing: Timing,
    flops: Flops | None,
    ceiling: Ceiling | None,
    needed_share: float = 1.0,
    devices: int = 1,
) -> list[str]:
    """Raise ImplausibleError for a median below the dispatch time or above the device's ceiling.

    `needed_share` is the share of the FLOPs that any exact implementation must compute; a fused
    form may skip the rest, such as what a causal mask hides. If the ceiling itself was
    disturbed, a rate above it is only a warning, which is returned.
    """
    median = statistics.median(timing.samples)
    dispatch = timing.dispatch_seconds
    if dispatch is not None and median < DISPATCH_SHARE * dispatch:
        raise ImplausibleError(
            f"a step takes {median * 1e6:.2f} us, less than half of the smallest possible step "
            f"({dispatch * 1e6:.2f} us): it did not run, or its result was not awaited"
        )
    counted = None if flops is None else step_flops(mode, flops.formula, flops.traced)
    if not counted or ceiling is None:
        return []
    times = ceilings_of(ceiling, devices)
    share = counted / median / (times * ceiling.flops_per_second)
    if share * needed_share <= 1 + CEILING_NOISE:
        return []
    whose = "this device's" if times == 1 else f"{times} times this device's"
    needed = f", of which at least {needed_share:.0%} are necessary," if needed_share < 1 else ""
    reason = (
        f"a step of {counted} FLOPs{needed} in {significant(median * 1e6)} us is {share:.0%} of "
        f"{whose} best matrix-product rate ({ceiling.flops_per_second / 1e9:.4g} GFLOP/s in "
        f"{ceiling.framework} {ceiling.dtype})"
    )
    if ceiling.warnings:
        return [f"{reason}, which was disturbed while it was measured"]
    raise ImplausibleError(f"{reason}; the time, the count or the ceiling is wrong")
