"""Numbers that cannot be true are refused with their reason, and true ones are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from synthbench.measure.plausibility import (
    FORMULA_SHARE,
    ImplausibleError,
    require_formula,
    require_plausible,
    step_flops,
)
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.record import Flops, Timing
from synthbench.run_info import Ceiling

SIZES = Sizes.of(d_model=8, heads=2, max_len=4)
CEILING = Ceiling(
    framework="torch", dtype="float32", device="cpu", flops_per_second=1e9, matrix_size=512,
    bytes_per_second=1e10, seconds=1.0,
)  # fmt: skip


def timing(seconds: float, dispatch: float | None = None) -> Timing:
    return Timing(
        build_seconds=0, compile_seconds=0, first_step_seconds=0, warmup_steps=2,
        samples=[seconds, seconds, 10 * seconds], clock="perf_counter, waited",
        dispatch_seconds=dispatch,
    )  # fmt: skip


def flops(traced: int | None, formula: int | None = None) -> Flops:
    return Flops(formula=formula, traced=traced, traced_tool="tool")


def test_over_the_ceiling_is_refused_beyond_its_noise() -> None:
    require_plausible("train", timing(1e-3), flops(1_000_000), CEILING)  # 100%
    require_plausible("train", timing(1e-3), flops(1_090_000), CEILING)
    with pytest.raises(ImplausibleError, match="120% of this device's best matrix-product rate"):
        require_plausible("train", timing(1e-3), flops(1_200_000), CEILING)
    require_plausible("train", timing(1e-3), flops(1_200_000), None)


def test_what_a_fused_form_may_leave_out_is_allowed_for() -> None:
    causal = Model.of("decoder", parse("V"), SIZES, vocabulary=11)
    assert causal.needed_share == 0.5
    assert Model.of("encoder", parse("V"), SIZES, vocabulary=11).needed_share == 1.0
    assert Model.of("mixer", parse("linformer"), SIZES).needed_share == 0.5
    twice = timing(1e-3), flops(2_190_000), CEILING
    require_plausible("train", *twice, needed_share=causal.needed_share)
    with pytest.raises(ImplausibleError, match="219% of"):
        require_plausible("train", *twice)
    necessary = r"of which at least 50% are necessary, in 1000 us is 221%"
    with pytest.raises(ImplausibleError, match=necessary):
        require_plausible("train", timing(1e-3), flops(2_210_000), CEILING, needed_share=0.5)


def test_several_devices_have_several_ceilings_but_on_a_cpu() -> None:
    gpu = CEILING.model_copy(update={"device": "cuda:1"})
    require_plausible("train", timing(1e-3), flops(2_100_000), gpu, devices=2)
    with pytest.raises(ImplausibleError, match="120% of 2 times this device's best matrix-prod"):
        require_plausible("train", timing(1e-3), flops(2_400_000), gpu, devices=2)
    cpu = CEILING.model_copy(update={"device": "cpu"})
    with pytest.raises(ImplausibleError, match="120% of this device's best matrix-product rate"):
        require_plausible("train", timing(1e-3), flops(1_200_000), cpu, devices=2)


def test_under_dispatch_is_refused() -> None:
    require_plausible("forward", timing(3e-6, dispatch=5e-6), None, CEILING)
    with pytest.raises(ImplausibleError, match=r"2\.00 us, less than half .*5\.00 us.*not awaited"):
        require_plausible("forward", timing(2e-6, dispatch=5e-6), None, CEILING)


def test_a_disturbed_ceiling_warns_and_refuses_nothing() -> None:
    disturbed = CEILING.model_copy(update={"warnings": ["another process was busy"]})
    (warning,) = require_plausible("train", timing(1e-3), flops(1_200_000), disturbed)
    assert "120%" in warning
    assert "disturbed" in warning
    assert require_plausible("train", timing(1e-3), flops(1_000_000), disturbed) == []


def test_a_formula_is_of_a_forward_pass_alone() -> None:
    assert step_flops("forward", 100, None) == 100
    assert step_flops("forward", 100, 90) == 90
    assert step_flops("train", 100, None) is None
    require_plausible("train", timing(1e-3), flops(None, 10**9), CEILING)
    with pytest.raises(ImplausibleError):
        require_plausible("forward", timing(1e-3), flops(None, 10**9), CEILING)


def test_trace_and_formula_may_differ_by_the_declared_share() -> None:
    assert FORMULA_SHARE == 0.10
    for traced in (900, 1000, 1100):
        require_formula("forward", flops(traced, 1000))
    for traced in (899, 1101, 0):
        message = rf"a forward pass has {traced} FLOPs as traced \(tool\) and 1000 by the mixer's"
        with pytest.raises(ImplausibleError, match=message):
            require_formula("forward", flops(traced, 1000))
    with pytest.raises(ImplausibleError):
        require_formula("forward", flops(1, 0))
    with pytest.raises(ImplausibleError, match=r"so flops\(\) of a mixer without any returns 0$"):
        require_formula("forward", flops(0, 4096))
    require_formula("forward", flops(0, 0))


def test_a_train_step_has_one_to_four_times_the_formula() -> None:
    for traced in (900, 3000, 4400):
        require_formula("train", flops(traced, 1000))
    for traced in (899, 4401):
        with pytest.raises(ImplausibleError, match=rf"step has {traced} FLOPs.* 1000 to 4000 by"):
            require_formula("train", flops(traced, 1000))


def test_a_trace_that_misses_operations_may_be_too_small_only() -> None:
    missing = flops(10, 1000)
    missing.uncounted = {"fft": 1}
    require_formula("forward", missing)
    missing.traced = 1101
    with pytest.raises(ImplausibleError):
        require_formula("forward", missing)


def test_without_formula_or_trace_nothing_is_compared() -> None:
    require_formula("forward", flops(1000, None))
    require_formula("forward", flops(None, 1000))


def test_no_committed_cell_has_a_count_that_is_refused() -> None:
    checked = 0
    for path in sorted((Path(__file__).parents[1] / "results").glob("*/*/records.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if (found := record["measurements"]["flops"]) is not None:
                require_formula(record["cell"]["mode"], Flops.model_validate(found))
                checked += 1
    assert checked > 2000
