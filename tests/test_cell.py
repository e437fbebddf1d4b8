"""A cell's id and its flat view follow its content."""

from __future__ import annotations

import hashlib

import pytest
from pydantic import ValidationError

from synthbench.suites.cell import FLAT_FIELDS, Cell

CELL = Cell.from_flat(
    variant="V", framework="torch", mode="train", seq_len=8, batch=2, compile="eager",
    d_model=16, heads=4, max_len=8,
)  # fmt: skip


def test_the_id_is_the_hash_of_what_is_not_at_its_default() -> None:
    content = (
        '{"batch":2,"compile":"eager","framework":"torch","mode":"train",'
        '"model":{"d_model":16,"heads":4,"max_len":8},"seq_len":8,"variant":"V"}'
    )
    assert CELL.id == hashlib.sha256(content.encode()).hexdigest()[:12]


def test_a_changed_cell_has_an_id_of_its_own() -> None:
    assert CELL.id
    assert CELL.flat()["batch"] == 2
    changed = CELL.changed(batch=3)
    assert changed.flat() == CELL.flat() | {"batch": 3}
    assert changed.id == Cell.from_flat(**CELL.flat() | {"batch": 3}).id != CELL.id
    assert changed.changed(batch=2) == CELL
    with pytest.raises(ValidationError):
        CELL.changed(batch=0)


def test_the_flat_view_belongs_to_the_caller() -> None:
    assert set(CELL.flat()) == set(FLAT_FIELDS)
    CELL.flat()["batch"] = 99
    assert CELL.flat()["batch"] == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [("seed", 2**63), ("seed", -(2**63) - 1), ("replica", 2**63), ("replica", -1),
     ("batch", 10**9 + 1), ("seq_len", 10**9 + 1), ("seq_len", 0)],
)  # fmt: skip
def test_integers_are_those_that_tables_can_hold(field: str, value: int) -> None:
    with pytest.raises(ValidationError, match=field):
        CELL.changed(**{field: value})
    for largest in ({"seed": 2**63 - 1}, {"seed": -(2**63)}, {"batch": 10**9}):
        assert CELL.changed(**largest)
