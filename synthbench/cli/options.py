"""Options that several commands share, and how their values are parsed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from synthbench.cli.completion import (
    complete_device,
    complete_frameworks,
    complete_modes,
    complete_suite,
    complete_variants,
)
from synthbench.devices import ALLOWED, AUTO
from synthbench.errors import NotationError, quote

VARIANTS_NAMES = ("--variants", "--variant")  # of every command that takes variants

Plugin = Annotated[
    list[str],
    typer.Option(
        "--plugin",
        metavar="MODULE",
        help="Import this module and use what it defines, such as mixers and tasks. Repeatable.",
        show_default=False,
    ),
]
Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="The folder of the runs.")]
SuiteOption = Annotated[
    str,
    typer.Option(
        "--suite",
        metavar="NAME|FILE",
        help="A built-in suite, or a file's path.",
        autocompletion=complete_suite,
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        "--device",
        help=f"{AUTO} (an accelerator where one is seen), {ALLOWED}; several as cuda:0,cuda:1 or "
        "cuda:all.",
        autocompletion=complete_device,
    ),
]
FrameworkOption = Annotated[
    list[str],
    typer.Option(
        "--framework",
        metavar="torch,jax",
        help="Frameworks, separated by commas.",
        show_default=False,
        autocompletion=complete_frameworks,
    ),
]
VariantsOption = Annotated[
    list[str],
    typer.Option(
        *VARIANTS_NAMES,
        metavar='"V,FR(rank=32)+V"',
        help="These variants in place of the suite's, by comma; FR(rank=[8,16]) is two. "
        "Repeatable.",
        show_default=False,
        autocompletion=complete_variants,
    ),
]
SeqLenOption = Annotated[
    list[str],
    typer.Option(
        "--seq-len",
        metavar="128,256",
        help="These lengths in place of the suite's, by comma. Repeatable.",
        show_default=False,
    ),
]
ModeOption = Annotated[
    list[str],
    typer.Option(
        "--mode",
        metavar="forward,train",
        help="These modes in place of the suite's, by comma: forward, train, decode.",
        show_default=False,
        autocompletion=complete_modes,
    ),
]
BatchOption = Annotated[
    list[str],
    typer.Option(
        "--batch",
        metavar="1,8",
        help="These batch sizes in place of the suite's, by comma. Repeatable.",
        show_default=False,
    ),
]
SlotsOption = Annotated[
    int | None,
    typer.Option(
        "--slots",
        metavar="N",
        help="With the executor local on a CPU: measure N cells at the same time, each on "
        "cores of its own. Faster, and noisier: they share caches and memory bandwidth.",
        show_default=False,
    ),
]


MOST_DIGITS = 18  # of a size
FRAMEWORKS_ADVICE = "write --framework torch,jax, or one of the two"
VARIANTS_ADVICE = "write variants like V,FR(rank=32)+V; `synthbench list variants` shows them"
LENGTHS_ADVICE = "write lengths like --seq-len 128,256"
MODES_ADVICE = "write --mode forward,train,decode, or some of these"
BATCHES_ADVICE = "write batch sizes like --batch 1,8"


def split_variants(texts: Iterable[str]) -> list[str]:
    """Split variants at commas as `split_list` does; a list of option values gives one per value.

    Raises NotationError for an empty entry or a list that cannot be read.
    """
    from synthbench.suites.expansion import expand_all

    return expand_all(split_list(texts))


def split_list(texts: Iterable[str], advice: str = VARIANTS_ADVICE) -> list[str]:
    """Split at commas outside parentheses, brackets and quotes: "V,FD(a=2, b=4)+V" has two entries.

    Raises NotationError with this advice for an empty entry.
    """
    entries: list[str] = []
    for text in texts:
        depth, quoted, entry = 0, "", ""
        for character in text:
            if quoted:
                quoted = "" if character == quoted else quoted
            elif character in "\"'":
                quoted = character
            elif character in "()[]":
                depth += 1 if character in "([" else -1
            if character == "," and depth <= 0 and not quoted:
                entries.append(entry.strip())
                entry = ""
            else:
                entry += character
        entries.append(entry.strip())
        if "" in entries:
            empty = "has an empty entry" if text.strip() else "is empty"
            raise NotationError(f"{quote(text)} {empty}; {advice}")
    return entries


def axis_options(
    variants: list[str], seq_len: list[str], mode: list[str], batch: list[str]
) -> dict[str, Any]:
    """What these options replace of a suite, as `plan_suite` takes it; None: nothing.

    Raises NotationError for what cannot be read.
    """
    return {
        "variants": split_list(variants) or None,
        "seq_lens": split_lengths(seq_len) or None,
        "modes": split_list(mode, MODES_ADVICE) or None,
        "batches": split_batches(batch) or None,
    }


def split_lengths(texts: Iterable[str]) -> list[int]:
    """Parse lengths separated by commas; raises NotationError for anything else."""
    return _split_integers(texts, "a length", LENGTHS_ADVICE)


def split_batches(texts: Iterable[str]) -> list[int]:
    """Parse batch sizes separated by commas; raises NotationError for anything else."""
    return _split_integers(texts, "a batch size", BATCHES_ADVICE)


def _split_integers(texts: Iterable[str], what: str, advice: str) -> list[int]:
    found: list[int] = []
    for entry in split_list(texts, advice):
        if not (entry.isascii() and entry.isdecimal()):
            raise NotationError(f"{quote(entry)} is not an integer; {advice}")
        if len(entry) > MOST_DIGITS:
            raise NotationError(f"{quote(entry)} has too many digits for {what}; {advice}")
        found.append(int(entry))
    return found
