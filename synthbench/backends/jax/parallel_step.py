"""One train step on several devices in JAX: each does its share, in one program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from synthbench.backends.base import Batch, MemoryPlan, Setting
from synthbench.backends.jax.parallel import EXAMPLES, data_parallel, placements, summed
from synthbench.backends.jax.precision import compiler_options, full_precision
from synthbench.backends.jax.step import JaxStep, program, to_device
from synthbench.backends.sharing import of_devices, of_one_device, real_targets, require_shares
from synthbench.mixers.base import Array
from synthbench.models.outputs import Expected


class JaxParallelStep(JaxStep):
    """A train step on these devices; see `Step` in backends/base.py."""

    def __init__(
        self, module: nnx.Module, setting: Setting, batch: Batch, devices: Sequence[jax.Device],
        form: str | None = None, reference: Callable[[], nnx.Module] | None = None,
        expected: Expected | None = None,
    ) -> None:  # fmt: skip
        require_shares(batch, len(devices))
        self.devices = devices
        mesh = Mesh(np.asarray(devices), (EXAMPLES,))
        self.copied, self.shared = placements(devices[0], mesh)
        inputs, targets, mask = jax.device_put(to_device(batch, setting), self.shared)
        super().__init__(module, "train", setting, inputs, targets, mask, form, reference, expected)
        of_share = None
        if expected is not None:
            examples, *rest = expected.shape
            of_share = expected._replace(shape=(examples // len(devices), *rest))
        own = program(module, True, of_share, real_targets(batch), summed)
        self.program = jax.jit(
            data_parallel(own, mesh, copied=3, shared=3),
            donate_argnums=(0, 1),
            compiler_options=compiler_options(setting),
        )
        self.constants = jax.device_put(self.constants, self.copied)
        self.copy()

    def copy(self) -> None:
        """Give each device a copy of what the first one has."""
        self.parameters = jax.device_put(self.parameters, self.copied)
        self.optimizer_state = jax.device_put(self.optimizer_state, self.copied)

    def restart(self, start: Callable[[str], Array]) -> None:
        """Give every parameter its start value on every device."""
        super().restart(start)
        with full_precision(self.setting.dtype):
            self.copy()

    def compiler_flops(self) -> float | None:
        """None: see `missing_counters`."""
        return None

    def memory_plan(self) -> MemoryPlan | None:
        """XLA's memory analysis, which is of one device."""
        of_one = super().memory_plan()
        return None if of_one is None else of_devices(of_one, self.setting)

    def device_peak_bytes(self) -> int | None:
        """None: see `missing_counters`."""
        return None

    @property
    def missing_counters(self) -> Mapping[str, str]:
        """Why numbers of this step are None."""
        devices = len(self.devices)
        missing = {
            "peak_bytes": of_one_device("the peak", devices),
            "compiler_flops": of_one_device("XLA's count", devices),
        }
        return {**super().missing_counters, **missing}

    @property
    def _device(self) -> jax.Device:
        return self.devices[0]
