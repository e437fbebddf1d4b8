"""JAX behind the protocol of backends/base.py."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from synthbench.backends.base import Batch, DeviceInfo, Gradients, MemoryPlan, Setting, Trained
from synthbench.backends.jax import microbenchmarks
from synthbench.backends.jax.model import build_mixer, build_model, cross_entropy, form_of
from synthbench.backends.jax.module import DTYPES, load, named_parameters, split
from synthbench.backends.jax.precision import precision
from synthbench.backends.jax.step import JaxStep
from synthbench.errors import FrameworkMissingError
from synthbench.mixers.base import Array, Mixer
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.outputs import require_output

name = "jax"


def version() -> str:
    """JAX's version."""
    return jax.__version__


def devices() -> list[DeviceInfo]:
    """The CPU, and each CUDA device JAX sees."""
    found = [DeviceInfo("cpu", f"{len(os.sched_getaffinity(0))} threads")]
    for device in cuda_devices():
        found.append(DeviceInfo(f"cuda:{device.id}", device.device_kind))
    return found


def cuda_devices() -> list[jax.Device]:
    """The CUDA devices JAX sees; empty where its CUDA plug-in is absent."""
    try:
        return jax.devices("cuda")
    except RuntimeError:
        return []


def require_device(device: str) -> None:
    """Raise FrameworkMissingError unless JAX sees the device."""
    seen = devices()
    index = device.partition(":")[2] or "0"
    if device != "cpu" and f"cuda:{index}" not in [info.name for info in seen]:
        raise FrameworkMissingError(
            f"jax {version()} has no device {device!r}; it sees "
            f"{', '.join(info.name for info in seen)}; install its CUDA plug-in "
            '(pip install "jax[cuda13]") and an NVIDIA driver'
        )


def set_threads(threads: int) -> None:
    """Nothing: XLA sizes its pool by the cores this process may use when it starts."""


def free_memory(device: str) -> int | None:
    """Bytes that XLA's allocator may still hand out on a CUDA device; None on a CPU."""
    if device == "cpu":
        return None
    statistics = device_of(Setting(device=device)).memory_stats()
    if not statistics or "bytes_limit" not in statistics:
        return None
    return int(statistics["bytes_limit"] - statistics.get("bytes_in_use", 0))


def predict_memory(model: Model, setting: Setting, mode: str, batch: Batch) -> MemoryPlan | None:
    """None: XLA tells its plan once the program is compiled, by `JaxStep.predict_memory`."""
    return None


def numerics() -> dict[str, Any]:
    """Threads, matmul precision and TF32 as cells have them, and what the build is for."""
    with precision("float32"):
        products = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    return {
        "threads": len(os.sched_getaffinity(0)),
        "float32_matmul_precision": products,
        "tf32": products != "highest",
        "platform": jax.default_backend(),
        "platform_version": " ".join(jax.devices()[0].client.platform_version.split()),
        "xla_flags": os.environ.get("XLA_FLAGS"),
    }


def matrix_product(dtype: str, device: str, size: int) -> microbenchmarks.JaxOperation:
    """A [size,size] times [size,size] product."""
    return microbenchmarks.matrix_product(dtype, find_device(device), size)


def copy(dtype: str, device: str, elements: int) -> microbenchmarks.JaxOperation:
    """A copy of so many values: each is read once and written once."""
    return microbenchmarks.copy(dtype, find_device(device), elements)


def smallest_step(device: str) -> microbenchmarks.JaxOperation:
    """The least that can be asked of the device."""
    return microbenchmarks.smallest_step(find_device(device))


def find_device(device: str) -> jax.Device:
    """The JAX device of cpu, cuda or cuda:N."""
    if device == "cpu":
        return jax.devices("cpu")[0]
    return cuda_devices()[int(device.partition(":")[2] or 0)]


def device_of(setting: Setting) -> jax.Device:
    """The JAX device of a setting."""
    return find_device(setting.device)


