"""How fast the machine is while a cell is measured: a fixed matrix product between its steps."""

from __future__ import annotations

import time
from collections.abc import Callable

from synthbench.backends.base import Backend, Prepare
from synthbench.devices import is_host
from synthbench.measure.timing import timed

# 0.5 GFLOP: milliseconds on two cores. All cells of a framework do the same work.
SIDE = 640
DTYPE = "float32"


class CalibrationProduct:
    """A fixed matrix product in the framework of the cell; a call times it so many times."""

    def __init__(
        self,
        backend: Backend,
        device: str,
        clock: Callable[[], float] = time.perf_counter,
        prepare: Prepare | None = None,
    ) -> None:
        self._product = backend.matrix_products(DTYPE, device, SIDE)[0]
        if prepare is not None:
            prepare(f"product {backend.name} {device} {DTYPE} {SIDE}", self._product)
        self._clock = clock

    def __call__(self, times: int) -> list[float]:
        """Seconds of each of so many products.

        The one before them is not timed: it brings the matrices back into the caches, which a step
        has filled with its own. Without it the product would be slower after some steps than others
        for reasons that are not the machine's.
        """
        self._product.wait(self._product())
        return [timed(self._product, self._product.wait, self._clock) for _ in range(times)]


def calibration_product(
    backend: Backend, device: str, prepare: Prepare | None = None
) -> CalibrationProduct | None:
    """The product of a cell on the host; None on an accelerator, whose clock is recorded.

    `prepare` gets it with its name, before its first call.
    """
    return CalibrationProduct(backend, device, prepare=prepare) if is_host(device) else None
