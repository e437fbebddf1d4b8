"""The runner of `make mutants`, on a package with five mutants, and the committed score."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# ruff: noqa: E402
for needed in ("coverage", "libcst", "mutmut"):  # the extra dev; `make test-versions` has only test
    pytest.importorskip(needed)

from tests.mutants import score as scoring
from tests.mutants.generate import Mutant, mutants_of
from tests.mutants.records import TestFile, scopes_of
from tests.mutants.rules import RULES
from tests.mutants.running import KILLED, SURVIVED, TIMED_OUT, Result
from tests.mutants.sampling import sample, shares
from tests.mutants.selection import plan

ROOT = Path(__file__).resolve().parents[1]

TINY = '''
def add(a: int, b: int) -> int:
    """The sum."""
    return a + b

def first(values):
    return values[0]

def small(n):
    return n < 10

class Empty:
    @property
    def yes(self):
        return not ()
'''
TINY_TEST = """
from tiny.code import Empty, add, first, small

def test_all_but_first():
    assert add(2, 1) == 3 and small(9) and not small(10) and Empty().yes
    first([1, 1])
"""


def run(script: str, **environment: str) -> str:
    """Run Python where nothing was imported and no thread was started: the runner forks."""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=os.environ | environment,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_four_of_five_mutants_are_killed(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tiny" / "__init__.py").touch()
    (tmp_path / "tests" / "__init__.py").touch()
    (tmp_path / "tiny" / "code.py").write_text(TINY)
    (tmp_path / "tests" / "test_tiny.py").write_text(TINY_TEST)
    (tmp_path / ".gitignore").write_text(".mutants\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    script = (
        "from pathlib import Path; from tests.mutants.__main__ import Project, main\n"
        f"main(['--count', '9', '--jobs', '1'], Project(Path({str(tmp_path)!r}), ('tiny',), ()))"
    )
    # Without the plug-ins that are installed, but one whose option is used.
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "_hypothesis_pytestplugin"}
    printed = run(script, **alone)
    assert "4 of 5 mutants killed, 0 timed out, 1 survived: 80.0%" in printed
    survivor = printed.partition("80.0%")[2]
    assert "tiny/code.py:7  first:" in survivor
    assert "-    return values[0]\n    +    return values[1]" in survivor
    lines = (tmp_path / ".mutants/results-10.jsonl").read_text().splitlines()
    results = [json.loads(line) for line in lines]
    killers = {row["killer"] for row in results if row["outcome"] == KILLED}
    assert killers == {"tests/test_tiny.py::test_all_but_first"}
    assert (tmp_path / ".mutants/tree0/tiny/code.py").read_text() == (
        tmp_path / "tiny/code.py"
    ).read_text()
    assert "survived" not in run(script, **alone).partition("4 of 5")[0]  # nothing is run again


@pytest.mark.long
def test_a_mutant_that_does_not_end_leaves_no_process(tmp_path: Path) -> None:
    run(f"""
import os, subprocess, sys, time
from pathlib import Path
import psutil
from tests.mutants import sandbox

def job():
    apart = subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path("started").write_text(str(apart.pid))
    time.sleep(600)

