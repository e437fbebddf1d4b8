"""One step in JAX: a forward pass, or forward, cross-entropy, backward and Adam, as one program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from synthbench.backends.base import (
    FIRST_LOSSES,
    Batch,
    MemoryPlan,
    Setting,
    TracedFlops,
    sample_indices,
)
from synthbench.backends.jax import flops, memory, placement
from synthbench.backends.jax.kept_program import keep_program, load_program
from synthbench.backends.jax.model import cross_entropy
from synthbench.backends.jax.module import DTYPES, name_of, named_parameters, split, to_numpy
from synthbench.backends.jax.precision import compiler_options, full_precision
from synthbench.backends.kernel_choice import take, taken_kernel, tracing
from synthbench.backends.kernel_record import record_kernel
from synthbench.errors import UnsupportedError
from synthbench.mixers.base import Array
from synthbench.models.outputs import Expected, require_finite, require_output
from synthbench.models.training import ADAM


class JaxStep:
    """A built step on one batch; see `Step` in backends/base.py.

    The module is split once: the program takes and returns plain lists of arrays, so that no step
    spends time walking the module in Python. `reference` builds the same model in its reference
    form, whose FLOPs are reported; None if the module itself is to be counted. `expected` is what
    the outputs must be; None: not checked.
    """

    def __init__(
        self,
        module: nnx.Module,
        mode: str,
        setting: Setting,
        inputs: jax.Array,
        targets: jax.Array,
        padding_mask: jax.Array | None,
        form: str | None = None,
        reference: Callable[[], nnx.Module] | None = None,
        expected: Expected | None = None,
    ) -> None:
        if setting.compile != "compiled":
            raise UnsupportedError(
                f"jax has no {setting.compile} steps here; use compile: compiled for its cells"
            )
        self.form = form
        self.train = mode == "train"
        self.inputs, self.targets, self.padding_mask = inputs, targets, padding_mask
        self.setting = setting
        _, trained, constants = split(module)
        self.parameters, self.treedef = jax.tree.flatten(trained)
        self.constants, self.constants_treedef = jax.tree.flatten(constants)
        self.parameter_count = sum(p.size for p in self.parameters)
        self.constant_count = sum(c.size for c in self.constants)
        self.parameter_bytes = total_bytes([self.parameters, self.constants])
        self.optimizer_state = initial_state(self.parameters) if self.train else ()
        self.batch_bytes = total_bytes([inputs, targets if self.train else (), padding_mask])
        self.state_bytes = 0

        self._losses: list[jax.Array] = []
        self.expected = expected
        self.function = program(module, self.train, expected)
        self.reference = reference
        self.program = jax.jit(
            self.function,
            donate_argnums=(0, 1) if self.train else (),
            compiler_options=compiler_options(setting),
        )
        self.executable: Any = None

    def named_values(self) -> dict[str, Any]:
        """The current parameters and constants by declared name."""
        trained = jax.tree.unflatten(self.treedef, self.parameters)
        constants = jax.tree.unflatten(self.constants_treedef, self.constants)
        return named_parameters(trained) | named_parameters(constants)

    @property
    def optimizer_bytes(self) -> int:
        """Bytes of Adam's moments and step count."""
        return total_bytes(self.optimizer_state)

    @property
    def gradient_bytes(self) -> int:
        """None are left after a step: gradients are temporaries of the program."""
        return 0

    @property
    def _arguments(self) -> tuple[Any, ...]:
        """The arguments of the compiled program."""
        if not self.train:
            return self.parameters, self.constants, self.inputs, self.padding_mask
        batch = self.inputs, self.targets, self.padding_mask
        return self.parameters, self.optimizer_state, self.constants, *batch

    def compile(self) -> None:
        """Trace, lower and compile for the shapes of this batch."""
        device = jax.default_device(self._device)
        with full_precision(self.setting.dtype), device, tracing(self.train):
            self.executable = self.program.lower(*self._arguments).compile()

    def keep(self, file: Path, kernels: Sequence[str]) -> None:
        """Keep the program, unless that fails."""
        keep_program(file, self.executable, (list(kernels), taken_kernel()))

    def load(self, file: Path) -> bool:
        """Load what `keep` kept, if it has and this process can use it."""
        if (kept := load_program(file)) is None:
            return False
        self.executable, (kernels, taken) = kept
        for kernel in kernels:
            record_kernel(kernel)
        take(taken)
        return True

    def __call__(self) -> Any:
        """Outputs of a forward step; the loss and the new state of a train step."""
        if self.executable is None:
            self.compile()
        with full_precision(self.setting.dtype):
            produced = self.executable(*self._arguments)
        if self.train:
            loss, self.parameters, self.optimizer_state = produced
            if len(self._losses) < FIRST_LOSSES:
                self._losses.append(loss)
        return produced

    @property
    def first_losses(self) -> list[float]:
        """The losses of the first FIRST_LOSSES train steps since it was built."""
        return [float(loss) for loss in self._losses]

    def check(self, produced: Any) -> None:
        """Raise WrongOutputError unless outputs or loss are finite.

        Shapes and types were checked while the program was traced, here and in model.py.
        """
        if self.expected is None:
            return
        what = "the loss" if self.train else "the output of the model"
        mixer, framework, *_ = self.expected
        require_finite(mixer, framework, what, is_finite(self._result(produced)))

    def sample(self, produced: Any) -> Array:
        """A copy of some values of the outputs, or of the loss."""
        values = self._result(produced)
        if is_on_cpu(values):  # without a copy of all, and without compiling
            flat = np.asarray(values).reshape(-1)
            return flat[sample_indices(flat.size)].astype(np.float64)
        return to_numpy(values.reshape(-1)[sample_indices(values.size)])

    def restart(self, start: Callable[[str], Array]) -> None:
        """Give every parameter its start value and the optimizer its first state."""
        dtype, device = DTYPES[self.setting.dtype], self._device
        trained = jax.tree.unflatten(self.treedef, self.parameters)
        with full_precision(self.setting.dtype), jax.default_device(device):
            self.parameters = [
                jax.device_put(start(name_of(path)).astype(dtype), device)
                for path, _ in nnx.to_flat_state(trained)
            ]
            self.optimizer_state = initial_state(self.parameters) if self.train else ()

    def _result(self, produced: Any) -> jax.Array:
        """The loss of a train step, the outputs of a forward step."""
        result: jax.Array = produced[0] if self.train else produced
        return result

    def wait(self, produced: Any) -> None:
        """Block until every array of `produced` is complete."""
        jax.block_until_ready(produced)

    def predict_memory(self) -> MemoryPlan | None:
        """XLA's memory analysis, available as soon as the program is compiled."""
        return self.memory_plan()

    def traced_flops(self) -> TracedFlops:
        """A walk over the jaxpr of the step; only shapes are traced, nothing is allocated.

        For built-in mixers this counts the reference form, whichever form is timed.
        """
        function = self.function
        with full_precision(self.setting.dtype):
            if self.reference is not None:
                function = program(self.reference(), self.train)
            return flops.trace(function, *self._arguments)

    def compiler_flops(self) -> float | None:
        """XLA's cost analysis."""
        return None if self.executable is None else flops.compiler_flops(self.executable)

    def memory_plan(self) -> MemoryPlan | None:
        """XLA's memory analysis."""
        return None if self.executable is None else memory.plan(self.executable)

    def device_seconds(self, ahead: float) -> float | None:
        """None: JAX has no events to time a step on the device with."""
        return None

    device_peak_method = (
        "peak of XLA's allocator since the process began: moving the start values, compiling and "
        "tuning kernels included"
    )

    def reset_device_peak(self) -> None:
        """Do nothing: XLA's allocator has one peak for the whole process."""

    def device_peak_bytes(self) -> int | None:
        """Peak of XLA's allocator in this process; None: not counted."""
        return placement.peak_bytes(self._device)

    @property
    def missing_counters(self) -> Mapping[str, str]:
        """Why the peak and the time on the device are None; empty on a CPU."""
        return placement.missing_counters(self._device)

    def in_every_process(self, act: Callable[[], Any]) -> Any:
        """Do something here, the only process of this step."""
        return act()

    def close(self) -> None:
        """Do nothing: further devices need no further process."""

    @property
    def _device(self) -> jax.Device:
        device: jax.Device = self.inputs.device  # it is not sharded
        return device


