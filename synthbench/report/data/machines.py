"""The kinds of machines that measured a run."""

from __future__ import annotations

from synthbench.measure.environment import machine_kind
from synthbench.run_info import RunInfo


def kinds_of(info: RunInfo) -> dict[str, str]:
    """Machine -> its kind; empty unless there are several kinds."""
    found = {machine.id: machine_kind(machine.environment) for machine in info.machines}
    return found if len({*found.values()}) > 1 else {}
