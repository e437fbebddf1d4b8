"""One step in a process of its own: python -m benchmarks.gpu_check.child STEP SETTINGS."""

from __future__ import annotations

import sys

from benchmarks.gpu_check.finding import Settings
from benchmarks.gpu_check.steps import STEPS


def main() -> None:
    """Print each finding as soon as it is made."""
    name, settings = sys.argv[1:]
    for finding in STEPS[name].run(Settings.load(settings)):
        print(finding.line(), flush=True)


if __name__ == "__main__":
    main()
