"""What a run measured on what, whether it can be trusted, and what failed."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable

from synthbench.record import Record
from synthbench.report.data.context import either, gpus
from synthbench.report.data.grid import NOT_RUN, TWIN, Key
from synthbench.report.data.noise import percentage
from synthbench.report.data.prepared import Prepared
from synthbench.report.screen.fit import WIDTH
from synthbench.report.tables.metrics import task_metrics
from synthbench.report.tables.parity import NOT_CHECKED, PASSED, checks_of

TRUST = "Trust: "
LIBRARIES = ("torch", "jax")  # whose versions are named
# What makers write around the name of a CPU: "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz".
OF_NO_CPU_ALONE = re.compile(r"\((?:R|TM|C)\)|\b(?:Processor|CPU)\b", re.IGNORECASE)


def measured(prepared: Prepared) -> list[str]:
    """What was measured on what, in short pieces."""
    info, grid = prepared.run.info, prepared.grid
    if not grid.records:
        return [f"{info.suite} on {info.device}: no records yet"]
    variants = {record.cell.variant for record in grid.records}
    lengths = grid.lengths()
    rounds = len({record.round for record in grid.records})
    what = [
        _count(len(variants), "variant"),
        " and ".join(grid.frameworks()),
        " and ".join(grid.modes()),
        f"{_count(len(lengths), 'length')}" if len(lengths) > 1 else f"length {lengths[0]}",
        _count(rounds, "round"),
    ]
    environment = info.environment
    cpu = environment.get("cpu")
    versions = environment.get("versions", {})
    found = [
        f"{info.suite} on {info.device}: {', '.join(what)}",
        ", ".join(
            [
                short_name(str(cpu)) if cpu else "unknown CPU",
                f"{len(environment.get('cores') or [])} cores",
                *gpus(info),
            ]
        ),
        ", ".join(f"{name} {versions[name]}" for name in LIBRARIES if versions.get(name)),
        _model(grid.records),
    ]
    return [text for text in found if text]


def short_name(cpu: str) -> str:
    """The name of a CPU without trade marks and the words that every name has."""
    return " ".join(OF_NO_CPU_ALONE.sub(" ", cpu).split()) or cpu


def trust(prepared: Prepared) -> list[str]:
    """Parity, noise floor, disturbed and quarantined cells, and cells without numbers.

    So short that it fits one line of a screen, with what was set aside too. The first variant that
    was not checked is named if there is room for it.
    """
    checks = checks_of(prepared.grid, prepared.context)
    passed = f"parity {sum(one.verdict == PASSED for one in checks)} of {len(checks)}"
    unchecked = [one for one in checks if one.verdict == NOT_CHECKED]
    others = _other_counts(prepared)
    if not unchecked:
        return [passed, *others]
    count = f"{len(unchecked)} {NOT_CHECKED}{', first' * (len(unchecked) > 1)}"
    several = len({one.framework for one in checks}) > 1
    name = unchecked[0].variant + f" in {unchecked[0].framework}" * several
    first = f"{passed} ({count}: {name})"
    if len(TRUST + "; ".join([first, *others])) <= WIDTH:
        return [first, *others]
    return [f"{passed} ({len(unchecked)} {NOT_CHECKED})", *others]


def _other_counts(prepared: Prepared) -> list[str]:
    """What `trust` says beside parity."""
    grid, noise = prepared.grid, prepared.context.noise
    found: list[str] = []
    medians = [
        f"{framework} {percentage(statistics.median(floors))}"
        for framework, floors in noise.by_framework.items()
    ]
    if prepared.cost_grid.records:
        found += [f"noise {', '.join(medians) or 'not measured'}"]
    found += [f"disturbed {len(grid.disturbed_cells)} of {len(grid.keys)}"]
    if aside := sum(count for count, _ in grid.set_aside.values()):
        found += [f"outliers {aside}"]  # of how many processes: in the table `noise`
    outcomes = Counter(reason for key in grid.keys if (reason := grid.missing(key)))
    found += [f"quarantined {outcomes.pop('quarantined', 0)}"]
    found += [f"{outcome} {count}" for outcome, count in sorted(outcomes.items())]
    return found


def failures(prepared: Prepared) -> list[str]:
    """One text per outcome and reason, with its first cell; cells that were not run are left out.

    Outcomes of most cells come first.
    """
    grid = prepared.grid
    found: dict[tuple[str, str], list[Key]] = {}
    for key in grid.keys:
        outcome, row = grid.missing(key), grid.cell(key)
        if outcome is not None and outcome != NOT_RUN and row is not None:
            reason = " ".join(str(row["reason"]).split()) or "no reason given"
            found.setdefault((outcome, reason), []).append(key)
    most_first = sorted(found.items(), key=lambda one: -len(one[1]))
    return [f"{outcome}: {_cells(keys)}: {reason}" for (outcome, reason), keys in most_first]


def remarks(prepared: Prepared) -> list[str]:
    """What restricts the conclusions from the run."""
    found = list(prepared.context.remarks)
    if names := task_metrics(prepared.grid):
        found.append(f"Other tasks measured {', '.join(names)}: see the table `metrics`.")
    return found


def _cells(keys: list[Key]) -> str:
    first = keys[0]
    variant = f"{first.variant} {TWIN}" if first.replica else first.variant
    parts = (variant, first.framework, first.mode, f"L={first.seq_len}", first.setting)
    others = len(keys) - 1
    return " ".join(filter(None, parts)) + (
        f" and {_count(others, 'other cell')}" if others else ""
    )


def _model(records: Iterable[Record]) -> str:
    contents = [cell.flat() for cell in {record.id: record.cell for record in records}.values()]
    parts = [either(content["model"] for content in contents)]
    for name in ("d_model", "heads", "batch"):
        parts.append(f"{name} {either(content[name] for content in contents)}")
    return ", ".join([*parts, either(content["dtype"] for content in contents)])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
