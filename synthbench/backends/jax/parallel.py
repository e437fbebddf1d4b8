"""Several devices for one model in JAX: one process, a mesh of devices, shard_map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Placement: TypeAlias = jax.Device | NamedSharding
EXAMPLES = "examples"  # the axis of the mesh, and of a batch, that devices share
COPIED, SHARED = PartitionSpec(), PartitionSpec(EXAMPLES)


def placements(first: jax.Device, mesh: Mesh | None) -> tuple[Placement, Placement]:
    """Where arrays are that each device has a copy of, and those whose first axis they share."""
    if mesh is None:
        return first, first
    return NamedSharding(mesh, COPIED), NamedSharding(mesh, SHARED)


def data_parallel(
    train: Callable[..., Any], mesh: Mesh, *, copied: int, shared: int
) -> Callable[..., Any]:
    """A train step that each device does with its share of the batch.

    Its first arguments, as many as `copied`, are those that each device has a copy of; it adds up
    over the devices by `summed`. Not left to the compiler: it would also divide other work, and it
    cannot divide all kernels.
    """
    return jax.shard_map(
        train,
        mesh=mesh,
        in_specs=(COPIED,) * copied + (SHARED,) * shared,
        out_specs=COPIED,
        check_vma=False,  # else the gradients would be added up twice
    )


def summed(values: Any) -> Any:
    """The sums over the devices, in each of them."""
    return jax.lax.psum(values, EXAMPLES)
