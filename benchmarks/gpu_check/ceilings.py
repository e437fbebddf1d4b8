"""The best rates of the device, with and without warm-up: how long its clock takes to rise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from benchmarks.gpu_check.finding import Finding, Found, Settings, tried

STEP = "ceilings"
WARM_SECONDS = (0.0, 0.5, 2.0)
IDLE_SECONDS = 2.0  # before each, so that the clock has fallen


def run(settings: Settings) -> Iterator[Finding]:
    """Ten products of one size after each warm-up, and the ceiling that a run would measure."""
    warm = WARM_SECONDS[:2] if settings.small else WARM_SECONDS
    for framework in settings.frameworks:
        for dtype in ("bfloat16", "float32"):
            for seconds in warm:
                name = f"{framework} {dtype} products after {seconds:g} s of warm-up"
                yield tried(STEP, name, partial(products, framework, dtype, seconds, settings))
            name = f"{framework} {dtype} ceiling"
            yield tried(STEP, name, partial(ceiling, framework, dtype, settings))


def products(framework: str, dtype: str, warm: float, settings: Settings) -> Found:
    """The rates of the first and of the fastest of ten products."""
    from synthbench.api import backend_of
    from synthbench.measure.timing import timed

    size = 256 if settings.small else 8192 if settings.is_cuda else 1024
    product = backend_of(framework).matrix_products(dtype, settings.device, size)[0]
    product.wait(product())
    time.sleep(0.1 if settings.small else IDLE_SECONDS)
    begin = time.perf_counter()
    while time.perf_counter() - begin < warm:
        product.wait(product())
    seconds = [timed(product, product.wait) for _ in range(10)]
    rates = [2 * size**3 / s / 1e12 for s in (seconds[0], min(seconds))]
    return None, f"first {rates[0]:.4g}, best {rates[1]:.4g} TFLOP/s"


def ceiling(framework: str, dtype: str, settings: Settings) -> Found:
    """What a run stores."""
    from synthbench.api import backend_of
    from synthbench.measure.ceiling import ceiling_of

    found = ceiling_of(backend_of(framework), dtype, settings.device)
    said = "; ".join(found.warnings)
    rates = f"{found.flops_per_second / 1e12:.4g} TFLOP/s at {found.matrix_size}"
    return None, f"{rates}, {found.bytes_per_second / 1e9:.4g} GB/s{'; ' + said if said else ''}"
