"""Memory of a step before any step is run, and whether there is as much.

From the best plan that can be had by then: XLA's of the compiled program, PyTorch's storages on
tensors that hold nothing, or at least what the declaration says.
"""

from __future__ import annotations

from synthbench.backends.base import Backend, Batch, MemoryPlan
from synthbench.errors import SynthbenchError
from synthbench.measure.environment import available_memory
from synthbench.measure.inputs import setting_of
from synthbench.models.model import Model
from synthbench.record import PredictedMemory
from synthbench.suites.cell import Cell

# A cell is refused only where it is predicted to need this share more than there is: a plan counts
# tensors, and an allocator may find room for them in what it holds already.
MARGIN = 0.10
MOMENTS = 2  # of Adam, for each parameter
DECLARATION = "declaration, a lower bound"  # the tool that is always there
ITEM_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8}


class TooLargeError(SynthbenchError):
    """A cell that is predicted to need more memory than there is; it is not run."""


def predict(backend: Backend, model: Model, cell: Cell, batch: Batch) -> MemoryPlan:
    """What a step of a cell will hold at its peak, at least, before the model is built."""
    try:
        plan = backend.predict_memory(model, setting_of(cell), cell.mode, batch)
    except Exception:  # a mixer may need values, and then fails without them in any way
        plan = None
    return plan if plan is not None else declared_plan(model, cell)


def declared_plan(model: Model, cell: Cell) -> MemoryPlan:
    """The lower bound that the declaration gives: parameters, constants, Adam's moments, inputs."""
    item = ITEM_BYTES[cell.dtype]
    declared = model.parameters().values()
    moments = MOMENTS if cell.mode == "train" else 0
    held = sum(p.size * (1 + moments * p.trainable) for p in declared) * item
    tokens = cell.batch * cell.seq_len
    inputs = 0 if model.is_stack else tokens * model.sizes.d_model * item
    return MemoryPlan(DECLARATION, held + inputs, temporary_bytes=0)


def available_memory_for(backend: Backend, cell: Cell, limit: int | None) -> int | None:
    """Bytes that a cell may take: on a CPU its limit, and no more than is available.

    On CUDA, what is free on the device; None where that cannot be told.
    """
    if cell.device != "cpu":
        return backend.free_memory(cell.device)
    available = available_memory()
    return available if limit is None else min(limit, available)


def require_memory(predicted: PredictedMemory) -> None:
    """Raise TooLargeError where a prediction exceeds what is there by more than MARGIN."""
    if predicted.available is None or predicted.bytes <= predicted.available * (1 + MARGIN):
        return
    raise TooLargeError(
        f"predicted to need {predicted.bytes / 1e6:,.0f} MB ({predicted.tool}), with "
        f"{predicted.available / 1e6:,.0f} MB available; not run: --force runs it anyway"
    )
