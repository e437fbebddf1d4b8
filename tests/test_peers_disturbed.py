"""What disturbs the benchmark against peers: it is said, and the cell is measured once more."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from benchmarks.peers import __main__ as command_line
from benchmarks.peers import measure, samples
from benchmarks.peers.samples import Sample, Side
from synthbench.measure.core_distance import FAR


@pytest.mark.parametrize(
    ("before", "after", "may_be_near", "warned"),
    [
        (1.0, 1.2, True, False),
        (1.0, 2.1, True, True),  # they moved apart meanwhile
        (2.1, 1.0, True, True),  # they could not be brought together
        (2.1, 2.1, False, False),  # they are never near on this machine
        (None, None, True, False),  # a single core
    ],
)
def test_far_cores_are_a_disturbance_where_they_may_be_near(
    before: float | None,
    after: float | None,
    may_be_near: bool,
    warned: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calm = MagicMock()
    calm.return_value.warnings = []
    monkeypatch.setattr(measure, "InterferenceMonitor", calm)
    monkeypatch.setattr(measure, "bring_cores_together", lambda near: before)
    monkeypatch.setattr(measure, "core_distance", lambda: after)
    budget = {"pairs": 3, "seconds": 0.0, "limit": 0.0}
    found = Sample.model_validate(
        measure.measure(
            "torch", "V", "textbook", "forward", 8, 1, 16, 2, "float32", "cpu", budget,
            cores_may_be_near=may_be_near,
        )
    )  # fmt: skip
    assert found.outcome == "ok"
    assert found.core_distances == (before, after)
    assert ["far apart" in warning for warning in found.warnings] == [True] * warned


@pytest.mark.parametrize(
    ("disturbed", "order"),
    [
        ([], ["forward", "train"]),
        ([1], ["forward", "train", "forward"]),
        ([1, 3], ["forward", "train", "forward"]),  # disturbed again: it stays so
        ([1, 2], ["forward", "train", "forward", "train"]),
    ],
)
def test_a_disturbed_cell_is_measured_once_more_at_the_end(
    disturbed: list[int], order: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []

    def measure_one(host: object, one: Sample, kwargs: dict[str, Any]) -> Sample:
        assert kwargs["cores_may_be_near"] is True
        measured.append(one.mode)
        side = Side(samples=[float(len(measured))], peak_bytes=None)
        apart = len(measured) in disturbed
        return one.model_copy(
            update={
                "ours": side,
                "theirs": side,
                "warnings": ["far cores"] * apart,
                "core_distances": (2 * FAR if apart else 1.0, 1.0),
            }
        )

    choose = MagicMock(return_value=None)
    monkeypatch.setattr(command_line, "Host", MagicMock())
    monkeypatch.setattr(command_line, "chosen_kernel", choose)
    monkeypatch.setattr(command_line, "measure", measure_one)
    command_line.main(pairs="torch R / textbook", seq_len=["16"], out=tmp_path)
    assert measured == order
    found = {one.mode: one for one in samples.read(tmp_path)}
    last = {mode: max(n for n, of in enumerate(order, 1) if of == mode) for mode in found}
    assert last.keys() == {"forward", "train"}
    for mode, one in found.items():
        assert one.ours is not None
        assert one.ours.samples == [float(last[mode])]
        assert bool(one.warnings) == (last[mode] in disturbed)
    assert choose.call_count == 2  # the kernel stays
    command_line.main(pairs="torch R / textbook", seq_len=["16"], out=tmp_path)
    assert measured == order  # nothing is left to do
