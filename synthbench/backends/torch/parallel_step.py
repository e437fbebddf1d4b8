"""One train step on several devices in PyTorch: each process does its share; see parallel.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import Store  # type: ignore[attr-defined]

from synthbench.backends.base import Batch, MemoryPlan, Setting, TracedFlops
from synthbench.backends.sharing import of_one_device, real_targets, shares
from synthbench.backends.torch.parallel import Place, Replicas, data_parallel, join, leave
from synthbench.backends.torch.step import TorchStep, to_device
from synthbench.errors import UnsupportedError
from synthbench.mixers.base import Array
from synthbench.models.model import Model
from synthbench.models.outputs import Expected


class SharingStep(TorchStep):
    """A copy of the model, and its share of the step; each process has one.

    `real`: the targets of the whole batch that count.
    """

    def __init__(
        self, module: nn.Module, setting: Setting, place: Place, store: Store, share: Batch,
        real: float, form: str | None = None, reference: Callable[[], TorchStep] | None = None,
        expected: Expected | None = None,
    ) -> None:  # fmt: skip
        batch = to_device(share, setting)
        super().__init__(module, "train", setting, *batch, form, reference, expected)
        self.real = real
        join(place, setting, store)
        if self.optimizer is not None:
            self.function = data_parallel(module, setting)

    def compiled_function(self) -> Callable[..., Tensor]:
        """That of the first step, which is compiled where it is data parallel."""
        return self.function if self.optimizer is not None else super().compiled_function()

    def whole_batch(self, loss: Tensor) -> Tensor:
        """The sum over the devices, which they reach when the slowest has done its step."""
        dist.all_reduce(loss)
        return loss

    def close(self) -> None:
        """Leave the other processes."""
        leave()


class TorchParallelStep(SharingStep):
    """A train step on the devices of these names; see `Step` in backends/base.py."""

    def __init__(
        self, module: nn.Module, model: Model, start: Mapping[str, Array], setting: Setting,
        batch: Batch, names: Sequence[str], form: str | None = None,
        reference: Callable[[], TorchStep] | None = None, expected: Expected | None = None,
    ) -> None:  # fmt: skip
        if setting.compile == "cuda_graph":
            raise UnsupportedError(
                "a CUDA graph has the step of one device; use compile: eager or compiled for "
                f"{setting.devices} devices"
            )
        own, *rest = shares(batch, len(names))
        real = real_targets(batch)
        self.replicas = Replicas(names)
        joins = [partial(SharingStep, share=share, real=real) for share in rest]
        with self.replicas.starting(model, start, setting, joins) as (place, store):
            super().__init__(module, setting, place, store, own, real, form, reference, expected)
        self.batch_bytes *= len(names)

    def compile(self) -> None:
        """Compile in every process."""
        with self.replicas.doing("compile"):
            super().compile()

    def __call__(self) -> Tensor:
        """A step of every copy of the model; returns the loss of the whole batch."""
        with self.replicas.doing("step"):
            return super().__call__()

    def wait(self, produced: object) -> None:
        """Block until the devices have finished."""
        with self.replicas.blaming():
            super().wait(produced)

    def restart(self, start: Callable[[str], Array]) -> None:
        """Give every parameter its start value in every process."""
        values = {name: start(name) for name in self.named_values()}
        others = len(self.replicas.processes)
        with self.replicas.doing("restart", [values.__getitem__] * others):
            super().restart(values.__getitem__)

    def traced_flops(self) -> TracedFlops:
        """Those of the whole batch on one device; UnsupportedError for a plug-in's own module."""
        if self.reference is None:
            raise UnsupportedError(self.missing_counters["traced_flops"])
        return super().traced_flops()

    def memory_plan(self) -> MemoryPlan | None:
        """None: it would be that of one process; see `predict_memory` in prediction.py."""
        return None

    def device_peak_bytes(self) -> int | None:
        """None: see `missing_counters`."""
        return None

    @property
    def missing_counters(self) -> Mapping[str, str]:
        """Why numbers of this step are None."""
        devices = len(self.replicas.names)
        missing = {"peak_bytes": of_one_device("the peak", devices)}
        if self.reference is None:
            missing["traced_flops"] = of_one_device("the count for a plug-in's module", devices)
        return {**super().missing_counters, **missing}

    def in_every_process(self, act: Callable[[], Any]) -> Any:
        """Do something here and in the other processes."""
        with self.replicas.doing("in_every_process", [act] * len(self.replicas.processes)):
            return super().in_every_process(act)

    def close(self) -> None:
        """End the other processes."""
        self.replicas.close()
