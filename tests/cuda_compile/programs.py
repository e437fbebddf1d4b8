"""One program, lowered and compiled by XLA for an H100 that need not be there."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from synthbench.backends.jax.memory import plan
from synthbench.backends.jax.model import build_model
from synthbench.backends.jax.module import DTYPES, split
from synthbench.backends.jax.precision import full_precision
from synthbench.backends.jax.step import adam, program
from synthbench.backends.kernel_choice import tracing, using_kernel
from synthbench.backends.kernel_record import recording_kernels
from synthbench.kernel import Kernel
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model

TARGET = Path(__file__).with_name("h100.txtpb")
TRIPS = re.compile(r"known_trip_count[^0-9]*([0-9]+)")
CALLS = re.compile(r'custom_call_target="([^"]+)"')


@dataclass(frozen=True)
class Program:
    """A step of a bare mixer."""

    variant: str
    seq_len: int
    batch: int
    dtype: str
    mode: str
    padded: bool = False
    causal: bool = False
    form: str = "auto"
    d_model: int = 512
    heads: int = 8

    @property
    def name(self) -> str:
        words = [self.variant, f"L {self.seq_len}", f"B {self.batch}", self.dtype, self.mode]
        words += ["padded"] * self.padded + ["causal"] * self.causal
        return ", ".join(words + [self.form] * (self.form != "auto"))


@dataclass(frozen=True)
class Compiled:
    """What XLA made of a program."""

    program: Program
    seconds: float
    peak_bytes: int
    temporary_bytes: int
    trips: list[int]  # iterations of each loop
    calls: list[str]  # of libraries and kernels
    kernels: list[str]  # that the form chose


@cache
def h100() -> Any:
    """A device that can be compiled for, and not be used."""
    described = topologies.get_topology_desc(
        "", "cuda", target_config=TARGET.read_text(), topology="1x1x1"
    )
    return described.devices[0]


@contextmanager
def as_on_a_gpu(dtype: str, *, trained: bool) -> Iterator[None]:
    """Trace as for this device; what JAX asks a GPU about its cuDNN is answered here."""
    import jax._src.cudnn.fused_attention_stablehlo as cudnn

    answers: dict[str, Any] = {
        "check_cudnn_version": lambda: 91900,
        "check_compute_capability": lambda capability: True,
        "is_cuda_compute_capability_equal": lambda capability: capability == "9.0",
    }
    before = {name: getattr(cudnn, name) for name in answers}
    for name, answer in answers.items():
        setattr(cudnn, name, answer)
    try:
        with full_precision(dtype), jax.default_device(h100()), tracing(trained):
            yield
    finally:
        for name, answer in before.items():
            setattr(cudnn, name, answer)


def processor_seconds() -> float:
    """Of this process, its threads and the compilers that it started."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def compile_program(asked: Program, kernel: Kernel | None = None) -> Compiled:
    """Compile a program; raises what JAX or XLA raise."""
    sizes = Sizes.of(d_model=asked.d_model, heads=asked.heads, max_len=asked.seq_len)
    kind = {"causal": True} if asked.causal else {}
    model = Model.of("mixer", parse(asked.variant), sizes, **kind)
    dtype, train = DTYPES[asked.dtype], asked.mode == "train"
    on = SingleDeviceSharding(h100())

    def shapes(tree: Any) -> Any:
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=on), tree)

    module = build_model(model, asked.form, dtype)
    _, *states = split(module)
    parameters, constants = (shapes(jax.tree.leaves(state)) for state in states)
    x = jax.ShapeDtypeStruct((asked.batch, asked.seq_len, asked.d_model), dtype, sharding=on)
    mask = None
    if asked.padded:
        mask = jax.ShapeDtypeStruct((asked.batch, asked.seq_len), jnp.bool_, sharding=on)
    arguments: tuple[Any, ...] = (parameters, constants, x, mask)
    if train:
        targets = (asked.batch, *model.targets_of(asked.seq_len))
        y = jax.ShapeDtypeStruct(targets, jnp.int32, sharding=on)
        state = shapes(jax.eval_shape(adam().init, parameters))
        arguments = (parameters, state, constants, x, y, mask)
    step = jax.jit(program(module, train), donate_argnums=(0, 1) if train else ())
    with (
        as_on_a_gpu(asked.dtype, trained=train), using_kernel(kernel), recording_kernels() as used
    ):  # fmt: skip
        lowered = step.lower(*arguments)
    elapsed, used_before = time.perf_counter(), processor_seconds()
    compiled = lowered.compile()
    elapsed = time.perf_counter() - elapsed
    # The smaller one: other programs of a busy machine are no fault of this one, nor are threads.
    seconds = min(elapsed, processor_seconds() - used_before)
    planned, text = plan(compiled), compiled.as_text() or ""
    assert planned is not None
    return Compiled(
        asked, seconds, planned.peak_bytes, planned.temporary_bytes,
        [int(number) for number in TRIPS.findall(text)], sorted(set(CALLS.findall(text))),
        list(used),
    )  # fmt: skip
