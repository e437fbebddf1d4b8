"""Which kernel a form uses where it has several.

A form declares its kernels for given inputs in an order. The first is taken where nothing has been
measured: it follows from a rule that needs no clock, so that it is the same in every process. A run
measures the others once and lets all of its cells use the fastest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from synthbench.kernel import Kernel

# The reference form is not a kernel to choose above this many logits, [B,H,L,L]: it is there to be
# compared. R and Fix alone hold [H,L,L] in either form.
PLAIN_AT_MOST = 2**24
PLAIN_OF_TABLES_AT_MOST = 2**27
TABLES = frozenset({"random", "fixed_random"})


def may_be_plain(components: Collection[str], batch: int, heads: int, seq_len: int) -> bool:
    """Whether the reference form is one of the kernels for these components."""
    most = PLAIN_OF_TABLES_AT_MOST if TABLES.issuperset(components) else PLAIN_AT_MOST
    return batch * heads * seq_len * seq_len <= most


def that_differ(sizes: Sequence[Mapping[str, int]], queries: int, logits: int) -> list[Any]:
    """The sizes of blocks without those that lead to the same blocks of so many queries in all."""
    found: dict[tuple[int, int], Mapping[str, int]] = {}
    for size in sizes:
        found.setdefault((min(size["queries"], queries), min(size["logits"], logits)), size)
    return list(found.values())


class LookUp(Protocol):
    """Gives the kernel that was chosen for the shapes of a call; None: the form's first."""

    def __call__(
        self, batch: int, seq_len: int, dtype: str, device: str, *, trained: bool
    ) -> Kernel | None: ...


_wanted: Kernel | None = None
_taken: Kernel | None = None
_trained: bool | None = None
_offers: list[dict[Kernel, None]] = []
_only_offers = False


class OfferMadeError(Exception):
    """Ends a computation of which only the kernels to choose from are wanted."""


def choose(kernels: Sequence[Kernel]) -> Kernel:
    """The kernel that is wanted if the form has it, else the first of its kernels.

    A form has it at any sizes of blocks: for small inputs several sizes lead to the same blocks.
    """
    global _taken
    for offer in _offers:
        offer.update(dict.fromkeys(kernels))
    if _only_offers:
        raise OfferMadeError
    _taken = kernels[0]
    if _wanted is not None and any(_wanted.is_like(kernel) for kernel in kernels):
        _taken = _wanted
    return _taken


def taken_kernel() -> Kernel | None:
    """What the last choice in this process gave; None if there was none."""
    return _taken


def take(kernel: Kernel | None) -> None:
    """Note what a choice gave in an earlier process, whose program this one has loaded."""
    global _taken
    _taken = kernel


def wanted_kernel() -> Kernel | None:
    """What forms use in this process where they have it: that of `using_kernel`."""
    return _wanted


@contextmanager
def using_kernel(kernel: Kernel | None) -> Iterator[None]:
    """In this block, forms use this kernel where they have it; None: the first of their own."""
    global _wanted
    before, _wanted = _wanted, kernel
    try:
        yield
    finally:
        _wanted = before


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
def recording_offers() -> Iterator[dict[Kernel, None]]:
    """Collect every kernel that a form could have used in this block, in their order."""
    offer: dict[Kernel, None] = {}
    _offers.append(offer)
    try:
        yield offer
    finally:
        _offers.remove(offer)


@contextmanager
def only_offers() -> Iterator[dict[Kernel, None]]:
    """Like `recording_offers`; the first choice of a form ends the block before it computes."""
    global _only_offers
    before, _only_offers = _only_offers, True
    try:
        with recording_offers() as offer, suppress(OfferMadeError):
            yield offer
    finally:
        _only_offers = before
