"""What `synthbench verify` does in one framework: every case in every form, against NumPy."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from synthbench.backends.base import BACKENDS, INPUT, Backend, Batch, Gradients, Setting
from synthbench.errors import SynthbenchError, UnsupportedError
from synthbench.measure.differences import first_difference, first_not_finite
from synthbench.measure.mask_check import framework_masks, reference_masks
from synthbench.measure.parity import (
    FORWARD_TOLERANCE,
    GRADIENT_TOLERANCE,
    LOW_PRECISION,
    gradient_errors,
    has_reference,
    reference_outputs,
    relative_error,
    whole_difference,
)
from synthbench.measure.parity_inputs import case_batch, cases, random_parameters, small_model
from synthbench.measure.plausibility import require_formula
from synthbench.mixers.base import Array
from synthbench.mixers.plugin_errors import place_of
from synthbench.models.model import Model
from synthbench.printable import one_line
from synthbench.record import Flops


@dataclass(frozen=True)
class Comparison:
    """One comparison: its largest error, and where values differ if that is too much."""

    framework: str
    against: str  # numpy, or the other framework
    what: str  # outputs, gradients
    case: str  # masks and length
    form: str
    error: float
    tolerance: float
    where: str = ""

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance; `not >` would let a NaN pass."""
        return self.error <= self.tolerance

    def __str__(self) -> str:
        differ = f"{self.what} differ from {self.against} by {self.error:.1e}"
        place = _place(self.framework, self.case, self.form)
        return f"{place}: {differ} (at most {self.tolerance:.0e}){self.where and '; ' + self.where}"


def _place(framework: str, case: str, form: str) -> str:
    """Framework, masks and length, and the form where a mixer has two."""
    return f"{framework}, {case}" + (f", {form} form" if form else "")


@dataclass(frozen=True)
class Examined:
    """What one framework computed: the results of each case in the form of cells, comparisons.

    `problems` says what ended a case with an error, `unsupported` which cases the mixer refuses,
    `notes` what could not be checked.
    """

    results: dict[str, Gradients] = field(default_factory=dict)
    form: str = ""
    comparisons: list[Comparison] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unsupported: dict[str, str] = field(default_factory=dict)  # case -> why
    notes: list[str] = field(default_factory=list)


def examine(framework: str, variant: str, dtype: str = "float32", seed: int = 0) -> Examined:
    """Run every case of a variant in one framework, and compare it with the NumPy reference.

    Checked are outputs and gradients of the form that cells use by default. The reference form, and
    outputs without gradients, are checked in every case in torch; in jax, which compiles each of
    them, only in the last case, which has the most masks. Then hidden inputs are changed: see
    mask_check.py. Raises UnsupportedError if the mixer supports none of the cases.
    """
    backend = cast(Backend, importlib.import_module(BACKENDS[framework]))
    model = small_model(variant)
    start = random_parameters(model, seed)
    # As cells are by default; torch.compile would compile anew for each case.
    compile = "eager" if framework == "torch" else "compiled"
    found = Examined(form=backend.form_of(model.mixer, "auto") or "")
    listed = list(cases(model))
    failed: set[str] = set()  # forms; one error says enough

    def attempt(form: str, run: _Case, setting: Setting, alone: bool) -> None:
        if form in failed:
            return
        try:
            got = run.gradients(setting)
            if form == found.form:
                found.results[run.name] = got
            found.comparisons.extend(run.compare(setting, form, got, alone))
        except UnsupportedError as error:
            found.unsupported[run.name] = str(error)
        except Exception as error:  # of a mixer from outside: it may raise anything
            failed.add(form)
            own = isinstance(error, SynthbenchError)
            message = f"{type(error).__name__}: {error} ({place_of(error)})"
            place = _place(framework, run.name, form)
            found.problems.append(f"{place}: {error if own else message}")

    for case in listed:
        cased = replace(model, causal=case.causal)
        setting = Setting(dtype=dtype, compile=compile)
        run = _Case(backend, cased, start, case_batch(cased, case, seed), case.name)
        further = framework == "torch" or case is listed[-1]

        attempt(found.form, run, setting, further)
        if further and found.form == "fused":
            attempt("reference", run, replace(setting, form="reference"), False)
    if found.unsupported.keys() == {case.name for case in listed}:
        raise UnsupportedError(found.unsupported[listed[0].name])
    setting = Setting(dtype=dtype, compile=compile)
    try:
        model.flops(batch=1, seq_len=model.sizes.max_len)
        for case in [case for case in listed if case.name in found.results][:1]:
            cased = replace(model, causal=case.causal)
            batch = case_batch(cased, case, seed)
            flops, why = _counted(backend, cased, start, setting, batch)
            if why and flops.formula is not None:
                found.notes.append(
                    f"the formula of its FLOPs was not checked in {framework}: {why}"
                )
            require_formula("forward", flops)
    except SynthbenchError as error:  # as a cell would end
        found.problems.append(str(error))
    if not failed:
        causal = {case.causal for case in listed}
        found.problems.extend(_mask_problems(backend, model, setting, causal))
    return found


