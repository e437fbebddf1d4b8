"""Score the tests: change the code in one place, run pytest, see whether a test fails.

    python -m tests.mutants                  300 mutants of every package, as `make mutants`
    python -m tests.mutants --seed 7         another sample
    python -m tests.mutants --only measure   mutants of files whose path contains "measure"
    python -m tests.mutants --again          survivors of an earlier state of the tests once more
    python -m tests.mutants --reasons        the same score with the reasons of reasons.toml

The first time, and for each test file that has changed, it records which functions each test
executes. Results stand in .mutants/; a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from tests.mutants import running, sandbox
from tests.mutants.generate import Mutant
from tests.mutants.records import TestFile, digest_of, read
from tests.mutants.sampling import PACKAGES, all_mutants, sample
from tests.mutants.score import (
    SAMPLE,
    describe,
    make_score,
    problems,
    read_reasons,
    with_reasons,
)
from tests.mutants.selection import BUDGET

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCORE, REASONS = HERE / "score.json", HERE / "reasons.toml"
SEED = 10
RECORDING_LIMIT = 3600.0  # seconds for a test file


class Project(NamedTuple):
    """Whose code is mutated; another one than this in the tests of this folder."""

    root: Path = ROOT
    packages: tuple[str, ...] = PACKAGES
    preloaded: Sequence[str] = sandbox.PRELOADED

    @property
    def top(self) -> list[str]:
        return sorted({package.partition("/")[0] for package in self.packages})


def main(arguments: list[str], project: Project = Project()) -> int:  # noqa: B008
    """Run the sample and write the score; 1 if a survivor has no reason or too many survive."""
    options = parse(arguments)
    if options.reasons:
        return write(with_reasons(json.loads(SCORE.read_text()), read_reasons(REASONS)))
    work = project.root / ".mutants"
    work.mkdir(exist_ok=True)
    sandbox.preload(project.preloaded)
    slots = running.make_slots(project.root, work, options.jobs)
    project = project._replace(root=slots[0].tree)  # the checkout may be edited meanwhile
    records = record_tests(project, work, slots, options.tests)
    if options.record_only:
        return 0
    found = all_mutants(project.root, project.packages, options.only)
    chosen = sample(found, options.count, options.seed)
    results = run(project, work, slots, chosen, records, options)
    about = {
        "commit": git("rev-parse", "HEAD"),
        "changed": bool(git("status", "--porcelain", "--", "synthbench", "tests/*.py")),
        "operators": f"mutmut {metadata.version('mutmut')}",
        "seed": options.seed,
        "mutants": sum(len(mutants) for mutants in found.values()),
    }
    reasons = read_reasons(REASONS)
    score = make_score([results[m.key] for m in chosen], reasons, about)
    print(describe(score))
    if options.only or options.count < SAMPLE or options.tests != ["*"]:
        return 0
    return write(score)


def write(score: dict[str, Any]) -> int:
    """Write the score; 1 if it may not be committed."""
    SCORE.write_text(json.dumps(score, indent=1) + "\n")
    print(f"\nwritten to {SCORE.relative_to(ROOT)}")
    wrong = problems(score)
    print("\n".join(wrong))
    return int(bool(wrong))


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default: 2)")
    parser.add_argument("--count", type=int, default=SAMPLE, help=f"mutants (default: {SAMPLE})")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of the sample (default: {SEED})")
    parser.add_argument("--only", default="", metavar="TEXT", help="files whose path contains it")
    parser.add_argument(
        "--tests", nargs="+", default=["*"], metavar="GLOB", help="test_GLOB.py only"
    )
    parser.add_argument("--budget", type=float, default=BUDGET, metavar="SECONDS",
                        help="of tests for one mutant (default: %(default).0f)")  # fmt: skip
    parser.add_argument("--again", action="store_true",
                        help="keep what an earlier state of the tests killed")  # fmt: skip
    parser.add_argument("--reasons", action="store_true",
                        help="only put the reasons of reasons.toml into score.json")  # fmt: skip
    parser.add_argument("--record-only", action="store_true", help="run no mutant")
    return parser.parse_args(arguments)


def record_tests(
    project: Project, work: Path, slots: list[running.Slot], globs: list[str]
) -> dict[str, TestFile]:
    """The record of every test file, made where there is none yet."""
    folder, tests = work / "records", project.root / "tests"
    folder.mkdir(exist_ok=True)
    found = {file.name for glob in globs for file in tests.glob(f"test_{glob}.py")}
    files = [f"tests/{name}" for name in sorted(found)]
    known = read(folder, tests)
    missing = [file for file in files if file not in known]
    if missing:
        print(f"recording what the tests of {len(missing)} files execute", flush=True)
        tasks = [
            running.record(file, project.top, folder / f"{Path(file).stem}.json", RECORDING_LIMIT)
            for file in missing
        ]
        running.run_all(slots, tasks)
    known = read(folder, tests)
    for file in files:
        if file not in known:
            print(f"{file} has no record; its tests are not run", flush=True)
        elif known[file].failed:
            print(f"{file}: {len(known[file].failed)} tests fail without a mutant; not used")
    return {file: known[file] for file in files if file in known}


def run(
    project: Project,
    work: Path,
    slots: list[running.Slot],
    chosen: list[Mutant],
    records: dict[str, TestFile],
    options: argparse.Namespace,
) -> dict[str, running.Result]:
    """Run the mutants that have no result yet; key -> result."""
    file = work / f"results-{options.seed}.jsonl"
    digest = tree_digest(project)
    results = running.read(file, None if options.again else digest)
    if options.again:
        results = {k: r for k, r in results.items() if r.outcome != running.SURVIVED}
    started, missing = time.monotonic(), [m for m in chosen if m.key not in results]
    finished = 0

    def done(result: running.Result) -> None:
        nonlocal finished
        finished += 1
        results[result.mutant] = result
        running.append(file, result, digest)
        spent = time.monotonic() - started
        left = spent / finished * (len(missing) - finished)
        print(
            f"{finished}/{len(missing)} {result.outcome:8} {result.seconds:4.0f} s  "
            f"{result.mutant}  ({left / 60:.0f} min left)", flush=True
        )  # fmt: skip

    running.run_all(slots, [running.judge(m, records, done, options.budget) for m in missing])
    return results


def tree_digest(project: Project) -> str:
    """A digest of the package and the tests, without this folder."""
    root = project.root
    sources = [file for name in project.top for file in root.glob(f"{name}/**/*.py")]
    files = sorted([*sources, *root.glob("tests/*.py")])
    return hashlib.sha256("".join(map(digest_of, files)).encode()).hexdigest()[:16]


def git(*arguments: str) -> str:
    """The output of a git command in this repository."""
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
