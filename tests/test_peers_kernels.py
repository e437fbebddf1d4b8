"""The kernel of our side in the benchmark against peers: the one that a run would choose."""

from __future__ import annotations

from typing import Any, cast

import pytest

from benchmarks.peers.kernels import chosen_kernel, our_shapes
from benchmarks.peers.samples import Sample
from synthbench.errors import SynthbenchError
from synthbench.kernel import Kernel
from synthbench.measure.kernel_choice import Timed
from synthbench.run.host_client import Host
from synthbench.run_info import KernelChoice, KernelTime
from synthbench.suites.cell import Cell

FAST, OTHER = Kernel("blocks of queries"), Kernel("reference form")


class FakeHost:
    """Answers that only steps up to a length can be timed; which lengths it was asked for."""

    def __init__(self, longest: int, problem: str = "", choice: bool = True) -> None:
        self.longest, self.problem, self.choice = longest, problem, choice
        self.asked: list[Cell] = []

    def call(self, target: str, request: dict[str, Any], timeout: float) -> Timed:
        assert target.endswith(":choose_kernel") and timeout > request["most_seconds"] > 5
        cell = Cell.model_validate(request["cell"])
        self.asked.append(cell)
        if cell.seq_len > self.longest:
            return Timed(None, True, f"R at {cell.seq_len}: too long", is_long=True)
        if self.problem or not self.choice:
            return Timed(None, True, self.problem)
        times = [KernelTime(kernel=kernel, samples=[1.0]) for kernel in (FAST, OTHER)]
        return Timed(KernelChoice(cell=cell, chosen=FAST, kernels=times, compared="medians"), True)


def chosen(host: FakeHost, shapes: Cell, said: list[str]) -> Kernel | None:
    return chosen_kernel(cast(Host, host), shapes, said.append)


@pytest.fixture
def shapes() -> Cell:
    sample = Sample(
        framework="torch", variant="R", peer="textbook", mode="train", seq_len=1024, batch=2,
        head_dim=None, dtype="float32", device="cpu",
    )  # fmt: skip
    return our_shapes(sample, d_model=64, heads=4)


@pytest.mark.parametrize(
    ("longest", "asked"), [(1024, [1024]), (1023, [1024, 512]), (300, [1024, 512, 256])]
)
def test_where_steps_take_too_long_a_shorter_length_decides(
    shapes: Cell, longest: int, asked: list[int]
) -> None:
    host, said = FakeHost(longest), list[str]()
    assert chosen(host, shapes, said) == FAST
    assert [cell.seq_len for cell in host.asked] == asked
    assert [cell.model.max_len for cell in host.asked] == asked  # R's table is of that length too
    assert {cell.batch for cell in host.asked} == {2}
    assert not said


def test_no_length_at_all_ends_with_a_reason(shapes: Cell) -> None:
    host, said = FakeHost(longest=0), list[str]()
    assert chosen(host, shapes, said) is None
    assert host.asked[-1].seq_len == 1
    assert said == ["no kernel chosen for R at 1: too long"]


def test_a_form_with_one_kernel_has_none_to_choose_and_needs_no_word(shapes: Cell) -> None:
    said: list[str] = []
    assert chosen(FakeHost(4096, choice=False), shapes, said) is None
    assert not said


def test_a_race_that_fails_is_reported(shapes: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    host, said = FakeHost(4096, problem="R at 1024: no memory"), list[str]()
    assert chosen(host, shapes, said) is None

    def ends(*_: object) -> Timed:
        raise SynthbenchError("the process ended")

    monkeypatch.setattr(host, "call", ends)
    assert chosen(host, shapes, said) is None
    assert said == [
        "no kernel chosen for R at 1024: no memory",
        "no kernel chosen for R at 1024: the process ended",
    ]
