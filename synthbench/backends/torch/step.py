"""One step in PyTorch: a forward pass, or forward, cross-entropy, backward and Adam."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from synthbench.backends.base import (
    FIRST_LOSSES,
    Batch,
    MemoryPlan,
    Setting,
    TracedFlops,
    sample_indices,
)
from synthbench.backends.torch import flops, memory, placement
from synthbench.backends.torch.cuda_graph import Captured, capture
from synthbench.backends.torch.mixers import blockwise
from synthbench.backends.torch.mixers.weight_cache import cached_bytes, forget_weights
from synthbench.backends.torch.model import Bare, Block, cross_entropy
from synthbench.backends.torch.module import DTYPES, from_array, named_tensors, to_numpy
from synthbench.backends.torch.private_api import keep_device_busy
from synthbench.mixers.base import Array
from synthbench.models.outputs import Expected, require_finite, require_output
from synthbench.models.training import ADAM


class TorchStep:
    """A built step on one batch; see `Step` in backends/base.py.

    `reference` builds the same step in its reference form, whose FLOPs are reported; None if the
    module itself is to be counted. `expected` is what the outputs must be; None: not checked.
    """

    def __init__(
        self,
        module: nn.Module,
        mode: str,
        setting: Setting,
        inputs: Tensor,
        targets: Tensor,
        padding_mask: Tensor | None,
        form: str | None = None,
        reference: Callable[[], TorchStep] | None = None,
        expected: Expected | None = None,
    ) -> None:
        self.module = module
        self.form = form
        self.reference = reference
        self.train = mode == "train"
        self.inputs, self.targets, self.padding_mask = inputs, targets, padding_mask
        self.device = placement.find_device(setting.device)
        self.compiled = setting.compile == "compiled"
        self.graphed = setting.compile == "cuda_graph"
        self._captured: Captured | None = None
        when = "while the step was captured" if self.graphed else "during one step"
        self.device_peak_method = f"peak of PyTorch's allocator on the device {when}"
        self.function: Callable[..., Tensor] = module
        trained = list(module.parameters())
        self.parameter_count = sum(p.numel() for p in trained)
        self.constant_count = sum(b.numel() for b in module.buffers())
        self.parameter_bytes = total_bytes([*trained, *module.buffers()])
        self.optimizer = adam(trained, self.graphed) if self.train and trained else None
        self.state_bytes = 0
        self.real: float | None = None  # targets of the whole batch, where this is a share
        self._losses: list[Tensor] = []
        self.expected = expected
        self.unchecked = expected is not None
        self.batch_bytes = total_bytes(
            [t for t in (inputs, targets if self.train else None, padding_mask) if t is not None]
        )

    def named_values(self) -> dict[str, Tensor]:
        """The current parameters and constants by declared name."""
        return named_tensors(self.module)

    @property
    def optimizer_bytes(self) -> int:
        """Bytes of Adam's moments and step counts, which the first step creates."""
        if self.optimizer is None:
            return 0
        states = self.optimizer.state.values()
        return total_bytes(v for state in states for v in state.values() if torch.is_tensor(v))

    @property
    def gradient_bytes(self) -> int:
        """Bytes of the last step's gradients, which the next step frees, and of kept weights."""
        gradients = (p.grad for p in self.module.parameters() if p.grad is not None)
        return total_bytes(gradients) + self.cached_bytes

    @property
    def cached_bytes(self) -> int:
        """Bytes of attention weights that a fused form keeps between calls."""
        return cached_bytes([*self.module.parameters(), *self.module.buffers()])

    def compile(self) -> None:
        """Compile by one call, or capture a CUDA graph; an eager step does nothing."""
        if self.graphed:
            start = {name: to_numpy(value).copy() for name, value in self.named_values().items()}
            self._captured = capture(self.run, self.device)
            self.restart(start.__getitem__)  # capturing has trained it
        if self.compiled:
            if self.unchecked:  # eagerly, on one example: the compiler removes what a check needs
                mask = None if self.padding_mask is None else self.padding_mask[:1]
                with self._checking_mixers(), torch.no_grad():
                    self.module(self.inputs[:1], mask)
                forget_weights(self.named_values().values())  # compiled code keeps none
            with _empty_cache():
                self.function = self.compiled_function()
                self.wait(self.step())

    def keep(self, file: Path, kernels: Sequence[str]) -> None:
        """Keep nothing: what torch.compile makes cannot be kept."""

    def load(self, file: Path) -> bool:
        """There is never a kept program."""
        return False

    def compiled_function(self) -> Callable[..., Tensor]:
        """The module, to be compiled by its first call."""
        return compiled(self.module)

    def __call__(self) -> Tensor:
        """Outputs of a forward step, the loss of a train step."""
        return self.step()

    def step(self) -> Tensor:
        """What a call does in this process."""
        if self.graphed and self._captured is None:
            self.compile()
        produced = self.run() if self._captured is None else self._captured.replay()
        if self.train and len(self._losses) < FIRST_LOSSES:
            self._losses.append(produced.clone())
        return produced

    def run(self) -> Tensor:
        """A step without a CUDA graph."""
        if self.unchecked:
            with self._checking_mixers():
                return self.run()
        if not self.train:
            with torch.no_grad():
                outputs: Tensor = self.function(self.inputs, self.padding_mask)
            return outputs
        self.module.zero_grad(set_to_none=True)
        loss = cross_entropy(
            self.function(self.inputs, self.padding_mask), self.targets, self.padding_mask,
            self.real,
        )  # fmt: skip
        if self.optimizer is not None:
            loss.backward()
            self.optimizer.step()
        return self.whole_batch(loss.detach())

    def whole_batch(self, loss: Tensor) -> Tensor:
        """The loss of the whole batch, from that of the examples on this device."""
        return loss

    @contextmanager
    def _checking_mixers(self) -> Iterator[None]:
        """In this block, each mixer's output is checked against its input; only once per step."""
        self.unchecked = False
        assert self.expected is not None
        check = partial(_check_mixer, self.expected)
        owners = (owner for owner in self.module.modules() if isinstance(owner, Bare | Block))
        handles = [owner.mixer.register_forward_hook(check) for owner in owners]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @property
    def first_losses(self) -> list[float]:
        """The losses of the first FIRST_LOSSES train steps since it was built."""
        return [float(loss) for loss in self._losses]

    def check(self, produced: object) -> None:
        """Raise WrongOutputError unless outputs are as declared, and outputs or loss finite."""
        if self.expected is None:
            return
        mixer, framework, shape, dtype = self.expected
        if not self.train:
            device = self.inputs.device
            require_output(mixer, framework, produced, shape, dtype, Tensor, device)
        assert isinstance(produced, Tensor)
        what = "the loss" if self.train else "the output of the model"
        require_finite(mixer, framework, what, is_finite(produced))

    def sample(self, produced: Tensor) -> Array:
        """A copy of some values of the outputs, or of the loss."""
        indices = torch.from_numpy(sample_indices(produced.numel())).to(produced.device)
        return to_numpy(produced.detach().reshape(-1)[indices])

    def restart(self, start: Callable[[str], Array]) -> None:
        """Give every parameter its start value and the optimizer its first state, in place."""
        with torch.no_grad():
            for name, tensor in self.named_values().items():
                tensor.copy_(from_array(start(name)))
        if self.optimizer is not None:
            for state in self.optimizer.state.values():
                for value in state.values():
                    value.zero_()

    def wait(self, produced: object) -> None:
        """Block until the device has finished."""
        placement.synchronize(self.device)

    def predict_memory(self) -> MemoryPlan | None:
        """None: PyTorch's compiler has no plan; see `predict_memory` in prediction.py."""
        return None

    def traced_flops(self) -> TracedFlops:
        """Forward: fvcore on the module; train: torch's counter on a whole step.

        For built-in mixers this counts the reference form, whichever form is timed.
        """
        step = self if self.reference is None else self.reference()
        if self.train:
            return flops.trace_step(step.run)
        try:
            return flops.trace_forward(step.module, (step.inputs, step.padding_mask))
        except TypeError:
            if step is self:
                raise
            return flops.trace_step(step.run)  # PyTorch cannot trace convolutions on "meta"

    def compiler_flops(self) -> float | None:
        """None: PyTorch's compiler has no count."""
        return None

    def memory_plan(self) -> MemoryPlan | None:
        """The storages of one eager step; None if compiled or captured."""
        if self.compiled or self.graphed:
            return None
        resident = self.parameter_bytes + self.optimizer_bytes + self.batch_bytes
        resident += self.state_bytes
        return memory.plan(self, resident_bytes=resident + self.cached_bytes)

    def device_seconds(self, ahead: float) -> float | None:
        """Do a step; the seconds between two CUDA events around it; None on other devices.

        The device is kept busy until all of the step is in its queue, so that it does not pause
        within it.
        """
        if self.device.type != "cuda":
            return None
        with torch.cuda.device(self.device):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize(self.device)
            if not keep_device_busy(ahead):
                return None
            begin.record()
            self()
            end.record()
            end.synchronize()
            return float(begin.elapsed_time(end)) / 1e3

    def reset_device_peak(self) -> None:
        """Reset the peak of the device's allocator."""
        placement.reset_peak(self.device)

    def device_peak_bytes(self) -> int | None:
        """Peak of the allocator since the reset, or while capturing; None: not counted."""
        if self._captured is not None:
            return self._captured.peak_bytes
        return placement.peak_bytes(self.device)

    @property
    def missing_counters(self) -> Mapping[str, str]:
        """Why the peak and the time on the device are None; empty on a CPU."""
        return placement.missing_counters(self.device)

    def in_every_process(self, act: Callable[[], Any]) -> Any:
        """Do something here, the only process of this step."""
        return act()

    def close(self) -> None:
        """Do nothing: one device needs no further process."""


