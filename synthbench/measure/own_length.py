"""The second parity check: a cell's own length and width, in its form and data type.

The first check, on a small input, cannot see a mixer that computes something else for long inputs.
Here the batch is one, the start values are those of the cell, and no kernel is forced. The outputs,
and for train cells the gradients, are compared with NumPy in float64 where that takes little time,
and otherwise with the reference form of the same framework. Gradients are compared with NumPy along
one random direction of all parameters together, which takes two further evaluations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from synthbench.backends.base import Backend, Batch, Gradients, Setting
from synthbench.errors import ShapeError, SynthbenchError, UnsupportedError
from synthbench.measure.inputs import random_batch, setting_of
from synthbench.measure.memory_prediction import predict
from synthbench.measure.parity import (
    FORWARD_TOLERANCE,
    GRADIENT_TOLERANCE,
    LOW_PRECISION,
    has_reference,
    reference_outputs,
    relative_error,
    whole_difference,
)
from synthbench.mixers.base import Array
from synthbench.models.model import Model
from synthbench.models.start_values import start_values
from synthbench.models.training import cross_entropy
from synthbench.record import OwnLength
from synthbench.suites.cell import Cell, model_of

NUMPY_SECONDS = 0.3  # that the NumPy reference may take for the outputs, or for the gradients
GRADIENT_EVALUATIONS = 3  # of the reference: the outputs, and a central difference
# Of gradients, at least: in a large model some relus switch between two ways to round, and each
# changes gradients by a finite amount. The check on a small input is the exact one; a mixer that
# computes something else at this length is off by far more.
LEAST_GRADIENT_TOLERANCE = 0.05
# Half the distance of a central difference. The more relus a model has, the more of them switch on
# or off within a distance, which a derivative does not contain; too small ones round too much.
DIFFERENCES = (1e-6, 1e-8, 1e-9)
# Of NumPy in float64 on one core: products, and the passes over logits of a softmax.
NUMPY_FLOPS_PER_SECOND = 2e10
NUMPY_SECONDS_PER_LOGIT = 2e-8
LOGIT_COPIES = 6  # float64 arrays of logits that a reference holds at a time
PARAMETER_COPIES = 4  # start values, in float64, moved, and the direction
AMPLE = 10  # times the needed memory: no prediction is made


def check_own_length(backend: Backend, cell: Cell, available: int | None = None) -> OwnLength:
    """Compare a cell's code with a reference at its own length; `available` in bytes, or None.

    Not checked, with the reason, is a mixer without a reference, and what would take too much time
    or memory. Raises what the model raises that the cell would raise as well.
    """
    model = model_of(cell)
    if not has_reference(model):
        return not_checked(cell, "the mixer gives no reference")
    seconds = numpy_seconds(model, cell)
    has_two_forms = backend.form_of(model.mixer, cell.form) == "fused"

    def reference_for(evaluations: int) -> str | None:
        if evaluations * seconds <= NUMPY_SECONDS:
            return "numpy"
        return "reference form" if has_two_forms else None

    too_slow = (
        f"NumPy would need about {seconds:.1f} s for the outputs, and there is no second form to "
        "compare with"
    )
    outputs, gradients, reason = reference_for(1), None, ""
    if outputs is None:
        return not_checked(cell, too_slow)
    against = outputs
    if cell.mode == "train":
        gradients = reference_for(GRADIENT_EVALUATIONS)
        if gradients is None:
            reason = f"gradients not checked at its own length: {too_slow}"
        elif gradients != outputs:
            against += f", gradients: {gradients}"
    batch = random_batch(model, 1, cell.seq_len, cell.seed)
    if available is not None:
        needed = bytes_needed(backend, model, cell, batch, available)
        if needed > available:
            megabytes = f"{needed / 1e6:,.0f} MB, with {available / 1e6:,.0f} MB available"
            return not_checked(cell, f"needs {megabytes}")
    start = start_values(model.parameters(), cell.seed)
    # torch.compile would take longer than the cell; XLA has an option for that.
    compile = "eager" if cell.framework == "torch" else cell.compile
    setting = replace(setting_of(cell), compile=compile, quick=True, devices=1)
    run = _Run(backend, model, start, batch, setting)
    try:
        forward, gradient = run.errors(outputs, gradients)
    except (ShapeError, UnsupportedError):
        raise
    except SynthbenchError as error:
        if error.__cause__ is not None:  # the mixer raised something, as the cell will
            raise
        # an output of a wrong shape or type
        return OwnLength(seq_len=cell.seq_len, against=against, passed=False, reason=str(error))
    passed = forward <= FORWARD_TOLERANCE[cell.dtype]  # `not >` would let a NaN pass
    if gradient is not None:
        passed = passed and gradient <= gradient_tolerance(cell.dtype)
    return OwnLength(
        seq_len=cell.seq_len,
        against=against,
        forward=forward,
        gradient=gradient,
        gradient_tolerance=None if gradient is None else gradient_tolerance(cell.dtype),
        passed=passed,
        reason=reason if passed else "",
    )


def gradient_tolerance(dtype: str) -> float:
    """The error of gradients from which this check fails, relative to the norm of all."""
    return max(GRADIENT_TOLERANCE[dtype], LEAST_GRADIENT_TOLERANCE)


def not_checked(cell: Cell, reason: str) -> OwnLength:
    """The result of a check that was not made."""
    return OwnLength(seq_len=cell.seq_len, reason=f"not checked at its own length: {reason}")


def numpy_seconds(model: Model, cell: Cell) -> float:
    """About how long NumPy takes for one sequence; a mixer without a formula counts as attention.

    The central difference of the gradients evaluates the model twice more.
    """
    L, d = cell.seq_len, model.sizes.d_model
    flops = model.flops(batch=1, seq_len=L)
    if flops is None:
        flops = model.layers * (8 * L * d**2 + 4 * L**2 * d) + 2 * L * d * model.classes
    return flops / NUMPY_FLOPS_PER_SECOND + logits(model, cell) * NUMPY_SECONDS_PER_LOGIT


def logits(model: Model, cell: Cell) -> int:
    """How many logits all layers have, in each component of a mixture."""
    components = len(getattr(model.mixer, "components", ())) or 1
    stacks = max(1, len(model.stacks))
    return components * stacks * model.layers * model.sizes.heads * cell.seq_len**2


def bytes_needed(backend: Backend, model: Model, cell: Cell, batch: Batch, available: int) -> int:
    """A prediction of the memory of the check: what NumPy needs, or both forms if that is more.

    The forms are predicted only where memory may be short, since that takes time.
    """
    parameters = sum(p.size for p in model.parameters().values())
    one_layer = logits(model, cell) // (model.layers * max(1, len(model.stacks)))
    outputs = cell.seq_len * (model.classes + model.feed_forward + 8 * model.sizes.d_model)
    values = PARAMETER_COPIES * parameters + LOGIT_COPIES * one_layer + 3 * outputs
    needed = 8 * values
    if AMPLE * model.layers * needed < available:
        return needed
    forms = [cell.changed(batch=1, form=form) for form in (cell.form, "reference")]
    plans = [predict(backend, model, each, batch) for each in forms]
    return max(needed, sum(plan.peak_bytes for plan in plans))


@dataclass(frozen=True)
class _Run:
    backend: Backend
    model: Model
    start: Mapping[str, Array]
    batch: Batch
    setting: Setting

    def gradients(self, **changes: str) -> Gradients:
        setting = replace(self.setting, **changes)  # type: ignore[arg-type]
        return self.backend.gradients(self.model, self.start, setting, self.batch)

    def outputs(self, **changes: str) -> Array:
        setting = replace(self.setting, **changes)  # type: ignore[arg-type]
        return self.backend.outputs(self.model, self.start, setting, self.batch)

    def errors(self, outputs: str, gradients: str | None) -> tuple[float, float | None]:
        """(forward, gradient) errors against what each names; None: gradients are not compared."""
        dtype = self.setting.dtype
        low = dtype in LOW_PRECISION
        wide = "float32" if low else dtype
        if gradients is None:
            want = self.outputs(form="reference", dtype=wide) if outputs != "numpy" else None
            return relative_error(self.outputs(), self.numpy() if want is None else want), None
        found = self.gradients()
        if gradients != "numpy":
            plain = self.gradients(form="reference", dtype=wide)
            gradient = whole_difference(found.gradients, plain.gradients)
            want = self.numpy() if outputs == "numpy" else plain.outputs
            return relative_error(found.outputs, want), gradient
        forward = relative_error(found.outputs, self.numpy())
        if not low:
            allowed = gradient_tolerance(dtype)
            return forward, direction_error(self.model, self.start, self.batch, found, allowed)
        exact = self.gradients(dtype="float32")
        allowed = gradient_tolerance("float32")
        if not direction_error(self.model, self.start, self.batch, exact, allowed) <= allowed:
            return forward, float("inf")
        return forward, whole_difference(found.gradients, exact.gradients)

    def numpy(self) -> Array:
        return reference_outputs(self.model, self.start, self.batch)


def direction_error(
    model: Model, start: Mapping[str, Array], batch: Batch, got: Gradients, allowed: float
) -> float:
    """The error of the derivative along one direction of all parameters together.

    The direction moves each parameter in inverse proportion to the norm of its gradient (or of a
    hundredth of the largest), so that each counts the same. Relative to the norm of these shares.
    The least error of DIFFERENCES, which are tried until one is `allowed`.
    """
    generator = np.random.default_rng(0)
    norms = {name: float(np.linalg.norm(g)) for name, g in got.gradients.items()}
    largest = max(norms.values(), default=0.0)
    if not np.isfinite(sum(norms.values())):
        return float("inf")
    wide = {name: value.astype(np.float64) for name, value in start.items()}
    directions, derivative, shares = {}, 0.0, 0.0
    for name, gradient in got.gradients.items():
        factor = largest / max(norms[name], 1e-2 * largest) if largest else 1.0
        directions[name] = factor * generator.standard_normal(gradient.shape)
        derivative += float(np.sum(gradient * directions[name]))
        shares += (factor * norms[name]) ** 2
    scale, least = float(np.sqrt(shares)), float("inf")
    for step in DIFFERENCES:
        losses = []
        for sign in (1, -1):
            moved = {n: wide[n] + sign * step * v for n, v in directions.items()}
            outputs = reference_outputs(model, wide | moved, batch)
            losses.append(cross_entropy(outputs, batch.targets, batch.padding_mask))
        error = abs((losses[0] - losses[1]) / (2 * step) - derivative)
        relative = error / scale if scale else error
        if np.isfinite(relative):
            least = min(least, relative)
        if least <= allowed:
            break
    return least
