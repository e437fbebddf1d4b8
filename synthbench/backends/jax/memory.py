"""What XLA plans to allocate for a compiled JAX function."""

from __future__ import annotations

from typing import Any

from synthbench.backends.base import MemoryPlan


def plan(compiled: Any) -> MemoryPlan | None:
    """XLA's plan for a compiled function; None if its back end makes none.

    `peak_bytes` is arguments + outputs + temporaries - what outputs share with donated arguments.
    `temporary_bytes` is the same without the arguments: what one step adds. The temporaries share
    one arena of the size of their peak, so the sum is an upper bound if the outputs are written
    late. XLA's own field for the peak is not used: on a CPU (jaxlib 0.10.2) it does not include the
    temporaries. No field includes constants embedded in the program.
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