def to_device(batch: Batch, setting: Setting) -> tuple[Tensor, Tensor, Tensor | None]:
    """Inputs, targets and padding mask on the device."""
    device = placement.find_device(setting.device)
    inputs = from_array(batch.inputs)
    if inputs.is_floating_point():  # on the CPU: not every device has float64
        inputs = inputs.to(DTYPES[setting.dtype])
    inputs = inputs.to(device)
    targets = from_array(batch.targets).to(device)
    mask = batch.padding_mask
    return inputs, targets, None if mask is None else from_array(mask).to(device)


def _check_mixer(expected: Expected, module: nn.Module, args: tuple[Any, ...], y: Any) -> None:
    """Raise WrongOutputError unless a mixer's output is like its input, and finite."""
    x: Tensor = args[0]
    mixer, framework, *_ = expected
    require_output(mixer, framework, y, tuple(x.shape), x.dtype, Tensor, x.device)
    require_finite(mixer, framework, "its output", is_finite(y))


def is_finite(values: Tensor) -> bool:
    """Whether no value is NaN or infinite, without further memory."""
    if not values.numel():
        return True
    low, high = torch.aminmax(values.detach())
    return bool(torch.isfinite(low) & torch.isfinite(high))


def adam(parameters: list[nn.Parameter], capturable: bool = False) -> torch.optim.Adam:
    """The optimizer of a train step; `capturable` in a CUDA graph.

    `fused` is PyTorch's fastest eager Adam: one kernel per parameter, like XLA with optax.adam.
    """
    betas = (ADAM.b1, ADAM.b2)
    return torch.optim.Adam(
        parameters, lr=ADAM.learning_rate, betas=betas, eps=ADAM.epsilon, fused=True,
        capturable=capturable,
    )  # fmt: skip


def compiled(module: nn.Module) -> Callable[..., Tensor]:
    """The module under torch.compile, except for functions that it cannot compile."""
    blockwise.run_eagerly()
    function: Callable[..., Tensor] = torch.compile(module, dynamic=False)
    return function


@contextmanager
def _empty_cache() -> Iterator[None]:
    """In this block, torch.compile finds no earlier result, which would hide its cost."""
    names = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
    before = {name: os.environ.get(name) for name in names}
    with tempfile.TemporaryDirectory(prefix="synthbench-", ignore_cleanup_errors=True) as folder:
        os.environ.update({name: os.path.join(folder, name.lower()) for name in names})
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value


def total_bytes(values: Iterable[Tensor]) -> int:
    """Bytes of all tensors."""
    return sum(t.numel() * t.element_size() for t in values)
