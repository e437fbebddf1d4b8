"""The limits at which a number is refused, a cell is too large, or a count is wrong, exactly."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from synthbench.backends.base import Backend
from synthbench.errors import NotationError, ShapeError
from synthbench.measure import ceiling as ceiling_module
from synthbench.measure.ceiling import ceiling_of, smallest_step_seconds
from synthbench.measure.memory_prediction import TooLargeError, declared_plan, require_memory
from synthbench.measure.plausibility import ImplausibleError, require_plausible, step_flops
from synthbench.mixers.base import Mixer, Parameter
from synthbench.mixers.declaration import cost, declared_parameters_of, flops_of
from synthbench.mixers.initializers import ONES
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.record import Flops, PredictedMemory, Timing
from synthbench.run_info import Ceiling
from synthbench.suites.cell import Cell, model_of

SIZES = Sizes.of(d_model=16, heads=4, max_len=12)


# --- plausible times ----------------------------------------------------------------------------

CEILING = Ceiling(
    framework="torch", dtype="float32", device="cpu", flops_per_second=2.0**30, matrix_size=512,
    bytes_per_second=1e10, seconds=1.0,
)  # fmt: skip


def steps(*samples: float, dispatch: float | None = None) -> Timing:
    return Timing(
        build_seconds=0, compile_seconds=0, first_step_seconds=0, warmup_steps=2,
        samples=list(samples), clock="perf_counter, waited", dispatch_seconds=dispatch,
    )  # fmt: skip


def refused(timing: Timing, flops: int, **options: Any) -> bool:
    counted = Flops(formula=None, traced=flops, traced_tool="tool")
    try:
        assert require_plausible("train", timing, counted, CEILING, **options) == []
    except ImplausibleError:
        return True
    return False


def test_a_rate_is_refused_above_110_percent_of_the_ceiling() -> None:
    for seconds in (0.5, 2.0):
        limit = int(1.1 * 2**30 * seconds)
        assert not refused(steps(seconds), limit)
        assert refused(steps(seconds), limit + 2)
        assert not refused(steps(seconds), 2 * limit, needed_share=0.5)
        assert refused(steps(seconds), 2 * limit + 4, needed_share=0.5)


@pytest.mark.parametrize(("share", "said"), [(1.0, False), (0.99, True), (0.5, True)])
def test_the_necessary_share_is_named_where_it_is_not_all(share: float, said: bool) -> None:
    counted = Flops(formula=None, traced=2**33, traced_tool="tool")
    with pytest.raises(ImplausibleError) as caught:
        require_plausible("train", steps(1.0), counted, CEILING, share)
    assert ("of which" in str(caught.value)) == said
    assert (f"at least {share:.0%} are necessary" in str(caught.value)) == said


def test_the_median_of_the_samples_is_judged() -> None:
    assert not refused(steps(0.001, 1.0, 1.0, 1.0, 9.0), 2**30)
    assert refused(steps(0.5, 0.5, 0.5, 9.0, 9.0), 2**30)
    assert not refused(steps(0.5, 1.5), 2**30)  # between the two in the middle


def test_half_of_the_smallest_step_is_the_shortest_time() -> None:
    assert not refused(steps(0.25, dispatch=0.5), 1)
    assert refused(steps(0.2499, dispatch=0.5), 1)
    assert not refused(steps(1e-9), 0)
    assert step_flops("forward", 100, 0) == 0  # counted, and none


# --- memory -------------------------------------------------------------------------------------


def test_a_prediction_is_refused_above_110_percent_of_what_is_available() -> None:
    require_memory(PredictedMemory(bytes=1100, tool="plan", available=1000))
    with pytest.raises(TooLargeError):
        require_memory(PredictedMemory(bytes=1101, tool="plan", available=1000))


def tiny(**changes: Any) -> Cell:
    content: dict[str, Any] = {
        "variant": "V", "framework": "torch", "mode": "train", "seq_len": 10, "batch": 3,
        "model": "mixer", "d_model": 16, "heads": 4, "max_len": 12, "compile": "eager",
    }  # fmt: skip
    return Cell.from_flat(**content | changes)


@pytest.mark.parametrize(("dtype", "item"), [("float32", 4), ("bfloat16", 2), ("float64", 8)])
def test_the_declared_bound_has_moments_only_when_training(dtype: str, item: int) -> None:
    train, forward = (tiny(dtype=dtype, mode=mode) for mode in ("train", "forward"))
    weights, inputs = 4 * 16 * 16, 3 * 10 * 16
    assert declared_plan(model_of(train), train).peak_bytes == item * (3 * weights + inputs)
    assert declared_plan(model_of(forward), forward).peak_bytes == item * (weights + inputs)
    sizes = {"model": "decoder", "layers": 1, "feed_forward": 8, "vocabulary": 11}
    stack = tiny(mode="forward", dtype=dtype, **sizes)  # its inputs are token numbers
    declared = sum(p.size for p in model_of(stack).parameters().values())
    assert declared_plan(model_of(stack), stack).peak_bytes == item * declared


# --- ceilings -----------------------------------------------------------------------------------


class Kernel:
    """Takes the next of these times; the last one from then on."""

    def __init__(self, clock: list[float], *seconds: float) -> None:
        self.clock, self.seconds, self.calls = clock, list(seconds), 0

    def __call__(self) -> int:
        self.calls += 1
        return self.calls

    def wait(self, produced: int) -> None:
        self.clock[0] += self.seconds[min(produced, len(self.seconds)) - 1]


def test_a_kernel_is_repeated_up_to_the_number_and_the_time_allowed() -> None:
    clock = [0.0]
    falling = Kernel(clock, *(1e-3 / n for n in range(1, 99)))
    assert ceiling_module.best_seconds(falling, lambda: clock[0]) == pytest.approx(1e-3 / 11)
    slow = Kernel(clock, 9.0, 0.25, 0.25, 0.25, 0.125)
    assert ceiling_module.best_seconds(slow, lambda: clock[0]) == 0.25  # 0.75 s are enough
    assert slow.calls == 1 + 3
    backend = cast(Backend, SimpleNamespace(smallest_step=lambda device: falling))
    falling.calls, falling.seconds = 0, [1.0 / n for n in range(1, 99)]
    assert smallest_step_seconds(backend, "cpu", lambda: clock[0]) == pytest.approx(1 / 51)


@pytest.mark.parametrize(("seconds", "sizes"), [(0.0749, [512, 1024]), (0.0751, [512])])
def test_a_larger_product_is_left_out_if_it_would_take_too_long(
    seconds: float, sizes: list[int]
) -> None:
    """A product of twice the side takes eight times as long; 0.6 s are allowed."""
    clock, seen = [0.0], []

    def products(dtype: str, device: str, size: int) -> list[Kernel]:
        seen.append(size)
        return [Kernel(clock, seconds * (size / 512) ** 3)]

    backend = cast(Backend, SimpleNamespace(
        name="torch", matrix_products=products, copy=lambda dtype, device, n: Kernel(clock, 1.0)
    ))  # fmt: skip
    found = ceiling_of(backend, "bfloat16", "cpu", lambda: clock[0])
    assert seen == sizes
    assert found.flops_per_second == pytest.approx(2 * 512**3 / seconds)
    assert found.bytes_per_second == 2 * 2**28  # read and written


# --- declarations -------------------------------------------------------------------------------


class Declared(Mixer):
    """A mixer whose declarations are set by the test."""

    name = "declared"
    returned: Any = None

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return {"a": Parameter((2, 3), ONES), "b": Parameter((5,), ONES, trainable=False)}

    def flops(self, sizes: Sizes, *, batch: int, seq_len: int) -> int | None:
        return cast(int, self.returned)


def test_parameters_and_constants_are_counted_apart() -> None:
    found = cost(Declared(), SIZES, batch=2, seq_len=12)
    assert (found.parameters, found.constants, found.flops) == (6, 5, None)


@pytest.mark.parametrize(("returned", "counted"), [(None, None), (0, 0), (7, 7), (7.0, 7)])
def test_a_count_is_an_integer_or_not_known(returned: Any, counted: int | None) -> None:
    mixer = Declared()
    mixer.returned = returned
    assert flops_of(mixer, SIZES, batch=1, seq_len=1) == counted


@pytest.mark.parametrize("returned", [7.5, "7", float("nan"), [7], -1, -2.0])
def test_a_count_of_another_kind_is_refused(returned: Any) -> None:
    mixer = Declared()
    mixer.returned = returned
    with pytest.raises(NotationError, match="return an integer of at least 0"):
        flops_of(mixer, SIZES, batch=1, seq_len=1)


@pytest.mark.parametrize(
    "returned",
    [None, [], {"a": 3}, {3: Parameter((1,), ONES)}, {"a": Parameter((1,), ONES), "b": 0}],
)
def test_declarations_of_another_kind_are_refused(returned: Any) -> None:
    owner = SimpleNamespace(parameters=lambda sizes: returned)
    with pytest.raises(NotationError, match=r"parameters\(\)"):
        declared_parameters_of(cast(Any, owner), SIZES)


def test_a_length_is_from_one_to_the_longest() -> None:
    mixer = parse("V")
    for length in (1, 12):
        assert cost(mixer, SIZES, batch=1, seq_len=length).flops
    for length in (0, -1, 13):
        with pytest.raises(ShapeError):
            cost(mixer, SIZES, batch=1, seq_len=length)
    with pytest.raises(ShapeError):
        cost(mixer, SIZES, batch=1, seq_len=2.5)  # type: ignore[arg-type]
    for batch in (0, -1):
        with pytest.raises(ShapeError):
            cost(mixer, SIZES, batch=batch, seq_len=1)
    with pytest.raises(ShapeError):
        SIZES.require_length(0)
