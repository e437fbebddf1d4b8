"""pytest in a forked child, on a copy of the tree: fast, because this process has imported torch,
jax and the rest; safe, because a mutant may loop, fill the memory or leave processes behind."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import psutil
import pytest

# What the tests and the package import, but not the package itself: a child imports its own copy.
PRELOADED = (
    "torch fvcore.nn jax flax.nnx optax numpy scipy.stats scipy.optimize pandas pydantic yaml "
    "typer rich.console rich.table tabulate hypothesis xdist pytest_benchmark.plugin"
).split()
MEMORY_LIMIT = 8 * 2**30  # bytes of all processes of a child
LOOK_EVERY = 0.5  # seconds
PASSED, FAILED, TIMEOUT = 0, 1, 2
# pytest's; the warning is that preloaded plug-ins come too late to have their assertions rewritten.
OPTIONS = (
    "-q -p no:cacheprovider --no-header --hypothesis-seed=0 "
    "-W ignore::pytest.PytestAssertRewriteWarning"
).split()
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Selection(NamedTuple):
    """Which tests to run: pytest's node ids, in this order."""

    tests: list[str]
    limit: float  # seconds


def preload(names: Iterable[str] = PRELOADED) -> None:
    """Import what children share. The variables are those of tests/conftest.py, read at import."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def copy_tree(root: Path, target: Path) -> None:
    """Copy what git knows, or would, from `root` to `target`."""
    shutil.rmtree(target, ignore_errors=True)
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, listing.split("\0")):
        source, copy = root / name, target / name
        if source.exists() or source.is_symlink():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)


def write_source(file: Path, source: str) -> None:
    """Replace a module's source, and make Python compile it anew."""
    file.write_text(source)
    for stale in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        stale.unlink()


def start(tree: Path, job: Callable[[], int], log: Path, limit: float) -> int:
    """Fork a supervisor that runs `job` in a child with `tree` as the only source of the package.

    Returns the supervisor's process id. Its exit status is PASSED, FAILED or TIMEOUT.
    """
    sys.stdout.flush()
    supervisor = os.fork()
    if supervisor == 0:
        _supervise(tree, job, log, limit)
    return supervisor


def _supervise(tree: Path, job: Callable[[], int], log: Path, limit: float) -> NoReturn:
    """Wait for the child; then leave no process behind, whatever session it is in."""
    outcome = FAILED
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # also when the parent is killed
        child = os.fork()
        if child == 0:
            _run_child(tree, job, log)
        outcome = _wait(child, time.monotonic() + limit)
    except KeyboardInterrupt:
        pass
    except BaseException:  # the supervisor must not run its parent's code
        traceback.print_exc()
    finally:
        _end_all()
        os._exit(outcome)


def _end_all() -> None:
    """Kill every descendant; those whose parents have died have become children of this process."""
    with contextlib.suppress(ChildProcessError):  # none left
        while True:
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    process.kill()
            os.waitpid(-1, 0)


def _wait(child: int, deadline: float) -> int:
    seen = 0.0
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return PASSED if status == 0 else FAILED
        now = time.monotonic()
        if now > deadline:
            return TIMEOUT
        if now - seen > LOOK_EVERY:
            seen = now
            if _memory() > MEMORY_LIMIT:
                return FAILED
        time.sleep(0.02)


def _memory() -> int:
    total = 0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            memory: Any = process.memory_info()
            total += memory.rss - memory.shared
    return total


def _run_child(tree: Path, job: Callable[[], int], log: Path) -> NoReturn:
    status = 1
    try:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (file, 1), (file, 2)):
            os.dup2(source, target)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _use(tree)
        status = job()
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _use(tree: Path) -> None:
    """Import the package and its tests from `tree` only, here and in processes started later."""
    old = Path.cwd()
    for name in list(sys.modules):
        if name.partition(".")[0] in ("synthbench", "tests", "benchmarks"):
            del sys.modules[name]
    os.chdir(tree)
    sys.path[:] = [str(tree), *(p for p in sys.path if p and Path(p).resolve() != old)]
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(tree), *(p for p in inherited if p and Path(p).resolve() != old)]
    )
    importlib.invalidate_caches()


def pytest_job(selection: Selection, report: Path, scratch: Path) -> Callable[[], int]:
    """A job that runs the selected tests; the first that fails is written to `report`."""

    def job() -> int:
        shutil.rmtree(scratch, ignore_errors=True)
        files = list(dict.fromkeys(test.partition("::")[0] for test in selection.tests))
        return int(
            pytest.main(
                [*OPTIONS, "-x", f"--basetemp={scratch}", *files],
                plugins=[_Select(selection.tests, report)],
            )
        )

    return job


class _Select:
    """A pytest plugin: run these tests in this order, and note the first that fails."""

    def __init__(self, tests: list[str], report: Path) -> None:
        self.rank = {test: number for number, test in enumerate(tests)}
        self.report = report

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        wanted = [item for item in items if item.nodeid in self.rank]
        config.hook.pytest_deselected(items=[i for i in items if i.nodeid not in self.rank])
        items[:] = sorted(wanted, key=lambda item: self.rank[item.nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._note(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._note(f"{report.nodeid} (collection)")

    def _note(self, test: str) -> None:
        if not self.report.exists():
            self.report.write_text(json.dumps({"failed": test}))
