"""A cell is disturbed whose fastest fixed product took 1.5 times as long as beside most cells."""

from __future__ import annotations

import pytest

from synthbench.measure.disturbed import CORES_FAR, disturbances, disturbed
from synthbench.record import Calibration, Record
from tests.test_ratios import steady
from tests.test_tables import cell, record

PRODUCT = 0.004


def measured(
    variant: str,
    product: float | None = PRODUCT,
    framework: str = "torch",
    machine: str = "a",
    attempt: int = 0,
    warnings: list[str] | None = None,
    distance: float = 1.2,
) -> Record:
    """A record whose fastest product took so long, whatever the others took."""
    seconds = None if product is None else [product * 20, product, product * 4]
    found = None if seconds is None else Calibration(after=[0, 0, 0], seconds=seconds)
    timing = steady(0.01).model_copy(
        update={"calibration": found, "core_distances": [1.2, distance]}
    )
    made = record(cell(variant, framework, "forward", 64), timing=timing, warnings=warnings or [])
    return made.model_copy(update={"machine": machine, "attempt": attempt})


OTHERS = [measured(name) for name in ("V", "R", "D")]


@pytest.mark.parametrize(("factor", "expected"), [(1.6, True), (1.4, False), (0.3, False)])
def test_a_slow_product_marks_its_cell_alone(factor: float, expected: bool) -> None:
    one = measured("FR", factor * PRODUCT)
    assert disturbed([*OTHERS, one]) == ({(one.id, 0)} if expected else set())


def test_single_slow_products_are_not_the_machine() -> None:
    one = measured("FR")
    found = Calibration(after=[0, 0, 0], seconds=[90 * PRODUCT, 80 * PRODUCT, 1.1 * PRODUCT])
    one.measurements.timing = steady(0.01).model_copy(update={"calibration": found})
    assert disturbed([*OTHERS, one]) == set()


def test_the_last_attempt_counts() -> None:
    slow, again = measured("FR", 3 * PRODUCT), measured("FR", attempt=1)
    assert disturbed([*OTHERS, slow]) and not disturbed([*OTHERS, slow, again])


@pytest.mark.parametrize(("framework", "machine"), [("jax", "a"), ("torch", "b")])
def test_products_are_compared_within_a_framework_and_a_machine(
    framework: str, machine: str
) -> None:
    slower = [measured(name, 3 * PRODUCT, framework, machine) for name in ("FD", "glu")]
    assert disturbed([*OTHERS, *slower]) == set()
    one = measured("FR", 9 * PRODUCT, framework, machine)
    assert disturbed([*OTHERS, *slower, one]) == {(one.id, 0)}


def test_devices_that_share_the_cores_are_no_slow_machine() -> None:
    """In PyTorch the product then has the cores of one device, as the steps have."""

    def sharing(variant: str, product: float) -> Record:
        shared = cell(variant, "torch", "train", 64, devices=2)
        made = measured(variant, product)
        return made.model_copy(update={"id": shared.id, "cell": shared})

    two = [sharing(name, 2 * PRODUCT) for name in ("V", "R")]
    assert disturbed([*OTHERS, *two]) == set()
    one = sharing("D", 4 * PRODUCT)
    assert disturbed([*OTHERS, *two, one]) == {(one.id, 0)}


def test_where_most_cells_are_slow_that_is_the_machine() -> None:
    assert disturbed([*OTHERS, *(measured(n, 3 * PRODUCT) for n in ("FR", "FD", "glu"))]) == set()


def test_a_cell_without_products_says_nothing() -> None:
    assert disturbed([*OTHERS, measured("FR", None)]) == set()


def test_each_reason_is_named_unless_the_cell_has_a_warning_of_its_own() -> None:
    one = measured("FR", 3 * PRODUCT, distance=2.1)
    far, slow = disturbances([*OTHERS, one])[one.id, 0]
    assert far == CORES_FAR
    assert slow.endswith("a fixed product took 3.0 times as long as beside most cells")
    warned = measured("FR", 3 * PRODUCT, distance=2.1, warnings=["busy"])
    assert disturbances([*OTHERS, warned]) == {(warned.id, 0): ["busy"]}


def test_a_failed_cell_is_not_disturbed() -> None:
    failed = measured("FR", 3 * PRODUCT).model_copy(update={"outcome": "crashed"})
    assert disturbed([*OTHERS, failed]) == set()
