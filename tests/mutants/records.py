"""Which functions each test executes, and how long it takes: recorded once per test file.

A test file is run in a process that has not imported the package, under coverage.py with one
context per test. What a fixture of a wider scope than one test executes belongs to every test that
uses it. Code that runs in processes which a test starts is not seen; such tests are marked.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.mutants.generate import MODULE
from tests.mutants.sandbox import OPTIONS

STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn")  # audit events


@dataclass
class TestFile:
    """What was recorded of one test file."""

    __test__ = False

    digest: str
    startup: float = 0.0  # seconds until its first test
    seconds: dict[str, float] = field(default_factory=dict)  # test -> seconds
    functions: dict[str, list[str]] = field(default_factory=dict)  # path::scope -> tests
    imported: list[str] = field(default_factory=list)  # modules executed while it is collected
    starts: list[str] = field(default_factory=list)  # tests that start a process
    failed: list[str] = field(default_factory=list)  # tests that fail without any mutant


def digest_of(file: Path) -> str:
    """A digest of a file's content."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def read(folder: Path, tests: Path) -> dict[str, TestFile]:
    """What was recorded of test files that have not changed since: name -> record."""
    found = {}
    for file in sorted(folder.glob("*.json")):
        record = TestFile(**json.loads(file.read_text()))
        test_file = tests / f"{file.stem}.py"
        if test_file.exists() and digest_of(test_file) == record.digest:
            found[f"tests/{test_file.name}"] = record
    return found


def recording_job(
    test_file: str, packages: Iterable[str], target: Path, scratch: Path
) -> Callable[[], int]:
    """A job for the sandbox: run a test file and write its TestFile to `target`."""

    def job() -> int:
        tree = Path.cwd()
        measure = coverage.Coverage(
            data_file=str(scratch) + ".coverage", source=[str(tree / name) for name in packages],
            config_file=False, messages=False,
        )  # fmt: skip
        measure.start()
        recorder = _Recorder(measure)
        started = time.perf_counter()
        pytest.main([*OPTIONS, f"--basetemp={scratch}", test_file], plugins=[recorder])
        measure.stop()
        record = TestFile(digest=digest_of(tree / test_file))
        record.startup = (recorder.first or time.perf_counter()) - started
        record.seconds = dict(recorder.seconds)
        record.starts = sorted(recorder.starts)
        record.failed = sorted(recorder.failed)
        record.functions, record.imported = _functions(measure.get_data(), tree, recorder)
        target.write_text(json.dumps(asdict(record), indent=0))
        return 0

    return job


def _functions(
    data: Any, tree: Path, recorder: _Recorder
) -> tuple[dict[str, list[str]], list[str]]:
    """(path::scope -> tests, modules executed outside tests) from coverage's data."""
    users: dict[str, set[str]] = defaultdict(set)  # context of a fixture -> tests
    for test, fixtures in recorder.fixtures.items():
        for fixture in fixtures:
            users[f"fixture {fixture}"].add(test)
    functions: dict[str, set[str]] = defaultdict(set)
    imported = set()
    for measured in data.measured_files():
        path = Path(measured).relative_to(tree).as_posix()
        scopes = scopes_of(Path(measured).read_text())
        for line, contexts in data.contexts_by_lineno(measured).items():
            scope = scopes.get(line, MODULE)
            for context in contexts:
                if scope == MODULE:
                    imported.add(path)
                elif context:
                    functions[f"{path}::{scope}"] |= users.get(context, {context})
    return {key: sorted(tests) for key, tests in sorted(functions.items())}, sorted(imported)


@cache
def scopes_of(source: str) -> dict[int, str]:
    """Line -> the outermost function or method whose body contains it."""
    found: dict[int, str] = {}

    def visit(node: ast.AST, names: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                visit(child, (*names, child.name))
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                first, last = child.body[0].lineno, child.end_lineno or child.lineno
                found.update(dict.fromkeys(range(first, last + 1), ".".join((*names, child.name))))
            else:
                visit(child, names)

    visit(ast.parse(source), ())
    return found


class _Recorder:
    """A pytest plugin: seconds and contexts of tests and of fixtures with a wider scope."""

    def __init__(self, measure: Any) -> None:
        self.measure = measure
        self.first: float | None = None
        self.seconds: dict[str, float] = defaultdict(float)
        self.fixtures: dict[str, list[str]] = {}
        self.starts: set[str] = set()
        self.failed: set[str] = set()
        self._test = ""
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._test and event in STARTS:
            self.starts.add(self._test)

    def pytest_runtest_protocol(self, item: Any) -> None:
        self.first = self.first or time.perf_counter()
        self._test = item.nodeid
        self.fixtures[item.nodeid] = list(item.fixturenames)
        self.measure.switch_context(item.nodeid)

    def pytest_runtest_logfinish(self) -> None:
        self._test = ""
        self.measure.switch_context("")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        wide = fixturedef.scope != "function"
        if wide:
            self.measure.switch_context(f"fixture {fixturedef.argname}")
        try:
            return (yield)
        finally:
            if wide:
                self.measure.switch_context(self._test)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += round(report.duration, 4)
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
