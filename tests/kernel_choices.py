"""Kernels, cells and choices that tests make up."""

from __future__ import annotations

from typing import Any

from synthbench.kernel import Kernel
from synthbench.measure.kernel_choice import raced_cell
from synthbench.run_info import KernelChoice, KernelTime
from synthbench.suites.cell import Cell

SLOW, FAST = Kernel("slow"), Kernel("fast", products="oneDNN", queries=8, logits=2**18)


def cell(**changes: Any) -> Cell:
    content = {
        "variant": "V", "framework": "torch", "mode": "forward", "seq_len": 8, "batch": 1,
        "compile": "eager", "d_model": 16, "heads": 2, "max_len": 8,
    }  # fmt: skip
    return Cell.from_flat(**content | changes)


def choice(of: Cell, chosen: Kernel = FAST) -> KernelChoice:
    times = [KernelTime(kernel=kernel, samples=[1.0]) for kernel in (SLOW, FAST)]
    return KernelChoice(cell=raced_cell(of), chosen=chosen, kernels=times)
