"""The trip count of a JAX `while`, if it can be read from the program."""

from __future__ import annotations

from math import ceil
from typing import Any

import jax.numpy as jnp

from synthbench.backends.jax.private_api import is_literal

# The equivalent comparison with its operands swapped.
SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def loop_count(eqn: Any) -> int | None:
    """The trip count of `while i < n: i += step`, if start, n and step are integer constants.

    The comparison may be <, <=, > or >=, with its operands in either order; the step may be
    subtracted. None for any other loop.
    """
    condition, body = eqn.params["cond_jaxpr"].jaxpr, eqn.params["body_jaxpr"].jaxpr
    cond_consts, body_consts = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    start = eqn.invars[cond_consts + body_consts :]
    if len(condition.eqns) != 1 or condition.outvars != condition.eqns[0].outvars:
        return None
    comparison = condition.eqns[0].primitive.name
    if comparison not in SWAPPED:
        return None
    counter, limit = condition.eqns[0].invars
    carried = condition.invars[cond_consts:]
    if not _is_among(counter, carried):
        comparison, counter, limit = SWAPPED[comparison], limit, counter
    if not _is_among(counter, carried):
        return None
    index = carried.index(counter)
    step = _step(body, body.invars[body_consts + index], body.outvars[index])
    if _is_among(limit, condition.invars[:cond_consts]):
        limit = eqn.invars[condition.invars.index(limit)]
    first, last = _integer(start[index]), _integer(limit)
    if first is None or last is None or not step:
        return None
    if comparison in ("gt", "ge"):  # count upwards instead
        first, last, step = -first, -last, -step
    if comparison in ("le", "ge"):
        last += 1
    return max(0, ceil((last - first) / step)) if step > 0 else None


def _step(body: Any, before: Any, after: Any) -> int | None:
    """What one iteration adds to a counter; None if it is not a constant."""
    for eqn in body.eqns:
        if not _is_among(after, eqn.outvars):
            continue
        name, operands = eqn.primitive.name, eqn.invars
        if name == "add" and operands[1] is before:
            operands = operands[::-1]
        if name in ("add", "sub") and operands[0] is before:
            step = _integer(operands[1])
            return step if step is None or name == "add" else -step
    return None


def _integer(value: Any) -> int | None:
    """The value of an integer constant of the program; None for anything else."""
    if not is_literal(value):
        return None
    number: Any = value.val
    return int(number) if jnp.issubdtype(jnp.result_type(number), jnp.integer) else None


def _is_among(variable: Any, variables: Any) -> bool:
    return not is_literal(variable) and variable in variables
