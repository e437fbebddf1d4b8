"""What `make test` leaves to `make test-all`: marks `long` and `long_but` (conftest.py)."""

from __future__ import annotations

import pytest

from tests.conftest import MATCH_NOTHING


def test_every_pattern_matches_a_case(pytestconfig: pytest.Config) -> None:
    """Says more when all tests are collected: only then has every test its cases."""
    assert pytestconfig.stash[MATCH_NOTHING] == []
