"""Every variant in both forms against NumPy, in float32 and bfloat16, with seconds to compile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from benchmarks.gpu_check.finding import Finding, Found, Settings, tried
from synthbench.mixers.catalog import SHOWCASE
from synthbench.suites.cell import Cell, Framework
from synthbench.suites.plan import DEFAULT_COMPILE

LAST = "light_conv"  # in JAX it once compiled for 41 s
SMALL = ("V", "R+V")


def run_torch(settings: Settings) -> Iterator[Finding]:
    """All variants in PyTorch."""
    yield from of_framework("torch", settings)


def run_jax(settings: Settings) -> Iterator[Finding]:
    """All variants in JAX, what compiled slowly last."""
    yield from of_framework("jax", settings)


def of_framework(framework: Framework, settings: Settings) -> Iterator[Finding]:
    """All variants in one framework."""
    step = f"{framework}_parity"
    variants = [variant for variant in SHOWCASE if variant != LAST] + [LAST]
    for variant in SMALL if settings.small else variants:
        for dtype in ("bfloat16", "float32"):
            name = f"{variant}, {dtype}"
            yield tried(step, name, partial(check, framework, variant, dtype, settings))


def check(framework: Framework, variant: str, dtype: str, settings: Settings) -> Found:
    """The check that precedes every cell, with the kernels for short and for long inputs."""
    from synthbench.api import backend_of
    from synthbench.measure.parity import check_cell

    cell = Cell.from_flat(
        variant=variant, framework=framework, mode="train", seq_len=512, batch=2, d_model=512,
        heads=8, max_len=512, dtype=dtype, device=settings.device,
        compile=DEFAULT_COMPILE[framework],
    )  # fmt: skip
    begin = time.perf_counter()
    found = check_cell(backend_of(framework), cell)
    seconds = time.perf_counter() - begin
    kernels = ", ".join(found.kernels)
    errors = f"outputs {found.forward:.1e}, gradients {found.gradient:.1e}"
    return found.passed, f"{errors}; {seconds:.1f} s; {kernels}"
