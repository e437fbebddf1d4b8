"""A commented suite file to start from: what `synthbench init` writes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

from synthbench.suites.schema import Key, flow, keys_of

WIDTH = 92

HEAD = """\
# A suite: what is measured, and how. docs/suites.md explains every key.
#     synthbench run --suite {file} --dry-run     what it would measure, and for how long
#     synthbench run --suite {file}               measure it
# A key after a # is at its default value: remove the # to change it.
description: What this suite is for, in one line.
"""

# What the file sets; every other key is a comment with its default.
VARIANTS = """\
  variant:
    - V                       # dot-product attention
    - R+V                     # a mixture: the logits of both are added
    - FR(rank=[8, 32])        # two variants: FR(rank=8) and FR(rank=32)
"""
GIVEN: dict[str, dict[str, Any]] = {
    "axes": {"seq_len": [128, 256]},
    "model": {"d_model": 128, "heads": 4},
    "measure": {"rounds": 2, "min_seconds": 0.1, "max_seconds": 1.0},
}

DEVICES = """\
# Other values for one kind of device: lists and single values replace those above, sections are
# merged key by key.
# devices:
#   cuda:
#     axes:
#       dtype: [bfloat16]
#       seq_len: [1024, 4096]
"""


def template(file: str) -> str:
    """The text of a suite file called `file`; it loads, and every cell of its plan can run."""
    top = {key.name: key for key in keys_of("settings")}
    axes = keys_of("axes")
    parts = [HEAD.format(file=file)]
    for section, key in top.items():
        if section in GIVEN:
            lines = [*_comment(key.meaning), f"{section}:\n"]
            if section == "axes":
                lines += [*_comment(axes[0].meaning, 2), VARIANTS]
                lines += _keys((k for k in axes[1:] if not k.is_model_axis), section)
                lines += _model_axes(axes)
            else:
                lines += _keys(keys_of(section), section)
        else:
            lines = [*_comment(key.meaning), f"# {section}: {key.default}\n"]
            if section == "models":
                lines.append(f"# For example: {key.example}\n")
        parts.append("".join(lines))
    return "\n".join([*parts, DEVICES])


def _keys(keys: Iterable[Key], section: str) -> list[str]:
    lines: list[str] = []
    for key in keys:
        lines += _comment(key.meaning, 2)
        if key.name in GIVEN[section]:
            lines.append(f"  {key.name}: {flow(GIVEN[section][key.name])}\n")
        else:
            lines.append(f"  # {key.name}: {key.default}\n")
    return lines


def _model_axes(axes: Iterable[Key]) -> list[str]:
    names = ", ".join(key.name for key in axes if key.is_model_axis)
    text = f"Any key of the model may be an axis too, and then replaces the model's value: {names}."
    return [*_comment(text, 2), "  # For example: d_model: [128, 256]\n"]


def _comment(text: str, indent: int = 0) -> list[str]:
    start = " " * indent + "# "
    lines = textwrap.wrap(text, WIDTH, initial_indent=start, subsequent_indent=start)
    return [f"{line}\n" for line in lines]
