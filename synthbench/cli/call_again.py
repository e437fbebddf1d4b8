"""The command that goes on with a run, with the options of the call that began it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

# What another call says in its own words, or not at all.
OTHERWISE = (
    "suite", "device", "out", "resume", "retry", "allow_changed", "dry_run", "detach", "results",
)  # fmt: skip


def call_again(
    context: typer.Context, device: str, out: Path, *, resume: bool, retry: Sequence[str] = ()
) -> str:
    """`synthbench run` as it was called, on this device and into this folder."""
    words = ["synthbench", "run", "--suite", context.params["suite"], "--device", device]
    words += given_options(context) + ["--allow-changed"] * context.params["allow_changed"]
    words += ["--out", str(out), *["--resume"] * resume]
    words += [f"--retry={text}" for text in retry]
    return shlex.join(words)


def given_options(context: typer.Context) -> list[str]:
    """The options that were given, as --name=value, without those of OTHERWISE."""
    return list(_options(context))


def _options(context: typer.Context) -> Iterator[str]:
    for option in context.command.params:
        given: Any = context.params.get(option.name or "")
        if option.name in OTHERWISE or given in (None, False, [], option.default):
            continue
        flag = max(option.opts, key=len)
        for value in given if isinstance(given, list | tuple) else [given]:
            yield flag if value is True else f"{flag}={value}"
