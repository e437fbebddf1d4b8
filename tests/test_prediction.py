"""Predicted memory: plans are exact, and a bound never refuses a cell that fits."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from synthbench.backends.base import BACKENDS, Backend
from synthbench.measure import memory_prediction
from synthbench.measure.inputs import random_batch, setting_of
from synthbench.measure.memory_prediction import (
    TooLargeError,
    available_memory_for,
    declared_plan,
    predict,
    require_memory,
)
from synthbench.mixers.base import Mixer, Parameter
from synthbench.mixers.sizes import Sizes
from synthbench.models.start_values import start_values
from synthbench.record import PredictedMemory
from synthbench.run.extensions import register
from synthbench.suites.cell import Cell, model_of
from tests.variants import VARIANTS


@pytest.fixture(scope="module", autouse=True)
def frozen() -> Iterator[None]:
    """Speed up the garbage collection of each plan: it ignores the objects of the imports."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def cell(variant: str = "V", framework: str = "torch", **changes: Any) -> Cell:
    content: dict[str, Any] = {
        "variant": variant, "framework": framework, "mode": "train", "seq_len": 12, "batch": 2,
        "model": "mixer", "d_model": 16, "heads": 4, "max_len": 12,
        "compile": "eager" if framework == "torch" else "compiled",
    }  # fmt: skip
    return Cell.from_flat(**(content | changes))


def backend_of(framework: str) -> Backend:
    return cast(Backend, importlib.import_module(BACKENDS[framework]))


def both(one: Cell) -> tuple[int, int]:
    """Bytes as predicted, and as planned by the step that is then built."""
    model, backend = model_of(one), backend_of(one.framework)
    batch = random_batch(model, one.batch, one.seq_len)
    predicted = predict(backend, model, one, batch)
    start = start_values(model.parameters())
    step = backend.build(model, start, setting_of(one), one.mode, batch)
    step.compile()
    predicted = step.predict_memory() or predicted
    step.wait(step())
    plan = step.memory_plan()
    assert plan is not None
    assert declared_plan(model, one).peak_bytes <= plan.peak_bytes
    assert "declaration" not in predicted.tool
    return predicted.peak_bytes, plan.peak_bytes


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_prediction_of_an_eager_torch_step_is_exact(variant: str, mode: str) -> None:
    predicted, shown = both(cell(variant, mode=mode))
    assert predicted == shown


@pytest.mark.parametrize("framework", BACKENDS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_a_stack_is_predicted_in_every_type(framework: str, dtype: str) -> None:
    sizes = {"model": "decoder", "layers": 2, "feed_forward": 20, "vocabulary": 11}
    predicted, shown = both(cell("D+V", framework, dtype=dtype, **sizes))
    # A layer norm keeps its statistics in bfloat16 on a CPU, in float32 elsewhere.
    assert predicted == pytest.approx(shown, rel=0.01 if dtype == "bfloat16" else 0)


@pytest.mark.parametrize("framework", BACKENDS)
def test_without_a_plan_the_declaration_is_the_lower_bound(framework: str) -> None:
    one = cell(framework=framework, compile="compiled", dtype="bfloat16")
    model = model_of(one)
    batch = random_batch(model, one.batch, one.seq_len)
    plan = predict(backend_of(framework), model, one, batch)
    parameters, inputs = 4 * 16 * 16, 2 * 12 * 16
    assert plan.peak_bytes == 2 * (3 * parameters + inputs)  # each parameter has two moments
    assert plan.tool == "declaration, a lower bound"
    forward = one.model_copy(update={"mode": "forward"})
    assert declared_plan(model, forward).peak_bytes == 2 * (parameters + inputs)
    fixed = cell("Fix", framework)  # its logits are constants, which have no moments
    declared = model_of(fixed).parameters().values()
    trained = sum(p.size for p in declared if p.trainable)
    constant = sum(p.size for p in declared if not p.trainable)
    assert constant > 0
    assert declared_plan(model_of(fixed), fixed).peak_bytes == 4 * (3 * trained + constant + inputs)


@dataclass(frozen=True)
class NeedsValues(Mixer):
    name: ClassVar[str] = "needs_values"

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return {}

    def torch(self, sizes: Sizes) -> Any:
        return lambda p, x, padding_mask, causal: x * float(x.abs().max())


class Attends(NeedsValues):
    name: ClassVar[str] = "attends"

    def torch(self, sizes: Sizes) -> Any:
        from torch.nn.functional import scaled_dot_product_attention

        def forward(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            head = x[:, None]
            return scaled_dot_product_attention(head, head, head)[:, 0]

        return forward


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.usefixtures("registry")
def test_the_attention_kernel_of_the_device_is_predicted(mode: str) -> None:
    register(Attends)
    predicted, shown = both(cell("attends", mode=mode, seq_len=96, max_len=96))
    assert predicted == shown
    weights = 4 * 2 * 96 * 96  # which a fused kernel never allocates
    assert shown < weights


@pytest.mark.usefixtures("registry")
def test_a_mixer_that_needs_values_has_the_declarations_bound() -> None:
    register(NeedsValues)
    one = cell("needs_values", mode="forward")
    model = model_of(one)
    plan = predict(backend_of("torch"), model, one, random_batch(model, 2, 12))
    assert (plan.tool, plan.peak_bytes) == ("declaration, a lower bound", 4 * 2 * 12 * 16)


def test_only_what_exceeds_the_margin_is_refused() -> None:
    def predicted(size: int, available: int | None) -> PredictedMemory:
        return PredictedMemory(bytes=size, tool="a plan", available=available)

    for size, available in ((110, 100), (10**15, None), (0, 0)):
        require_memory(predicted(size, available))
    with pytest.raises(TooLargeError, match=r"need 2,000 MB \(a plan\), with 1,000 MB available"):
        require_memory(predicted(2 * 10**9, 10**9))
    with pytest.raises(TooLargeError, match="--force"):
        require_memory(predicted(1101, 1000))


def test_what_is_there_is_the_least_of_limit_and_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_prediction, "available_memory", lambda: 1000)
    device: Any = SimpleNamespace(free_memory=lambda name: {"cuda:1": 77}.get(name))
    assert available_memory_for(device, cell(), None) == 1000
    assert available_memory_for(device, cell(), 400) == 400
    assert available_memory_for(device, cell(), 4000) == 1000
    assert available_memory_for(device, cell(device="cuda:1"), None) == 77
    assert available_memory_for(device, cell(device="cuda:2"), None) is None


@pytest.mark.parametrize("framework", BACKENDS)
def test_a_cpu_has_no_device_memory(framework: str) -> None:
    assert backend_of(framework).free_memory("cpu") is None
