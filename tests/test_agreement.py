"""benchmarks/agreement.py: within which noise two runs agree."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks.agreement import read_ratios
from synthbench.store import append_record, create_run
from tests.test_machines import SHORT, spread
from tests.test_places_in_tables import FAST, prepared
from tests.test_tables import cell, record


def test_the_floor_of_a_ratio_counts_a_machine_once(tmp_path: Path) -> None:
    v = cell("V", "torch", "forward", 64, replica=1)
    twins = [
        record(v, 0.01 * by, round=number).model_copy(update={"machine": machine})
        for number, (machine, by) in enumerate([("a", 1.02), ("a", 1.03), ("b", 0.97), ("b", 0.98)])
    ]
    found = prepared([*spread(*SHORT), *twins], ("a", FAST, 1e9), ("b", FAST, 1e9)).run
    create_run(tmp_path / "run", found.info)
    for each in found.records:
        append_record(tmp_path / "run", each)
    ratios, noise = read_ratios(tmp_path / "run")
    (ratio,) = (ratio for key, ratio in ratios.items() if key.variant == "R")
    (floor,) = noise.floors.values()
    assert math.exp(ratio.floor) == pytest.approx(floor.ratio(2))
    assert floor.ratio(2) > floor.ratio(4)
