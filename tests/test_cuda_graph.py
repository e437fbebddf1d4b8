"""A step as a CUDA graph trains from its start values, as an eager one; with a made-up device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from synthbench.backends.base import Setting
from synthbench.backends.torch import backend
from synthbench.backends.torch.cuda_graph import WARM_UP_STEPS
from synthbench.backends.torch.step import TorchStep
from synthbench.measure.inputs import random_batch
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.start_values import start_values
from synthbench.suites.plan import why_impossible
from tests.kernel_choices import cell

MODEL = Model.of("mixer", parse("FR+V"), Sizes.of(d_model=8, heads=2, max_len=6))


class MadeUpCuda:
    """Enough of torch.cuda to capture: a graph runs its work again, into the same tensor."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.work: Callable[[], torch.Tensor] | None = None
        self.cuda = SimpleNamespace(
            Stream=lambda device: SimpleNamespace(wait_stream=lambda other: None),
            current_stream=lambda device: SimpleNamespace(wait_stream=lambda other: None),
            stream=self.block("aside"), graph=self.block("graph"),
            CUDAGraph=lambda: SimpleNamespace(replay=self.replay),
            synchronize=lambda device: self.log.append("wait"),
            reset_peak_memory_stats=lambda device: self.log.append("reset peak"),
            max_memory_allocated=lambda device: 4096,
        )  # fmt: skip
        self.produced: torch.Tensor | None = None

    def block(self, name: str) -> Any:
        @contextmanager
        def entered(_: object) -> Iterator[None]:
            self.log.append(name)
            yield
            self.log.append(f"end of {name}")

        return entered

    def replay(self) -> None:
        assert self.work is not None and self.produced is not None
        self.log.append("replay")
        self.produced.copy_(self.work())


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> MadeUpCuda:
    made = MadeUpCuda()
    for name, value in vars(made.cuda).items():
        monkeypatch.setattr(torch.cuda, name, value)
    adam = torch.optim.Adam
    monkeypatch.setattr(
        torch.optim, "Adam", lambda *a, capturable, **k: adam(*a, **k)  # needs CUDA
    )  # fmt: skip
    return made


def built(mode: str, compile: str) -> TorchStep:
    start = start_values(MODEL.parameters())
    return backend.build(MODEL, start, Setting(compile=compile), mode, random_batch(MODEL, 2, 6))


def captured(device: MadeUpCuda, mode: str) -> TorchStep:
    step = built(mode, "cuda_graph")
    step.unchecked = False
    run, made = step.run, []

    def logged() -> torch.Tensor:
        device.log.append("step")
        made.append(run())
        return made[-1]

    step.run = logged  # type: ignore[method-assign]
    step.compile()
    device.work, device.produced = run, made[-1]
    return step


def test_a_step_warms_up_aside_and_is_captured_once(device: MadeUpCuda) -> None:
    step = captured(device, "forward")
    assert device.log == [
        "aside", *["step"] * WARM_UP_STEPS, "end of aside", "wait", "reset peak",
        "graph", "step", "end of graph",
    ]  # fmt: skip
    device.log.clear()
    step()
    assert device.log == ["replay"]
    assert (step.device_peak_bytes(), step.memory_plan()) == (4096, None)
    assert step.device_peak_method.endswith("while the step was captured")


def test_captured_steps_train_as_eager_ones_from_the_start_values(device: MadeUpCuda) -> None:
    eager, graph = built("train", "eager"), captured(device, "train")
    losses = [[float(step()) for _ in range(4)] for step in (eager, graph)]
    assert losses[0] == losses[1] and len(set(losses[0])) == 4
    assert graph.first_losses == losses[0][: len(graph.first_losses)]
    for name, value in eager.named_values().items():
        np.testing.assert_array_equal(value.detach(), graph.named_values()[name].detach())
    start = start_values(MODEL.parameters())
    addresses = {name: value.data_ptr() for name, value in graph.named_values().items()}
    for step in (eager, graph):
        step.restart(start.__getitem__)
        assert [float(step()) for _ in range(4)] == losses[0]
    assert addresses == {name: value.data_ptr() for name, value in graph.named_values().items()}


def test_its_flops_are_those_of_an_eager_step(device: MadeUpCuda) -> None:
    device.log.clear()
    assert captured(device, "train").traced_flops() == built("train", "eager").traced_flops()


@pytest.mark.parametrize(
    ("framework", "where", "reason"),
    [
        ("torch", "cuda:1", None),
        ("torch", "cpu", "CUDA graphs need a CUDA device; use compile: eager or compiled"),
        ("jax", "cuda", "XLA makes CUDA graphs by itself; use compile: compiled for jax"),
    ],
)
def test_where_there_are_cuda_graphs(framework: str, where: str, reason: str | None) -> None:
    asked = cell(framework=framework, device=where, compile="cuda_graph")
    assert why_impossible(asked, lambda _: None) == reason
