"""Which kernel a form uses where it has several.

A form declares its kernels for given inputs in an order. The first is taken where nothing has been
measured: it follows from a rule that needs no clock, so that it is the same in every process. A run
measures the others once and puts the fastest in force by its name, for all of its cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kernel:
    """One way to compute a form: the algorithm, the library of its products, its block sizes."""

    path: str  # what tables call it, like "blocks of queries"
    products: str = ""  # the library of matrix products; empty where the framework has only one
    logits: int = 0  # per block, at most; 0 where there are no blocks
    queries: int = 0  # per block, at most; 0 where `logits` alone decides

    @property
    def name(self) -> str:
        """The kernel in one line, different from every other of the same form."""
        both = (self.queries, "queries"), (self.logits, "logits")
        sizes = [f"{_power_of_two(number)} {what}" for number, what in both if number]
        blocks = [f"at most {' and '.join(sizes)} per block"] if sizes else []
        products = [f"products by {self.products}"] if self.products else []
        return ", ".join([self.path, *blocks, *products])


def _power_of_two(number: int) -> str:
    """Large powers of two as such: 262144 is 2^18."""
    exponent = number.bit_length() - 1
    return f"2^{exponent}" if exponent > 10 and number == 1 << exponent else str(number)


def that_differ(sizes: Sequence[Mapping[str, int]], queries: int, logits: int) -> list[Any]:
    """The sizes of blocks without those that lead to the same blocks of so many queries in all."""
    found: dict[tuple[int, int], Mapping[str, int]] = {}
    for size in sizes:
        found.setdefault((min(size["queries"], queries), min(size["logits"], logits)), size)
    return list(found.values())


_in_force: str | None = None
_trained: bool | None = None
_offers: list[dict[str, Kernel]] = []
_only_offers = False


class OfferMadeError(Exception):
    """Ends a computation of which only the kernels to choose from are wanted."""


def choose(kernels: Sequence[Kernel]) -> Kernel:
    """The kernel in force if it is among these, else the first of them."""
    for offer in _offers:
        offer.update((kernel.name, kernel) for kernel in kernels)
    if _only_offers:
        raise OfferMadeError
    if _in_force is not None:
        for kernel in kernels:
            if kernel.name == _in_force:
                return kernel
    return kernels[0]


def kernel_in_force() -> str | None:
    """The name of the kernel that forms use where they have it; None: their first."""
    return _in_force


@contextmanager
def using_kernel(name: str | None) -> Iterator[None]:
    """In this block, forms use the kernel of this name where they have it; None: their first."""
    global _in_force
    before, _in_force = _in_force, name
    try:
        yield
    finally:
        _in_force = before


def is_trained() -> bool | None:
    """Whether the program that is being traced computes gradients; None: it is not known."""
    return _trained


@contextmanager
def tracing(trained: bool) -> Iterator[None]:
    """In this block, programs are traced that do, or do not, compute gradients."""
    global _trained
    before, _trained = _trained, trained
    try:
        yield
    finally:
        _trained = before


@contextmanager
def recording_offers() -> Iterator[dict[str, Kernel]]:
    """Collect every kernel that a form could have used in this block, by name, in their order."""
    offer: dict[str, Kernel] = {}
    _offers.append(offer)
    try:
        yield offer
    finally:
        _offers.remove(offer)


@contextmanager
def only_offers() -> Iterator[dict[str, Kernel]]:
    """Like `recording_offers`; the first choice of a form ends the block before it computes."""
    global _only_offers
    before, _only_offers = _only_offers, True
    try:
        with recording_offers() as offer, suppress(OfferMadeError):
            yield offer
    finally:
        _only_offers = before
