"""How long a plan will take: judged by an earlier run of its suite, or else by its limits."""

from __future__ import annotations

import contextlib
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from synthbench.devices import device_kind, is_host, is_same_kind
from synthbench.errors import ResultsError
from synthbench.record import Record, latest
from synthbench.run.cell_runner import SETTLED
from synthbench.run.shard import split_into_shards
from synthbench.run.spread import deal_shards
from synthbench.store import Run, list_runs, read_info, read_run
from synthbench.suites.cell import Cell, model_of
from synthbench.suites.measure import Measure
from synthbench.suites.pairing import baselines_of
from synthbench.suites.plan import Plan
from synthbench.tasks.catalog import TASKS, with_options
from synthbench.tasks.learning.base import LearningTask
from synthbench.tasks.learning.loop import WITH_BACKWARD

# What an earlier record must share with a cell to stand for it: the first that is found counts.
MATCHES = (
    ("task", "framework", "mode", "seq_len"),
    ("task", "framework", "mode"),
    ("task", "framework"),
    ("framework",),
    (),
)
LIMITS = ("min_samples", "min_seconds", "max_seconds", "precision", "timeout_seconds", "paired")

# Seconds of a cell beside its steady state, least and most: to start a process, check, build,
# compile and make the first step. As the committed runs took on two cores, stacks up to T5 base;
# torch.compile and CUDA graphs by rule of thumb.
OVERHEAD_SECONDS = {
    ("torch", "eager", "mixer"): (0.2, 6.0),
    ("torch", "eager", "stack"): (0.2, 14.0),
    ("torch", "cuda_graph", "mixer"): (0.3, 8.0),
    ("torch", "cuda_graph", "stack"): (0.3, 16.0),
    ("torch", "compiled", "mixer"): (5.0, 30.0),
    ("torch", "compiled", "stack"): (5.0, 90.0),
    ("jax", "compiled", "mixer"): (0.4, 5.0),
    ("jax", "compiled", "stack"): (0.4, 23.0),
}

# FLOPs per second of a whole training, most and least, by whether it runs on a CPU; and the seconds
# of the smallest step.
TRAINING_RATES = {True: (1e11, 4e9), False: (3e14, 2e12)}
STEP_SECONDS = 0.003


@dataclass(frozen=True)
class Estimate:
    """Seconds that a run will take, and what this rests on."""

    low: float
    high: float
    basis: str


def estimate(plan: Plan, results: Path, slots: int | None = None) -> Estimate:
    """How long a plan takes, by the newest run of its suite on this kind of device if there is one.

    `slots`: so many cells are measured at the same time. Runs below `results` that cannot be read
    are passed over.
    """
    for run in _earlier_runs(plan, results):
        records = [r for r in latest(run.records) if r.outcome != "unsupported"]
        if records:
            found = _from_run(plan, run, records)
            break
    else:
        found = _from_limits(plan, results)
    at_once = slots or _devices_at_once(plan)
    return _with_further_rounds(
        replace(found, low=found.low / at_once, high=found.high / at_once), plan.settings.measure
    )


def _with_further_rounds(found: Estimate, measure: Measure) -> Estimate:
    """As long as it can take where rounds are added until there are verdicts."""
    if measure.most_rounds == measure.least_rounds:
        return found
    longest = found.high * measure.most_rounds / measure.least_rounds
    limit = ""
    if measure.minutes is not None:
        # The last of the added rounds may begin just before the limit.
        one_more = found.high / measure.least_rounds
        longest = min(longest, max(found.high, measure.minutes * 60 + one_more))
        limit = f", none after {measure.minutes:g} minutes"
    return replace(
        found,
        high=longest,
        basis=f"{found.basis}. Undecided cells get up to {measure.most_rounds} rounds{limit}",
    )


def _devices_at_once(plan: Plan) -> int:
    """How many devices measure at the same time, each about an equal part."""
    used = {cell.device for cell in plan.cells}
    if len(plan.devices) == 1 or used & set(plan.devices):
        return len(used) or 1
    # The rounds of each cell are spread over the devices.
    shards = split_into_shards(plan.cells, plan.settings.measure.machines)
    return len(set(deal_shards(shards, len(plan.devices)))) or 1


def _earlier_runs(plan: Plan, results: Path) -> Iterator[Run]:
    """The runs of the same suite on the same kind of device, the newest first."""
    found: list[tuple[str, Path]] = []
    for folder in list_runs(results / plan.suite):
        try:
            info = read_info(folder)
        except ResultsError:
            continue
        if info.suite == plan.suite and is_same_kind(info.device, plan.device):
            found.append((info.started, folder))
    for _, folder in sorted(found, reverse=True):
        with contextlib.suppress(ResultsError):
            yield read_run(folder)


