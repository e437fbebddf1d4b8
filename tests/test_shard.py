"""Shards: cells that a table compares stay on one machine, the others may go to different ones."""

from __future__ import annotations

import itertools

import pytest

from synthbench.run.shard import split_into_shards
from synthbench.suites.cell import Cell
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import parse_suite

SUITE = """
axes:
  variant: [V, R]
  framework: [torch, jax]
  mode: [forward, train]
  form: [reference, fused]
  seq_len: [8, 16]
  batch: [1, 2]
  d_model: [8, 16]
  heads: [2, 4]
model: {d_model: 8, heads: 2}
measure: {rounds: 2, aa: true}
baseline: V
"""
# Ratios are taken across these, by the tables ratios, frameworks, forms and break_even.
COMPARED = {"variant", "replica", "framework", "form", "compile", "heads", "head_dim"}


@pytest.fixture(scope="module")
def cells() -> tuple[Cell, ...]:
    return tuple(make_plan(parse_suite(SUITE, name="mine", source="mine.yaml"), "cpu").cells)


def test_each_cell_is_in_one_shard(cells: tuple[Cell, ...]) -> None:
    shards = split_into_shards(cells)
    assert sorted(c.id for shard in shards for c in shard.cells) == sorted(c.id for c in cells)
    assert len(shards) == 2 * 2 * 2 * 2  # modes, lengths, batches, widths


def test_cells_share_a_shard_if_and_only_if_they_are_compared(cells: tuple[Cell, ...]) -> None:
    number = {c.id: n for n, shard in enumerate(split_into_shards(cells)) for c in shard.cells}
    differing = set()
    for one, other in itertools.combinations(cells, 2):
        flat = one.flat(), other.flat()
        names = {name for name in flat[0] | flat[1] if flat[0].get(name) != flat[1].get(name)}
        differing |= names
        together = number[one.id] == number[other.id]
        assert together == (names <= COMPARED), f"{names}: together is {together}"
    assert differing >= COMPARED - {"head_dim"} | {"mode", "seq_len", "batch", "d_model"}


def test_compiled_and_eager_cells_share_a_shard() -> None:
    text = "axes: {variant: [V], framework: [torch], seq_len: [8], compile: [eager, compiled]}\n"
    found = make_plan(
        parse_suite(text + "model: {d_model: 8, heads: 2}", name="mine", source="mine.yaml"), "cpu"
    )
    assert {cell.compile for cell in found.cells} == {"eager", "compiled"}
    assert len(split_into_shards(found.cells)) == 2  # forward and train
