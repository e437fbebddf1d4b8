"""What the harness needs from a framework; `backends/torch` and `backends/jax` implement it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from synthbench.devices import HOST
from synthbench.kernel import Kernel
from synthbench.mixers.base import Array, Mixer
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.recipe import Recipe


@dataclass(frozen=True)
class Setting:
    """How a model is run: floating-point type, device, form of the mixer, eager or compiled."""

    dtype: str = "float32"  # float32, bfloat16, float64
    device: str = HOST  # a name of `devices.py`, as cpu or cuda:1; the first of `devices`
    form: str = "auto"  # auto, fused, reference
    compile: str = "compiled"  # eager, compiled, cuda_graph
    quick: bool = False  # XLA compiles in less time, to slower code: for a check, not for timing
    devices: int = 1  # that share each batch of a training or of a train step


@dataclass(frozen=True)
class Batch:
    """One batch: `inputs` [B,L,d] floats (bare mixer) or [B,L] token ids, `targets` [B,L] ids."""

    inputs: Array
    targets: Array
    padding_mask: Array | None = None  # [B,L], True for a real token
    weights: Array | None = (
        None  # of the targets in the loss; None: 1 for real tokens, 0 for others
    )

    @property
    def loss_weights(self) -> Array | None:
        """The weights of the targets in the loss, in their shape; None: all are 1."""
        if self.weights is not None or self.padding_mask is None or self.targets.ndim == 1:
            return self.weights
        return self.padding_mask[:, -self.targets.shape[1] :]


@dataclass(frozen=True)
class Predictions:
    """What a model says about a batch: `classes` as its targets, the others [B] per example."""

    classes: Array  # the most likely class of each target
    losses: Array  # in nats: the sum over an example's targets, times their weights
    weights: Array  # the sum of these weights


@dataclass(frozen=True)
class TracedFlops:
    """FLOPs that a tool counted in the program itself (2 per multiply-accumulate)."""

    tool: str
    flops: int
    uncounted: Mapping[str, int] = field(
        default_factory=dict
    )  # operation -> how often it was found


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes that a framework plans for one step before running it."""

    tool: str
    peak_bytes: int  # arguments, outputs and temporaries together
    temporary_bytes: int


INPUT = "the input X"  # in place of a parameter's name


@dataclass(frozen=True)
class Gradients:
    """Outputs [B,L,...], loss and the gradient of every trained parameter, as NumPy arrays."""

    outputs: Array
    loss: float
    gradients: dict[str, Array]


@dataclass(frozen=True)
class DeviceInfo:
    """A device a framework can run on."""

    name: str  # cpu, cuda:0, ...
    description: str
    is_default: bool = False  # whether `auto` means devices of its kind


@dataclass(frozen=True)
class Trained:
    """The loss before each step, and every parameter and constant after the last step."""

    losses: list[float]
    parameters: dict[str, Array]


SAMPLE_SIZE = 2**14  # values of an output that are compared
FIRST_LOSSES = 2  # the second one also depends on the gradients of the first step


def sample_indices(size: int) -> Array:
    """Which values of `size` are compared: all, or SAMPLE_SIZE at random places."""
    if size <= SAMPLE_SIZE:
        return np.arange(size)
    return np.sort(np.random.default_rng(size).integers(0, size, SAMPLE_SIZE))


class Program(Protocol):
    """What can be compiled once, and loaded by other processes."""

    def compile(self) -> None:
        """Trace and compile for these shapes; what is eager does nothing."""

    def keep(self, file: Path, kernels: Sequence[str]) -> None:
        """Keep the compiled program, and the kernels in it, for `load`; nothing if that cannot be.

        `kernels`: those that were recorded while it was compiled.
        """

    def load(self, file: Path) -> bool:
        """Use the program that another process kept of the same; whether there was one.

        The kernels in it are recorded. Only for files of `keep`: one like these can hold any code.
        """


