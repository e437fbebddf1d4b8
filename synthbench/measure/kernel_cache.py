"""Kernels that were chosen before on this machine, with these versions, in the user's cache.

Those for runs and those for modules outside of runs are kept apart: a run keeps freed memory, and
where a process returns it, each step pays for new pages, so that another kernel may be the fastest.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from synthbench.kernel import Purpose
from synthbench.measure.source import source_digest
from synthbench.measure.user_cache import machine_file, user_cache, write_cached
from synthbench.run_info import KernelChoice

CHOICES = TypeAdapter(list[KernelChoice])
KINDS = {Purpose.RUNS: "kernels", Purpose.MODULES: "kernels-for-modules"}  # folders of the cache
# Folders and files of the package: what is timed, and how the times decide. After a change
# elsewhere, a run still uses the kernels of earlier runs and can be compared with them.
CODE = (
    "analysis/kernel_race.py", "analysis/paired_ratio.py", "backends", "kernel.py",
    "measure/allocator.py", "measure/kernel_choice.py", "measure/new_pages.py",
    "measure/timing.py", "mixers", "models",
)  # fmt: skip


def cache_folder(purpose: Purpose = Purpose.RUNS) -> Path:
    """The folder of the user's cache for choices of kernels."""
    return user_cache(KINDS[purpose])


def cache_file(environment: dict[str, Any], purpose: Purpose = Purpose.RUNS) -> Path:
    """The file for a machine and its software, as `read_environment` describes them."""
    return machine_file(KINDS[purpose], environment, source_digest(CODE))


def read_choices(file: Path) -> list[KernelChoice]:
    """The choices in a file of the cache; none where it is missing or damaged."""
    try:
        return CHOICES.validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return []


def store_choices(file: Path, choices: Iterable[KernelChoice]) -> None:
    """Add choices to a file of the cache, in place of older ones of the same cells.

    One whose timing was disturbed takes the place of such a one only: it is made again in later
    runs, as far as their time allows.
    """
    known = {choice.cell.id: choice for choice in read_choices(file)}
    for choice in choices:
        earlier = known.get(choice.cell.id)
        if earlier is None or earlier.warnings or not choice.warnings:
            known[choice.cell.id] = choice
    write_cached(file, CHOICES.dump_json(list(known.values())))