def _from_run(plan: Plan, run: Run, records: list[Record]) -> Estimate:
    seconds: dict[tuple[object, ...], list[float]] = {}
    rounds = plan.settings.measure.least_rounds
    by_cell: dict[str, list[Record]] = {}
    for record in records:
        by_cell.setdefault(record.id, []).append(record)
    for own in by_cell.values():
        for fields in MATCHES:
            seconds.setdefault(_place(own[0].cell, fields), []).append(_in_rounds(own, rounds))
    medians = {place: statistics.median(values) for place, values in seconds.items()}
    total, matched = 0.0, Counter[tuple[str, ...]]()
    for cell in plan.cells:
        fields = next(fields for fields in MATCHES if _place(cell, fields) in medians)
        matched[fields] += 1
        total += medians[_place(cell, fields)]
    exact = matched.pop(MATCHES[0], 0)
    parts = [
        f"median seconds per cell in {run.path}, begun {run.info.started[:10]}: {exact} of "
        f"{len(plan.cells)} cells are matched by task, framework, mode and length"
    ]
    parts += [f"{n} by {' and '.join(f) or 'nothing, all its cells'}" for f, n in matched.items()]
    basis = ", ".join(parts)
    before, now = run.info.settings.get("measure", {}), plan.settings.measure
    changed = [name for name in LIMITS if before.get(name) != getattr(now, name)]
    if changed:
        basis += f". That run had another {', '.join(changed)}"
    return Estimate(total, total, basis)


def _in_rounds(records: Sequence[Record], rounds: int) -> float:
    """The seconds of a cell in so many rounds, by its records in each round of an earlier run."""
    spent = sum(record.wall_seconds for record in records)
    if any(record.outcome in SETTLED for record in records):
        return spent  # it is tried once: other rounds only repeat the outcome
    return rounds * spent / len(records)


def _place(cell: Cell, fields: tuple[str, ...]) -> tuple[object, ...]:
    return tuple((name, getattr(cell, name)) for name in fields)


def _build(cell: Cell) -> tuple[str, str, str]:
    """What the time to build and compile a cell depends on most."""
    return cell.framework, cell.compile, "mixer" if cell.model.kind == "mixer" else "stack"


def _from_limits(plan: Plan, results: Path) -> Estimate:
    measure = plan.settings.measure
    low = high = 0.0
    paired = _paired(plan)
    for cell in plan.cells:
        least, most = OVERHEAD_SECONDS[_build(cell)]
        trained = _training_seconds(cell)
        sides = 2 if cell.id in paired else 1
        of_limits = (sides * measure.min_seconds, sides * measure.max_seconds)
        shortest, longest = trained or of_limits
        low += min(shortest + least, measure.timeout_seconds)
        high += min(longest + most, measure.timeout_seconds)
    kinds = dict.fromkeys(map(_build, plan.cells))
    overheads = ", ".join(
        f"{OVERHEAD_SECONDS[kind][0]:g} to {OVERHEAD_SECONDS[kind][1]:g} s in {kind[0]} {kind[1]} "
        f"for a {kind[2]}"
        for kind in kinds
    )
    return Estimate(
        low * measure.least_rounds,
        high * measure.least_rounds,
        f"the suite's limits, a rough range: there is no run of {plan.suite} on "
        f"{device_kind(plan.devices[0]).name} below {results}. {_each_cell(plan)}, and to "
        f"start, check and compile {overheads}; timeout_seconds "
        f"{measure.timeout_seconds:g} ends it",
    )


def _training_seconds(cell: Cell) -> tuple[float, float] | None:
    """Seconds of a cell's train steps, least and most, by their FLOPs; None: it trains nothing."""
    task = TASKS.get(cell.task)  # not of a plug-in, whose code does not run in this process
    if task is None or not issubclass(task, LearningTask):
        return None
    asked = with_options(task, cell.options)
    assert isinstance(asked, LearningTask)
    forward = model_of(cell).flops(batch=cell.batch, seq_len=cell.seq_len) or 0
    highest, lowest = TRAINING_RATES[is_host(cell.device)]

    def at(rate: float) -> float:
        return asked.steps * max(WITH_BACKWARD * forward / rate, STEP_SECONDS)

    return at(highest), at(lowest)


def _each_cell(plan: Plan) -> str:
    """What a cell does in its time, in words."""
    measure = plan.settings.measure
    if all(_training_seconds(cell) is not None for cell in plan.cells):
        highest, lowest = TRAINING_RATES[is_host(plan.devices[0])]
        return f"A training takes its FLOPs at {lowest:g} to {highest:g} per second"
    beside = ", and as long for the baseline beside it" if _paired(plan) else ""
    return (
        f"Each cell takes min_seconds {measure.min_seconds:g} to max_seconds "
        f"{measure.max_seconds:g}{beside}"
    )


def _paired(plan: Plan) -> Mapping[str, Cell]:
    """Id of a cell -> the baseline that is timed beside it."""
    return baselines_of(plan.cells, plan.settings.baseline, plan.settings.measure.paired)
