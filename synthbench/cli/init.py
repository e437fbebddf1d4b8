"""`synthbench init`: write a commented suite file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from synthbench.cli.output import require_folder_of, say
from synthbench.errors import NotationError, quote


def init(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write, like my_suite.yaml.")
    ],
) -> None:
    """Write a commented suite file to start from; an existing file is never overwritten."""
    from synthbench.suites.find import ENDINGS
    from synthbench.suites.template import template

    if file.suffix not in ENDINGS:
        raise NotationError(
            f"suite file {quote(str(file))} must end in .yaml; write {file.name or 'my_suite'}.yaml"
        )
    require_folder_of(file, option=None)
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(template(str(file)))
    except FileExistsError as error:
        raise NotationError(
            f"{file} exists already and is not overwritten; give another name, or remove it first"
        ) from error
    say(f"Wrote {file}. See what it measures: synthbench run --suite {file} --dry-run")
