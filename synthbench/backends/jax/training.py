"""Train a model by a recipe in JAX: see `Trainer` in backends/base.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh

from synthbench.backends.base import (
    FIRST_MOMENT,
    SECOND_MOMENT,
    VALUE,
    Batch,
    Predictions,
    Setting,
)
from synthbench.backends.jax.module import DTYPES, name_of, named_parameters, split, to_numpy
from synthbench.backends.jax.parallel import (
    EXAMPLES,
    Placement,
    data_parallel,
    placements,
    summed,
)
from synthbench.backends.jax.precision import compiler_options, full_precision
from synthbench.backends.kernel_choice import tracing
from synthbench.backends.sharing import require_shares
from synthbench.mixers.base import Array
from synthbench.models.recipe import Recipe


class JaxTrainer:
    """A module in training, split into lists of arrays; see `Trainer` in backends/base.py."""

    def __init__(
        self, module: nnx.Module, setting: Setting, recipe: Recipe, devices: Sequence[jax.Device]
    ) -> None:
        self.setting, self.recipe, self.device = setting, recipe, devices[0]
        self.mesh = Mesh(np.asarray(devices), (EXAMPLES,)) if len(devices) > 1 else None
        self.copied, self.shared = placements(devices[0], self.mesh)
        self.graph, trained, constants = split(module)
        self.values, self.treedef = jax.tree.flatten(trained)
        self.constants, self.constants_treedef = jax.tree.flatten(constants)
        self.parameter_count = sum(value.size for value in self.values)
        self.constant_count = sum(constant.size for constant in self.constants)
        self.names = [name_of(path) for path, _ in nnx.to_flat_state(trained)]
        self.optimizer = adamw(recipe)
        with self.computing(trained=True):
            self.values = self.on_device(self.values)
            self.constants = self.on_device(self.constants)
            self.moments = self.on_device(self.optimizer.init(self.values))
        options = compiler_options(setting)
        train: Callable[..., Any] = self._train
        if self.mesh is not None:
            train = data_parallel(train, self.mesh, copied=4, shared=4)
        self.train = jax.jit(train, donate_argnums=(0, 1), compiler_options=options)
        self.evaluate = jax.jit(self._evaluate, compiler_options=options)

    def computing(self, *, trained: bool) -> ExitStack:
        """A block that traces and runs on the first device, in the setting's precision."""
        stack = ExitStack()
        stack.enter_context(full_precision(self.setting.dtype))
        stack.enter_context(jax.default_device(self.device))
        stack.enter_context(tracing(trained))
        return stack

    def step(self, batch: Batch, learning_rate: float) -> jax.Array:
        """Forward, loss, backward, clipping, AdamW, as one program."""
        require_shares(batch, self.setting.devices)
        with self.computing(trained=True):
            loss, self.values, self.moments = self.train(
                self.values,
                self.moments,
                self.constants,
                learning_rate,
                *self.placed(batch, self.shared),
            )
        return loss

    def _train(
        self, values: Any, moments: Any, constants: Any, learning_rate: Any,
        inputs: Any, targets: Any, mask: Any, weights: Any,
    ) -> tuple[jax.Array, Any, Any]:  # fmt: skip
        weight = self.whole_batch(weights.sum())

        def loss_of(values: Any) -> jax.Array:
            outputs = self.outputs(values, constants, inputs, mask)
            losses = weighted_losses(outputs, targets, weights, self.recipe.label_smoothing)
            return losses.sum() / weight

        loss, gradients = self.whole_batch(jax.value_and_grad(loss_of)(values))
        directions, moments = self.optimizer.update(gradients, moments, values)
        updates = [(-learning_rate * x).astype(x.dtype) for x in directions]
        return loss, optax.apply_updates(values, updates), moments

    def whole_batch(self, sums: Any) -> Any:
        """The sums over the whole batch, from those of the examples on this device."""
        return sums if self.mesh is None else summed(sums)

    def losses(self, produced: Sequence[jax.Array]) -> Array:
        """The losses as one array."""
        return np.asarray(jax.device_get(list(produced)), dtype=np.float64)

    def predict(self, batch: Batch) -> Predictions:
        """Classes, losses and weights of a batch, on the first device."""
        with self.computing(trained=False):
            values, constants = map(self.on_first_device, (self.values, self.constants))
            found = self.evaluate(values, constants, *self.placed(batch, self.device))
        return Predictions(*map(to_numpy, found))

    def _evaluate(
        self, values: Any, constants: Any, inputs: Any, targets: Any, mask: Any, weights: Any
    ) -> tuple[jax.Array, ...]:
        outputs = self.outputs(values, constants, inputs, mask)
        losses = weighted_losses(outputs, targets, weights, 0.0)
        return outputs.argmax(axis=-1), per_example(losses), per_example(weights)

    def outputs(self, values: Any, constants: Any, inputs: Any, mask: Any) -> jax.Array:
        """Outputs of the module with these values."""
        module = nnx.merge(
            self.graph,
            jax.tree.unflatten(self.treedef, values),
            jax.tree.unflatten(self.constants_treedef, constants),
        )
        return module(inputs, mask)

    def parameters(self) -> dict[str, Array]:
        """Copies of all values by declared name."""
        constants = named_parameters(jax.tree.unflatten(self.constants_treedef, self.constants))
        named = dict(zip(self.names, self.values, strict=True)) | constants
        return {name: np.array(to_numpy(value)) for name, value in named.items()}

    def state(self) -> dict[str, Array]:
        """Copies of the values and of AdamW's moments."""
        found = {VALUE + name: value for name, value in self.parameters().items()}
        adam = self.moments[ADAM]
        for name, first, second in zip(self.names, adam.mu, adam.nu, strict=True):
            found[FIRST_MOMENT + name] = np.array(to_numpy(first))
            found[SECOND_MOMENT + name] = np.array(to_numpy(second))
        return found

    def restore(self, state: Mapping[str, Array], steps: int) -> None:
        """Put values and moments back."""
        adam = self.moments[ADAM]
        with self.computing(trained=True):
            self.values = self.like(self.values, VALUE, state)
            restored = adam._replace(
                count=self.on_device(np.asarray(steps, adam.count.dtype)),
                mu=self.like(adam.mu, FIRST_MOMENT, state),
                nu=self.like(adam.nu, SECOND_MOMENT, state),
            )
        self.moments = (*self.moments[:ADAM], restored, *self.moments[ADAM + 1 :])

    def like(self, before: Sequence[Any], kind: str, state: Mapping[str, Array]) -> list[Any]:
        """The arrays of one kind in a state, with the types that they had before."""
        pairs = zip(self.names, before, strict=True)
        return [self.on_device(state[kind + name].astype(x.dtype)) for name, x in pairs]

    def close(self) -> None:
        """Do nothing: further devices need no further process."""

    def on_device(self, tree: Any) -> Any:
        """Arrays on the setting's devices, a copy on each, so that a step is compiled once."""
        return jax.device_put(tree, self.copied)

    def on_first_device(self, arrays: Sequence[jax.Array]) -> list[jax.Array]:
        """The first device's copies, which takes no copying."""
        return [array.addressable_data(0) for array in arrays]

    def placed(self, batch: Batch, place: Placement) -> tuple[Any, ...]:
        """Inputs, targets, padding mask and weights on one device, or divided among several."""
        dtype = DTYPES[self.setting.dtype]
        floating = np.issubdtype(batch.inputs.dtype, np.floating)
        mask, weights = batch.padding_mask, batch.loss_weights
        if weights is None:
            weights = np.ones(batch.targets.shape)
        return (
            jax.device_put(batch.inputs.astype(dtype if floating else jnp.int32), place),
            jax.device_put(batch.targets.astype(jnp.int32), place),
            None if mask is None else jax.device_put(mask, place),
            jax.device_put(weights.astype(loss_dtype(dtype)), place),
        )


