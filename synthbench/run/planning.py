"""The plan of a suite, its cells checked by their tasks."""

from __future__ import annotations

from collections.abc import Iterable

from synthbench.suites.plan import Plan, make_plan
from synthbench.suites.suite import Suite
from synthbench.tasks.catalog import check_task, find, with_options


def plan_suite(
    suite: Suite,
    device: str,
    frameworks: Iterable[str] | None = None,
    variants: Iterable[str] | None = None,
    seq_lens: Iterable[int] | None = None,
    force: bool = False,
) -> Plan:
    """`make_plan` with the checks of the tasks; raises also for an unknown task or option."""
    plan = make_plan(suite, device, frameworks, variants, seq_lens, force, check_task)
    for name in plan.settings.axes.task:
        with_options(find(name), plan.settings.tasks.get(name, {}))
    return plan
