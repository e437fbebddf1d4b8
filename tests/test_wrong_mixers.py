"""Mixers from outside that break what they promise: whose fault it is, and what it is, is said."""

from __future__ import annotations

import importlib
from typing import Any, cast

import numpy as np
import pytest

import synthbench
from synthbench.backends.base import BACKENDS, Backend
from synthbench.measure import parity
from synthbench.measure.inputs import random_batch
from synthbench.mixers.base import Mixer, Parameter
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.suites.cell import Cell
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import parse_suite
from tests.test_adding_a_mixer import SIZES, Whole

pytestmark = pytest.mark.usefixtures("registry")


DECLARATIONS: dict[str, tuple[Any, str]] = {
    "tuples": ({"weight": (3, 4)}, r"declares 'weight' as \(3, 4\); declare each name as"),
    "a list": ([("weight", 3)], r"parameters\(\) returns \[\('weight', 3\)\]; return a dict"),
    "nothing": (None, r"parameters\(\) returns None; return a dict"),
    "a name that is none": ({3: Parameter((3,), synthbench.Normal(1.0))}, r"declares 3 as Param"),
}


@pytest.mark.parametrize("declaration", DECLARATIONS)
def test_a_declaration_that_is_none_is_explained(declaration: str) -> None:
    content, message = DECLARATIONS[declaration]
    wrong = type("Wrong", (Whole,), {"name": "wrong", "parameters": lambda self, sizes: content})()
    for call in (
        lambda: synthbench.initialize(wrong, d_model=16, **SIZES),
        lambda: synthbench.cost(wrong, batch=1, seq_len=12, d_model=16, **SIZES),
        lambda: synthbench.apply(wrong, {}, np.ones((1, 12, 16)), framework="torch", **SIZES),
    ):
        with pytest.raises(synthbench.SynthbenchError, match=message):
            call()


@pytest.mark.parametrize(
    ("shape", "init", "message"),
    [
        (8, synthbench.Normal(1.0), "shape is 8; write a tuple of integers"),
        ((8, 2.0), synthbench.Normal(1.0), r"shape is 2\.0 \(float\); it must be an integer"),
        ((8, -1), synthbench.Normal(1.0), "shape is -1; it must be at least 1"),
        ((8,), 0.5, r"start value is 0\.5; give a function \(generator, shape\) -> array"),
    ],
)
def test_a_parameter_that_cannot_be_is_explained(shape: Any, init: Any, message: str) -> None:
    with pytest.raises(synthbench.SynthbenchError, match=message):
        Parameter(shape, init)


def test_sizes_of_a_parameter_are_whole_and_never_overflow() -> None:
    parameter = Parameter(cast(Any, [np.int32(2**20)] * 4), synthbench.Normal(1.0))
    assert parameter.shape == (2**20,) * 4
    assert parameter.size == 2**80


class Squeezed(Whole):
    name = "squeezed"

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return {}

    def reference(self, p: Any, x: Any, sizes: Sizes, **options: Any) -> Any:
        return x[:, :, 0]

    def torch(self, sizes: Sizes) -> Any:
        return lambda p, x, padding_mask, causal: x[:, :, 0]

    jax = torch


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_an_output_of_another_shape_is_refused(framework: str) -> None:
    message = r"squeezed in .* shape \(1, 12\) in .*; expected shape \(1, 12, 16\)"
    with pytest.raises(synthbench.SynthbenchError, match=message):
        synthbench.apply(Squeezed(), {}, np.ones((1, 12, 16)), framework=framework, **SIZES)


class Wide(Squeezed):
    """Computes in float64 whatever it is asked for."""

    name = "wide"

    def torch(self, sizes: Sizes) -> Any:
        return lambda p, x, padding_mask, causal: x.double()


class Vanishing(Squeezed):
    name = "vanishing"

    def torch(self, sizes: Sizes) -> Any:
        return lambda p, x, padding_mask, causal: None

    jax = torch


@pytest.mark.parametrize("framework", ["torch", "jax"])
@pytest.mark.parametrize("wrong", [Squeezed, Wide, Vanishing])
def test_the_check_before_timing_sees_a_wrong_output(wrong: type[Mixer], framework: str) -> None:
    synthbench.register(wrong)
    cell = Cell.from_flat(
        variant=wrong.name,
        framework=framework,
        mode="train",
        seq_len=12,
        batch=1,
        model="mixer",
        d_model=16,
        heads=4,
        max_len=12,
        compile="compiled" if framework == "jax" else "eager",
    )  # fmt: skip
    backend = cast(Backend, importlib.import_module(BACKENDS[framework]))
    with pytest.raises(synthbench.SynthbenchError, match=f"{wrong.name} in {framework} gives an"):
        parity.check_cell(backend, cell)


def test_a_reference_of_another_shape_is_refused() -> None:
    model = Model.of("mixer", Squeezed(), Sizes.of(d_model=16, **SIZES))
    with pytest.raises(synthbench.SynthbenchError, match="squeezed in NumPy gives an output"):
        parity.reference_outputs(model, {}, random_batch(model, 2, 12))


class Failing(Whole):
    name = "failing"

    def check(self, sizes: Sizes, *, causal: bool = False) -> None:
        raise TypeError("no such sizes")


class Undeclared(Whole):
    name = "undeclared"

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        raise KeyError("weight")


class Countless(Whole):
    name = "countless"

    def flops(self, sizes: Sizes, *, batch: int, seq_len: int) -> Any:
        return "many"


class Uncallable(Whole):
    name = "uncallable"

    def flops(self, sizes: Sizes) -> Any:  # type: ignore[override]
        return 3


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (Failing, r"Failing\.check\(\) of tests.* failed: TypeError: no such sizes \(test_wrong"),
        (Undeclared, r"Undeclared\.parameters\(\) of tests.* failed: KeyError: 'weight'"),
        (Uncallable, r"Uncallable\.flops\(\) of tests.* TypeError: .*'batch' \(test_wrong_mixers"),
        (Countless, r"Countless\.flops\(\) returns 'many'; return an integer of at least 0"),
    ],
)
def test_what_fails_in_a_plugin_is_named_as_the_plugins(cls: type[Mixer], message: str) -> None:
    with pytest.raises(synthbench.SynthbenchError, match=message):
        synthbench.cost(cls(), batch=1, seq_len=12, d_model=16, **SIZES)


def test_a_plan_of_a_plugin_that_fails_names_it() -> None:
    synthbench.register(Failing)
    suite = parse_suite(
        "axes: {variant: [failing], seq_len: [8]}\nmodel: {d_model: 8, heads: 2}\n",
        name="mine", source="mine.yaml",
    )  # fmt: skip
    with pytest.raises(synthbench.SynthbenchError, match=r"Failing\.check\(\) of tests"):
        make_plan(suite, "cpu")


def test_a_count_of_whole_floats_is_a_count() -> None:
    halves = type("Halves", (Whole,), {"name": "halves", "flops": lambda self, s, **_: 3.0})()
    assert synthbench.cost(halves, batch=1, seq_len=12, d_model=16, **SIZES).flops == 3


def test_a_start_value_of_another_shape_is_refused() -> None:
    flat = Parameter((3, 4), lambda generator, shape: generator.standard_normal(12))
    wrong = type("Wrong", (Whole,), {"name": "wrong", "parameters": lambda self, s: {"w": flat}})()
    message = r"start value of 'w' has shape \(12,\); it is declared as \(3, 4\)"
    with pytest.raises(synthbench.SynthbenchError, match=message):
        synthbench.initialize(wrong, d_model=16, **SIZES)
