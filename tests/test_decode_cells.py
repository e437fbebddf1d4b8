"""Cells of mode `decode`: planned, checked, measured, and shown."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
import torch

from synthbench.backends.base import BACKENDS, Backend
from synthbench.errors import ShapeError, UnsupportedError
from synthbench.measure.inputs import random_batch, setting_of
from synthbench.measure.memory_prediction import ITEM_BYTES, declared_plan
from synthbench.measure.parity import parity_key, reference_outputs
from synthbench.measure.parity_inputs import random_parameters
from synthbench.measure.plausibility import ImplausibleError
from synthbench.models.state import decode_flops, state_bytes
from synthbench.record import Measurements, Memory, Timing
from synthbench.report.tables.catalog import make_tables
from synthbench.suites.cell import Cell, model_of
from synthbench.suites.measure import Measure
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import load_suite
from synthbench.tasks.base import TaskContext
from synthbench.tasks.catalog import check_task
from synthbench.tasks.cost import Cost, require_declared_state
from tests.decoders import FRAMEWORKS
from tests.test_tables import record, run_of
from tests.variants import VARIANTS

QUICK = Measure(min_samples=5, min_seconds=0.01, max_seconds=0.2)


def backend_of(framework: str) -> Backend:
    return cast(Backend, importlib.import_module(BACKENDS[framework]))


def decode_cell(variant: str, framework: str, kind: str = "decoder", **changes: Any) -> Cell:
    content: dict[str, Any] = {
        "model": kind, "d_model": 16, "heads": 4, "max_len": 12, "layers": 2, "vocabulary": 40,
        "feed_forward": 24, "batch": 2, "seq_len": 9, "mode": "decode", "variant": variant,
        "framework": framework, "compile": "compiled" if framework == "jax" else "eager",
    }  # fmt: skip
    if kind == "encoder_decoder":
        content["target_len"] = 7
    return Cell.from_flat(**content | changes)


def built(cell: Cell, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """Model, start values, batch and step of a cell."""
    model = model_of(cell)
    start, batch = random_parameters(model, seed), random_batch(model, cell.batch, cell.seq_len)
    step = backend_of(cell.framework).build(model, start, setting_of(cell), "decode", batch)
    return model, start, batch, step


@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
@pytest.mark.parametrize(
    ("variant", "framework"),
    [*((v, "torch") for v in VARIANTS if "linformer" not in v),
     ("D(tie_query=true)+V", "torch"), ("D(tie_query=true)+V", "jax")],
)  # fmt: skip
def test_the_traced_flops_of_a_token_equal_the_formula(
    variant: str, framework: str, kind: str
) -> None:
    """Also where two components share a projection, which is to be computed once."""
    cell = decode_cell(variant, framework, kind, positions="relative")
    model, _, _, step = built(cell)
    formula = decode_flops(model, framework, batch=2, seq_len=9)
    traced = step.traced_flops()
    assert (traced.flops, dict(traced.uncounted)) == (formula, {})


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    ("variant", "kind"),
    [("V", "decoder"), ("conv_relu_conv+R", "decoder"), ("dynamic_conv", "encoder_decoder")],
)
def test_every_step_decodes_the_same_position(variant: str, kind: str, framework: str) -> None:
    for seq_len in (1, 9):
        cell = decode_cell(variant, framework, kind, dtype="float64", seq_len=seq_len)
        model, start, batch, step = built(cell)
        step.compile()
        want = reference_outputs(model, start, batch)[:, -1]
        for _ in range(3):
            produced = step()
            step.wait(produced)
            step.check(produced)
            found = step.sample(produced).reshape(want.shape)
            np.testing.assert_allclose(found, want, rtol=0, atol=1e-10)
        positions = model.target_len or seq_len
        assert step.state_bytes == state_bytes(
            model, framework, batch=2, positions=positions, source_len=seq_len, item_bytes=8
        )
        traced = step.traced_flops()
        assert traced.flops == decode_flops(model, framework, batch=2, seq_len=seq_len)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_cell_is_measured(framework: str) -> None:
    cell = decode_cell("D+V", framework)
    stages: list[str] = []
    measured = Measurements()
    context = TaskContext(
        backend_of(framework), cell, QUICK, measured, lambda stage, _: stages.append(stage)
    )
    task = Cost()
    measured.parity = task.check_parity(context.backend, cell)
    assert measured.parity.passed and measured.parity.against == "numpy"
    assert measured.parity.forward is not None and 0 < measured.parity.forward < 2e-5
    assert task.run(context) == []
    assert measured.timing is not None and len(measured.timing.samples) >= 5
    assert measured.memory is not None and measured.flops is not None
    want = state_bytes(context.model, framework, batch=2, positions=9, item_bytes=4)
    assert measured.memory.state == want == 2 * 4 * 2 * (2 * 9 * 16)
    assert measured.flops.formula == measured.flops.traced
    assert measured.flops.formula == decode_flops(context.model, framework, batch=2, seq_len=9)
    assert "repeating the first steps" not in stages  # of train steps
    assert measured.warnings == [] or all("parity" not in each for each in measured.warnings)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within torch's compiler
@pytest.mark.parametrize(("variant", "positions"), [("FR+V", "relative"), ("R", "sinusoidal")])
def test_a_compiled_step_in_torch_decodes_the_same(
    variant: str, positions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traced and made functional as for any back end of torch.compile, without its C++ compiler."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    cell = decode_cell(variant, "torch", compile="compiled", positions=positions)
    model, start, batch, step = built(cell)
    step.compile()
    want = reference_outputs(model, start, batch)[:, -1]
    for _ in range(2):
        np.testing.assert_allclose(
            step.sample(step()).reshape(want.shape), want, rtol=1e-4, atol=1e-4
        )
    torch.compiler.reset()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_parity_is_checked_at_its_own_length(framework: str) -> None:
    task, backend = Cost(), backend_of(framework)
    cell = decode_cell("light_conv", framework, seq_len=12)
    found = task.check_own_length(backend, cell, None)
    assert found.passed and found.against == "numpy" and found.forward is not None
    assert found.gradient is None and found.forward < 2e-5
    short = task.check_own_length(backend, cell, available=1)
    assert "needs" in short.reason and short.forward is None


class Planted:
    """A back end whose decoded logits are wrong by a little at one position."""

    def __init__(self, backend: Backend, error: float) -> None:
        self.backend, self.error = backend, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def build(self, *arguments: Any) -> Any:
        step: Any = self.backend.build(*arguments)
        sample, error = step.sample, self.error

        def wrong(produced: Any) -> Any:
            values = np.array(sample(produced))
            values[-1] += error
            return values

        step.sample = wrong
        return step


@pytest.mark.parametrize("error", [1e-2, float("nan")])
def test_a_wrong_decoded_token_fails_parity(error: float) -> None:
    cell = decode_cell("V", "torch")
    planted = cast(Backend, Planted(backend_of("torch"), error))
    assert not Cost().check_parity(planted, cell).passed
    assert not Cost().check_own_length(planted, cell, None).passed
    assert Cost().check_parity(backend_of("torch"), cell).passed


def test_decoding_has_its_own_parity_check() -> None:
    cell = decode_cell("V", "torch")
    keys = {parity_key(cell.changed(mode=mode)) for mode in ("forward", "train", "decode")}
    assert len(keys) == 2


def test_a_state_that_is_not_as_declared_is_implausible() -> None:
    cell = decode_cell("V", "torch")
    model, _, _, step = built(cell)
    require_declared_state(step, model, cell)
    step.state_bytes += 1
    with pytest.raises(ImplausibleError, match="by the mixer's declaration"):
        require_declared_state(step, model, cell)


@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
def test_the_prediction_contains_the_state(kind: str) -> None:
    for dtype, item in ITEM_BYTES.items():
        cell = decode_cell("V", "torch", kind, dtype=dtype)
        model = model_of(cell)
        parameters = sum(p.size for p in model.parameters().values()) * item
        positions = model.target_len or cell.seq_len
        state = state_bytes(
            model, "torch", batch=2, positions=positions, source_len=9, item_bytes=item
        )
        assert declared_plan(model, cell).peak_bytes == parameters + state
        predicted = backend_of("torch").predict_memory(
            model, setting_of(cell), "decode", random_batch(model, 2, 9)
        )
        assert predicted is None  # so that this declaration is taken


def test_what_cannot_decode_is_skipped_with_its_reason() -> None:
    for kind, more in (("mixer", {"layers": 1}), ("encoder", {}), ("classifier", {"labels": 2})):
        with pytest.raises(UnsupportedError, match="use model decoder or encoder_decoder"):
            check_task(decode_cell("V", "torch", kind, **more))
    with pytest.raises(UnsupportedError, match="linformer cannot be causal"):
        check_task(decode_cell("linformer", "torch"))
    with pytest.raises(ShapeError, match="length 13"):
        check_task(decode_cell("V", "torch", seq_len=13))


def test_the_suite_decodes_on_every_device() -> None:
    for device in ("cpu", "cuda"):
        plan = make_plan(load_suite("decode"), device)
        assert plan.cells and not plan.skipped
        assert {cell.mode for cell in plan.cells} == {"decode"}


def test_the_tables_show_time_and_state_by_length() -> None:
    def measured(cell: Cell) -> Any:
        made = record(cell)
        found = made.measurements
        found.timing = Timing(
            build_seconds=0, compile_seconds=0, first_step_seconds=0, warmup_steps=0,
            samples=[cell.seq_len / 1e6] * 5, clock="x",
        )  # fmt: skip
        found.memory = Memory(
            parameters=1, optimizer=0, batch=1, state=cell.seq_len * 10**6, peak=10**9, method="x"
        )
        return made

    cells = [
        decode_cell("V", framework, max_len=256, seq_len=seq_len)
        for framework in FRAMEWORKS
        for seq_len in (100, 200)
    ]
    tables = {table.name: table for table in make_tables(run_of([measured(c) for c in cells]))}
    table = tables["decode"]
    assert [column.name for column in table.columns] == [
        "framework", "variant", "L=100 ms/token", "L=100 state MB", "L=200 ms/token",
        "L=200 state MB",
    ]  # fmt: skip
    assert table.shown == [[fw, "V", "0.100", "100", "0.200", "200"] for fw in FRAMEWORKS]
    assert "decoded token" in tables["cost"].note
    assert "jax state" in [column.name for column in tables["memory_parts"].columns]
    others = {t.name for t in make_tables(run_of([record(cells[0].changed(mode="forward"))]))}
    assert "decode" not in others
