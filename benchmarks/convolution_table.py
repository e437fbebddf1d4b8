"""Time the ways of a depthwise convolution along length in PyTorch, as a table to choose from.

    taskset -c 0 python -m benchmarks.convolution_table

One row per width: milliseconds of forward and backward by grouped convolution, by shifted sums and
by banded products with several block sizes, and which is fastest. WIDEST_SHIFTED, BLOCKS and
LEAST_CHANNELS in backends/torch/mixers/head_convolution.py are set from it. It runs on a CPU with
one thread and measures the CPU time of the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Annotated

import torch
import typer
from torch import Tensor

from synthbench.backends.torch.mixers import head_convolution
from synthbench.backends.torch.mixers.light_conv import grouped

WIDTHS = (2, 3, 5, 7, 15, 31, 63, 127)
BLOCKS = (16, 32, 64)
Way = Callable[[Tensor, Tensor, bool], Tensor]


def main(
    length: Annotated[int, typer.Option(help="Positions.")] = 2048,
    batch: Annotated[int, typer.Option(help="Examples.")] = 4,
    channels: Annotated[int, typer.Option(help="Channels, d_model.")] = 512,
    heads: Annotated[int, typer.Option(help="Groups of channels with one kernel each.")] = 8,
    repeats: Annotated[int, typer.Option(help="Timings of each way, interleaved.")] = 5,
) -> None:
    """Print the table."""
    torch.set_num_threads(1)
    ways: dict[str, Way] = {"grouped": grouped, "shifted": head_convolution.shifted_sums}
    ways |= {f"banded {block}": banded_by(block) for block in BLOCKS}
    typer.echo(f"L={length} B={batch} d={channels} H={heads}, ms of forward and backward")
    typer.echo("width " + "".join(f"{name:>12}" for name in ways) + "  fastest")
    for width in WIDTHS:
        u = torch.randn(batch, length, channels, requires_grad=True)
        kernel = torch.randn(heads, width, requires_grad=True)
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(repeats + 1):
            for name, way in ways.items():
                times[name].append(seconds(way, u, kernel))
        found = {name: median(each[1:]) for name, each in times.items()}
        row = "".join(f"{1e3 * found[name]:12.1f}" for name in ways)
        typer.echo(f"{width:5d} {row}  {min(found, key=found.__getitem__)}")


def banded_by(block: int) -> Way:
    """Banded products with blocks of this size, for any width."""

    def way(u: Tensor, kernel: Tensor, causal: bool) -> Tensor:
        before = dict(head_convolution.BLOCKS)
        head_convolution.BLOCKS.clear()
        head_convolution.BLOCKS[2**31] = block
        try:
            return head_convolution.banded_products(u, kernel, causal)
        finally:
            head_convolution.BLOCKS.clear()
            head_convolution.BLOCKS.update(before)

    return way


def seconds(way: Way, u: Tensor, kernel: Tensor) -> float:
    """CPU seconds of one forward and backward pass."""
    u.grad = kernel.grad = None
    begin = time.process_time()
    y = way(u, kernel, False)
    y.backward(torch.ones_like(y))
    return time.process_time() - begin


if __name__ == "__main__":
    typer.run(main)
