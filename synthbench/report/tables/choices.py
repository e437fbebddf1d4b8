"""Which kernel the run chose for each mixer and shape, and how much faster than the next it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from synthbench.analysis.intervals import Interval, ratio_interval
from synthbench.analysis.paired_ratio import paired_ratio
from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid
from synthbench.report.data.table import Column, Table
from synthbench.report.tables.layout import Row
from synthbench.run_info import Compared, KernelChoice, KernelTime

ALWAYS = ("framework", "mode", "variant", "seq_len")
# Other fields of a cell that are shown where the choices differ in them.
SOMETIMES = ("batch", "d_model", "heads", "head_dim", "dtype", "device", "form")
NO_OTHER = "none"


def choices(grid: Grid, context: Context) -> Table | None:
    """One row per choice; None for a run that chose none."""
    if not any(context.choices.values()):
        return None
    return choice_table(context.choices, grid.variant_order, context.shared)


def choice_table(
    made: Mapping[str, Sequence[KernelChoice]], variants: Sequence[str], shared: tuple[str, ...]
) -> Table:
    """The table of the choices of each machine, in the order of these variants."""
    order = {variant: place for place, variant in enumerate(variants)}
    cells = [choice.cell.flat() for found in made.values() for choice in found]
    fields = [name for name in SOMETIMES if len({cell[name] for cell in cells}) > 1]
    several = sum(bool(found) for found in made.values()) > 1
    columns = [Column("machine", is_key=True)] if several else []
    columns += [Column("L" if name == "seq_len" else name, is_key=True) for name in ALWAYS]
    columns += [Column(name, is_key=True) for name in fields]
    columns += [
        Column("chosen kernel"),
        Column("next best"),
        Column("its time / chosen"),
        Column("without measuring / chosen"),
        Column("remarks"),
    ]
    rows = [
        (*([machine] if several else []), *_row(choice, [*ALWAYS, *fields]))
        for machine, found in made.items()
        for choice in sorted(found, key=lambda choice: _place(choice, order))
    ]
    note = (
        "Before the first cell, the kernels that a form declares are timed in turn at the shapes "
        "of the cells; every cell of these shapes then uses the chosen one. `next best`: the "
        "fastest of the others, its time over that of the chosen one with the 95% interval. "
        "`without measuring`: the kernel that is used where nothing was measured; it is kept "
        "unless another is faster with its whole interval."
    )
    return Table("choices", "Kernels chosen by their times", note, shared, tuple(columns), rows)


def _place(choice: KernelChoice, order: dict[str, int]) -> tuple[object, ...]:
    cell = choice.cell
    known = order.get(cell.variant, len(order))
    return cell.framework != "torch", cell.mode, known, cell.variant, cell.seq_len


def _row(choice: KernelChoice, fields: Sequence[str]) -> Row:
    content = choice.cell.flat()
    keys = tuple(str(content[name]) for name in fields)
    remarks = ["disturbed"] if choice.warnings else []
    remarks += [f"cannot run: {kernel}" for kernel in choice.failed]
    said = "; ".join(remarks)
    if not choice.kernels:
        return (*keys, choice.chosen.name, f"as {' and '.join(choice.like)}", "", "", said)
    (chosen,) = (timed for timed in choice.kernels if timed.kernel == choice.chosen)
    first = choice.kernels[0]

    def ratio(timed: KernelTime) -> Interval:
        return time_ratio(timed, chosen, choice.compared)

    others = [timed for timed in choice.kernels if timed is not chosen]
    best = min(others, key=lambda timed: ratio(timed).value, default=None)
    beside = (NO_OTHER, "")
    if best is not None:
        beside = (best.kernel.name, _text(ratio(best), best, chosen))
    unmeasured = "the same" if first is chosen else _text(ratio(first), first, chosen)
    return (*keys, choice.chosen.name, *beside, unmeasured, said)


def time_ratio(kernel: KernelTime, chosen: KernelTime, compared: Compared) -> Interval:
    """The time of a kernel over that of the chosen one, as the two were compared for the choice."""
    both = min(len(kernel.samples), len(chosen.samples))
    times, of_chosen = kernel.samples[:both], chosen.samples[:both]
    if compared == "medians":
        return ratio_interval(times, of_chosen)
    return paired_ratio(of_chosen, times)


def _text(ratio: Interval, kernel: KernelTime, chosen: KernelTime) -> str:
    steps = len(kernel.samples)
    if steps < len(chosen.samples) or steps == 1:  # left out of the race: no interval
        return f"{ratio.value:.2f} ({steps} step{'s' * (steps > 1)})"
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
