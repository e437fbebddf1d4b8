"""Which mutants are run: a sample in proportion to the packages, the same for the same seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.mutants.generate import Mutant, mutants_of

PACKAGES = (
    "synthbench/mixers",
    "synthbench/backends/torch/mixers",
    "synthbench/backends/jax/mixers",
    "synthbench/analysis",
    "synthbench/measure",
    "synthbench/report/data",
)


def all_mutants(
    root: Path, packages: Iterable[str] = PACKAGES, only: str = ""
) -> dict[str, list[Mutant]]:
    """Every mutant below `root` by package, of the files whose path contains `only`."""
    return {
        package: [
            mutant
            for file in sorted((root / package).glob("*.py"))
            if only in (path := file.relative_to(root).as_posix())
            for mutant in mutants_of(path, file.read_text())
        ]
        for package in packages
    }


def sample(mutants: Mapping[str, list[Mutant]], count: int, seed: int) -> list[Mutant]:
    """`count` mutants, in proportion to the packages; those that are not Python are passed over.

    Each mutant has a rank that depends only on its key and the seed, so a change of one function
    changes little of the sample.
    """
    chosen: list[Mutant] = []
    for package, share in shares({p: len(found) for p, found in mutants.items()}, count).items():
        ranked = sorted(mutants[package], key=lambda mutant: _rank(mutant, seed))
        valid = (mutant for mutant in ranked if _is_python(mutant))
        chosen += [mutant for mutant, _ in zip(valid, range(share), strict=False)]
    return sorted(chosen, key=lambda mutant: _rank(mutant, seed))


def shares(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """`count` divided in proportion to the sizes: rounded down, the rest to the largest rests."""
    total = sum(sizes.values())
    if total <= count:
        return dict(sizes)
    exact = {name: size * count / total for name, size in sizes.items()}
    whole = {name: int(share) for name, share in exact.items()}
    by_rest = sorted(exact, key=lambda name: whole[name] - exact[name])
    for name in by_rest[: count - sum(whole.values())]:
        whole[name] += 1
    return whole


def _rank(mutant: Mutant, seed: int) -> str:
    return hashlib.sha256(f"{seed}/{mutant.key}".encode()).hexdigest()


def _is_python(mutant: Mutant) -> bool:
    try:
        mutant.source()
    except SyntaxError:
        return False
    return True