def _counted(
    backend: Backend, model: Model, start: Mapping[str, Array], setting: Setting, batch: Batch
) -> tuple[Flops, str]:
    """FLOPs of a forward pass by the mixer's formula, and as the framework's tool traces them.

    And why it cannot trace them; empty if it can.
    """
    examples, length = batch.targets.shape
    found = Flops(
        formula=model.flops(batch=examples, seq_len=length), traced=None, traced_tool=None
    )
    step = backend.build(model, start, setting, "forward", batch)
    why = ""
    try:
        traced = step.traced_flops()
        found.traced, found.traced_tool = traced.flops, traced.tool
        found.uncounted = dict(traced.uncounted)
    except Exception as error:  # an operation may fail in any way: a cell has no count either
        why = f"{type(error).__name__}: {one_line(str(error))}"
    step.close()
    return found, why


def _mask_problems(
    backend: Backend, model: Model, setting: Setting, causal: Collection[bool]
) -> Iterator[str]:
    if has_reference(model):
        where, found = "reference", reference_masks(model, causal)
    else:
        tolerance = FORWARD_TOLERANCE[setting.dtype]
        where = backend.name
        found = framework_masks(backend, setting, tolerance, model, causal)
    if found:
        yield f"{where}, {found}"


@dataclass(frozen=True)
class _Case:
    backend: Backend
    model: Model
    start: Mapping[str, Array]
    batch: Batch
    name: str

    def gradients(self, setting: Setting) -> Gradients:
        """With that of X, which steps of a mixer alone do not compute, and those of a stack do."""
        return self.backend.gradients(self.model, self.start, setting, self.batch, of_input=True)

    def compare(
        self, setting: Setting, form: str, got: Gradients, alone: bool
    ) -> Iterator[Comparison]:
        """Outputs and gradients against NumPy; `alone`: also the outputs of a forward step."""
        broken = {name: first_not_finite(gradient) for name, gradient in got.gradients.items()}
        if broken := {name: where for name, where in broken.items() if where}:
            name, where = next(iter(broken.items()))
            yield self._gradients(setting, form, float("inf"), f"of {name!r}: {where}")
        outputs = {"outputs": got.outputs}
        if alone:
            step = self.backend.outputs(self.model, self.start, setting, self.batch)
            outputs["outputs without gradients"] = step
        if not has_reference(self.model):
            return
        want = reference_outputs(self.model, self.start, self.batch)
        for what, values in outputs.items():
            yield self._outputs(what, setting, form, values, want)
        if broken:
            return
        exact = got
        if setting.dtype in LOW_PRECISION:  # along one direction, few bits are not conclusive
            exact = self.gradients(replace(setting, dtype="float32"))
            error = whole_difference(got.gradients, exact.gradients)
            yield self._gradients(setting, form, error, "all together, against float32")
            setting = replace(setting, dtype="float32")
        errors = gradient_errors(self.model, self.start, self.batch, exact)
        if errors:
            worst = max(errors, key=lambda name: errors[name])
            of = worst if worst == INPUT else f"worst parameter: {worst!r}"
            where = f"{of}, along a random direction"
            yield self._gradients(setting, form, errors[worst], where)

    def _outputs(
        self, what: str, setting: Setting, form: str, got: Array, want: Array
    ) -> Comparison:
        tolerance = FORWARD_TOLERANCE[setting.dtype]
        error = relative_error(got, want)
        allowed = tolerance * float(np.abs(want).max())
        where = "" if error <= tolerance else first_difference(got, want, allowed)
        name = self.backend.name
        return Comparison(name, "numpy", what, self.name, form, error, tolerance, where)

    def _gradients(self, setting: Setting, form: str, error: float, where: str) -> Comparison:
        tolerance = GRADIENT_TOLERANCE[setting.dtype]
        name = self.backend.name
        return Comparison(name, "numpy", "gradients", self.name, form, error, tolerance, where)
