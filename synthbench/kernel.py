"""What a kernel is: one of several ways in which a form of a mixer can compute the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Purpose(StrEnum):
    """What a kernel is chosen for: where freed memory is not kept, another one may be faster."""

    RUNS = "runs"  # their processes keep freed memory
    MODULES = "modules"  # outside of runs: freed memory goes back to the system, its default


@dataclass(frozen=True)
class Kernel:
    """One way to compute a form: the algorithm, the library of its products, its block sizes."""

    path: str  # what tables call it, like "blocks of queries"
    products: str = ""  # the library of matrix products; empty where the framework has only one
    logits: int = 0  # per block, at most; 0 where there are no blocks
    queries: int = 0  # per block, at most; 0 where `logits` alone decides

    def is_like(self, other: Kernel) -> bool:
        """Whether the two differ in nothing but the sizes of their blocks."""
        return (self.path, self.products) == (other.path, other.products)

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
