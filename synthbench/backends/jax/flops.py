"""FLOPs of a JAX program, 2 for each multiply-accumulate of a matrix product or convolution.

A walk over the jaxpr: a scan's body times its length, the dearer branch of a cond. XLA's own count
stands beside it, to be shown and not trusted: it takes the body of a loop once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import jax
from jax.extend.core import jaxprs_in_params
from jax.interpreters.partial_eval import dce_jaxpr

from synthbench.backends.base import TracedFlops
from synthbench.backends.jax.contractions import RULES
from synthbench.backends.jax.free_operations import FREE
from synthbench.backends.jax.loop_counts import loop_count

# One body, run once.
CALLS = frozenset(
    {
        "call", "checkpoint", "closed_call", "composite", "core_call", "custom_jvp_call",
        "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_vmap_call", "jit", "pjit", "remat",
        "remat2", "run_state",
    }
)  # fmt: skip
# A body written for one block of a grid of unknown size: no part of it is a count.
KERNELS = frozenset({"core_map", "cudnn_fusion", "mpmd_map", "pallas_call"})


@dataclass
class Count:
    """Multiply-accumulates, and operations that no rule covers."""

    products: int = 0
    unknown: Counter[str] = field(default_factory=Counter)

    def add(self, other: Count, times: int = 1) -> None:
        """Add `other`, `times` over."""
        self.products += times * other.products
        for name, met in other.unknown.items():
            self.unknown[name] += times * met


def trace(function: Callable[..., object], *args: Any) -> TracedFlops:
    """Count one call `function(*args)` from its jaxpr; nothing is run, shapes are enough.

    What reaches no result is not counted: jit drops it too. `uncounted` holds primitives that no
    rule covers and that are not known to be free, a foreign call by its target, a `while` whose
    trip count is not in the program (nothing of it is counted) and unknown primitives with a body
    (their body is counted once).
    """
    closed = jax.make_jaxpr(function)(*args)
    live, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    count = _walk(live)
    return TracedFlops(tool="jaxpr walk", flops=2 * count.products, uncounted=dict(count.unknown))


def compiler_flops(compiled: Any) -> float | None:
    """XLA's own count for a compiled function; None where it gives none."""
    analysis = compiled.cost_analysis()
    if isinstance(analysis, list):  # jax before 0.5: one for each computation
        analysis = analysis[0] if analysis else None
    flops = (analysis or {}).get("flops")
    return float(flops) if flops is not None and flops >= 0 else None


def _walk(jaxpr: Any) -> Count:
    count = Count()
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in RULES:
            count.products += RULES[name](eqn)
        elif name == "scan":
            count.add(_walk(eqn.params["jaxpr"].jaxpr), times=eqn.params["length"])
        elif name == "while":
            count.add(_while(eqn))
        elif name == "cond":
            count.add(_cond(eqn))
        elif name == "shard_map":
            count.add(_bodies(eqn), times=_shards(eqn.params))
        elif name in CALLS:
            count.add(_bodies(eqn))
        elif name not in FREE:
            count.unknown[_full_name(eqn)] += 1
            if name not in KERNELS:
                count.add(_bodies(eqn))
    return count


def _full_name(eqn: Any) -> str:
    """The primitive, and the target of a foreign call."""
    target = eqn.params.get("target_name")
    return f"{eqn.primitive.name}.{target}" if target else str(eqn.primitive.name)


def _bodies(eqn: Any) -> Count:
    count = Count()
    for body in jaxprs_in_params(eqn.params):
        count.add(_walk(body))
    return count


def _shards(params: Any) -> int:
    """On how many devices the body of a shard_map runs, each on its shard."""
    axes = params.get("newly_manual_axes", params.get("manual_axes", ()))
    return prod(params["mesh"].shape[axis] for axis in axes)


def _cond(eqn: Any) -> Count:
    """The dearer branch; what any branch does not know."""
    branches = [_walk(branch.jaxpr) for branch in eqn.params["branches"]]
    unknown: Counter[str] = Counter()
    for branch in branches:
        unknown |= branch.unknown
    return Count(max(branch.products for branch in branches), unknown)


def _while(eqn: Any) -> Count:
    """Condition and body times the trip count; free where they do nothing that costs."""
    turn = _walk(eqn.params["cond_jaxpr"].jaxpr)
    turn.add(_walk(eqn.params["body_jaxpr"].jaxpr))
    if not turn.products and not turn.unknown:
        return turn
    trips = loop_count(eqn)
    if trips is None:
        return Count(0, Counter({"while": 1}))
    count = Count()
    count.add(turn, times=trips)
    return count
