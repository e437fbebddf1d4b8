"""The best rate of the device, measured once per run in a child of each framework's host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from synthbench.errors import SynthbenchError
from synthbench.run.host_client import Host
from synthbench.run.progress import Observer
from synthbench.run_info import Ceiling
from synthbench.suites.cell import Cell

MEASURE = "synthbench.measure.ceiling:measure_ceiling"
TIMEOUT_SECONDS = 120.0


class Found(NamedTuple):
    """The ceilings that were measured, and why others were not, by framework, dtype and device."""

    ceilings: list[Ceiling]
    failed: dict[tuple[str, str, str], str]


def measure_ceilings(
    hosts: Mapping[str, Host], cells: Iterable[Cell], known: Sequence[Ceiling], observer: Observer
) -> Found:
    """The ceilings that cells need and that are not among `known`.

    One that cannot be measured is reported to the observer: cells then have no utilisation, but
    everything else.
    """
    have = {(ceiling.framework, ceiling.dtype, ceiling.device) for ceiling in known}
    wanted = dict.fromkeys((cell.framework, cell.dtype, cell.device) for cell in cells)
    found = Found([], {})
    for framework, dtype, device in wanted:
        if framework not in hosts or (framework, dtype, device) in have:
            continue
        observer.stage(f"measuring the best rate of {framework} {dtype} on {device}")
        request = {"framework": framework, "dtype": dtype, "device": device}
        try:
            ceiling: Ceiling = hosts[framework].call(MEASURE, request, TIMEOUT_SECONDS)
        except SynthbenchError as error:
            observer.note(f"no utilisation for {framework} {dtype} on {device}: {error}")
            found.failed[framework, dtype, device] = f"no ceiling could be measured: {error}"
            continue
        found.ceilings.append(ceiling)
        for warning in ceiling.warnings:
            observer.note(f"ceiling of {framework} {dtype} on {device}: {warning}")
    return found


def ceiling_for(cell: Cell, ceilings: Iterable[Ceiling]) -> Ceiling | None:
    """The rate that no cell can exceed: the best that any framework reached.

    None if no ceiling was measured for its dtype and device.
    """
    fitting = [c for c in ceilings if (c.dtype, c.device) == (cell.dtype, cell.device)]
    return max(fitting, key=lambda c: c.flops_per_second, default=None)
