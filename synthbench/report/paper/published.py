"""The numbers printed in "Synthesizer: Rethinking Self-Attention for Transformer Models".

Tay et al., ICML 2021, arXiv 2005.00743: tables 2, 4, 7, 8 and 9, one file each, with one row
per variant in this project's notation. Nothing in these files was measured by this project.
"""

from __future__ import annotations

import csv
from importlib import resources

SOURCE = "Tay et al., ICML 2021, arXiv 2005.00743"


def published(table: str) -> list[dict[str, str]]:
    """The rows of a published table, heading -> text as printed."""
    text = resources.files(__package__).joinpath(f"{table}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