def build(
    model: Model, start: Mapping[str, Array], setting: Setting, mode: str, batch: Batch
) -> JaxStep:
    """Build the model with these start values and a step of `mode` on `batch`."""
    with precision(setting.dtype), jax.default_device(device_of(setting)):
        module = load_model(model, start, setting)
        form = form_of(model.mixer, setting.form)
        counted = None
        if form not in (None, "reference"):
            counted = build_model(model, "reference", DTYPES[setting.dtype])
        return JaxStep(module, mode, setting, *to_arrays(batch, setting), form, counted)


def load_model(model: Model, start: Mapping[str, Array], setting: Setting) -> nnx.Module:
    """The module of a model, holding the start values."""
    dtype = DTYPES[setting.dtype]
    module = build_model(model, setting.form, dtype)
    load(module, model.parameters(), start, dtype, device_of(setting))
    return module


def to_arrays(batch: Batch, setting: Setting) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """Inputs, targets and padding mask on the device."""
    device = device_of(setting)
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


def to_numpy(array: jax.Array) -> Array:
    """An array on the host, bfloat16 widened to float32."""
    if array.dtype == jnp.bfloat16:
        array = array.astype(jnp.float32)
    return jax.device_get(array)


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
    """Y [B,L,d] of a bare mixer."""
    dtype, device = DTYPES[setting.dtype], device_of(setting)
    with precision(setting.dtype), jax.default_device(device_of(setting)):
        module = build_mixer(mixer, sizes, setting.form, dtype)
        load(module, mixer.parameters(sizes), parameters, dtype, device)
        mask = None if padding_mask is None else jax.device_put(padding_mask, device)
        graph, state = nnx.split(module)

        @jax.jit
        def forward(state: Any, x: jax.Array, mask: jax.Array | None) -> jax.Array:
            y: jax.Array = nnx.merge(graph, state)(x, mask, causal)
            require_output(mixer, name, y, x.shape, dtype)
            return y

        return to_numpy(forward(state, jax.device_put(x.astype(dtype), device), mask))


def outputs(model: Model, start: Mapping[str, Array], setting: Setting, batch: Batch) -> Array:
    """Outputs of a forward pass, as a forward step makes them."""
    with precision(setting.dtype):
        return to_numpy(build(model, start, setting, "forward", batch)())


def gradients(
    model: Model, start: Mapping[str, Array], setting: Setting, batch: Batch
) -> Gradients:
    """Outputs, loss and gradients of one batch at the start values."""
    with precision(setting.dtype), jax.default_device(device_of(setting)):
        module = load_model(model, start, setting)
        inputs, targets, mask = to_arrays(batch, setting)
        graph, trained, constants = split(module)

        @jax.jit
        def run(trained: Any) -> tuple[tuple[jax.Array, jax.Array], Any]:
            def loss_of(trained: Any) -> tuple[jax.Array, jax.Array]:
                outputs = nnx.merge(graph, trained, constants)(inputs, mask)
                shape = (*batch.targets.shape, model.classes)
                require_output(model.mixer, name, outputs, shape, DTYPES[setting.dtype])
                return cross_entropy(outputs, targets, mask), outputs

            value, gradient = jax.value_and_grad(loss_of, has_aux=True)(trained)
            return value, gradient

        (loss, outputs), gradient = run(trained)
        found = {name: to_numpy(g) for name, g in named_parameters(gradient).items()}
        return Gradients(to_numpy(outputs), float(loss), found)


def train(
    model: Model, start: Mapping[str, Array], setting: Setting, batches: Sequence[Batch]
) -> Trained:
    """Adam steps on `batches`, in turn."""
    step = build(model, start, setting, "train", batches[0])
    losses = []
    for batch in batches:
        with precision(setting.dtype), jax.default_device(device_of(setting)):
            step.inputs, step.targets, step.padding_mask = to_arrays(batch, setting)
        losses.append(float(step()[0]))
    return Trained(losses, {name: to_numpy(a) for name, a in step.named_values().items()})
