"""How several devices share the batches of a training or of a train step, in both frameworks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from synthbench.backends.base import Batch, MemoryPlan, Setting
from synthbench.devices import device_kind, from_device, index_of, is_host
from synthbench.errors import ShapeError, UnsupportedError
from synthbench.mixers.base import Array


def device_names(setting: Setting, found: int, framework: str) -> list[str]:
    """The devices of a setting by name: its own, then those that follow it.

    `found`: how many of this kind a framework, with its version, finds; on a CPU, its usable cores.
    Raises UnsupportedError if these are too few.
    """
    kind, first = device_kind(setting.device).name, index_of(setting.device)
    if setting.devices > found - first:
        there = f"{found} usable cores" if is_host(setting.device) else f"{found} of {kind}"
        raise UnsupportedError(
            f"{setting.devices} devices are wanted from {setting.device} on, but {framework} finds "
            f"{there}; set devices to at most {max(found - first, 1)}"
        )
    return from_device(setting.device, setting.devices)


def require_train(mode: str, setting: Setting) -> None:
    """Raise UnsupportedError for a step on several devices that exchanges no gradients."""
    if setting.devices > 1 and mode != "train":
        raise UnsupportedError(
            f"a step of mode {mode} uses one device; got devices {setting.devices}: use mode "
            "train, or set devices to 1"
        )


def require_shares(batch: Batch, devices: int) -> None:
    """Raise ShapeError unless the examples of a batch can be divided among devices."""
    examples = len(batch.inputs)
    if examples % devices:
        raise ShapeError(
            f"a batch of {examples} cannot be divided by {devices} devices; give a multiple of "
            f"{devices}, or other devices"
        )


def shares(batch: Batch, devices: int) -> list[Batch]:
    """A batch in equal parts, in the order of its examples; ShapeError if that is impossible."""
    require_shares(batch, devices)

    def parts(array: Array | None) -> list[Array | None]:
        return [None] * devices if array is None else [*np.split(array, devices)]

    return [
        replace(batch, inputs=inputs, targets=targets, padding_mask=mask, weights=weights)
        for inputs, targets, mask, weights in zip(
            np.split(batch.inputs, devices), np.split(batch.targets, devices),
            parts(batch.padding_mask), parts(batch.weights), strict=True,
        )
    ]  # fmt: skip


def real_targets(batch: Batch) -> float:
    """How many targets count in the loss of a batch, by their weights."""
    weights = batch.loss_weights
    return float(batch.targets.size if weights is None else weights.sum())


def of_devices(plan: MemoryPlan, setting: Setting) -> MemoryPlan:
    """The plan for each of the devices as a record has it: for one; on a CPU for all together."""
    copies = setting.devices if is_host(setting.device) else 1
    return replace(
        plan,
        peak_bytes=copies * plan.peak_bytes,
        temporary_bytes=copies * plan.temporary_bytes,
    )


def of_one_device(what: str, devices: int) -> str:
    """Why a step on several devices has no such number; for `missing_counters`."""
    return f"{what} is known of one device only, and this step used {devices}"
