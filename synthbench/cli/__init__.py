"""The command line: parse, call, print. The rest of the package never exits."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command (of sys.argv by default) and exit."""
    try:  # Ctrl-C may come while the commands are still being imported
        from synthbench.cli.app import main as run
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    run(arguments)
