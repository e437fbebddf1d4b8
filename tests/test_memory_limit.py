"""The limit of what a process may still allocate, with a system made up."""

from __future__ import annotations

import os
import resource

import pytest

from synthbench.measure import memory_limit
from synthbench.measure.memory_limit import (
    LARGEST_LIMIT,
    lift_memory_limit,
    limit_memory,
    raise_memory_limit,
)

NONE = resource.RLIM_INFINITY
MIB = 2**20


class FakeLimits:
    """The limits of a process, by resource."""

    def __init__(self, soft: int = NONE, hard: int = NONE) -> None:
        self.limits = {resource.RLIMIT_AS: (soft, hard), resource.RLIMIT_CORE: (5, 5)}

    @property
    def address_space(self) -> tuple[int, int]:
        return self.limits[resource.RLIMIT_AS]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> FakeLimits:
    """Limits of this process that are not real; it has 100 MiB of address space."""
    fake = FakeLimits()
    monkeypatch.setattr(resource, "getrlimit", lambda kind: fake.limits[kind])
    monkeypatch.setattr(resource, "setrlimit", fake.limits.__setitem__)
    monkeypatch.setattr(memory_limit, "_address_space", lambda: 100 * MIB)
    monkeypatch.setattr(memory_limit, "available_memory", lambda: 1000)
    return fake


def test_the_limit_leaves_room_for_threads(limits: FakeLimits) -> None:
    assert limit_memory(50 * MIB, cores=2) == 50 * MIB
    assert limits.address_space == ((100 + 1536 + 2 * 256 + 50) * MIB, NONE)
    assert limits.limits[resource.RLIMIT_CORE] == (0, 0)


def test_without_a_number_it_is_nine_tenths_of_what_is_available(limits: FakeLimits) -> None:
    assert limit_memory(None, cores=0) == 900
    assert limits.address_space[0] == (100 + 1536) * MIB + 900
    assert limit_memory(0, cores=0) == 0


def test_a_hard_limit_is_never_exceeded(limits: FakeLimits) -> None:
    hard = (100 + 1536 + 256 + 30) * MIB
    limits.limits[resource.RLIMIT_AS] = (hard, hard)
    assert limit_memory(50 * MIB, cores=1) == 30 * MIB
    assert limits.address_space == (hard, hard)
    limits.limits[resource.RLIMIT_AS] = (MIB, MIB)
    assert limit_memory(50 * MIB, cores=1) == 0
    assert limits.address_space == (MIB, MIB)


def test_a_huge_limit_is_cut_to_what_the_system_takes(limits: FakeLimits) -> None:
    assert limit_memory(2**70, cores=0) == LARGEST_LIMIT - (100 + 1536) * MIB
    assert limits.address_space == (LARGEST_LIMIT, NONE)
    assert LARGEST_LIMIT == 2**62


def test_without_proc_there_is_no_limit(
    limits: FakeLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_limit, "_address_space", lambda: None)
    assert limit_memory(50, cores=1) is None
    assert limits.address_space == (NONE, NONE)


@pytest.mark.parametrize(
    ("soft", "hard", "more", "raised"),
    [
        (100, NONE, 50, 150),
        (100, 120, 50, 120),
        (100, 500, 50, 150),
        (NONE, NONE, 50, NONE),
        (100, NONE, 2**70, 2**62),
    ],
)
def test_a_limit_is_raised_up_to_the_hard_one(
    limits: FakeLimits, soft: int, hard: int, more: int, raised: int
) -> None:
    limits.limits[resource.RLIMIT_AS] = (soft, hard)
    raise_memory_limit(more)
    assert limits.address_space == (raised, hard)


def test_a_lifted_limit_is_the_hard_one(limits: FakeLimits) -> None:
    limits.limits[resource.RLIMIT_AS] = (100, 700)
    lift_memory_limit()
    assert limits.address_space == (700, 700)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="there is no /proc here")
def test_the_address_space_is_that_of_this_process() -> None:
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmSize"))
    now = int(line.split()[1]) * 1024
    assert memory_limit._address_space() == pytest.approx(now, rel=0.2)