class Step(Program, Protocol):
    """One built step (forward, or a whole train step) on one batch, ready to be called.

    Call `compile` once, then the object itself as often as needed. A call may return before the
    device has finished: `wait` blocks until the results are complete.

    Several devices (`Setting.devices`) do a train step together, each with a copy of the model and
    an equal share of the batch; it is that of one device, up to rounding. It ends when the slowest
    of them is done. Bytes are of one copy of the model, and of the whole batch.
    """

    form: str | None  # of the mixer that was built: reference or fused; None for a plug-in's own
    parameter_count: int  # counted by the framework in the model that it built
    constant_count: int
    parameter_bytes: int  # trained and constant
    optimizer_bytes: int
    batch_bytes: int
    state_bytes: int  # what decoding keeps of earlier positions; 0 in other modes
    gradient_bytes: int  # allocated after a step: gradients, and weights kept for the next call

    @property
    def first_losses(self) -> list[float]:
        """The losses of the first FIRST_LOSSES train steps since it was built."""

    def __call__(self) -> Any:
        """Start one step and return its results, which may not be complete yet."""

    def wait(self, produced: Any) -> None:
        """Block until `produced`, and everything that the step changes, is complete."""

    def check(self, produced: Any) -> None:
        """Raise WrongOutputError unless what the first step returned is as declared and finite.

        Of a forward step these are the outputs, of a train step the loss. What else a framework
        can check without a cost per step, such as the shape of each mixer's output, it checks while
        it runs or compiles the first step.
        """

    def sample(self, produced: Any) -> Array:
        """At most SAMPLE_SIZE values of what a step returned: its outputs, or its loss.

        They are copied: what a step does later does not change them. Which values are taken
        depends on the number of values alone.
        """

    def restart(self, start: Callable[[str], Array]) -> None:
        """Give every parameter its start value, by name, and the optimizer its first state."""

    def predict_memory(self) -> MemoryPlan | None:
        """What the compiled program will allocate, before it runs; None if nothing is compiled."""

    def traced_flops(self) -> TracedFlops:
        """Count the FLOPs of this step from the program.

        Raises UnsupportedError where `missing_counters` says why there are none.
        """

    def compiler_flops(self) -> float | None:
        """The compiler's own count for this step; None if it has none."""

    def memory_plan(self) -> MemoryPlan | None:
        """What the framework plans to allocate for this step; None if it has no plan.

        Of several devices, for one of them; on a CPU for all together.
        """

    def device_seconds(self, ahead: float) -> float | None:
        """Do a step; its seconds on the device, without pauses; None: not known.

        `ahead`: the seconds that the host needs to queue all of it, at most.
        """

    def reset_device_peak(self) -> None:
        """Reset the peak of the device's allocator, if it has one."""

    def device_peak_bytes(self) -> int | None:
        """Peak of the device's allocator, see `device_peak_method`; None: not counted."""

    @property
    def device_peak_method(self) -> str:
        """Since when this peak counts, for records."""

    @property
    def missing_counters(self) -> Mapping[str, str]:
        """Why numbers of this step are not known, by metric; empty for one device that is a CPU.

        The metrics are peak_bytes, device_seconds, traced_flops and compiler_flops; one that is
        known is not among them.
        """

    def in_every_process(self, act: Callable[[], Any]) -> Any:
        """Do something before the next step in each process that computes it; what it gave here.

        Where there are several processes, `act` must be picklable.
        """

    def close(self) -> None:
        """End what was started for further devices; no method may be called after it."""


class Trainer(Protocol):
    """A model in training; the same start values and batches give the same parameters.

    Several devices (`Setting.devices`) hold a copy of the model each, and get equal shares of every
    batch. A step is that of one device, up to rounding: the loss is the mean over the whole batch.
    """

    parameter_count: int  # counted by the framework in the model that it built
    constant_count: int

    def step(self, batch: Batch, learning_rate: float) -> Any:
        """Start a train step and return its loss, which may not be complete yet."""

    def losses(self, produced: Sequence[Any]) -> Array:
        """The losses that steps returned, as float64; blocks until all is complete."""

    def predict(self, batch: Batch) -> Predictions:
        """What the model says about a batch, without label smoothing."""

    def parameters(self) -> dict[str, Array]:
        """Every parameter and constant by declared name."""

    def state(self) -> dict[str, Array]:
        """All that training goes on from: parameters, constants and the optimizer's moments."""

    def restore(self, state: Mapping[str, Array], steps: int) -> None:
        """Go on from what `state` gave after this many steps; the next steps give the same bits."""

    def close(self) -> None:
        """End what was started for further devices; no method may be called after it."""


# In `Trainer.state`, before the name of a parameter.
VALUE, FIRST_MOMENT, SECOND_MOMENT = "value/", "first_moment/", "second_moment/"


class Work(Protocol):
    """What can be done again and again; `wait` works as in `Step`."""

    def __call__(self) -> Any:
        """Start the work and return its result, which may not be complete yet."""

    def wait(self, produced: Any) -> None:
        """Block until `produced` is complete."""


class Operation(Work, Program, Protocol):
    """One operation; its first call compiles it, unless `compile` or `load` was called before."""


Prepare = Callable[[str, Operation], None]  # compiles or loads an operation, given its name


