"""The kernel that is taken without a measurement, against the races of committed runs."""

from __future__ import annotations

import json
import statistics
from functools import cache
from pathlib import Path

import pytest

from synthbench.backends.torch import cpu_matmul
from synthbench.backends.torch.mixers.flash import FLASH
from synthbench.measure.kernel_choice import offers, raced_cell
from synthbench.run_info import KernelChoice, Machine, RunInfo
from tests.kernel_choices import cell

FOLDERS = ("cpu-reference", "cpu-slower-machine", "cpu-intel")  # two AMD EPYC, an Intel Xeon


@cache
def machine(folder: str) -> Machine:
    info = json.loads((Path("results/seq_scaling") / folder / "run.json").read_text())
    (found,) = RunInfo.model_validate(info).machines
    return found


def speed_of_rule(choice: KernelChoice) -> float | None:
    """The speed of the first kernel that is offered, relative to the fastest; None: not timed."""
    (offered,) = offers([choice.cell.model_dump(mode="json")])
    first = offered.kernels[0]
    seconds = {timed.kernel: statistics.median(timed.samples) for timed in choice.kernels}
    return min(seconds.values()) / seconds[first] if first in seconds else None


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_the_kernel_without_a_measurement_is_seldom_slow(
    framework: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = machine(folder)
    intel = "Intel" in measured.environment["cpu"]
    monkeypatch.setattr(cpu_matmul, "made_by_intel", lambda: intel)
    raced = [c for c in measured.choices if c.cell.framework == framework and len(c.kernels) > 1]
    speeds = sorted(s for choice in raced if (s := speed_of_rule(choice)) is not None)
    assert len(speeds) > 0.9 * len(raced)
    assert statistics.median(speeds) > 0.95
    assert speeds[len(speeds) // 20] > 0.8
    assert speeds[0] > 0.65


@pytest.mark.parametrize(
    ("variant", "wide"),
    [("V", False), ("D", False), ("D+V", False), ("D+V+FR(rank=1)", True), ("FR(rank=129)+V", True),
     ("D(sharing=full)", True), ("conv_relu_conv", True), ("bottleneck_conv", False)],
)  # fmt: skip
def test_blocks_come_first_where_features_are_wide(
    variant: str, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than twice as many as values: 64 each here, in D+V two pairs of 64."""
    monkeypatch.setattr(cpu_matmul, "made_by_intel", lambda: True)
    monkeypatch.setattr(cpu_matmul, "has_onednn", lambda: True)
    raced = raced_cell(cell(variant=variant, seq_len=2048, d_model=512, heads=8, max_len=2048))
    (offered,) = offers([raced.model_dump(mode="json")])
    paths = [kernel.path for kernel in offered.kernels if kernel.products == cpu_matmul.MKL]
    assert {"blocks of queries", FLASH} <= set(paths)
    assert (paths[0] == "blocks of queries") == wide
    assert (paths[0] == FLASH) != wide
