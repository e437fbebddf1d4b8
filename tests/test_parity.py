"""Both frameworks compute what the NumPy reference computes, with every mask and option."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, cast

import numpy as np
import pytest

import synthbench
from synthbench.backends.base import BACKENDS, Backend, Batch, Setting
from synthbench.errors import ShapeError
from synthbench.measure import parity
from synthbench.measure.parity_inputs import (
    SMALL,
    Case,
    case_batch,
    cases,
    random_parameters,
    small_model,
)
from synthbench.mixers.base import Array, Mixer, Parameter
from synthbench.mixers.dot_product import DotProduct
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.suites.cell import Cell, Framework
from tests.variants import VARIANTS

FRAMEWORKS = ("torch", "jax")
TOLERANCE = {"float64": 1e-10, "float32": 2e-5}
SIZES: dict[str, Any] = {"heads": SMALL["heads"], "max_len": SMALL["max_len"]}


# The fused forms are held to the reference forms in float64 by tests of their own.
FORM = {"float64": "reference", "float32": "auto"}


def backend_of(framework: str) -> Backend:
    return cast(Backend, importlib.import_module(BACKENDS[framework]))


@cache
def reference_of(variant: str, head_dim: int | None) -> dict[Case, tuple[Model, Batch, Array]]:
    """Each case with its batch and the outputs of the NumPy reference."""
    model = small_model(variant, head_dim=head_dim)
    start, found = random_parameters(model), {}
    for case in cases(model):
        cased = replace(model, causal=case.causal)
        batch = case_batch(cased, case)
        found[case] = cased, batch, parity.reference_outputs(cased, start, batch)
    return found


def compiled_in(dtype: str, case: Case, max_len: int) -> bool:
    """Whether JAX runs a case in this type; any two of the three choices meet in both types.

    Compiling is most of this file's time, and every case is compiled in one of the types.
    """
    odd = (case.padded + case.causal + (case.seq_len < max_len)) % 2
    return odd == (dtype == "float32")


def require_parity(variant: str, dtype: str, head_dim: int | None = None) -> None:
    """PyTorch in every case against the reference; JAX in half of them, also against PyTorch."""
    found = reference_of(variant, head_dim)
    assert len(found) == (4 if parse(variant).name == "linformer" else 8)
    max_len = small_model(variant, head_dim=head_dim).sizes.max_len
    compiled = [case for case in found if compiled_in(dtype, case, max_len)]
    assert len(compiled) == len(found) / 2
    for case, (model, batch, reference) in found.items():
        start = random_parameters(model)
        trained = {name for name, p in model.parameters().items() if p.trainable}
        gradients = []
        for framework in FRAMEWORKS if case in compiled else ("torch",):
            # As cells are by default; torch.compile would compile anew for each case.
            how = "eager" if framework == "torch" else "compiled"
            setting = Setting(dtype=dtype, form=FORM[dtype], compile=how)
            got = backend_of(framework).gradients(model, start, setting, batch)
            error = parity.relative_error(got.outputs, reference)
            assert error <= TOLERANCE[dtype], f"{framework}, {case.name}: forward is off by {error}"
            assert got.gradients.keys() == trained
            gradients.append(got.gradients)
        difference = parity.gradient_difference(gradients[0], gradients[-1])
        assert difference <= TOLERANCE[dtype], f"{case.name}: gradients differ by {difference}"


@pytest.mark.long_but("*-float64")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("variant", VARIANTS)
def test_outputs_and_gradients_agree(variant: str, dtype: str) -> None:
    require_parity(variant, dtype)


@pytest.mark.parametrize("variant", ["V", "R", "D(tie_query=true)+V", "FD", "linformer", "conv"])
def test_head_dim_apart_from_d_over_heads(variant: str) -> None:
    require_parity(variant, "float64", head_dim=7)


@pytest.mark.parametrize("framework", ["numpy", *FRAMEWORKS])
@pytest.mark.parametrize("variant", VARIANTS)
def test_masks_hide_what_they_should(variant: str, framework: str) -> None:
    """A later token changes no earlier output; padding, even of NaN, changes no real output."""
    L, first_hidden = 10, 6
    parameters = synthbench.initialize(variant, d_model=16, seed=3, **SIZES)
    x = np.random.default_rng(0).standard_normal((2, L, 16))
    mask = np.ones((2, L), dtype=bool)
    mask[:, first_hidden:] = False

    def outputs(x: Array, **masks: Any) -> Array:
        return synthbench.apply(
            variant, parameters, x, framework=framework, dtype="float64", **SIZES, **masks
        )[:, :first_hidden]

    # All in one batch, which is compiled once.
    garbage = np.stack([x[0], x[1], x[0], x[1]])
    garbage[:2, first_hidden:], garbage[2:, first_hidden:] = 1e3, np.nan
    clean, *dirty = np.split(
        outputs(np.concatenate([x, garbage]), padding_mask=np.concatenate([mask] * 3)), 3
    )
    for each in dirty:
        np.testing.assert_allclose(each, clean, rtol=1e-12, atol=1e-12)
    if parse(variant).name == "linformer":
        with pytest.raises(synthbench.SynthbenchError, match="causal"):
            outputs(x, causal=True)
        return
    clean, changed = np.split(outputs(np.concatenate([x, garbage[:2]]), causal=True), 2)
    np.testing.assert_allclose(changed, clean, rtol=1e-12, atol=1e-12)


def with_head_dim(cell: Cell, head_dim: int | None) -> Cell:
    return Cell.from_flat(**cell.flat() | {"head_dim": head_dim})


@pytest.mark.parametrize("variant", ["glu", "bottleneck"])
def test_a_head_dim_that_is_named_need_not_be_another(variant: str) -> None:
    """Presets name it; what splits its input by heads is checked with d_model / heads even so."""
    cell = Cell.from_flat(
        variant=variant, framework="torch", mode="forward", model="mixer", compile="eager",
        seq_len=8, batch=1, d_model=16, heads=4, head_dim=4, max_len=8,
    )  # fmt: skip
    assert parity.check_cell(backend_of("torch"), cell).passed
    other = with_head_dim(cell, 8)
    assert parity.parity_key(cell) == parity.parity_key(with_head_dim(cell, None))
    assert parity.parity_key(cell) != parity.parity_key(other)


def test_a_cell_is_checked_as_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """On its device, in its dtype and form, and compiled alike."""
    asked: list[Setting] = []

    def errors(backend: Any, model: Any, start: Any, setting: Setting, batch: Any) -> Any:
        asked.append(setting)
        return 0.0, 0.0

    monkeypatch.setattr(parity, "errors", errors)
    how: dict[str, Any] = {
        "dtype": "bfloat16", "device": "cuda:1", "form": "reference", "compile": "compiled",
    }  # fmt: skip
    cell = Cell.from_flat(
        variant="V", framework="torch", mode="train", seq_len=8, batch=1, d_model=16, heads=4,
        max_len=8, **how,
    )  # fmt: skip
    assert parity.check_cell(backend_of("torch"), cell).passed
    assert asked == [Setting(**how)]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_planted_error_is_caught(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check can fail: another reference, by one part in a thousand, is no parity."""
    backend = backend_of(framework)
    cell = Cell.from_flat(
        variant="V", framework=cast(Framework, framework), mode="train", model="mixer",
        seq_len=8, batch=1, d_model=16, heads=4, max_len=8,
        compile="eager" if framework == "torch" else "compiled",
    )  # fmt: skip
    sound = parity.check_cell(backend, cell)
    assert sound.passed and sound.forward is not None and sound.forward < 2e-5
    original = DotProduct.reference

    def off(self: DotProduct, *args: object, **kwargs: object) -> Array:
        return original(self, *args, **kwargs) * 1.001  # type: ignore[arg-type]

    monkeypatch.setattr(DotProduct, "reference", off)
    planted = parity.check_cell(backend, cell)
    assert not planted.passed
    assert planted.gradient is not None and planted.gradient_tolerance is not None
    assert planted.gradient > planted.gradient_tolerance


