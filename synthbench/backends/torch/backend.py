"""The protocol `Backend` of backends/base.py in PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import nn

from synthbench.backends.base import INPUT, Batch, Gradients, Setting, Trained
from synthbench.backends.sharing import require_train
from synthbench.backends.torch.decode_step import TorchDecodeStep
from synthbench.backends.torch.generation import generate
from synthbench.backends.torch.microbenchmarks import copy, matrix_products, smallest_step
from synthbench.backends.torch.model import build_mixer, build_model, cross_entropy, form_of
from synthbench.backends.torch.module import DTYPES, from_array, load, named_tensors, to_numpy
from synthbench.backends.torch.parallel_step import TorchParallelStep
from synthbench.backends.torch.parallel_training import ParallelTrainer
from synthbench.backends.torch.placement import (
    devices,
    find_device,
    find_devices,
    free_memory,
    require_device,
)
from synthbench.backends.torch.precision import full_precision, numerics
from synthbench.backends.torch.prediction import (
    offer_kernels,
    predict_memory,
    reference_step,
)
from synthbench.backends.torch.step import TorchStep, compiled, to_device
from synthbench.backends.torch.training import TorchTrainer
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

name = "torch"


def version() -> str:
    """PyTorch's version with its build tag."""
    return torch.__version__


def set_threads(threads: int) -> None:
    """Limit the threads of one operation."""
    torch.set_num_threads(threads)


def build(
    model: Model, start: Mapping[str, Array], setting: Setting, mode: str, batch: Batch
) -> TorchStep:
    """Build the model with these start values and a step of `mode` on `batch`."""
    require_train(mode, setting)
    names = find_devices(setting)
    own = replace(setting, device=names[0])
    if mode == "decode":
        full_precision()
        return TorchDecodeStep(model, start, own, batch)
    module = load_model(model, start, own)
    form = form_of(model.mixer, setting.form)
    reference = None
    if form is not None:  # a plug-in's own module may need values to run
        reference = partial(reference_step, model, replace(own, devices=1), mode, batch)
    shape = (*batch.targets.shape, model.classes)
    expected = Expected(model.mixer, name, shape, DTYPES[setting.dtype])
    checks = form, reference, expected
    if len(names) > 1:
        return TorchParallelStep(module, model, start, own, batch, names, *checks)
    return TorchStep(module, mode, own, *to_device(batch, own), *checks)


def load_model(model: Model, start: Mapping[str, Array], setting: Setting) -> nn.Module:
    """The module of a model with these start values."""
    full_precision()
    dtype, device = DTYPES[setting.dtype], find_device(setting.device)
    module = build_model(model, setting.form, dtype=dtype, device=device)
    load(module, model.parameters(), start)
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
    full_precision()
    dtype, device = DTYPES[setting.dtype], find_device(setting.device)
    module = build_mixer(mixer, sizes, setting.form, dtype=dtype, device=device)
    load(module, mixer.parameters(sizes), parameters)
    mask = None if padding_mask is None else from_array(padding_mask).to(device)
    with torch.no_grad():
        y = module(from_array(x).to(dtype).to(device), mask, causal)
    require_output(mixer, name, y, x.shape, dtype)
    return to_numpy(y)


def outputs(model: Model, start: Mapping[str, Array], setting: Setting, batch: Batch) -> Array:
    """Outputs of a forward step: of its second call, which may use weights kept by the first."""
    module = load_model(model, start, setting)
    step = TorchStep(module, "forward", setting, *to_device(batch, setting))
    step.compile()
    step()
    return to_numpy(step())


def gradients(
    model: Model,
    start: Mapping[str, Array],
    setting: Setting,
    batch: Batch,
    *,
    of_input: bool = False,
) -> Gradients:
    """Outputs, loss and gradients of one batch at the start values; `of_input`: also that of X."""
    module = load_model(model, start, setting)
    function = compiled(module) if setting.compile == "compiled" else module
    inputs, targets, mask = to_device(batch, setting)
    wanted = dict(named_tensors(module))
    if of_input:
        wanted[INPUT] = inputs = inputs.detach().requires_grad_()
    outputs = function(inputs, mask)
    shape = (*batch.targets.shape, model.classes)
    require_output(model.mixer, name, outputs, shape, DTYPES[setting.dtype])
    loss = cross_entropy(outputs, targets, mask)
    if loss.requires_grad:  # False for a mixer without parameters
        loss.backward()
    found = {
        name: to_numpy(torch.zeros_like(p) if p.grad is None else p.grad)
        for name, p in wanted.items()
        if p.requires_grad
    }
    return Gradients(to_numpy(outputs), loss.item(), found)


def train(
    model: Model, start: Mapping[str, Array], setting: Setting, batches: Sequence[Batch]
) -> Trained:
    """One Adam step per batch, in order."""
    module = load_model(model, start, setting)
    step = TorchStep(module, "train", setting, *to_device(batches[0], setting))
    losses = []
    for batch in batches:
        step.inputs, step.targets, step.padding_mask = to_device(batch, setting)
        losses.append(float(step()))
    return Trained(losses, {name: to_numpy(x).copy() for name, x in step.named_values().items()})


def trainer(
    model: Model, start: Mapping[str, Array], setting: Setting, recipe: Recipe
) -> TorchTrainer:
    """The model with these start values, to be trained by a recipe."""
    names = find_devices(setting)
    own = replace(setting, device=names[0])
    module = load_model(model, start, own)
    if len(names) > 1:
        return ParallelTrainer(module, model, start, own, recipe, names)
    return TorchTrainer(module, own, recipe)
