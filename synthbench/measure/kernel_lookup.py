"""The kernels that were chosen on this machine, for calls outside of runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from synthbench.errors import SynthbenchError
from synthbench.kernel import Kernel, Purpose
from synthbench.measure.environment import read_environment
from synthbench.measure.kernel_cache import cache_file, cache_folder, read_choices
from synthbench.measure.kernel_choice import raced_cell
from synthbench.mixers.sizes import Sizes
from synthbench.run_info import KernelChoice
from synthbench.suites.cell import Cell

Known = dict[str, list[tuple[int, Kernel]]]  # a cell without its length -> lengths and kernels


@dataclass(frozen=True)
class KernelLookup:
    """The chosen kernel of a mixer for the shapes of a call."""

    framework: str
    variant: str
    sizes: Sizes
    causal: bool
    form: str

    def __call__(
        self, batch: int, seq_len: int, dtype: str, device: str, *, trained: bool
    ) -> Kernel | None:
        """The kernel chosen at this length, or at a shorter and a longer one alike; None if none.

        A choice for modules comes before one for runs, whose processes keep freed memory. Never
        raises: where anything is unusual, the form takes the kernel that needs no measurement.
        """
        if self.form == "reference" or not any(known := chosen_here()):
            return None
        try:
            cell = self._cell(batch, seq_len, dtype, device, trained=trained)
        except (SynthbenchError, ValidationError):  # sizes or types that no run has
            return None
        shape = _without_length(cell)
        found = (at_length(choices.get(shape, []), seq_len) for choices in known)
        return next((kernel for kernel in found if kernel is not None), None)

    def _cell(self, batch: int, seq_len: int, dtype: str, device: str, *, trained: bool) -> Cell:
        around: dict[str, Any] = {"model": "decoder", "vocabulary": 2} if self.causal else {}
        sizes = self.sizes
        own = None if sizes.head_dim * sizes.heads == sizes.d_model else sizes.head_dim
        return Cell.from_flat(
            variant=self.variant, framework=self.framework, mode="train" if trained else "forward",
            seq_len=seq_len, batch=batch, dtype=dtype, device=device,
            compile="eager" if self.framework == "torch" else "compiled",
            d_model=sizes.d_model, heads=sizes.heads, head_dim=own, max_len=seq_len, **around,
        )  # fmt: skip


def at_length(chosen: Iterable[tuple[int, Kernel]], seq_len: int) -> Kernel | None:
    """The kernel chosen at a length, or both at the next shorter and at the next longer one."""
    ordered = sorted(chosen, key=lambda pair: pair[0])
    below = [kernel for length, kernel in ordered if length <= seq_len]
    above = [kernel for length, kernel in ordered if length >= seq_len]
    if below and above and below[-1] == above[0]:
        return above[0]
    return None


@lru_cache(maxsize=1)
def chosen_here() -> tuple[Known, Known]:
    """The choices in the cache for this machine and its software, as this process found them.

    First those for modules, then those for runs.

    Without those that something disturbed: only runs, which time them again, fall back to them.
    """
    order = (Purpose.MODULES, Purpose.RUNS)
    if not any(any(cache_folder(purpose).glob("*.json")) for purpose in order):
        return {}, {}
    environment = read_environment()
    files = (cache_file(environment, purpose) for purpose in order)
    of_modules, of_runs = (
        by_shape(choice for choice in read_choices(file) if not choice.warnings) for file in files
    )
    return of_modules, of_runs


def by_shape(choices: Iterable[KernelChoice]) -> Known:
    """Choices by everything but their length."""
    known: Known = {}
    for choice in choices:
        pair = choice.cell.seq_len, choice.chosen
        known.setdefault(_without_length(choice.cell), []).append(pair)
    return known


def _without_length(cell: Cell) -> str:
    raced = raced_cell(cell)
    return raced.changed(seq_len=1, model=raced.model.model_copy(update={"max_len": 1})).id
