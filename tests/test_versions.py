"""The combinations of `make test-versions` are the ends of the ranges in pyproject.toml."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest

from tests.versions import run
from tests.versions.run import ROOT, Combination, combinations

with (ROOT / "pyproject.toml").open("rb") as file:
    PROJECT = tomllib.load(file)["project"]
EXTRAS = PROJECT["optional-dependencies"]
REQUIRED = [*PROJECT["dependencies"], *EXTRAS["torch"], *EXTRAS["jax"], *EXTRAS["test"]]
PYTHONS = [c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]


def pinned(combination: Combination) -> dict[str, str]:
    lines = combination.lock.read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, without zeros at the end: 2.0 is 2.0.0."""
    return tuple(int(number) for number in re.findall(r"\d+", re.sub(r"(\.0)+$", "", version)))


def test_every_python_has_an_oldest_and_a_newest() -> None:
    found = {(c.python, c.name) for c in combinations()}
    ends = [(p, f"py{p.replace('.', '')}-{end}") for p in PYTHONS for end in ("oldest", "newest")]
    assert found == set(ends)


@pytest.mark.parametrize("combination", combinations(), ids=lambda c: c.name)
def test_a_lock_pins_what_the_table_and_the_ranges_say(combination: Combination) -> None:
    pins = pinned(combination)
    for name in ("torch", "jax", "flax"):
        assert pins[name] == getattr(combination, name)
    for requirement in REQUIRED:
        match = re.fullmatch(r"([\w-]+)>=([\w.]+)(?:,<([\d.]+))?", requirement)
        assert match is not None, requirement
        name, oldest, end = match.groups()
        pin = pins[name.lower()]
        assert numbers(oldest) <= numbers(pin)
        assert end is None or numbers(pin) < numbers(end)
    assert not [name for name in pins if name.startswith(("cuda-", "nvidia-cu", "triton"))]


def test_on_the_oldest_python_every_package_is_the_oldest_allowed() -> None:
    (combination,) = (c for c in combinations() if c.name == "py311-oldest")
    pins = pinned(combination)
    for requirement in REQUIRED:
        name, oldest = re.split(">=|,", requirement)[:2]
        assert numbers(pins[name.lower()]) == numbers(oldest), requirement


def test_a_missing_python_fails_only_when_strict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = Combination("py399-newest", "3.99", "2.15.0", "0.11.2", "0.12.12")
    monkeypatch.setattr(run, "combinations", lambda: [nowhere])
    monkeypatch.setattr(Combination, "lock", combinations()[0].lock)
    assert run.main([]) == 0
    assert f"{nowhere}: not available: Python 3.99 is not" in capsys.readouterr().out
    assert run.main(["--strict"]) == 1


def test_an_unknown_combination_names_the_known_ones() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.versions.run", "py27"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "combination 'py27' not known; known: py311-oldest, " in done.stderr
