"""The kernel of our side in the benchmark against peers: the one that a run would choose."""

from __future__ import annotations

from typing import Any, cast

import pytest

from benchmarks.peers.kernels import chosen_kernel, our_shapes
from benchmarks.peers.samples import Sample
from synthbench.errors import SynthbenchError
from synthbench.kernel import Kernel
from synthbench.measure.core_distance import FAR, UsualDistance
from synthbench.measure.kernel_choice import Timed
from synthbench.run.host_client import Host
from synthbench.run_info import KernelChoice, KernelTime
from synthbench.suites.cell import Cell

FAST, OTHER = Kernel("blocks of queries"), Kernel("reference form")


class FakeHost:
    """Answers that only steps up to a length can be timed; which lengths it was asked for.

    The first `disturbed` races have a warning, and another winner.
    """

    def __init__(
        self, longest: int, problem: str = "", choice: bool = True, disturbed: int = 0
    ) -> None:
        self.longest, self.problem, self.choice = longest, problem, choice
        self.disturbed = disturbed
        self.asked: list[Cell] = []
        self.requests: list[dict[str, Any]] = []

    def call(self, target: str, request: dict[str, Any], timeout: float) -> Timed:
        assert target.endswith(":choose_kernel") and timeout > request["most_seconds"] > 5
        cell = Cell.model_validate(request["cell"])
        self.asked.append(cell)
        self.requests.append(request)
        if cell.seq_len > self.longest:
            return Timed(None, True, f"R at {cell.seq_len}: too long", is_long=True)
        if self.problem or not self.choice:
            return Timed(None, True, self.problem)
        times = [KernelTime(kernel=kernel, samples=[1.0]) for kernel in (FAST, OTHER)]
        far = len(self.asked) <= self.disturbed
        made = KernelChoice(
            cell=cell, chosen=OTHER if far else FAST, kernels=times, compared="medians",
            warnings=["far cores"] * far, core_distance=2 * FAR if far else 1.0,
        )  # fmt: skip
        return Timed(made, True)


def chosen(
    host: FakeHost, shapes: Cell, said: list[str], keep_memory: bool = False
) -> Kernel | None:
    return chosen_kernel(cast(Host, host), shapes, keep_memory, UsualDistance(), said.append)


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


@pytest.mark.parametrize("keep_memory", [False, True])
def test_kernels_are_timed_in_the_state_of_memory_of_the_pair(
    shapes: Cell, keep_memory: bool
) -> None:
    host = FakeHost(4096)
    chosen(host, shapes, [], keep_memory)
    assert [request["keep_memory"] for request in host.requests] == [keep_memory]


@pytest.mark.parametrize(
    ("disturbed", "races", "winner"), [(0, 1, FAST), (2, 3, FAST), (3, 3, OTHER)]
)
def test_a_race_that_was_disturbed_is_run_again_up_to_twice(
    shapes: Cell, disturbed: int, races: int, winner: Kernel
) -> None:
    host = FakeHost(4096, disturbed=disturbed)
    assert chosen(host, shapes, []) == winner
    assert len(host.asked) == races


def test_where_cores_are_never_near_far_ones_are_no_disturbance(shapes: Cell) -> None:
    host, usual = FakeHost(4096, disturbed=1), UsualDistance()
    for _ in range(20):
        usual.add(2 * FAR)
    chosen_kernel(cast(Host, host), shapes, False, usual, print)
    assert [request["cores_may_be_near"] for request in host.requests] == [False, False]


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