def to_device(batch: Batch, setting: Setting) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """Inputs, targets and padding mask on the device."""
    device = placement.find_device(setting.device)
    inputs = batch.inputs
    if jnp.issubdtype(inputs.dtype, jnp.floating):
        inputs = inputs.astype(DTYPES[setting.dtype])
    else:
        inputs = inputs.astype(jnp.int32)
    targets = jax.device_put(batch.targets.astype(jnp.int32), device)
    mask = batch.padding_mask
    return (
        jax.device_put(inputs, device),
        targets,
        None if mask is None else jax.device_put(mask, device),
    )


def is_on_cpu(values: jax.Array) -> bool:
    """Whether NumPy can read the values without copying them."""
    return not any(map(placement.is_accelerator, values.devices()))


def is_finite(values: jax.Array) -> bool:
    """Whether no value is NaN or infinite."""
    if not values.size:
        return True
    if is_on_cpu(values) and values.dtype.itemsize >= np.float32().itemsize:
        array = np.asarray(values)  # the same memory, and nothing to compile
        return bool(np.isfinite(array.min()) and np.isfinite(array.max()))
    return bool(jnp.isfinite(values).all())


def adam() -> Any:
    """The optimizer of a train step."""
    return optax.adam(ADAM.learning_rate, b1=ADAM.b1, b2=ADAM.b2, eps=ADAM.epsilon)