@dataclass(frozen=True)
class Blocked(Mixer):
    """Y = X, for lengths and heads of whole blocks."""

    name: ClassVar[str] = "blocked"

    length: int = 16
    channels: int = 1

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return {}

    def check(self, sizes: Sizes, *, causal: bool = False) -> None:
        if sizes.max_len % self.length:
            raise ShapeError(f"max_len {sizes.max_len} is not a multiple of {self.length}")
        if sizes.head_dim % self.channels:
            raise ShapeError(f"head_dim {sizes.head_dim} is not a multiple of {self.channels}")

    def torch(self, sizes: Sizes) -> Any:
        return lambda p, x, padding_mask, causal: x

    def reference(self, p: Any, x: Array, sizes: Sizes, **masks: Any) -> Array:
        return x


def blocked_cell(variant: str, **sizes: Any) -> Cell:
    known = {"seq_len": 64, "batch": 1, "d_model": 256, "heads": 2, "max_len": 64} | sizes
    return Cell.from_flat(
        variant=variant, framework="torch", mode="train", compile="eager", **known
    )


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("options", ["", "(channels=8)", "(length=64, channels=64)"])
@pytest.mark.parametrize("kind", ["mixer", "decoder"])
def test_a_mixer_that_cannot_be_so_small_is_checked_at_another_size(
    options: str, kind: str
) -> None:
    synthbench.register(Blocked)
    stack = {"vocabulary": 9} if kind == "decoder" else {}
    cell = blocked_cell(f"blocked{options}", model=kind, **stack)
    assert parity.check_cell(backend_of("torch"), cell).passed


@pytest.mark.usefixtures("registry")
def test_the_sizes_are_named_where_a_mixer_takes_none_of_them() -> None:
    synthbench.register(Blocked)
    none = "none of the small sizes.*max_len 12; .*max_len 64.*: max_len 12 is not a multiple of 40"
    with pytest.raises(ShapeError, match=none):
        parity.check_cell(backend_of("torch"), blocked_cell("blocked(length=40)", max_len=80))
