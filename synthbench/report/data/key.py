"""The position of a cell in tables, and the table that its ratio belongs to."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """The position of a cell; `setting` is empty unless cells differ in further fields."""

    setting: str
    variant: str
    framework: str
    mode: str
    seq_len: int
    replica: int = 0  # 1: the A/A twin


def group_of(key: Key) -> tuple[str, str, str, int]:
    """The table that a ratio belongs to: setting, framework, mode and length.

    Its cells are measured one after the other, and are about equally noisy.
    """
    return key.setting, key.framework, key.mode, key.seq_len
