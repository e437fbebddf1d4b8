"""What different devices or machines measured is never pooled, and tables say which it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from synthbench.measure.environment import machine_kind
from synthbench.record import Record
from synthbench.report.data.machines import kinds_of
from synthbench.report.data.prepared import Prepared, prepare
from synthbench.report.tables.utilisation import share
from synthbench.run_info import Ceiling, Machine
from synthbench.store import Run
from tests.test_tables import cell, info, record

FAST: dict[str, Any] = {"cpu": "Fast", "cores": [0, 1]}
SLOW: dict[str, Any] = {"cpu": "Slow", "cores": [0]}
FAST_SETTING, SLOW_SETTING = "machine=fast-2-cores", "machine=slow-1-cores"


def ceiling(rate: float) -> Ceiling:
    return Ceiling(
        framework="torch", dtype="float32", device="cpu", flops_per_second=rate, matrix_size=64,
        bytes_per_second=1e9, seconds=1.0,
    )  # fmt: skip


def prepared(records: list[Record], *machines: tuple[str, dict[str, Any], float]) -> Prepared:
    found = [
        Machine(id=name, environment=environment, ceilings=[ceiling(rate)])
        for name, environment, rate in machines
    ]
    return prepare(Run(Path("one"), info(machines=found), records, []))


def by(machine: str, *places: tuple[str, str, int], **changes: Any) -> list[Record]:
    """Both rounds of cells in torch, as a machine measured them."""
    return [
        record(cell(variant, "torch", mode, length), round=number).model_copy(
            update={"machine": machine, **changes}
        )
        for variant, mode, length in places
        for number in (0, 1)
    ]


SHORT = (("V", "forward", 64), ("R", "forward", 64), ("V", "train", 64), ("R", "train", 64))
LONG = (("V", "forward", 128), ("R", "forward", 128))


def test_kinds_of_machines_are_settings_of_their_own() -> None:
    found = prepared([*by("a", *SHORT), *by("b", *LONG)], ("a", FAST, 1e9), ("b", SLOW, 1e8))
    assert found.grid.settings() == [FAST_SETTING, SLOW_SETTING]
    assert found.grid.lengths(FAST_SETTING) == [64]
    assert found.grid.lengths(SLOW_SETTING) == [128]
    assert found.grid.setting_fields == ["machine"]
    assert any("Rows also differ in machine" in line for line in found.context.shared)
    assert any("Measured in 2: a, b." in line for line in found.context.shared)


def test_machines_of_one_kind_share_their_tables() -> None:
    found = prepared([*by("a", *SHORT), *by("b", *LONG)], ("a", FAST, 1e9), ("b", FAST, 1e8))
    assert found.grid.settings() == [""]
    assert kinds_of(found.run.info) == {}


def test_what_another_machine_has_measured_is_not_missing() -> None:
    one = by("a", *SHORT, *LONG)
    other = by("b", ("V", "train", 128), ("R", "train", 128))
    found = prepared([*one, *other], ("a", FAST, 1e9), ("b", SLOW, 1e8)).grid
    missing = {key: why for key in found.keys if (why := found.missing(key))}
    assert missing == {}
    unfinished = prepared([*one, *other[:2]], ("a", FAST, 1e9), ("b", SLOW, 1e8)).grid
    assert [(key.variant, key.setting) for key in unfinished.keys if unfinished.missing(key)] == []
    lost = prepared([*one[2:], *other], ("a", FAST, 1e9), ("b", SLOW, 1e8)).grid
    assert [(k.variant, k.setting, k.seq_len) for k in lost.keys if lost.missing(k)] == [
        ("V", FAST_SETTING, 64)
    ]


def test_what_was_not_measured_is_where_its_shard_is() -> None:
    skipped = by("", ("linformer", "forward", 128), outcome="unsupported", reason="too long")
    found = prepared(
        [*by("a", *SHORT), *by("b", *LONG), *skipped], ("a", FAST, 1e9), ("b", SLOW, 1e8)
    ).grid
    assert {key.setting for key in found.ids if key.variant == "linformer"} == {SLOW_SETTING}


def test_a_shard_that_two_kinds_measured_says_so() -> None:
    again = [r.model_copy(update={"round": 2}) for r in by("b", *LONG)[::2]]
    found = prepared([*by("a", *SHORT, *LONG), *again], ("a", FAST, 1e9), ("b", SLOW, 1e8)).grid
    assert found.settings() == [
        "machine=fast-2-cores and slow-1-cores machines=2",
        "machine=fast-2-cores machines=1",
    ]


def test_each_cell_is_compared_with_the_ceiling_of_its_machine() -> None:
    found = prepared([*by("a", *SHORT), *by("b", *LONG)], ("a", FAST, 1e9), ("b", SLOW, 1e8))
    for key in found.grid.ids:
        machine = found.grid.machine(key)
        assert machine == {64: "a", 128: "b"}[key.seq_len]
        (own,) = found.context.ceilings_of(machine)
        assert own.flops_per_second == {"a": 1e9, "b": 1e8}[machine]
        assert share(found.grid, key, [own]) is not None
    assert len(found.context.ceilings_of("")) == 2


def test_the_kind_of_a_machine_has_its_accelerators() -> None:
    frameworks = {"torch": {"cpu": "8 threads", "cuda:0": "NVIDIA H100"}, "jax": {}}
    assert machine_kind(FAST | {"frameworks": frameworks}) == "fast-2-cores-nvidia-h100"
    assert machine_kind(FAST) == "fast-2-cores"
