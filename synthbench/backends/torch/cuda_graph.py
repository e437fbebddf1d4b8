"""A whole step as one CUDA graph: the device starts its kernels without waiting for Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

# Before a step is captured: libraries choose their kernels, the optimizer creates its state.
WARM_UP_STEPS = 3


class Captured(NamedTuple):
    """A captured step. Each replay overwrites the tensor that the last one returned."""

    replay: Callable[[], Tensor]
    peak_bytes: int  # of the allocator while it was captured; a replay allocates nothing


def capture(step: Callable[[], Tensor], device: torch.device) -> Captured:
    """Run a step WARM_UP_STEPS times, then record it as a CUDA graph.

    Raises RuntimeError where a step waits for the device, which a graph cannot.
    """
    aside = torch.cuda.Stream(device)
    aside.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(aside):
        for _ in range(WARM_UP_STEPS):
            step()
    torch.cuda.current_stream(device).wait_stream(aside)
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        produced = step()
    peak = torch.cuda.max_memory_allocated(device)

    def replay() -> Tensor:
        graph.replay()
        return produced

    return Captured(replay, peak)
