"""The protocol `Backend` of backends/base.py in JAX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from synthbench.backends.base import INPUT, Batch, Gradients, MemoryPlan, Setting, Trained
from synthbench.backends.jax.decode_step import JaxDecodeStep
from synthbench.backends.jax.generation import generate
from synthbench.backends.jax.microbenchmarks import copy, matrix_products, smallest_step
from synthbench.backends.jax.model import build_mixer, build_model, cross_entropy, form_of
from synthbench.backends.jax.module import DTYPES, load, named_parameters, split, to_numpy
from synthbench.backends.jax.parallel_step import JaxParallelStep
from synthbench.backends.jax.placement import (
    devices,
    find_device,
    find_devices,
    free_memory,
    require_device,
)
from synthbench.backends.jax.precision import compiler_options, full_precision, numerics
from synthbench.backends.jax.step import JaxStep, program, to_device
from synthbench.backends.jax.training import JaxTrainer
from synthbench.backends.kernel_choice import only_offers, tracing
from synthbench.backends.sharing import require_train
from synthbench.kernel import Kernel
from synthbench.mixers.base import Array, Mixer
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.outputs import Expected, require_output
from synthbench.models.recipe import Recipe

__all__ = [
    "apply", "build", "copy", "devices", "form_of", "free_memory", "generate", "gradients",
    "matrix_products", "name", "numerics", "offer_kernels", "outputs", "predict_memory",
    "require_device", "set_threads", "smallest_step", "train", "trainer", "version",
]  # fmt: skip

name = "jax"


def version() -> str:
    """JAX's version."""
    return jax.__version__


def set_threads(threads: int) -> None:
    """Do nothing: XLA starts one thread per core that this process may use."""


def predict_memory(model: Model, setting: Setting, mode: str, batch: Batch) -> MemoryPlan | None:
    """None: XLA has a plan only for a compiled program; see `JaxStep.predict_memory`."""
    return None


def offer_kernels(model: Model, setting: Setting, mode: str, batch: Batch) -> list[Kernel]:
    """The kernels that the form could use for a step, its first choice first."""
    if mode == "decode":  # one position has no choice
        return []
    dtype = DTYPES[setting.dtype]
    device = jax.default_device(find_device(setting.device))
    with only_offers() as offers, full_precision(setting.dtype), device, tracing(mode == "train"):
        module = build_model(model, setting.form, dtype)
        _, *states = split(module)
        parameters, constants = map(jax.tree.leaves, states)
        kind = dtype if jnp.issubdtype(batch.inputs.dtype, jnp.floating) else jnp.int32
        inputs = jax.ShapeDtypeStruct(batch.inputs.shape, kind)
        jax.eval_shape(program(module, False), parameters, constants, inputs, None)
    return list(offers)


def build(
    model: Model, start: Mapping[str, Array], setting: Setting, mode: str, batch: Batch
) -> JaxStep:
    """Build the model with these start values and a step of `mode` on `batch`."""
    require_train(mode, setting)
    devices = find_devices(setting)
    with full_precision(setting.dtype), jax.default_device(devices[0]):
        if mode == "decode":
            return JaxDecodeStep(model, start, setting, batch)
        module = load_model(model, start, setting)
        form = form_of(model.mixer, setting.form)
        reference = None
        if form not in (None, "reference"):
            reference = partial(build_model, model, "reference", DTYPES[setting.dtype])
        shape = (*batch.targets.shape, model.classes)
        expected = Expected(model.mixer, name, shape, DTYPES[setting.dtype])
        checks = form, reference, expected
        if len(devices) > 1:
            return JaxParallelStep(module, setting, batch, devices, *checks)
        return JaxStep(module, mode, setting, *to_device(batch, setting), *checks)


def load_model(model: Model, start: Mapping[str, Array], setting: Setting) -> nnx.Module:
    """The module of a model with these start values."""
    dtype = DTYPES[setting.dtype]
    module = build_model(model, setting.form, dtype)
    load(module, model.parameters(), start, dtype, find_device(setting.device))
    return module


