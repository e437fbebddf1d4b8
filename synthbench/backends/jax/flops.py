"""FLOPs of a JAX program, 2 for each multiply-accumulate of a matrix product or convolution.

A walk over the jaxpr: a scan counts as its body times its length, a cond as its most expensive
branch. XLA's own count is reported too, but is not reliable: it counts the body of a loop once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import jax

from synthbench.backends.base import TracedFlops
from synthbench.backends.jax.contractions import RULES
from synthbench.backends.jax.free_operations import is_free
from synthbench.backends.jax.loop_counts import loop_count
from synthbench.backends.jax.private_api import jaxprs_in, without_dead_code

# Primitives with one body, which runs once.
CALLS = frozenset(
    {
        "call", "checkpoint", "closed_call", "composite", "core_call", "custom_jvp_call",
        "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_vmap_call", "jit", "pjit", "remat",
        "remat2", "run_state",
    }
)  # fmt: skip
# The body is written for one block of a grid of unknown size, so it cannot be counted.
KERNELS = frozenset({"core_map", "cudnn_fusion", "mpmd_map", "pallas_call"})


@dataclass
class Count:
    """Multiply-accumulates, and operations that no rule covers."""

    products: int = 0
    unknown: Counter[str] = field(default_factory=Counter)

    def add(self, other: Count, times: int = 1) -> None:
        """Add `other` `times` times."""
        self.products += times * other.products
        for name, found in other.unknown.items():
            self.unknown[name] += times * found


def trace(function: Callable[..., object], *args: Any) -> TracedFlops:
    """Count one call `function(*args)` from its jaxpr; it does not run, and shapes are enough.

    Operations that no result depends on are not counted: jit removes them too. `uncounted` lists
    primitives that no rule covers and that are not known to be free, a foreign call by its target,
    a `while` whose trip count is not in the program (it counts as 0) and unknown primitives with a
    body (the body counts once). The name of the tool says so if this version of JAX cannot remove
    dead code, so that it is counted.
    """
    jaxpr = jax.make_jaxpr(function)(*args).jaxpr
    live = without_dead_code(jaxpr)
    count = _walk(jaxpr if live is None else live)
    tool = "jaxpr walk, dead code included" if live is None else "jaxpr walk"
    return TracedFlops(tool=tool, flops=2 * count.products, uncounted=dict(count.unknown))


def compiler_flops(compiled: Any) -> float | None:
    """XLA's own count for a compiled function; None if it has none."""
    flops = (compiled.cost_analysis() or {}).get("flops")
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
        elif not is_free(name):
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
    for body in jaxprs_in(eqn.params):
        count.add(_walk(body))
    return count


def _shards(params: Any) -> int:
    """The number of devices on which the body of a shard_map runs."""
    axes = params.get("newly_manual_axes", params.get("manual_axes", ()))
    return prod(params["mesh"].shape[axis] for axis in axes)


def _cond(eqn: Any) -> Count:
    """The most expensive branch, and the unknown operations of all branches."""
    branches = [_walk(branch.jaxpr) for branch in eqn.params["branches"]]
    unknown: Counter[str] = Counter()
    for branch in branches:
        unknown |= branch.unknown
    return Count(max(branch.products for branch in branches), unknown)


def _while(eqn: Any) -> Count:
    """Condition and body times the trip count; without products it is free."""
    iteration = _walk(eqn.params["cond_jaxpr"].jaxpr)
    iteration.add(_walk(eqn.params["body_jaxpr"].jaxpr))
    if not iteration.products and not iteration.unknown:
        return iteration
    times = loop_count(eqn)
    if times is None:
        return Count(0, Counter({"while": 1}))
    count = Count()
    count.add(iteration, times=times)
    return count
