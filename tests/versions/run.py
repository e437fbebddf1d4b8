"""Run the tests with the combinations of Python, torch and jax in combinations.toml.

    python -m tests.versions.run                     every combination, as `make test-versions`
    python -m tests.versions.run py312-newest -- -x tests/test_api.py    one, with pytest's options

Each combination has a virtual environment of its own, .venvs/<name>, installed from <name>.lock. A
combination whose Python or packages this machine cannot get is reported as not available, which is
a failure only with --strict. The exit status is 1 where a combination failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENVS = ROOT / ".venvs"


class Combination(NamedTuple):
    """One row of combinations.toml: versions, as strings."""

    name: str
    python: str
    torch: str
    jax: str
    flax: str

    @property
    def lock(self) -> Path:
        """The file that pins its packages."""
        return HERE / f"{self.name}.lock"

    def __str__(self) -> str:
        return f"{self.name}: Python {self.python}, torch {self.torch}, jax {self.jax}"


class NotAvailable(Exception):  # noqa: N818
    """This machine cannot get a combination's Python or packages."""


def combinations() -> list[Combination]:
    """Every row of combinations.toml."""
    with (HERE / "combinations.toml").open("rb") as file:
        return [Combination(**row) for row in tomllib.load(file)["combination"]]


def find_python(version: str) -> str:
    """A Python of this version (major.minor) on the path or among pyenv's; raises NotAvailable."""
    for python in _pythons(version):
        probe = [python, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(probe, capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return python
    raise NotAvailable(f"Python {version} is not on the path and not among pyenv's versions")


def _pythons(version: str) -> Iterator[str]:
    on_path = shutil.which(f"python{version}")
    if on_path is not None:
        yield on_path
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from (str(path) for path in sorted(pyenv.glob(f"versions/{version}.*/bin/python")))


def install(combination: Combination) -> Path:
    """The Python of the combination's environment, made where the lock has changed."""
    venv = VENVS / combination.name
    python, installed = venv / "bin" / "python", venv / "installed.lock"
    lock = combination.lock.read_text()
    if not installed.exists() or installed.read_text() != lock:
        base = find_python(combination.python)
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([base, "-m", "venv", str(venv)], check=True)
        pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
        for wanted in (["-r", str(combination.lock)], ["--no-deps", "--editable", str(ROOT)]):
            done = subprocess.run([*pip, *wanted], stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode != 0:
                errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
                raise NotAvailable("; ".join(errors) or f"pip ended with status {done.returncode}")
        installed.write_text(lock)
    return python


def run_one(combination: Combination, jobs: str, options: list[str]) -> str:
    """The outcome of a combination: "passed", "failed: ..." or "not available: ..."."""
    print(f"== {combination}", flush=True)
    try:
        python = install(combination)
    except NotAvailable as error:
        return f"not available: {error}"
    command = [str(python), "-m", "pytest", "-n", jobs, "-p", "no:cacheprovider", *options]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    return "passed" if status == 0 else f"failed: pytest ended with status {status}"


def main(arguments: list[str]) -> int:
    """Run the combinations named, or all, one after another; print one line for each at the end."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(prog="python -m tests.versions.run")
    parser.add_argument("names", nargs="*", metavar="NAME", help="combinations (default: all)")
    parser.add_argument("--jobs", default="2", help="pytest workers (default: 2)")
    parser.add_argument("--strict", action="store_true", help="fail where one is not available")
    args = parser.parse_args(arguments[:cut])
    known = {combination.name: combination for combination in combinations()}
    for name in args.names:
        if name not in known:
            parser.error(f"combination {name!r} not known; known: {', '.join(known)}")
    chosen = [known[name] for name in args.names or known]
    outcomes = {str(c): run_one(c, args.jobs, arguments[cut + 1 :]) for c in chosen}
    print("\n== summary")
    for combination, outcome in outcomes.items():
        print(f"{combination}: {outcome}")
    bad = ("failed", "not available") if args.strict else ("failed",)
    return int(any(outcome.startswith(bad) for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