def apply(
    mixer: Mixer,
    sizes: Sizes,
    parameters: Mapping[str, Array],
    x: Array,
    setting: Setting,
    *,
    padding_mask: Array | None = None,
    causal: bool = False,
) -> Array:
    """Y [B,L,d] of a mixer alone."""
    dtype, device = DTYPES[setting.dtype], find_device(setting.device)
    with full_precision(setting.dtype), jax.default_device(device):
        module = build_mixer(mixer, sizes, setting.form, dtype)
        load(module, mixer.parameters(sizes), parameters, dtype, device)
        mask = None if padding_mask is None else jax.device_put(padding_mask, device)
        graph, state = nnx.split(module)

        @jax.jit
        def forward(state: Any, x: jax.Array, mask: jax.Array | None) -> jax.Array:
            y: jax.Array = nnx.merge(graph, state)(x, mask, causal)
            require_output(mixer, name, y, x.shape, dtype)
            return y

        with tracing(trained=False):
            return to_numpy(forward(state, jax.device_put(x.astype(dtype), device), mask))


def outputs(model: Model, start: Mapping[str, Array], setting: Setting, batch: Batch) -> Array:
    """Outputs of a forward step."""
    with full_precision(setting.dtype):
        return to_numpy(build(model, start, setting, "forward", batch)())


def gradients(
    model: Model,
    start: Mapping[str, Array],
    setting: Setting,
    batch: Batch,
    *,
    of_input: bool = False,
) -> Gradients:
    """Outputs, loss and gradients of one batch at the start values; `of_input`: also that of X."""
    with full_precision(setting.dtype), jax.default_device(find_device(setting.device)):
        module = load_model(model, start, setting)
        inputs, targets, mask = to_device(batch, setting)
        graph, trained, constants = split(module)

        @partial(jax.jit, compiler_options=compiler_options(setting))
        def run(
            trained: Any, constants: Any, inputs: Any, targets: Any, mask: Any
        ) -> tuple[tuple[jax.Array, jax.Array], Any]:
            def loss_of(trained: Any, inputs: Any) -> tuple[jax.Array, jax.Array]:
                outputs = nnx.merge(graph, trained, constants)(inputs, mask)
                shape = (*batch.targets.shape, model.classes)
                require_output(model.mixer, name, outputs, shape, DTYPES[setting.dtype])
                return cross_entropy(outputs, targets, mask), outputs

            wanted = (0, 1) if of_input else (0,)
            value, gradient = jax.value_and_grad(loss_of, wanted, has_aux=True)(trained, inputs)
            return value, gradient

        # All are arguments: XLA evaluates what depends on captured arrays alone while it compiles,
        # and takes half a minute for the softmax of a large table of Fix.
        with tracing(trained=True):
            (loss, outputs), gradient = run(trained, constants, inputs, targets, mask)
        found = {name: to_numpy(g) for name, g in named_parameters(gradient[0]).items()}
        if of_input:
            found[INPUT] = to_numpy(gradient[1])
        return Gradients(to_numpy(outputs), float(loss), found)


def train(
    model: Model, start: Mapping[str, Array], setting: Setting, batches: Sequence[Batch]
) -> Trained:
    """One Adam step per batch, in order."""
    step = build(model, start, setting, "train", batches[0])
    losses = []
    for batch in batches:
        with full_precision(setting.dtype), jax.default_device(find_device(setting.device)):
            step.inputs, step.targets, step.padding_mask = to_device(batch, setting)
        losses.append(float(step()[0]))
    return Trained(losses, {name: to_numpy(x) for name, x in step.named_values().items()})


def trainer(
    model: Model, start: Mapping[str, Array], setting: Setting, recipe: Recipe
) -> JaxTrainer:
    """The model with these start values, to be trained by a recipe."""
    devices = find_devices(setting)
    with full_precision(setting.dtype), jax.default_device(devices[0]):
        module = load_model(model, start, setting)
    return JaxTrainer(module, setting, recipe, devices)
