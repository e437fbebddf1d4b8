"""Train on several devices in PyTorch: each process has a copy of the model; see parallel.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import Store  # type: ignore[attr-defined]

from synthbench.backends.base import Batch, Setting
from synthbench.backends.sharing import shares
from synthbench.backends.torch.parallel import Place, Replicas, data_parallel, join, leave
from synthbench.backends.torch.training import Sums, TorchTrainer
from synthbench.mixers.base import Array
from synthbench.models.model import Model
from synthbench.models.recipe import Recipe


class SharingTrainer(TorchTrainer):
    """A copy of the model in training with a share of each batch; each process has one."""

    def __init__(
        self, module: nn.Module, setting: Setting, place: Place, store: Store, recipe: Recipe
    ) -> None:
        super().__init__(module, setting, recipe)
        join(place, setting, store)
        if self.trained:
            self.trained_function = data_parallel(module, setting)

    def whole_batch(self, losses: Tensor, weights: Tensor) -> Sums:
        """The sums over the whole batch: weights may differ between the shares."""
        sums = torch.stack([losses, weights])
        dist.all_reduce(sums)
        return Sums(*sums)

    def close(self) -> None:
        """Leave the other processes."""
        leave()


class ParallelTrainer(SharingTrainer):
    """A model in training on the devices of these names; see `Trainer` in backends/base.py."""

    def __init__(
        self, module: nn.Module, model: Model, start: Mapping[str, Array], setting: Setting,
        recipe: Recipe, names: Sequence[str],
    ) -> None:  # fmt: skip
        self.replicas, others = Replicas(names), len(names) - 1
        joins = [partial(SharingTrainer, recipe=recipe)] * others
        with self.replicas.starting(model, start, setting, joins) as (place, store):
            super().__init__(module, setting, place, store, recipe)

    def step(self, batch: Batch, learning_rate: float) -> Tensor:
        """A step of every copy of the model, each with its share of the batch."""
        own, *rest = shares(batch, len(self.replicas.names))
        with self.replicas.doing("step", rest, [learning_rate] * len(rest)):
            return super().step(own, learning_rate)

    def losses(self, produced: Sequence[Tensor]) -> Array:
        """The losses as one array."""
        with self.replicas.blaming():
            return super().losses(produced)

    def restore(self, state: Mapping[str, Array], steps: int) -> None:
        """Put values and moments back, in every process."""
        others = len(self.replicas.processes)
        with self.replicas.doing("restore", [state] * others, [steps] * others):
            super().restore(state, steps)

    def close(self) -> None:
        """End the other processes."""
        self.replicas.close()
