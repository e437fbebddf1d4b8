"""Predict the peak memory of a step before it runs, and refuse it if there is too little.

From the best source available at that point: XLA's plan of the compiled program, PyTorch's storages
of tensors without data, or at least the declared parameters.
"""

from __future__ import annotations

from synthbench.backends.base import Backend, Batch, MemoryPlan
from synthbench.backends.sharing import of_devices
from synthbench.devices import is_host
from synthbench.errors import SynthbenchError
from synthbench.measure.environment import available_memory
from synthbench.measure.inputs import empty_batch, setting_of
from synthbench.models.model import Model
from synthbench.models.state import state_bytes
from synthbench.record import PredictedMemory
from synthbench.suites.cell import Cell

# A cell is refused only if its prediction exceeds the available memory by this share: a plan counts
# tensors, and an allocator may place them in memory that it already has.
MARGIN = 0.10
MOMENTS = 2  # of Adam, per parameter
DECLARATION = "declaration, a lower bound"  # the tool that always works
ITEM_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8}


class TooLargeError(SynthbenchError):
    """A cell that is predicted to need more memory than available; it is not run."""


def predict(backend: Backend, model: Model, cell: Cell, batch: Batch) -> MemoryPlan:
    """A prediction of the peak memory of a step, before the model is built."""
    try:
        plan = backend.predict_memory(model, setting_of(cell), cell.mode, batch)
    except Exception:  # a mixer that needs values may raise anything without them
        plan = None
    return plan if plan is not None else declared_plan(model, cell)


def predict_on_devices(backend: Backend, model: Model, cell: Cell) -> MemoryPlan:
    """`predict` where several devices share the batch: for one of them, on a CPU for all."""
    own = cell.changed(batch=cell.batch // cell.devices, devices=1)
    plan = predict(backend, model, own, empty_batch(model, own.batch, own.seq_len))
    return of_devices(plan, setting_of(cell))


def declared_plan(model: Model, cell: Cell) -> MemoryPlan:
    """A lower bound from the declaration: parameters, constants, Adam's moments, inputs, state."""
    item = ITEM_BYTES[cell.dtype]
    declared = model.parameters().values()
    moments = MOMENTS if cell.mode == "train" else 0
    stored = sum(p.size * (1 + moments * p.trainable) for p in declared) * item
    tokens = cell.batch * cell.seq_len
    inputs = 0 if model.is_stack else tokens * model.sizes.d_model * item
    state = declared_state(model, cell) if cell.mode == "decode" else 0
    return MemoryPlan(DECLARATION, stored + inputs + state, temporary_bytes=0)


def declared_state(model: Model, cell: Cell) -> int:
    """Bytes of the state of a cell that decodes its last position, by formula."""
    positions = model.target_len or cell.seq_len
    return state_bytes(
        model, cell.framework, batch=cell.batch, positions=positions, source_len=cell.seq_len,
        item_bytes=ITEM_BYTES[cell.dtype],
    )  # fmt: skip


def available_memory_for(backend: Backend, cell: Cell, limit: int | None) -> int | None:
    """Bytes that a cell may use: on a CPU its limit or the available memory, if that is less.

    On an accelerator: what is free on it; None if that is not known.
    """
    if not is_host(cell.device):
        return backend.free_memory(cell.device)
    available = available_memory()
    return available if limit is None else min(limit, available)


def require_memory(predicted: PredictedMemory) -> None:
    """Raise TooLargeError if a prediction exceeds the available memory by more than MARGIN."""
    if predicted.available is None or predicted.bytes <= predicted.available * (1 + MARGIN):
        return
    raise TooLargeError(
        f"predicted to need {predicted.bytes / 1e6:,.0f} MB ({predicted.tool}), with "
        f"{predicted.available / 1e6:,.0f} MB available; not run; use --force to run it anyway"
    )