ADAM = 1  # where the chain below holds Adam's moments


def adamw(recipe: Recipe) -> optax.GradientTransformation:
    """The direction of a recipe's step, to be scaled by minus the learning rate."""
    return optax.chain(
        optax.clip_by_global_norm(recipe.clip) if recipe.clip else optax.identity(),
        optax.scale_by_adam(recipe.b1, recipe.b2, recipe.epsilon),
        optax.add_decayed_weights(recipe.weight_decay),
    )


def weighted_losses(
    outputs: jax.Array, targets: jax.Array, weights: jax.Array, smoothing: float
) -> jax.Array:
    """Cross-entropy of each target in nats, times its weight, in float32 or float64."""
    wide = outputs.astype(loss_dtype(outputs.dtype))
    losses = optax.softmax_cross_entropy_with_integer_labels(wide, targets)
    if smoothing:
        uniform = jax.nn.logsumexp(wide, axis=-1) - wide.mean(axis=-1)
        losses = (1 - smoothing) * losses + smoothing * uniform
    return losses * weights


def loss_dtype(dtype: Any) -> Any:
    """What the loss is computed in."""
    return jnp.promote_types(dtype, jnp.float32)


def per_example(values: jax.Array) -> jax.Array:
    """The sum over each example's targets, [B]."""
    return values.reshape(values.shape[0], -1).sum(axis=1)
