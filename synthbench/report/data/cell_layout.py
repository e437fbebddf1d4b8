"""Where the cells of a run stand in tables: setting, variant, framework, mode and length."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from synthbench.record import Latest, Record, latest
from synthbench.report.data.key import Key
from synthbench.report.data.setting import differing_fields, hashable, setting_of
from synthbench.suites.cell import COMPARED, Cell

FRAMEWORKS = ("torch", "jax")
MODES = ("decode", "forward", "train")  # the last that a run has is shown first

MACHINE = "machine"  # in place of a field: the kind of machine that measured, if there are several
MACHINES = "machines"  # in place of a field: how many machines measured, if that differs
PLACES = ("device", MACHINE, MACHINES)  # a run measures each cell in one place only


@dataclass(frozen=True)
class _Order:
    """What the cells of one setting have, each in the order of tables."""

    variants: list[str]
    pairs: list[tuple[str, str]]
    lengths: list[int]

    @classmethod
    def of(cls, keys: Sequence[Key], variant_order: Sequence[str]) -> _Order:
        """The layout of cells; variants in `variant_order` come first, others follow by name."""
        variants = {key.variant for key in keys}
        known = [variant for variant in variant_order if variant in variants]
        present = {(key.framework, key.mode) for key in keys}
        return cls(
            known + sorted(variants.difference(known)),
            [(f, mode) for f in FRAMEWORKS for mode in MODES if (f, mode) in present],
            sorted({key.seq_len for key in keys}),
        )


@dataclass(frozen=True, eq=False)
class CellLayout:
    """Where the cells of a run stand in tables.

    Variants in `variant_order` come first, others follow by name.
    """

    records: Sequence[Record]
    variant_order: Sequence[str]
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Machine -> its kind, where several kinds measured (`kinds_of`): they are never pooled."""

    @cached_property
    def latest(self) -> Latest:
        """The records that count."""
        return latest(self.records)

    @cached_property
    def _cells(self) -> dict[str, Cell]:
        return {record.id: record.cell for record in self.records}

    @cached_property
    def setting_fields(self) -> list[str]:
        """Fields, other than those in `Key`, in which cells differ."""
        several: list[str] = []
        if len({record.machine for record in self.latest} - {""}) > 1:
            several += [MACHINE] if len({*self._kind_of_shard.values()}) > 1 else []
            several += [MACHINES] if len(self.machine_counts) > 1 else []
        return differing_fields(self._cells.values()) + several

    def key(self, cell: Cell) -> Key:
        """The position of a cell."""
        setting = self._setting(cell, self.setting_fields)
        return Key(setting, cell.variant, cell.framework, cell.mode, cell.seq_len, cell.replica)

    def _setting(self, cell: Cell, fields: Sequence[str]) -> str:
        others = {}
        if MACHINE in fields:
            others[MACHINE] = self._kind_of_shard.get(_shard(cell), "unknown")
        if MACHINES in fields:
            others[MACHINES] = str(len(self._machines_of_shard.get(_shard(cell), ())) or "unknown")
        return setting_of(cell, fields, others)

    @property
    def machine_counts(self) -> set[int]:
        """How many machines have measured the rounds of a shard, of all shards."""
        return {len(machines) for machines in self._machines_of_shard.values()}

    @cached_property
    def _machines_of_shard(self) -> dict[tuple[Any, ...], set[str]]:
        """The machines that measured each shard."""
        found: dict[tuple[Any, ...], set[str]] = {}
        for cell_id, machine in {(record.id, record.machine) for record in self.latest}:
            if machine:
                found.setdefault(_shard(self._cells[cell_id]), set()).add(machine)
        return found

    @cached_property
    def _kind_of_shard(self) -> dict[tuple[Any, ...], str]:
        """The kinds of machines that measured each shard; empty unless there are several kinds."""
        found = {
            shard: {self.kinds[machine] for machine in machines if machine in self.kinds}
            for shard, machines in self._machines_of_shard.items()
        }
        return {shard: " and ".join(sorted(kinds)) for shard, kinds in found.items() if kinds}

    def machine(self, key: Key) -> str:
        """The machine that measured a cell last; empty if that is not known."""
        return self._machines.get(self.ids.get(key, ""), "")

    @cached_property
    def _machines(self) -> dict[str, str]:
        return {record.id: record.machine for record in self.latest if record.machine}

    @cached_property
    def ids(self) -> dict[Key, str]:
        """The position of every recorded cell -> its id."""
        return {self.key(cell): cell_id for cell_id, cell in self._cells.items()}

    @cached_property
    def keys(self) -> dict[Key, None]:
        """The position of every cell of the run, recorded or not, in the order of the tables.

        A suite is a product of axes, with or without A/A twins of the baseline. A combination that
        has no record, while others of its setting do, was not run yet; unless another device or
        machine of the run has measured it.
        """
        twins = {(key.setting, key.variant, key.replica) for key in self.ids if key.replica}
        return dict.fromkeys(
            Key(setting, variant, *pair, length, replica)
            for setting in self.settings()
            for pair in self.pairs(setting)
            for variant in self.variants(setting)
            for length in self.lengths(setting)
            for replica in (0, 1)
            if replica == 0 or (setting, variant, replica) in twins
            if setting in self._places(setting, pair, length)
        )

    def _places(self, setting: str, pair: tuple[str, str], length: int) -> Collection[str]:
        """The settings that differ from one in the place only, and have records of these cells.

        The setting itself where no place has any.
        """
        bases, found = self._settings_by_place
        return found.get((bases[setting], *pair, length)) or (setting,)

    @cached_property
    def _settings_by_place(self) -> tuple[dict[str, str], dict[tuple[Any, ...], set[str]]]:
        """Setting -> what it is without its place; that, with the cells -> the settings."""
        fields = [name for name in self.setting_fields if name not in PLACES]
        bases: dict[str, str] = {}
        found: dict[tuple[Any, ...], set[str]] = {}
        for key, cell_id in self.ids.items():
            base = bases.get(key.setting)
            if base is None:
                base = bases[key.setting] = self._setting(self._cells[cell_id], fields)
            place = (base, key.framework, key.mode, key.seq_len)
            found.setdefault(place, set()).add(key.setting)
        return bases, found

    def twins(self) -> list[Key]:
        """The A/A twins of the run."""
        return [key for key in self.keys if key.replica]

    def settings_without(self, name: str) -> dict[str, str]:
        """Each setting -> the same without one field."""
        fields = [field for field in self.setting_fields if field != name]
        return {
            key.setting: self._setting(self._cells[cell_id], fields)
            for key, cell_id in self.ids.items()
        }

    def settings(self) -> list[str]:
        """The settings, sorted."""
        return list(self._settings)

    def variants(self, setting: str) -> list[str]:
        """The variants, in the order of the suite."""
        return list(self._layout(setting).variants)

    def pairs(self, setting: str | None = None) -> list[tuple[str, str]]:
        """Pairs of framework and mode; without a setting, of all settings."""
        return list(self._layout(setting).pairs)

    def frameworks(self, setting: str | None = None) -> list[str]:
        """The frameworks; without a setting, of all settings."""
        return list(dict.fromkeys(framework for framework, _ in self.pairs(setting)))

    def modes(self, setting: str | None = None) -> list[str]:
        """The modes; without a setting, of all settings."""
        present = {mode for _, mode in self.pairs(setting)}
        return [mode for mode in MODES if mode in present]

    def lengths(self, setting: str | None = None) -> list[int]:
        """The lengths, ascending; without a setting, of all settings."""
        return list(self._layout(setting).lengths)

    def longest(self, setting: str) -> int:
        """The longest length of a setting."""
        return self._layout(setting).lengths[-1]

    @cached_property
    def _settings(self) -> list[str]:
        settings = {key.setting for key in self.ids}
        return sorted(settings, key=lambda text: [  # batch=4 before batch=16
            (part.isdigit(), int(part) if part.isdigit() else 0, part)
            for part in re.split(r"(\d+)", text)
        ])  # fmt: skip

    def _layout(self, setting: str | None) -> _Order:
        return self._layouts.get(setting) or _Order.of([], self.variant_order)

    @cached_property
    def _layouts(self) -> dict[str | None, _Order]:
        """Setting, or None for all of them -> what its tables have in rows and columns."""
        by_setting: dict[str | None, list[Key]] = {None: list(self.ids)}
        for key in self.ids:
            by_setting.setdefault(key.setting, []).append(key)
        return {name: _Order.of(keys, self.variant_order) for name, keys in by_setting.items()}


def _shard(cell: Cell) -> tuple[Any, ...]:
    """What cells have in common that one machine has measured, as ratios are taken across them."""
    content = cell.content
    return tuple((name, hashable(value)) for name, value in content.items() if name not in COMPARED)
