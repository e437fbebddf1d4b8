"""Right commands in an environment with wrong values: they succeed, or refuse in one line."""

from __future__ import annotations

from benchmarks.faults.case import Case
from benchmarks.faults.inputs.examples import RUN, RUN_FILES, SUITE

VALUES: dict[str, dict[str, str | None]] = {
    "no HOME": {"HOME": None},
    "a HOME that does not exist": {"HOME": "/nowhere"},
    "an empty HOME": {"HOME": ""},
    "no PATH": {"PATH": None},
    "no TMPDIR": {"TMPDIR": "/nowhere"},
    "COLUMNS that is a text": {"COLUMNS": "wide"},
    "COLUMNS 0": {"COLUMNS": "0"},
    "COLUMNS -1": {"COLUMNS": "-1"},
    "COLUMNS 1": {"COLUMNS": "1"},
    "COLUMNS of 400 digits": {"COLUMNS": "9" * 400},
    "an unknown TERM": {"TERM": "nonsense"},
    "no TERM": {"TERM": None},
    "NO_COLOR": {"NO_COLOR": "1"},
    "FORCE_COLOR": {"FORCE_COLOR": "1"},
    "an unknown locale": {"LC_ALL": "xx_XX", "LANG": "xx_XX"},
    "an unknown time zone": {"TZ": "Nowhere/Nothing"},
    "threads that are a text": {"OMP_NUM_THREADS": "many"},
    "threads 0": {"OMP_NUM_THREADS": "0"},
    "an unknown JAX platform": {"JAX_PLATFORMS": "nonsense"},
    "an unknown completion": {"_SYNTHBENCH_COMPLETE": "nonsense"},
}
COMMANDS = (("tables", RUN), ("run", "--suite", "tiny.yaml", "--device", "cpu", "--dry-run"))

ENVIRONMENTS = [
    Case("environment", f"{name} ({command[0]})", command, {**RUN_FILES, "tiny.yaml": SUITE},
         environment=environment, codes=(0, 1, 2), writes=True, prints=True)
    for name, environment in VALUES.items()
    for command in COMMANDS
]  # fmt: skip
