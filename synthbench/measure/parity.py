"""The parity check: outputs and gradients of a framework against the NumPy reference.

Outputs are compared element by element, relative to the largest reference value. Gradients are
compared along a random direction for each parameter with the central difference of the loss of the
NumPy reference in float64, relative to the norm of that gradient (or to a hundredth of the largest
norm, if that is more: a gradient that is zero by symmetry consists of rounding errors). No second
framework is needed, so a process checks its cell with only its own framework loaded.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from synthbench.backends.base import BACKENDS, INPUT, Backend, Batch, Gradients, Setting
from synthbench.backends.kernel_record import force_long_kernels, recording_kernels
from synthbench.measure.inputs import random_batch
from synthbench.measure.mask_check import framework_masks, reference_masks
from synthbench.measure.parity_inputs import (
    BATCH,
    SHORTER,
    case_batch,
    cases,
    padding,
    random_parameters,
    small_model,
)
from synthbench.mixers.base import Array
from synthbench.models.model import Model
from synthbench.models.training import cross_entropy
from synthbench.record import Parity
from synthbench.suites.cell import Cell

# Outputs, relative to the largest value: rounding errors of float32 and float64, and the eight and
# eleven bits of bfloat16 and float16. Gradients: float64 is limited by the central difference; in
# the types of LOW_PRECISION, rounding can switch a relu near zero on or off.
FORWARD_TOLERANCE = {"float32": 2e-5, "float64": 1e-10, "bfloat16": 5e-2, "float16": 1e-2}
GRADIENT_TOLERANCE = {"float32": 2e-5, "float64": 1e-6, "bfloat16": 0.25, "float16": 0.15}
LOW_PRECISION = ("bfloat16", "float16")
DIFFERENCE = 1e-6


def collect(
    framework: str,
    variant: str,
    dtype: str = "float32",
    form: str = "auto",
    seed: int = 0,
    head_dim: int | None = None,
) -> dict[str, dict[str, Any]]:
    """Outputs, loss and gradients of every case in one framework, and the NumPy reference.

    Returns case name -> {"forward", "loss", "gradients", "reference"}; reference is None if the
    mixer has none.
    """
    backend = cast(Backend, importlib.import_module(BACKENDS[framework]))
    model = small_model(variant, head_dim=head_dim)
    start = random_parameters(model, seed)
    # As cells are by default; torch.compile would compile anew for each case.
    compile = "eager" if framework == "torch" else "compiled"
    collected = {}
    for case in cases(model):
        cased = replace(model, causal=case.causal)
        batch = case_batch(cased, case, seed)
        got = backend.gradients(
            cased, start, Setting(dtype=dtype, form=form, compile=compile), batch
        )
        reference = reference_outputs(cased, start, batch) if has_reference(cased) else None
        collected[case.name] = {
            "forward": got.outputs,
            "loss": got.loss,
            "gradients": got.gradients,
            "reference": reference,
        }
    return collected


def parity_key(cell: Cell) -> str:
    """Cells with the same key share one check: length, batch and width do not change the code."""
    architecture = json.dumps(cell.model.architecture, sort_keys=True)
    decodes = ("decode",) if cell.mode == "decode" else ()
    return "|".join(
        (cell.framework, cell.task, cell.variant, architecture, cell.dtype, cell.device, cell.form,
         cell.compile, *decodes)
    )  # fmt: skip


def check_cell(
    backend: Backend, cell: Cell, *, padded: bool = False, learns: bool = False
) -> Parity:
    """Check the cell's variant, model kind, dtype, device and form on a small input.

    Forms that choose kernels by size are checked twice, the second time as if the input were long;
    `padded`: all of it once more, with padding. Then hidden inputs are changed (mask_check.py): of
    the reference, or without one in the framework, if the cell `learns`.
    """
    model = small_cell_model(cell)
    start = random_parameters(model)
    L = min(SHORTER, model.sizes.max_len)
    batches = [random_batch(model, 2, L)]
    if padded:
        batch = random_batch(model, BATCH, L)
        batches.append(replace(batch, padding_mask=padding(model, batch)))
    setting = Setting(dtype=cell.dtype, device=cell.device, form=cell.form, compile=cell.compile)
    tolerance, gradient_tolerance = FORWARD_TOLERANCE[cell.dtype], GRADIENT_TOLERANCE[cell.dtype]
    if not has_reference(model):
        masks = ""
        if learns:
            masks = check_masks(cell, model, partial(framework_masks, backend, setting, tolerance))
        return Parity(
            against="none: the mixer gives no reference",
            forward=None,
            gradient=None,
            tolerance=tolerance,
            masks=masks,
            passed=not masks,
        )
    found = []
    with recording_kernels() as used:
        for batch in batches:
            found.append(errors(backend, model, start, setting, batch))
            if cell.form != "reference":
                with force_long_kernels():
                    found.append(errors(backend, model, start, setting, batch))
    worst = np.max(found, axis=0)  # max() may lose a NaN
    forward, gradient = (float("inf") if np.isnan(error) else float(error) for error in worst)
    masks = check_masks(cell, model, reference_masks)
    return Parity(
        against="numpy",
        forward=forward,
        gradient=gradient,
        tolerance=tolerance,
        gradient_tolerance=gradient_tolerance,
        kernels=list(used),
        masks=masks,
        passed=bool(forward <= tolerance and gradient <= gradient_tolerance and not masks),
    )


def check_masks(cell: Cell, model: Model, check: Callable[[Model, Collection[bool]], str]) -> str:
    """What the mixer of a cell reads although a mask hides it; causal where a stack is."""
    causal = {stack.causal for stack in model.stacks} or {bool(model.causal)}
    return check(bare_model(cell), causal)


def bare_model(cell: Cell) -> Model:
    """The mixer of a cell alone, at small sizes."""
    return small_model(cell.variant, head_dim=8 if cell.model.has_own_head_dim else None)


def small_cell_model(cell: Cell) -> Model:
    """The model of a cell at small sizes."""
    bare = bare_model(cell)
    spec = cell.model.small(bare.spec, target_len=min(SHORTER - 2, bare.sizes.max_len))
    model = Model(bare.mixer, spec)
    model.check()
    return model


def errors(
    backend: Backend, model: Model, start: Mapping[str, Array], setting: Setting, batch: Batch
) -> tuple[float, float]:
    """(forward, gradient) errors against the NumPy reference.

    Gradients of LOW_PRECISION are compared as a whole with the float32 gradients of the same
    framework, which are compared with the reference: along one direction, few bits are not
    conclusive.
    """
    got = backend.gradients(model, start, setting, batch)
    want = reference_outputs(model, start, batch)
    alone = backend.outputs(model, start, setting, batch)  # may take other kernels
    forward = max(relative_error(outputs, want) for outputs in (got.outputs, alone))
    if setting.dtype not in LOW_PRECISION:
        return forward, gradient_error(model, start, batch, got)
    wide = backend.gradients(model, start, replace(setting, dtype="float32"), batch)
    exact = gradient_error(model, start, batch, wide)
    if not exact <= GRADIENT_TOLERANCE["float32"]:
        return forward, float("inf")
    return forward, whole_difference(got.gradients, wide.gradients)


def gradient_error(model: Model, start: Mapping[str, Array], batch: Batch, got: Gradients) -> float:
    """The largest error of a directional derivative; see the docstring of the module."""
    return max(gradient_errors(model, start, batch, got).values(), default=0.0)


def gradient_errors(
    model: Model, start: Mapping[str, Array], batch: Batch, got: Gradients
) -> dict[str, float]:
    """The error of each directional derivative, by parameter, and by X if its gradient is there.

    Infinite where it is not finite.
    """
    generator = np.random.default_rng(0)
    wide = {name: value.astype(np.float64) for name, value in start.items()}
    norms = {name: float(np.linalg.norm(g)) for name, g in got.gradients.items()}
    floor = 1e-2 * max(norms.values(), default=0.0)
    errors = {}
    for name, gradient in got.gradients.items():
        direction = generator.standard_normal(gradient.shape)
        losses = []
        for sign in (1, -1):
            by = sign * DIFFERENCE * direction
            if name == INPUT:
                moved, seen = wide, replace(batch, inputs=batch.inputs.astype(np.float64) + by)
            else:
                moved, seen = {**wide, name: wide[name] + by}, batch
            outputs = reference_outputs(model, moved, seen)
            losses.append(cross_entropy(outputs, batch.targets, batch.padding_mask))
        difference = (losses[0] - losses[1]) / (2 * DIFFERENCE)
        error = abs(difference - float(np.sum(gradient * direction)))
        scale = max(norms[name], floor)
        relative = error / scale if scale else error
        errors[name] = relative if np.isfinite(relative) else float("inf")
    return errors


def has_reference(model: Model) -> bool:
    """Whether the mixer of a model has a NumPy reference."""
    return model.mixer.has_reference


def reference_outputs(model: Model, start: Mapping[str, Array], batch: Batch) -> Array:
    """The outputs of the NumPy reference in float64."""
    wide = {name: value.astype(np.float64) for name, value in start.items()}
    inputs = batch.inputs if model.is_stack else batch.inputs.astype(np.float64)
    return model.reference(wide, inputs, batch.padding_mask)


def whole_difference(got: Mapping[str, Array], want: Mapping[str, Array]) -> float:
    """The norm of the difference of all gradients together, relative to the norm of `want`."""
    difference = sum(float(np.sum((got[name] - g) ** 2)) for name, g in want.items())
    norm = sum(float(np.sum(g**2)) for g in want.values())
    error = float(np.sqrt(difference / norm)) if norm else float(np.sqrt(difference))
    return error if np.isfinite(error) else float("inf")


def gradient_difference(got: Mapping[str, Array], want: Mapping[str, Array]) -> float:
    """The largest difference of two sets of gradients, each parameter in units of its largest
    value (or a hundredth of the largest of all, whichever is more)."""
    largest = {name: float(np.abs(g).max()) for name, g in want.items()}
    floor = 1e-2 * max(largest.values(), default=0.0)
    errors = (relative_error(got[n], g, max(largest[n], floor)) for n, g in want.items())
    return max(errors, default=0.0)


def relative_error(got: Array, want: Array, scale: float | None = None) -> float:
    """max |got - want| relative to `scale`, by default max |want|.

    Infinite for a NaN, and for an array of another shape.
    """
    if got.shape != want.shape:
        return float("inf")
    scale = float(np.abs(want).max()) if scale is None else scale
    error = float(np.abs(got.astype(np.float64) - want).max()) if want.size else 0.0
    if not np.isfinite(error):
        return float("inf")
    return error / scale if scale else error
