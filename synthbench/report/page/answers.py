"""The first table of the page: the fastest variant at each length, and how sure that is."""

from __future__ import annotations

from synthbench.report.data.table import Column, Table
from synthbench.report.page.run_data import RunData
from synthbench.report.screen.blocks import Block
from synthbench.report.screen.screen import Screen, screen_of
from synthbench.report.screen.texts import (
    answer_text,
    crossing_text,
    entry_text,
    memory_text,
    point_text,
)
from synthbench.report.tables.layout import Row, key_columns, key_values

NAME = "answers"
NEXT = 4  # variants named after the fastest


def answers(data: RunData) -> tuple[Screen, Table | None]:
    """What the terminal's screen says, and its rows; None for a run without a comparison."""
    screen, grid = screen_of(data.prepared), data.cost_grid
    blocks = [block for block in screen.blocks if block.has_baseline]
    if not blocks:
        return screen, None
    columns = key_columns(grid, "framework", "mode")
    columns += [Column("length", "exact_count", is_key=True)]
    columns += [Column(f"{data.context.baseline} ms", "median_seconds")]
    columns += [Column("fastest + (95%)"), Column("others, by measured speed")]
    columns += [Column("least MB")]
    rows: list[Row] = []
    for block in blocks:
        for row in block.rows:
            others = [entry_text(e) for e in row.entries if e is not row.answer]
            more = [f"{len(others) - NEXT} more"] if len(others) > NEXT else []
            rows.append(
                (
                    *key_values(grid, block.setting, block.framework, block.mode, row.seq_len),
                    row.baseline_seconds, answer_text(row), ", ".join(others[:NEXT] + more),
                    memory_text(row),
                )
            )  # fmt: skip
    note = " ".join([f"{', '.join(screen.legend)}.", *map(_over_all_lengths, blocks)])
    title = "Which variant is the fastest, and is that sure?"
    return screen, Table(NAME, title, note.strip(), data.context.shared, tuple(columns), rows)


def _over_all_lengths(block: Block) -> str:
    """The Pareto front at the longest length, and where variants cross the baseline."""
    name = " ".join(filter(None, (block.framework, block.mode, block.setting)))
    front = ", ".join(map(point_text, block.front))
    crossings = ", ".join(crossing_text(*one) for one in block.crossings)
    parts = [f"no other is better in both time and memory: {front}"] if front else []
    parts += [f"faster than the baseline: {crossings}"] if crossings else []
    longest = block.rows[-1].seq_len
    return f"{name} at {longest}: {'; '.join(parts)}." if parts else ""
