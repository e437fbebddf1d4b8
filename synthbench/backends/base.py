"""What the harness asks of a framework; `backends/torch` and `backends/jax` answer it alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from synthbench.errors import ShapeError, UnsupportedError
from synthbench.mixers.base import Array, Mixer
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model


@dataclass(frozen=True)
class Setting:
    """How a model is run: floating-point type, device, form of the mixer, eager or compiled."""

    dtype: str = "float32"  # float32, bfloat16, float64
    device: str = "cpu"  # cpu, cuda, cuda:N
    form: str = "auto"  # auto, fused, reference
    compile: str = "compiled"  # eager, compiled


@dataclass(frozen=True)
class Batch:
    """One batch: `inputs` [B,L,d] floats (bare mixer) or [B,L] token ids, `targets` [B,L] ids."""

    inputs: Array
    targets: Array
    padding_mask: Array | None = None


@dataclass(frozen=True)
class TracedFlops:
    """FLOPs counted by a tool from the program itself (2 a multiply-accumulate)."""

    tool: str
    flops: int
    uncounted: Mapping[str, int] = field(default_factory=dict)  # operation -> times met


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes a framework plans for one step, before it is run."""

    tool: str
    peak_bytes: int  # arguments, outputs and temporaries together
    temporary_bytes: int


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


@dataclass(frozen=True)
class Trained:
    """The loss before each step, and every parameter and constant after the last."""

    losses: list[float]
    parameters: dict[str, Array]


class Step(Protocol):
    """One built step (forward, or a whole train step) on one batch, ready to be called.

    `compile` is called once, first; then the object itself, as often as wanted. A call may return
    before the device is done: `wait` blocks until what the call returned is there.
    """

    form: str | None  # of the mixer, as built: reference or fused; None for a plug-in's own
    parameter_count: int  # counted by the framework from what it built
    constant_count: int
    parameter_bytes: int  # trained and constant
    optimizer_bytes: int
    batch_bytes: int
    gradient_bytes: int  # gradients, and weights kept for the next call, held when a step is over

    def compile(self) -> None:
        """Trace and compile for this batch's shapes; nothing in an eager framework."""

    def __call__(self) -> Any:
        """Start one step and return what it will produce."""

    def wait(self, produced: Any) -> None:
        """Block until `produced`, and everything the step changed, is really there."""

    def predict_memory(self) -> MemoryPlan | None:
        """What the compiled program will allocate, before it runs; None where none is compiled."""

    def traced_flops(self) -> TracedFlops:
        """Count the FLOPs of this step from the program."""

    def compiler_flops(self) -> float | None:
        """The compiler's own count of this step; None where there is none."""

    def memory_plan(self) -> MemoryPlan | None:
        """What the framework plans to allocate for this step; None where it cannot tell."""

    def reset_device_peak(self) -> None:
        """Start a new peak on the device's allocator; nothing on a CPU."""

    def device_peak_bytes(self) -> int | None:
        """Peak of the device's allocator since the reset; None on a CPU."""


class Kernel(Protocol):
    """One operation, ready to be called; called and waited for as a `Step` is."""

    def __call__(self) -> Any:
        """Start the operation and return what it will produce."""

    def wait(self, produced: Any) -> None:
        """Block until `produced` is really there."""


class Backend(Protocol):
    """A framework, loaded in this process. Module-level functions in `backends/*/backend.py`."""

    name: str

    def version(self) -> str:
        """The framework's version."""

    def devices(self) -> list[DeviceInfo]:
        """Every device this framework sees; starts the framework's runtime."""

    def require_device(self, device: str) -> None:
        """Raise FrameworkMissingError, saying what it sees, unless the device is there."""

    def set_threads(self, threads: int) -> None:
        """Bound the threads of one operation; call before the first operation."""

    def free_memory(self, device: str) -> int | None:
        """Bytes that could still be allocated on a device; None on a CPU."""

    def predict_memory(
        self, model: Model, setting: Setting, mode: str, batch: Batch
    ) -> MemoryPlan | None:
        """What a step will allocate, from shapes alone: nothing is built on the device.

        None where only the compiled program can tell.
        """

    def numerics(self) -> dict[str, Any]:
        """Threads, matmul precision and TF32 as cells have them, and what the build is for."""

    def matrix_product(self, dtype: str, device: str, size: int) -> Kernel:
        """A [size,size] times [size,size] product."""

    def copy(self, dtype: str, device: str, elements: int) -> Kernel:
        """A copy of so many values: each is read once and written once."""

    def smallest_step(self, device: str) -> Kernel:
        """The least that can be asked of the device: its time is that of dispatch."""

    def build(
        self, model: Model, start: Mapping[str, Array], setting: Setting, mode: str, batch: Batch
    ) -> Step:
        """Build the model with these start values, and a step (forward, train) on `batch`."""

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
        """Y [B,L,d] of a bare mixer, as a NumPy array (float32 for bfloat16)."""

    def outputs(
        self, model: Model, start: Mapping[str, Array], setting: Setting, batch: Batch
    ) -> Array:
        """Outputs of a forward pass without gradients, as a forward step makes them."""

    def gradients(
        self, model: Model, start: Mapping[str, Array], setting: Setting, batch: Batch
    ) -> Gradients:
        """Outputs, loss and gradients of one batch at the start values."""

    def train(
        self, model: Model, start: Mapping[str, Array], setting: Setting, batches: Sequence[Batch]
    ) -> Trained:
        """Adam steps on `batches`, in turn."""


def check_declared(
    given: Mapping[str, tuple[int, ...]], declared: Mapping[str, tuple[int, ...]], where: str
) -> None:
    """Raise ShapeError unless parameters are those declared, by name and shape."""
    for name in sorted(given.keys() | declared.keys()):
        if given.get(name) != declared.get(name):
            raise ShapeError(
                f"{where}: parameter {name!r} is declared as {declared.get(name, 'absent')}, "
                f"got {given.get(name, 'none of that name')}; declared: {', '.join(declared)}"
            )


def choose_form(twin: Any, form: str, name: str) -> Callable[..., Any]:
    """The forward function of a twin: `reference`, `fused`, or the fused one where it exists.

    Raises UnsupportedError where the form is not there.
    """
    form = resolve_form(twin, form)
    if not hasattr(twin, form):
        raise UnsupportedError(f"{name} has no form {form!r}; use form auto or reference")
    function: Callable[..., Any] = getattr(twin, form)
    return function


def resolve_form(twin: Any, form: str) -> str:
    """The form that is built where `form` is asked for: auto is fused where that exists."""
    if form == "auto":
        return "fused" if hasattr(twin, "fused") else "reference"
    return form


BACKENDS: dict[str, str] = {
    "torch": "synthbench.backends.torch.backend",
    "jax": "synthbench.backends.jax.backend",
}