tree = Path({str(tmp_path)!r})
process = sandbox.start(tree, job, tree / "log", 5.0)
assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == sandbox.TIMEOUT
assert not psutil.pid_exists(int((tree / "started").read_text()))
""")


def changes(source: str) -> set[tuple[str, str]]:
    return {(mutant.before, mutant.after) for mutant in mutants_of("a.py", source)}


def test_what_no_test_can_notice_is_left_out() -> None:
    source = '''
"""A docstring."""
from __future__ import annotations
from typing import TYPE_CHECKING, Literal, Protocol, cast
if TYPE_CHECKING:
    x = 1
__all__ = ["a"]
Name = str | int
Mode = Literal["a", "b"]

class Shape(Protocol):
    size: int = 3

@decorate(4)
class Mixer:
    equation: str = "Y = X"

def f(a: Literal["a"]) -> Literal["b"]:
    assert a == 5
    if a:
        raise ValueError("no" + str(6))
    yield "inf"
    return [cast("str", b) for b, c in zip(a, a, strict=True) if len(b)]
'''
    left = changes(source)
    assert left == {
        ("zip(a, a, strict=True)", "zip(None, a, strict=True)"),
        ("zip(a, a, strict=True)", "zip(a, None, strict=True)"),
        ("zip(a, a, strict=True)", "zip(a, strict=True)"),
        ('cast("str", b)', 'cast("str", None)'),
        ('cast("str", b)', 'cast("str", )'),
    }
    assert all(reason for reason in RULES)


def test_class_attributes_properties_and_constants_are_mutated() -> None:
    source = (
        "WIDTH = 31\nclass A:\n    bias: bool = True\n    @property\n"
        "    def wide(self):\n        return self.n > 2\n"
    )
    assert {("31", "32"), ("True", "False"), ("2", "3")} <= changes(source)
    (mutant,) = (m for m in mutants_of("a.py", source) if m.before == "2")
    assert (mutant.scope, mutant.line) == ("A.wide", 6)
    assert mutant.diff() == ["-        return self.n > 2", "+        return self.n > 3"]


def test_a_key_does_not_depend_on_the_line() -> None:
    def keys(source: str) -> list[str]:
        return [mutant.key for mutant in mutants_of("a.py", source)]

    body = "def f():\n    return 1 + 1\n"
    assert keys(body) == keys("# a line more\n\n" + body)
    assert len(set(keys(body))) == 3  # each 1 is a mutant of its own


def test_packages_have_shares_in_proportion() -> None:
    assert shares({"a": 60, "b": 30, "c": 10}, 10) == {"a": 6, "b": 3, "c": 1}
    assert shares({"a": 5, "b": 5, "c": 5}, 10) == {"a": 4, "b": 3, "c": 3}
    assert shares({"a": 2, "b": 1}, 10) == {"a": 2, "b": 1}
    assert shares({"a": 13, "b": 17}, 10) == {"a": 4, "b": 6}  # of 4.3 and 5.7


def test_a_sample_is_that_of_its_seed() -> None:
    found = {"p": mutants_of("p/a.py", "x = [" + ", ".join(map(str, range(50))) + "]\n")}
    first = [mutant.key for mutant in sample(found, 10, 1)]
    assert len(set(first)) == 10
    assert first == [mutant.key for mutant in sample(found, 10, 1)]
    assert set(first) != {mutant.key for mutant in sample(found, 10, 2)}
    assert first[:5] == [mutant.key for mutant in sample(found, 5, 1)]


def mutant_of(path: str, source: str, before: str) -> Mutant:
    return next(mutant for mutant in mutants_of(path, source) if mutant.before == before)


def test_tests_that_execute_the_function_come_first_the_cheap_ones_before() -> None:
    a, b, c = (f"tests/test_{name}.py" for name in ("alpha", "beta", "gamma"))
    key = "p/beta.py::f"
    records = {
        a: TestFile("", 1.0, {f"{a}::slow": 3.0, f"{a}::bad": 0.1, f"{a}::other": 0.2},
                    {key: [f"{a}::slow", f"{a}::bad"]}, failed=[f"{a}::bad"]),
        b: TestFile("", 5.0, {f"{b}::two": 2.0, f"{b}::one": 1.0},
                    {key: [f"{b}::two", f"{b}::one"]}),
        c: TestFile("", 1.0, {f"{c}::runs": 4.0, f"{c}::not": 0.0}, {}, starts=[f"{c}::runs"]),
    }  # fmt: skip
    mutant = mutant_of("p/beta.py", "def f():\n    return 1\n", "1")
    chosen = plan(mutant, records, budget=100.0)
    assert [selection.tests for selection in chosen.batches] == [
        [f"{b}::one", f"{b}::two"],  # of the same subject
        [f"{a}::slow", f"{a}::other"],
        [f"{c}::runs"],
    ]
    assert chosen.left == 0
    short = plan(mutant, records, budget=8.5)
    assert [selection.tests for selection in short.batches] == [[f"{b}::one", f"{b}::two"]]
    assert short.left == 3


def test_code_outside_functions_is_tested_by_whoever_uses_the_module() -> None:
    file = "tests/test_x.py"
    record = TestFile(
        "", 0.0, {f"{file}::a": 1.0, f"{file}::b": 1.0}, {"p/m.py::f": [f"{file}::b"]}
    )
    constant = mutant_of("p/m.py", "LIMIT = 3\ndef f():\n    return LIMIT\n", "3")
    assert plan(constant, {file: record}).batches[0].tests == [f"{file}::b"]
    record = TestFile("", 0.0, {f"{file}::a": 1.0}, {}, imported=["p/m.py"])
    assert plan(constant, {file: record}).batches[0].tests == [f"{file}::a"]
    assert plan(constant, {file: TestFile("", 0.0, {f"{file}::a": 1.0})}).batches == []
    same = "tests/test_m.py"  # its tests may read a constant without calling a function
    record = TestFile(
        "", 0.0, {f"{same}::a": 1.0, f"{same}::b": 1.0}, {"p/m.py::f": [f"{same}::b"]},
        imported=["p/m.py"],
    )  # fmt: skip
    assert plan(constant, {same: record}).batches[0].tests == [f"{same}::a", f"{same}::b"]


def test_a_line_belongs_to_its_outermost_function() -> None:
    source = (
        "a = 1\nclass C:\n    b = 2\n    def m(self):\n        def inner():\n            pass\n"
    )
    assert scopes_of(source) == {5: "C.m", 6: "C.m"}


def result(name: str, outcome: str) -> Result:
    return Result(f"synthbench/measure/{name}.py::f:0", 3, ["-a", "+b"], outcome, "", 5, 0, 1.0)


def good_score() -> dict[str, Any]:
    results = [result(f"killed{n:03}", KILLED) for n in range(280)]
    results += [result(f"slow{n}", TIMED_OUT) for n in range(10)]
    results += [result(f"alive{n}", SURVIVED) for n in range(10)]
    reasons = {r.mutant: "equivalent: 2 is 2" for r in results if r.outcome == SURVIVED}
    return scoring.make_score(results, reasons, {"commit": "c", "seed": 1})


def test_a_score_counts_and_lists_the_survivors() -> None:
    score = good_score()
    assert (score["sample"], score["killed"], score["timeout"], score["survived"]) == (
        300, 280, 10, 10,
    )  # fmt: skip
    assert score["packages"] == {"synthbench/measure": {"sample": 300, "killed": 290}}
    assert scoring.share(score) == pytest.approx(290 / 300)
    assert scoring.problems(score) == []
    assert "synthbench/measure/alive0.py:3  f:0\n    -a\n    +b\n    reason: equivalent" in (
        scoring.describe(score)
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"killed": 279}, "do not add up to the sample"),
        ({"sample": 299}, "at least 300 are needed"),
        ({"killed": 250, "survived": 40}, "86.7% are killed; at least 90% are needed"),
        ({"survivors": []}, "0 survivors are listed; 10 are counted"),
        ({"packages": {}}, "sample of the packages does not add up to 300"),
    ],
)
def test_a_score_that_does_not_add_up_is_refused(change: dict[str, Any], problem: str) -> None:
    assert any(problem in found for found in scoring.problems(good_score() | change))


def test_a_survivor_without_a_reason_is_refused() -> None:
    score = good_score()
    score["survivors"][0]["reason"] = " "
    assert scoring.problems(score) == ["synthbench/measure/alive0.py::f:0 has no reason"]


def test_reasons_are_read_by_key(tmp_path: Path) -> None:
    (tmp_path / "reasons.toml").write_text('[survivors]\n"a.py::f:1" = "only affects speed"\n')
    assert scoring.read_reasons(tmp_path / "reasons.toml") == {"a.py::f:1": "only affects speed"}


def test_reasons_can_be_given_after_the_run() -> None:
    score = {"killed": 1, "survivors": [{"mutant": "a", "reason": ""}, {"mutant": "b"}]}
    assert scoring.with_reasons(score, {"a": "only affects speed", "c": "another"}) == {
        "killed": 1,
        "survivors": [
            {"mutant": "a", "reason": "only affects speed"}, {"mutant": "b", "reason": ""},
        ],
    }  # fmt: skip


def test_the_committed_score_is_sound() -> None:
    """And has the reasons of reasons.toml."""
    folder = ROOT / "tests" / "mutants"
    score = json.loads((folder / "score.json").read_text())
    assert scoring.problems(score) == []
    assert scoring.with_reasons(score, scoring.read_reasons(folder / "reasons.toml")) == score
