"""The baseline's step in the process of another cell, timed in turn with that cell's own steps.

What disturbs a process for all of its life, or the machine for a while, then changes both sides of
their ratio (duet benchmarking, Bulej et al. 2020, doi:10.1145/3358960.3379132; here in turns, as
two at the same time would share the cores).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from synthbench.backends.base import Backend, Step
from synthbench.backends.kernel_choice import take, taken_kernel, using_kernel
from synthbench.backends.kernel_record import recording_kernels
from synthbench.errors import SynthbenchError
from synthbench.kernel import Kernel
from synthbench.measure.between import SHORT_SECONDS, Beside, Times
from synthbench.measure.inputs import empty_batch, random_batch, setting_of
from synthbench.measure.memory_limit import raise_memory_limit
from synthbench.measure.memory_prediction import predict
from synthbench.measure.timing import timed
from synthbench.models.start_values import start_values
from synthbench.record import PairedBaseline
from synthbench.suites.cell import model_of
from synthbench.tasks.base import Baseline, TaskContext
from synthbench.tasks.programs import Programs, compile_or_load, counted_once

FEWEST_STEPS = 2  # of the baseline, that have to fit into `max_seconds`
# The first step of a longer baseline says well enough how long one takes: what its first use costs
# (tens of milliseconds in JAX) is a small part of it, and a turn has one such step in any case.
LONG_SECONDS = 0.15
# Otherwise the shortest of up to so many steps, which are not begun after so many seconds.
MOST_FIRST_STEPS = 4
FIRST_STEPS_SECONDS = 0.1


class NotPairedError(SynthbenchError):
    """A baseline whose steps cannot be timed beside a cell; the cell is measured without them."""


@dataclass(frozen=True)
class PairedStep:
    """The built step of the baseline; a call times it so many times."""

    baseline: Baseline
    step: Step
    kernels: list[str]
    kernel_choice: Kernel | None
    seconds: float  # of one step, about

    def __call__(self, times: int) -> list[float]:
        """The seconds of so many steps; a short one runs once before without being timed."""
        with using_kernel(self.baseline.kernel):
            if self.seconds < SHORT_SECONDS:
                self.step.wait(self.step())
            return [timed(self.step, self.step.wait) for _ in range(times)]

    @property
    def beside(self) -> Beside:
        """As `time_steps` takes it."""
        return Beside(self, self.seconds)

    def measured(self, found: Times) -> PairedBaseline:
        """What a record has of it."""
        return PairedBaseline(
            id=self.baseline.cell.id,
            kernels=self.kernels,
            kernel_choice=self.kernel_choice,
            after=found.after,
            seconds=[round(seconds, 9) for seconds in found.seconds],
        )


def build_paired(context: TaskContext, baseline: Baseline) -> PairedStep:
    """Build the baseline's step beside that of the cell, whose memory has been measured.

    Raises NotPairedError where it needs more memory than is left, or where its steps take too long
    for the cell's `max_seconds`.
    """
    cell = baseline.cell
    model = model_of(cell)
    batch = empty_batch(model, cell.batch, cell.seq_len)
    predict_it = partial(predict, context.backend, model, cell, batch)
    take(None)  # the last choice was the cell's, and the baseline may have none to make
    with using_kernel(baseline.kernel):
        plan = counted_once(context.programs, "memory", cell, baseline.kernel, predict_it)
    predicted = plan.peak_bytes
    _require_room(context, predicted)
    raise_memory_limit(predicted)
    step = build_step(context.backend, baseline)
    # As of the cell, not of what building runs: decoding fills its state there.
    with using_kernel(baseline.kernel), recording_kernels() as kernels:
        compile_baseline(step, baseline, context.programs)
        if (own := step.predict_memory()) is not None:
            _require_room(context, own.peak_bytes)
            raise_memory_limit(max(own.peak_bytes - predicted, 0))
        first = timed(step, step.wait)
        choice = taken_kernel()
        find = partial(usable_seconds, step, first, context.measure.max_seconds)
        of_run = None if context.programs is None else context.programs.only_of_run
        seconds = counted_once(of_run, "seconds", cell, baseline.kernel, find)
    return PairedStep(baseline, step, list(kernels), choice, seconds)


def usable_seconds(step: Step, first: float, max_seconds: float) -> float:
    """`about`; raises NotPairedError where it is too long for the `max_seconds` of a cell."""
    most = max_seconds / FEWEST_STEPS
    seconds = about(step, first, most)
    if seconds > most:
        raise NotPairedError(
            f"a step takes {seconds:.3g} s, and {FEWEST_STEPS} of them more than max_seconds "
            f"{max_seconds:g}"
        )
    return seconds


def about(step: Step, first: float, most: float) -> float:
    """Seconds of a step, about, whose first one took `first`; the number in a turn depends on it.

    `most`: a longer step cannot be used, so a first one of more is not believed at once.
    """
    found = [first]
    while len(found) < MOST_FIRST_STEPS:
        if LONG_SECONDS <= found[0] <= most or (
            len(found) > 1 and sum(found) >= FIRST_STEPS_SECONDS
        ):
            break
        found.append(timed(step, step.wait))
    return min(found)


def build_step(backend: Backend, baseline: Baseline) -> Step:
    """The step of the baseline, with the kernel that was chosen for it."""
    cell = baseline.cell
    model = model_of(cell)
    batch = random_batch(model, cell.batch, cell.seq_len, cell.seed)
    start = start_values(model.parameters(), cell.seed)
    with using_kernel(baseline.kernel):
        return backend.build(model, start, setting_of(cell), cell.mode, batch)


def compile_baseline(step: Step, baseline: Baseline, programs: Programs | None) -> None:
    """Compile the step of the baseline, or load the program that an earlier process has kept."""
    file = None if programs is None else programs.file(baseline.cell, baseline.kernel)
    with using_kernel(baseline.kernel):
        compile_or_load(step, file)


def _require_room(context: TaskContext, needed: int) -> None:
    """Raise NotPairedError unless so many bytes are left beside the peak of the cell itself."""
    memory = context.measured.memory
    if context.available_memory is None or memory is None or memory.peak is None:
        return
    if memory.peak + needed > context.available_memory:
        raise NotPairedError(
            f"it would need {needed / 1e6:,.0f} MB beside the {memory.peak / 1e6:,.0f} MB of the "
            f"cell, with {context.available_memory / 1e6:,.0f} MB available"
        )
