"""The commands of docs/clusters.md, to run them exactly as they are written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 500.0


def commands_of(section: str) -> list[str]:
    """The lines of the blocks of commands in a section."""
    page = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/clusters.md has no section {section}"
    blocks = re.findall(r"^```bash\n(.*?)^```", found[1], re.MULTILINE | re.DOTALL)
    return "".join(blocks).splitlines()


def sections() -> list[str]:
    """The sections of the page that have commands to run."""
    page = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
    found = re.findall(r"^## (.*)$", page, re.MULTILINE)
    return [section for section in found if commands_of(section)]


def run_command(line: str, folder: Path, environment: Mapping[str, str] = os.environ) -> str:
    """Run a line in a shell, in a folder, with the programs beside this Python; what it printed."""
    paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={**environment}
        | {
            "PATH": os.pathsep.join(paths),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "RAY_USAGE_STATS_ENABLED": "0",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{line}:\n{done.stdout}"
    return done.stdout