def initial_state(parameters: Sequence[jax.Array]) -> Any:
    """Adam's state before the first step: zeros, for which optax compiles a program per shape."""
    shapes = jax.eval_shape(adam().init, parameters)
    return jax.tree.map(lambda shape: jax.device_put(np.zeros(shape.shape, shape.dtype)), shapes)


def program(
    module: nnx.Module,
    train: bool,
    expected: Expected | None = None,
    real: float | None = None,
    whole_batch: Callable[[Any], Any] = lambda sums: sums,
) -> Callable[..., Any]:
    """A step as a function of lists of arrays; its arguments are those of `JaxStep`.

    Tracing it raises WrongOutputError where its outputs are not as `expected`. Of a share of a
    batch: `real` is how many targets count in all of it, and `whole_batch` makes the sums over it
    from those of this share.
    """
    graph, *states = split(module)
    treedef, constants_treedef = (jax.tree.structure(state) for state in states)

    def forward(parameters: Any, constants: Any, inputs: Any, padding_mask: Any) -> jax.Array:
        module = nnx.merge(
            graph,
            jax.tree.unflatten(treedef, parameters),
            jax.tree.unflatten(constants_treedef, constants),
        )
        outputs: jax.Array = module(inputs, padding_mask)
        if expected is not None:
            mixer, framework, shape, dtype = expected
            require_output(mixer, framework, outputs, shape, dtype, jax.Array)
        return outputs

    def train_step(
        parameters: Any,
        state: Any,
        constants: Any,
        inputs: Any,
        targets: Any,
        padding_mask: Any,
    ) -> tuple[jax.Array, Any, Any]:
        def loss_of(parameters: Any) -> jax.Array:
            outputs = forward(parameters, constants, inputs, padding_mask)
            return cross_entropy(outputs, targets, padding_mask, real)

        loss, gradients = whole_batch(jax.value_and_grad(loss_of)(parameters))
        updates, state = adam().update(gradients, state, parameters)
        return loss, optax.apply_updates(parameters, updates), state

    return train_step if train else forward


def total_bytes(values: Any) -> int:
    """Bytes of all arrays in a tree."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(values))
