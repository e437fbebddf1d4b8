"""A cell: one point of a suite, everything that decides what is measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from synthbench.devices import HOST
from synthbench.mixers.declaration import sizes_for
from synthbench.mixers.notation import parse
from synthbench.models.model import Model
from synthbench.models.spec import ModelSpec, Size

Framework = Literal["torch", "jax"]
Mode = Literal["forward", "train", "decode"]
DType = Literal["float32", "bfloat16", "float16", "float64"]
Form = Literal["auto", "fused", "reference"]
Compile = Literal["eager", "compiled", "cuda_graph"]

INTEGERS_BELOW = 2**63  # tables hold integers in 64 bits
Integer = Annotated[int, Field(ge=-INTEGERS_BELOW, lt=INTEGERS_BELOW)]
Count = Annotated[int, Field(ge=0, lt=INTEGERS_BELOW)]
Devices = Annotated[int, Field(ge=1, le=10_000)]

_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


class Cell(BaseModel):
    """One point of a suite; two cells with the same content have the same id."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str  # canonical notation
    framework: Framework
    task: str = "cost"
    options: dict[str, Any] = {}  # of the task
    mode: Mode
    seq_len: Size
    batch: Size
    model: ModelSpec
    dtype: DType = "float32"
    device: str = HOST  # a name of `devices.py`, as cpu or cuda:1; the first of `devices`
    form: Form = "auto"
    compile: Compile
    seed: Integer = 0
    label: str = ""  # the name of the model, in a suite that has several
    replica: Count = 0  # 1: the A/A twin of the cell that is equal in all else
    devices: Devices = 1  # that share each batch

    @cached_property
    def id(self) -> str:
        """Twelve hex digits: SHA-256 of the canonical JSON of the fields not at their default.

        A field that is added later, with a default, does not change the ids of older cells.
        """
        content = self.model_dump(mode="json", exclude_defaults=True)
        return hashlib.sha256(_canonical(content).encode()).hexdigest()[:12]

    @classmethod
    def from_flat(cls, **content: Any) -> Cell:
        """The cell whose `flat` has this content; fields that are left out have their default."""
        spec = {name: content.pop(name) for name in MODEL_FIELDS if name in content}
        if "model" in spec:
            spec["kind"] = spec.pop("model")
        return cls(**content, model=ModelSpec(**spec))

    def changed(self, **content: Any) -> Cell:
        """The same cell with other fields; its id is its own (`model_copy` would keep this one)."""
        return Cell(**{name: getattr(self, name) for name in type(self).model_fields} | content)

    def flat(self) -> dict[str, Any]:
        """Every field by name, with the fields of the model among them and its kind as `model`."""
        return dict(self.content)

    @cached_property
    def content(self) -> Mapping[str, Any]:
        """The same as `flat`, made once: large runs look at it so often that copies take long."""
        content = {name: getattr(self, name) for name in _FIELDS}
        spec = {name: getattr(self.model, name) for name in _SPEC_FIELDS}
        return content | {"model": spec.pop("kind")} | spec


_FIELDS, _SPEC_FIELDS = tuple(Cell.model_fields), tuple(ModelSpec.model_fields)

# The fields of the model as `Cell.flat` names them, and every name in it.
MODEL_FIELDS = ("model", *(name for name in ModelSpec.model_fields if name != "kind"))
FLAT_FIELDS = tuple(
    flat for name in Cell.model_fields for flat in (MODEL_FIELDS if name == "model" else (name,))
)


# What ratios are taken across: cells that differ only in these are measured on one machine.
COMPARED = ("variant", "replica", "heads", "head_dim", "framework", "form", "compile", "devices")


def model_of(cell: Cell) -> Model:
    """The model that a cell measures; raises what is wrong with its sizes or its variant."""
    mixer, spec = parse(cell.variant), cell.model
    sizes = sizes_for(
        mixer,
        d_model=spec.d_model,
        heads=spec.heads,
        max_len=spec.max_len,
        head_dim=spec.head_dim,
    )
    model = Model(mixer, spec)
    sizes.require_length(cell.seq_len)
    model.check()
    return model