class Backend(Protocol):
    """A framework, loaded in this process: the functions of `backends/*/backend.py`."""

    name: str

    def version(self) -> str:
        """The framework's version."""

    def devices(self) -> list[DeviceInfo]:
        """Every device that the framework finds; starts the framework's runtime."""

    def require_device(self, device: str) -> None:
        """Raise FrameworkMissingError, which lists the devices, if the device is not found."""

    def set_threads(self, threads: int) -> None:
        """Limit the threads of one operation; call it before the first operation."""

    def free_memory(self, device: str) -> int | None:
        """Bytes that could still be allocated on a device; None on a CPU, and if not known."""

    def predict_memory(
        self, model: Model, setting: Setting, mode: str, batch: Batch
    ) -> MemoryPlan | None:
        """What a step will allocate, from shapes alone: nothing is built on the device.

        None if only the compiled program can say it.
        """

    def offer_kernels(
        self, model: Model, setting: Setting, mode: str, batch: Batch
    ) -> list[Kernel]:
        """The kernels that the form could use for a step, its first choice first.

        Empty for code that has no choice. Nothing is computed, and no memory is allocated.
        """

    def form_of(self, mixer: Mixer, form: str) -> str | None:
        """The form that is built for `form`; None for a plug-in's own code."""

    def numerics(self) -> dict[str, Any]:
        """Threads, matmul precision and TF32 as cells use them, and what the build supports."""

    def matrix_products(self, dtype: str, device: str, size: int) -> Sequence[Operation]:
        """A [size,size] by [size,size] matrix product, in each library that there is for it."""

    def copy(self, dtype: str, device: str, elements: int) -> Operation:
        """A copy of `elements` values: each is read once and written once."""

    def smallest_step(self, device: str) -> Operation:
        """The smallest possible operation on the device: it takes as long as dispatch."""

    def build(
        self, model: Model, start: Mapping[str, Array], setting: Setting, mode: str, batch: Batch
    ) -> Step:
        """Build the model with these start values, and a step of `mode`: forward, train, decode.

        A step of mode `decode` decodes the last position of the batch, and returns its logits
        [B,V]; the positions before it, and the source, are read here. Each step does the same.

        Raises UnsupportedError if there are fewer devices than the setting wants, and for another
        mode than train on several.
        """

    def apply(
        self,
        mixer: Mixer,
        sizes: Sizes,
        parameters: Mapping[str, Array],
        x: Array,
        setting: Setting,
        *,
        padding_mask: Array | None = None,
        causal: bool = False,
    ) -> Array:
        """Y [B,L,d] of a mixer alone, as a NumPy array (float32 for bfloat16)."""

    def outputs(
        self, model: Model, start: Mapping[str, Array], setting: Setting, batch: Batch
    ) -> Array:
        """Outputs of a forward step, which computes no gradients."""

    def gradients(
        self,
        model: Model,
        start: Mapping[str, Array],
        setting: Setting,
        batch: Batch,
        *,
        of_input: bool = False,
    ) -> Gradients:
        """Outputs, loss and gradients of one batch at the start values.

        `of_input`: also the gradient with respect to X of a mixer alone, under the name INPUT.
        """

    def train(
        self, model: Model, start: Mapping[str, Array], setting: Setting, batches: Sequence[Batch]
    ) -> Trained:
        """One Adam step per batch, in order."""

    def trainer(
        self, model: Model, start: Mapping[str, Array], setting: Setting, recipe: Recipe
    ) -> Trainer:
        """Build the model with these start values, to be trained by a recipe.

        Raises UnsupportedError if there are fewer devices than the setting wants.
        """

    def generate(
        self,
        model: Model,
        parameters: Mapping[str, Array],
        setting: Setting,
        prompts: Array,
        *,
        length: int,
        beams: int = 1,
        end: int | None = None,
        penalty: float = 0.0,
        begin: int = 0,
        padding_mask: Array | None = None,
    ) -> Array:
        """Token ids [B, length] that follow the prompts [B,L], by greedy or beam search.

        The prompts of an encoder-decoder are sources, with a padding_mask [B,L], True = a real
        token, and its first target token is `begin`; a decoder continues prompts of one length.
        From the token `end` on all are `end`. `penalty`: see `models.generation.Search`. Raises
        UnsupportedError for a model that cannot decode, ShapeError for wrong prompts and for
        lengths above max_len.
        """


BACKENDS: dict[str, str] = {
    "torch": "synthbench.backends.torch.backend",
    "jax": "synthbench.backends.jax.backend",
}
