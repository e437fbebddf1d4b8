"""Choose the kernels of a form for the shapes of cells, by timing all that it declares."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from synthbench.analysis.kernel_race import COMPARED, race, winner
from synthbench.backends.base import BACKENDS, Backend, Step
from synthbench.backends.kernel_choice import using_kernel
from synthbench.backends.kernel_record import REFERENCE_KERNEL
from synthbench.devices import is_host
from synthbench.errors import SynthbenchError
from synthbench.kernel import Kernel
from synthbench.measure.allocator import keep_freed_memory
from synthbench.measure.core_distance import FAR, are_far, bring_cores_together, core_distance
from synthbench.measure.inputs import empty_batch, random_batch, setting_of
from synthbench.measure.interference import InterferenceMonitor
from synthbench.measure.memory_prediction import (
    TooLargeError,
    available_memory_for,
    declared_plan,
    predict,
)
from synthbench.measure.new_pages import steady_seconds
from synthbench.measure.timing import timed
from synthbench.mixers.attention import Attention
from synthbench.mixers.base import Mixer
from synthbench.mixers.notation import parse
from synthbench.models.model import Model
from synthbench.models.spec import ModelSpec
from synthbench.models.start_values import start_values
from synthbench.run_info import KernelChoice, KernelTime
from synthbench.suites.cell import Cell, model_of

SECONDS = 0.3  # per cell, after the kernels are built; the least number of rounds may take longer
# That two steps of each kernel may take: beyond it, a shorter length or another batch decides.
MOST_SECONDS = 5.0
ATTEMPTS = 2  # a race that something disturbed is repeated
# Seconds: one that took longer has steps that another process changes little. Far cores change all.
REPEATED_UP_TO = 1.0
OWN = "synthbench."  # the modules of mixers and components that are not from a plug-in
CONSTANT = frozenset({"random", "fixed_random"})  # components whose weights do not depend on X


class Offer(NamedTuple):
    """The kernels that a cell could use; cells of the same `work` may share a choice."""

    kernels: tuple[Kernel, ...]
    work: str
    flops: int = 0  # of a forward pass; 0: no formula


class LongStepsError(SynthbenchError):
    """The kernels of a cell take too long to time them."""


class Timed(NamedTuple):
    """The choice for a cell, or why there is none."""

    choice: KernelChoice | None
    is_own: bool  # whether no plug-in's code was timed, which may change without a trace
    problem: str = ""
    is_long: bool = False  # whether its steps take too long to time them


def has_choice(cell: Cell) -> bool:
    """Whether the form of a cell may have several kernels that a run can choose from.

    What torch.compile makes is not among them: it chooses by itself.
    """
    return cell.form != "reference" and not (
        cell.framework == "torch" and cell.compile == "compiled"
    )


def raced_cell(cell: Cell) -> Cell:
    """The cell whose kernels are timed for a cell: the mixer at its shapes, and little around it.

    A mixer of a stack is timed alone, unless it is causal or has a position bias. Where several
    devices share a batch, it is timed with what one of them gets.
    """
    spec = cell.model
    kept = {n: getattr(spec, n) for n in ("d_model", "heads", "head_dim", "max_len")}
    if spec.kind in ("decoder", "encoder_decoder") or spec.positions == "relative":
        names = ("kind", "positions", "target_len", "cross_heads", "cross_head_dim")
        kept |= {name: getattr(spec, name) for name in names}
        kept |= {"layers": 1, "feed_forward": 1, "vocabulary": 2}
        kept |= {"labels": 2 if spec.labels else None}
    model = ModelSpec(**{"kind": "mixer", **kept})
    plain = {"task": "cost", "options": {}, "form": "auto", "seed": 0, "label": "", "replica": 0}
    of_a_device = {"batch": cell.batch // cell.devices, "devices": 1}
    return cell.changed(model=model, **plain, **of_a_device)


def offers(cells: Sequence[dict[str, Any]]) -> list[Offer]:
    """What each raced cell, given as JSON, could use; no kernels where it cannot run."""
    return [_offer_of(Cell.model_validate(cell)) for cell in cells]


def _offer_of(cell: Cell) -> Offer:
    backend = _backend_of(cell)
    try:
        model = model_of(cell)
        if backend.form_of(model.mixer, cell.form) != "fused":
            return Offer((), "")
        flops = model.flops(batch=cell.batch, seq_len=cell.seq_len)
        kernels = tuple(_kernels_of(backend, model, cell))
        return Offer(kernels, work_of(model.mixer, cell.variant), flops or 0)
    except Exception:  # whatever is wrong with a mixer, the check of its results will say it
        return Offer((), "")


def _kernels_of(backend: Backend, model: Model, cell: Cell) -> list[Kernel]:
    batch = empty_batch(model, cell.batch, cell.seq_len)
    return backend.offer_kernels(model, setting_of(cell), cell.mode, batch)


def work_of(mixer: Mixer, variant: str) -> str:
    """Equal for mixers whose kernels of the same name do about the same work."""
    if not isinstance(mixer, Attention) or not is_own(mixer):
        return variant
    names = {component.name for component in mixer.components}
    return "attention, constant weights" if names <= CONSTANT else "attention"


def is_own(mixer: Mixer) -> bool:
    """Whether a mixer and its components are of this package, not of a plug-in."""
    parts = (mixer, *getattr(mixer, "components", ()))
    return all(type(part).__module__.startswith(OWN) for part in parts)


def choose_kernel(
    cell: dict[str, Any],
    memory_bytes: int | None,
    seconds: float = SECONDS,
    cores_may_be_near: bool = True,
    most_seconds: float = MOST_SECONDS,
    keep_memory: bool = True,
) -> Timed:
    """The choice for a raced cell, given as JSON.

    `memory_bytes`: what it may use at most, None: all that is available. `seconds`: of the race,
    where that is enough for a few steps of each kernel. `cores_may_be_near`: whether far cores are
    a disturbance, see `UsualDistance`. `most_seconds`: that two steps of each kernel may take.
    `keep_memory`: whether the process keeps freed memory, as those of runs do; if not, each step
    pays for its new pages, as in a user's process.
    """
    asked = Cell.model_validate(cell)
    own = is_own(parse(asked.variant))
    try:
        backend = _backend_of(asked)
        available = available_memory_for(backend, asked, memory_bytes)
        choice = choice_of(
            backend, asked, seconds, available, cores_may_be_near, most_seconds, keep_memory
        )
        return Timed(choice, own)
    except LongStepsError as error:
        return Timed(None, own, str(error), is_long=True)
    except Exception as error:  # such as out of memory: other lengths may do
        kind = "" if isinstance(error, SynthbenchError) else f"{type(error).__name__}: "
        return Timed(None, own, f"{asked.variant} at {asked.seq_len}: {kind}{error}")


def choice_of(
    backend: Backend,
    cell: Cell,
    seconds: float = SECONDS,
    available: int | None = None,
    cores_may_be_near: bool = True,
    most_seconds: float = MOST_SECONDS,
    keep_memory: bool = True,
) -> KernelChoice | None:
    """The choice for a raced cell in this process; None if there is none to make.

    Raises TooLargeError if the steps of all kernels together need more than `available` bytes, and
    LongStepsError if two steps of each would take longer than `most_seconds`.
    """
    model, setting = model_of(cell), setting_of(cell)
    kernels = _kernels_of(backend, model, cell)
    if len(kernels) < 2:
        return None
    require_room(backend, model, cell, len(kernels), available)
    batch = random_batch(model, cell.batch, cell.seq_len)
    start = start_values(model.parameters())

    def built(kernel: Kernel) -> Step:
        step = backend.build(model, start, setting, cell.mode, batch)
        with using_kernel(kernel):
            step.compile()
            step.wait(step())
        return step

    if keep_memory:
        keep_freed_memory()
    steps, failed = {kernels[0]: built(kernels[0])}, {}
    if is_long(_timer(steps, keep_memory), kernels, most_seconds):
        raise LongStepsError(f"{cell.variant} at {cell.seq_len}: its steps take too long to time")
    for kernel in kernels[1:]:
        try:
            steps[kernel] = built(kernel)
        except Exception as error:  # a kernel that fails here is not one to choose
            failed[kernel.name] = f"{type(error).__name__}: {error}"
    once = _timer(steps, keep_memory)
    plain = next((kernel for kernel in steps if kernel.path == REFERENCE_KERNEL), None)
    for _ in range(ATTEMPTS):
        # Which kernel is the fastest depends on how fast the cores exchange data.
        before = bring_cores_together(cores_may_be_near) if is_host(cell.device) else None
        begin = time.perf_counter()
        with InterferenceMonitor(cell.device) as monitor:
            samples = race(list(steps), once, seconds, time.perf_counter, plain)
        took = time.perf_counter() - begin
        distance = None if before is None else max(before, core_distance() or before)
        far = far_cores(distance) if cores_may_be_near else []
        if not far and (not monitor.warnings or took > REPEATED_UP_TO):
            break
    return KernelChoice(
        cell=cell,
        chosen=winner(samples, plain),
        kernels=[
            KernelTime(kernel=kernel, samples=[round(value, 9) for value in found])
            for kernel, found in samples.items()
        ],
        compared=COMPARED,
        failed=failed,
        warnings=monitor.warnings + far,
        core_distance=distance,
    )


def far_cores(distance: float | None) -> list[str]:
    """A warning where the `core_distance` around a race was above FAR; None: not known."""
    if distance is None or not are_far(distance):
        return []
    return [
        f"what one core wrote took another {distance:.1f} times as long to read as what it wrote "
        f"itself (near: at most {FAR:g}); the cores were far apart"
    ]


def is_long(
    timed: Callable[[Kernel], float], kernels: Sequence[Kernel], most_seconds: float
) -> bool:
    """Whether two steps of each kernel take too long, by the first one; its first step may."""
    return all(2 * len(kernels) * timed(kernels[0]) > most_seconds for _ in range(2))


def require_room(
    backend: Backend, model: Model, cell: Cell, steps: int, available: int | None
) -> None:
    """Raise TooLargeError unless so many steps, of which one runs at a time, fit into memory."""
    if available is None:
        return
    batch = empty_batch(model, cell.batch, cell.seq_len)
    held = declared_plan(model, cell).peak_bytes
    needed = predict(backend, model, cell, batch).peak_bytes + steps * held
    if needed > available:
        raise TooLargeError(
            f"{steps} kernels at a time need about {needed / 1e6:,.0f} MB, with "
            f"{available / 1e6:,.0f} MB available"
        )


def _timer(steps: dict[Kernel, Step], keep_memory: bool) -> Callable[[Kernel], float]:
    def once(kernel: Kernel) -> float:
        step = steps[kernel]
        with using_kernel(kernel):
            if not keep_memory:  # every step gets new pages, and their time counts
                return timed(step, step.wait)
            return steady_seconds(lambda: timed(step, step.wait))

    return once


def _backend_of(cell: Cell) -> Backend:
    return cast(Backend, importlib.import_module(BACKENDS[cell.framework]))
