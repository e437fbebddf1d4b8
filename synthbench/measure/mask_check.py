"""Whether a mixer reads what its masks hide: padded positions, and later ones if it is causal.

Parity says nothing of it: both frameworks and the reference may forget the same mask. So hidden
inputs are changed, and the outputs that may not depend on them must stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from synthbench.backends.base import Backend, Batch, Setting
from synthbench.errors import UnsupportedError
from synthbench.measure.parity_inputs import SMALL, random_parameters
from synthbench.mixers.base import Array
from synthbench.models.model import Model

# Hidden inputs are changed to values of this size. A convolution by FFT spreads rounding errors of
# this size over all positions: of much larger values they would be seen in float32.
LARGE = 10
REFERENCE_TOLERANCE = 1e-10  # of float64
Outputs = Callable[[Model, Mapping[str, Array], Batch], Array]


def reference_masks(model: Model, causal: Collection[bool]) -> str:
    """What the NumPy reference of a bare mixer reads although it is hidden; empty: nothing.

    `causal`: whether to look at it as it is, as a causal one, or both.
    """

    def outputs(model: Model, start: Mapping[str, Array], batch: Batch) -> Array:
        wide = {name: value.astype(np.float64) for name, value in start.items()}
        return model.reference(wide, batch.inputs, batch.padding_mask)

    return _first(model, outputs, causal, REFERENCE_TOLERANCE)


def framework_masks(
    backend: Backend, setting: Setting, tolerance: float, model: Model, causal: Collection[bool]
) -> str:
    """The same of a mixer without a reference, in a framework."""
    # torch.compile would compile anew for each case.
    alike = replace(setting, compile="eager" if backend.name == "torch" else setting.compile)

    def outputs(model: Model, start: Mapping[str, Array], batch: Batch) -> Array:
        single = replace(batch, inputs=batch.inputs.astype(np.float32))
        return backend.outputs(model, start, alike, single)

    return _first(model, outputs, causal, tolerance)


def _first(model: Model, outputs: Outputs, causal: Collection[bool], tolerance: float) -> str:
    """The first mask that does not hide what it should, as a sentence; empty if all do."""
    for later in sorted(causal):
        cased = replace(model, causal=later)
        # (with padding, what is changed)
        looks = [(True, "padded positions")]
        looks += [(False, "later positions"), (True, "later positions")] if later else []
        for padded, changed in looks:
            try:
                position = _reads(cased, outputs, padded, changed, tolerance)
            except UnsupportedError:
                continue
            if position is not None:
                masks = " and ".join(["padding"] * padded + ["causal"] * later)
                return (
                    f"{masks}: the output at position {position} changes with the inputs at "
                    f"{changed}, of its own example or of another"
                )
    return ""


def _reads(
    model: Model, outputs: Outputs, padded: bool, changed: str, tolerance: float
) -> int | None:
    """A position whose output changes though only what is hidden from it does; None if none.

    Example i of the batch differs from the last only in what position i may not see.
    """
    # A mixer that is made for long inputs, as FD with its own factors, works for short ones too: an
    # example for each of its positions could take more memory than there is.
    L, d = min(SMALL["max_len"], model.sizes.max_len), model.sizes.d_model
    generator = np.random.default_rng(0)
    position = np.arange(L)
    real = (position >= L // 4) & (position < L - L // 4) if padded else np.ones(L, dtype=bool)
    hidden = np.tile(~real, (L, 1))
    if changed == "later positions":
        hidden = position > position[:, None]
    same = generator.standard_normal((L, d))
    other = LARGE * generator.standard_normal((L, L, d))
    inputs = np.concatenate([np.where(hidden[..., None], other, same), same[None]])
    batch = Batch(
        inputs,
        generator.integers(model.classes, size=inputs.shape[:2]),
        np.tile(real, (L + 1, 1)) if padded else None,
    )
    found = outputs(model, random_parameters(model), batch).astype(np.float64)
    seen = (real & ~hidden)[..., None]
    allowed = tolerance * np.abs(found[-1][real]).max()
    wrong = seen & ~(np.abs(found[:-1] - found[-1]) <= allowed)  # a NaN is wrong too
    return int(np.argwhere(wrong)[0][1]) if wrong.any() else None
