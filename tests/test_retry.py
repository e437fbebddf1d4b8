"""`--resume --retry`: what is measured again of a run, and what is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from synthbench.measure.disturbed import disturbed
from synthbench.record import Record, latest
from synthbench.run.executors.base import Work
from synthbench.run.runner import Summary, run_plan
from synthbench.run_info import Machine
from synthbench.store import read_run
from synthbench.suites.plan import Plan, make_plan
from synthbench.suites.suite import parse_suite
from tests.test_further_rounds import SUITE, TIMES, UNTIL, MadeUp

SKIPS = """
axes: {variant: [V, R], framework: [torch, jax], mode: [forward], seq_len: [8], compile: [eager]}
model: {kind: mixer, d_model: 8, heads: 2}
measure: {rounds: 1}
baseline: V
"""


@pytest.fixture(autouse=True)
def noisy(monkeypatch: pytest.MonkeyPatch) -> None:
    """FR needs all rounds."""
    monkeypatch.setitem(TIMES, "FR", (1.0, 0.5))


class Fails(MadeUp):
    """FR crashes in round 2, a further one."""

    def measure(self, work: Work) -> Iterator[Machine | Record]:
        for each in super().measure(work):
            if isinstance(each, Record) and (each.cell.variant, each.round) == ("FR", 2):
                each = each.model_copy(update={"outcome": "crashed", "reason": "no luck"})
            yield each


def planned(text: str) -> Plan:
    return make_plan(parse_suite(text, name="made_up", source="made_up"), "cpu")


def again(plan: Plan, folder: Path, *retry: str) -> tuple[MadeUp, Summary]:
    executor = MadeUp()
    return executor, run_plan(plan, folder, executor=executor, resume=True, retry=retry)


def outcomes(folder: Path) -> Counter[str]:
    return Counter(record.outcome for record in latest(read_run(folder).records))


def test_what_the_plan_skips_is_not_stored_again(tmp_path: Path) -> None:
    """JAX has no eager mode."""
    plan, folder = planned(SKIPS), tmp_path / "run"
    assert len(plan.skipped) == 2
    run_plan(plan, folder, executor=MadeUp())
    before = read_run(folder).records
    _, summary = again(plan, folder, "unsupported")
    assert read_run(folder).records == before
    assert summary.recorded == 0
    assert outcomes(folder) == {"ok": 2, "unsupported": 2}


def test_failed_cells_of_further_rounds_are_measured_again(tmp_path: Path) -> None:
    plan = planned(SUITE.format(rounds=UNTIL, retries=0, minutes="null"))
    run_plan(plan, tmp_path / "run", executor=Fails())
    assert outcomes(tmp_path / "run")["crashed"] == 2
    executor, summary = again(plan, tmp_path / "run", "crashed")
    assert executor.asked[0] == {"FR": 2}
    assert outcomes(tmp_path / "run").keys() == {"ok"}
    counted = [r for r in latest(read_run(tmp_path / "run").records) if r.attempt]
    assert {(r.cell.variant, r.round, r.attempt) for r in counted} == {("FR", 2, 1)}
    assert summary.recorded == sum(sum(asked.values()) for asked in executor.asked)


def test_disturbed_cells_of_every_round_are_measured_again_in_order(tmp_path: Path) -> None:
    plan = planned(SUITE.format(rounds=UNTIL, retries=0, minutes="null"))
    warned = MadeUp(lambda cell, number, attempt: cell.variant == "FR" and number in (0, 2))
    run_plan(plan, tmp_path / "run", executor=warned)
    assert len(disturbed(read_run(tmp_path / "run").records)) == 4
    executor, _ = again(plan, tmp_path / "run", "disturbed")
    assert executor.asked[0] == {"FR": 4}
    records = read_run(tmp_path / "run").records
    assert not disturbed(records)
    repeated = [record.round for record in records if record.attempt]
    assert repeated == sorted(repeated)


def test_the_summary_counts_no_attempt_that_was_replaced(tmp_path: Path) -> None:
    """Its failures make the exit code of a run 1."""

    class Moves(MadeUp):
        """The first cell crashes; it is measured again elsewhere."""

        def measure(self, work: Work) -> Iterator[Machine | Record]:
            is_first = not work.done
            for each in super().measure(work):
                if isinstance(each, Record) and is_first:
                    is_first = False
                    yield each.model_copy(update={"outcome": "crashed", "machine": "gone"})
                    each = each.model_copy(update={"attempt": 1})
                yield each

    plan, folder = planned(SUITE.format(rounds=2, retries=0, minutes="null")), tmp_path / "run"
    summary = run_plan(plan, folder, executor=Moves())
    assert summary.outcomes == {"ok": 20} and summary.recorded == 21
    _, summary = again(plan, folder)
    assert summary.outcomes == {"ok": 20} and summary.recorded == 0


def test_the_summary_counts_a_failure_until_it_was_retried(tmp_path: Path) -> None:
    plan = planned(SUITE.format(rounds=UNTIL, retries=0, minutes="null"))
    assert run_plan(plan, tmp_path / "run", executor=Fails()).outcomes["crashed"] == 2
    assert again(plan, tmp_path / "run")[1].outcomes["crashed"] == 2
    assert again(plan, tmp_path / "run", "crashed")[1].outcomes.keys() == {"ok"}


def test_what_is_to_be_measured_again_stays_known_until_then(tmp_path: Path) -> None:
    """Its kernels bind the rest of the run, but a failure is not taken for settled."""
    seen: list[Work] = []

    class Looks(MadeUp):
        def measure(self, work: Work) -> Iterator[Machine | Record]:
            seen.append(work)
            assert not work.settled
            yield from super().measure(work)

    class Ends(MadeUp):
        def measure(self, work: Work) -> Iterator[Machine | Record]:
            for each in super().measure(work):
                if isinstance(each, Record) and each.cell.variant == "R":
                    each = each.model_copy(update={"outcome": "timeout", "reason": "slow"})
                yield each

    plan, folder = planned(SUITE.format(rounds=2, retries=0, minutes="null")), tmp_path / "run"
    run_plan(plan, folder, executor=Ends())
    summary = run_plan(plan, folder, executor=Looks(), resume=True, retry=["timeout"])
    assert len(seen[0].earlier) == 20  # all of them
    assert summary.recorded == 4 and outcomes(folder) == {"ok": 20}
