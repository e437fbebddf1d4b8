"""Devices by name, and what is known of each kind without a framework.

A name is a kind, or one of several of a kind: cuda, cuda:1. Whatever else the harness needs to know
of a device, a back end answers (`backends/base.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from synthbench.errors import NotationError, quote

HOST = "cpu"  # its memory is that of the process, and what steps leave behind is CPU time
ALL = "all"  # in place of an index: every device of a kind, as cuda:all
AUTO = "auto"  # the accelerator that a framework prefers, or else the host


@dataclass(frozen=True)
class Kind:
    """A kind of device."""

    name: str
    meaning: str
    section: str = ""  # of a suite: its settings are used where it has no section of this kind
    has_nvml: bool = False  # whether NVML may report its clock rate, energy and processes
    has_graphs: bool = False  # whether a step can be captured as a CUDA graph
    impossible: Mapping[str, str] = field(default_factory=dict)  # dtype -> why no cell has it


KINDS: dict[str, Kind] = {
    HOST: Kind(
        HOST,
        "the processor",
        impossible={
            "float16": "float16 is measured on accelerators only: processors compute it in "
            "float32; use bfloat16"
        },
    ),
    "cuda": Kind(
        "cuda", "a GPU from NVIDIA, in PyTorch also from AMD", has_nvml=True, has_graphs=True
    ),
    "tpu": Kind("tpu", "a TPU from Google", section="cuda"),
    "xpu": Kind("xpu", "a GPU from Intel", section="cuda"),
    "mps": Kind(
        "mps",
        "the GPU of a Mac with Apple silicon",
        section="cuda",
        impossible={"float64": "mps has no float64; use float32, or float64 on the cpu"},
    ),
}
ACCELERATORS = tuple(kind for kind in KINDS if kind != HOST)
ALLOWED = f"{', '.join([*KINDS][:-1])} or {[*KINDS][-1]}, one of several as cuda:1"
_NAME = re.compile(rf"{HOST}|({'|'.join(ACCELERATORS)})(:[0-9]{{1,9}})?")


def device_kind(device: Any, *, auto: bool = False) -> Kind:
    """The kind of a device by its name; NotationError for what is not a name.

    `auto`: whether the message also lists `auto`, which the caller accepts.
    """
    if not isinstance(device, str) or _NAME.fullmatch(device) is None:
        allowed = f"{AUTO}, {ALLOWED}" if auto else ALLOWED
        raise NotationError(f"device {quote(device)} not known; use {allowed}")
    return KINDS[device.partition(":")[0]]


def device_names(text: str) -> tuple[str, ...]:
    """The devices of a list with commas, as cuda:0,cuda:1; one device stays as it is written.

    Raises NotationError for what is not a device, and for a list of several kinds or with a device
    twice.
    """
    names = text.split(",") if isinstance(text, str) else [text]
    kinds = [device_kind(name) for name in names]
    if len(names) == 1:
        return (text,)
    found = tuple(f"{kind.name}:{index_of(name)}" for kind, name in zip(kinds, names, strict=True))
    if len({kind.name for kind in kinds}) > 1 or is_host(names[0]):
        raise NotationError(
            f"devices {quote(text)} are not several of one kind; give each kind a run of its own"
        )
    if len(set(found)) < len(found):
        raise NotationError(f"devices {quote(text)} has one of them twice; write each once")
    return found


def index_of(device: str) -> int:
    """Which device of its kind a name means: cuda is the first, as cuda:0."""
    return int(device.partition(":")[2] or 0)


def is_host(device: str | None) -> bool:
    """Whether a name is that of the processor; False for what is no name."""
    return device == HOST


def from_device(device: str, count: int) -> list[str]:
    """The names of `count` devices from this one on; on a CPU they are shares of its cores."""
    if is_host(device):
        return [HOST] * count
    first = index_of(device)
    return [f"{device_kind(device).name}:{first + place}" for place in range(count)]


def is_same_kind(device: str, other: str) -> bool:
    """Whether two names are of one kind, as cuda and cuda:1."""
    return device.partition(":")[0] == other.partition(":")[0]
