"""Which tests are run for a mutant, and in which order.

First the tests that execute the mutated function, the files of the same subject first and then the
cheapest; then the other tests of these files (a cache may have kept the function from being
executed again); then tests that start processes, whose code is not seen. The budget ends the list:
a mutant that survives so many seconds of tests counts as a survivor, with the number of tests left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tests.mutants.generate import MODULE, Mutant
from tests.mutants.records import TestFile
from tests.mutants.sandbox import Selection

BUDGET = 90.0  # seconds of tests, as recorded
TIMES, MORE = 6.0, 60.0  # a batch is stopped after TIMES its recorded seconds and MORE


class Plan(NamedTuple):
    """The tests for a mutant, in batches that are run one after another."""

    batches: list[Selection]
    left: int  # tests that might notice it and are not run


def plan(mutant: Mutant, records: Mapping[str, TestFile], budget: float = BUDGET) -> Plan:
    """Choose and order the tests for a mutant."""
    groups = sorted(
        _direct(mutant, records), key=lambda g: (not _same_subject(mutant, g.file), g.cost)
    )
    files = {group.file for group in groups}
    chosen = {test for group in groups for test in group.tests}
    groups += _others(records, files, chosen)
    return _batches(groups, budget)


class _Group(NamedTuple):
    file: str
    tests: list[str]
    seconds: float  # of these tests
    startup: float  # of the file

    @property
    def cost(self) -> float:
        return self.seconds + self.startup


def _group(file: str, record: TestFile, tests: Iterable[str]) -> _Group:
    passing = set(record.seconds) - set(record.failed)
    ordered = sorted(set(tests) & passing, key=lambda test: (record.seconds[test], test))
    return _Group(file, ordered, sum(record.seconds[t] for t in ordered), record.startup)


def _direct(mutant: Mutant, records: Mapping[str, TestFile]) -> list[_Group]:
    """One group per file with tests that execute the mutated function.

    For code outside functions these are the tests that execute any function of the module, and all
    of a file of the same subject that imports it; if there are none, every test of the files that
    import it.
    """
    prefix = f"{mutant.path}::"
    whole = mutant.scope == MODULE
    groups = []
    for file, record in records.items():
        if whole:
            keys = [key for key in record.functions if key.startswith(prefix)]
        else:
            keys = [prefix + mutant.scope]
        tests = {test for key in keys for test in record.functions.get(key, ())}
        if whole and mutant.path in record.imported and _same_subject(mutant, file):
            tests |= set(record.seconds)
        groups.append(_group(file, record, tests))
    if whole and not any(group.tests for group in groups):
        groups = [_group(f, r, r.seconds) for f, r in records.items() if mutant.path in r.imported]
    return [group for group in groups if group.tests]


def _others(records: Mapping[str, TestFile], files: set[str], chosen: set[str]) -> list[_Group]:
    rest = [_group(file, records[file], set(records[file].seconds) - chosen) for file in files]
    starting = [_group(f, r, set(r.starts) - chosen) for f, r in records.items() if f not in files]
    by_cost = [sorted(groups, key=lambda group: group.cost) for groups in (rest, starting)]
    return [group for groups in by_cost for group in groups if group.tests]


def _same_subject(mutant: Mutant, file: str) -> bool:
    """Whether a word of the module's name is one of the test file's: parity_inputs, test_parity."""
    words = [set(re.split(r"[_/.]", name)) for name in (mutant.path.rpartition("/")[2], file)]
    return bool(words[0] & words[1] - {"py"})


def _batches(groups: list[_Group], budget: float) -> Plan:
    """Fill batches of 1, 2, 4, ... files, with as many tests as the budget allows."""
    batches: list[list[_Group]] = [[]]
    spent, left = 0.0, 0
    for group in groups:
        affordable = _within(group, budget - spent, always=spent == 0.0)
        left += len(group.tests) - len(affordable)
        if not affordable:
            continue
        if len(batches[-1]) == 2 ** (len(batches) - 1):
            batches.append([])
        seconds = group.seconds * len(affordable) / len(group.tests)
        batches[-1].append(group._replace(tests=affordable, seconds=seconds))
        spent += batches[-1][-1].cost
    return Plan([_selection(batch) for batch in batches if batch], left)


def _within(group: _Group, seconds: float, *, always: bool) -> list[str]:
    """The cheapest tests of a group that fit; at least one for the first group of all."""
    if group.cost <= seconds:
        return group.tests
    share = (seconds - group.startup) / group.seconds if group.seconds else 0.0
    return group.tests[: max(int(always), int(share * len(group.tests)))]


def _selection(batch: list[_Group]) -> Selection:
    tests = [test for group in batch for test in group.tests]
    return Selection(tests, TIMES * sum(group.cost for group in batch) + MORE)
