"""Several devices for one model in PyTorch: one process per device, DistributedDataParallel.

This process uses the first device. It starts one process for each of the others (`replica.py`),
tells them what to do, and ends them.
"""

# Without `from __future__ import annotations`: PyTorch reads those of `summed`.

import os
import socket
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import GradBucket, Store, TCPStore  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from synthbench.backends.base import Setting
from synthbench.backends.kernel_choice import wanted_kernel
from synthbench.backends.torch.placement import find_device, is_accelerator
from synthbench.backends.torch.replica_process import ReplicaProcess, ended
from synthbench.backends.torch.step import compiled
from synthbench.errors import DeviceLostError
from synthbench.kernel import Kernel
from synthbench.mixers.base import Array
from synthbench.models.model import Model

# A process that does not answer in this time has failed; a first step may compile for minutes.
TIMEOUT = timedelta(minutes=10)
HERE = "127.0.0.1"  # all processes run on one machine


@dataclass(frozen=True)
class Place:
    """Which of the devices a process uses, and where the processes meet."""

    rank: int
    devices: int
    port: int
    threads: int  # of one operation; on a CPU, the devices share its cores


@dataclass(frozen=True)
class Work:
    """All that a process needs to do its part.

    `join` gets the module, its setting, the place and the store in which the processes meet. The
    first process calls the methods of what it returns.
    """

    place: Place
    model: Model
    start: Mapping[str, Array]
    setting: Setting
    kernel: Kernel | None
    join: Callable[[nn.Module, Setting, Place, Store], Any]


class Replicas:
    """The processes of all devices but the first."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.processes: list[ReplicaProcess] = []
        self.threads = torch.get_num_threads()
        self.is_closed = False

    @contextmanager
    def starting(
        self,
        model: Model,
        start: Mapping[str, Array],
        setting: Setting,
        joins: Sequence[Callable[[nn.Module, Setting, Place, Store], Any]],
    ) -> Iterator[tuple[Place, Store]]:
        """Start them; in this block, this process joins them. All end if that fails."""
        names, count = self.names[1:], len(self.names)
        on_host = not is_accelerator(find_device(setting.device))
        each = max(1, self.threads // count) if on_host else self.threads
        try:
            for rank, name in enumerate(names, 1):
                self.processes.append(ReplicaProcess(f"device {rank + 1} of {count} ({name})"))
            store = meeting_point(0, is_master=True)
            place = Place(0, count, store.port, each)
            work = Work(place, model, start, setting, wanted_kernel(), joins[0])
            for rank, (process, name, join) in enumerate(
                zip(self.processes, names, joins, strict=True), 1
            ):
                own = replace(setting, device=name)
                process.send(replace(work, place=replace(place, rank=rank), setting=own, join=join))
            for process in self.processes:
                process.wait_until_ready()
            torch.set_num_threads(each)
            with self.blaming():
                yield place, store
        except BaseException:
            self.close()
            raise

    @contextmanager
    def doing(self, action: str, *given: Sequence[Any]) -> Iterator[None]:
        """They call the method `action`; in this block, this process does its part of it.

        `given`: for each argument, one value per process.
        """
        with self.blaming():
            for process, *arguments in zip(self.processes, *given, strict=True):
                process.send((action, *arguments))
            yield

    @contextmanager
    def blaming(self) -> Iterator[None]:
        """A failure in this block whose cause is another process has the error of that one."""
        try:
            yield
        except Exception as error:
            if self.is_closed:  # in a block within this one
                raise
            cause = next(ended(self.processes), None)
            for process in self.processes:
                process.kill()
            self.close()
            if cause is not None:
                raise cause from error
            if isinstance(error, dist.DistError) or "gloo" in str(error):
                raise DeviceLostError(
                    f"the devices of this training lost each other: {error}"
                ) from error
            raise

    def close(self) -> None:
        """End them, and leave them."""
        self.is_closed = True
        for process in self.processes:
            process.close()
        for process in self.processes:
            process.end()
        torch.set_num_threads(self.threads)
        leave()


def meeting_point(port: int, *, is_master: bool = False) -> TCPStore:
    """The store of the first process, the master, in which all find each other; 0: any port."""
    return TCPStore(HERE, port, None, is_master, TIMEOUT, wait_for_workers=False)


def join(place: Place, setting: Setting, store: Store) -> None:
    """Start to communicate with the other processes."""
    device = find_device(setting.device)
    own: dict[str, Any] = {}
    if is_accelerator(device):
        torch.accelerator.set_device_index(device)
        own["device_id"] = device
    else:  # gloo would look for an address of this machine's name, which may have none
        for loopback in [name for _, name in socket.if_nameindex() if name.startswith("lo")][:1]:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    backend = dist.get_default_backend_for_device(device)
    dist.init_process_group(
        backend, store=store, rank=place.rank, world_size=place.devices, timeout=TIMEOUT, **own
    )


def leave() -> None:
    """Stop to communicate with the other processes."""
    if dist.is_initialized():
        dist.destroy_process_group()


def data_parallel(module: nn.Module, setting: Setting) -> nn.Module:
    """A module whose backward pass leaves the sum of all processes' gradients in each of them."""
    with warnings.catch_warnings():  # forward_sync_buffers of torch 2.13 is not in all versions
        warnings.simplefilter("ignore", FutureWarning)
        parallel = DistributedDataParallel(
            compiled(module) if setting.compile == "compiled" else module,
            broadcast_buffers=False,  # constants
            gradient_as_bucket_view=True,
            static_graph=True,  # so that a parameter without a gradient is no error
        )
    parallel.register_comm_hook(None, summed)
    return parallel


def summed(_: None, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The sum of gradients; DistributedDataParallel alone takes the mean over processes."""
    reduced = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return reduced.then(lambda done: done.value()[0])
