"""What XLA plans to allocate for a compiled JAX function."""

from __future__ import annotations

from typing import Any

from synthbench.backends.base import MemoryPlan


def plan(compiled: Any) -> MemoryPlan | None:
    """Read the plan of a compiled function; None where the back end makes none.

    `peak_bytes` is arguments + outputs + temporaries - what outputs share with donated arguments,
    `temporary_bytes` the same without the arguments: what one step adds. The temporaries are one
    arena for their highest level, so the sum is an upper bound where the outputs are written late.
    XLA's own field for the peak is not read: on the CPU (jaxlib 0.10.2) it leaves the temporaries
    out. Constants embedded in the program are in no field.
    """
    analysis = compiled.memory_analysis()
    if analysis is None:
        return None
    added = int(
        analysis.output_size_in_bytes + analysis.temp_size_in_bytes - analysis.alias_size_in_bytes
    )
    return MemoryPlan(
        tool="XLA memory analysis",
        peak_bytes=int(analysis.argument_size_in_bytes) + added,
        temporary_bytes=added,
    )
