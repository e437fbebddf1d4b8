"""Which cell is timed in the process of another: its baseline, or its reference form."""

from __future__ import annotations

from collections.abc import Iterable

from synthbench.devices import is_host
from synthbench.suites.cell import Cell
from synthbench.suites.measure import Paired

# What a variant and its baseline may differ in.
OF_VARIANT = {"variant", "replica", "heads", "head_dim"}


def baselines_of(cells: Iterable[Cell], baseline: str, paired: Paired = True) -> dict[str, Cell]:
    """Cell id -> the cell that is timed beside it: its baseline, as `paired` of a suite asks.

    `baseline`: a variant as cells name it.

    These are cells of task cost on one device that is a CPU: an accelerator's clock and memory
    would not be the cell's own. The baseline itself has none; its A/A twin has. Nor has what
    torch.compile makes, which takes longer to compile than to measure.

    With `paired` "form", a cell in another form than the reference form has that of its own variant
    beside it, where it is among the cells.
    """
    if not paired:
        return {}
    pairable = [cell for cell in cells if is_paired(cell)]
    groups: dict[str, list[Cell]] = {}
    for cell in pairable:
        groups.setdefault(_group(cell), []).append(cell)
    found: dict[str, Cell] = {}
    for group in groups.values():
        own = next((c for c in group if c.variant == baseline and not c.replica), None)
        if own is not None:
            found |= {cell.id: own for cell in group if cell.id != own.id}
    if paired == "form":
        ids = {cell.id: cell for cell in pairable}
        for cell in pairable:
            reference = ids.get(cell.changed(form="reference", replica=0).id)
            if reference is not None and cell.form != "reference":
                found[cell.id] = reference
    return found


def is_paired(cell: Cell) -> bool:
    """Whether the process of a cell can time another one's steps as well."""
    is_slow_to_compile = cell.framework == "torch" and cell.compile == "compiled"
    is_single = cell.devices == 1 and is_host(cell.device)
    return cell.task == "cost" and is_single and not is_slow_to_compile


def _group(cell: Cell) -> str:
    """Equal for cells that differ in nothing but their variant."""
    of_model = {name for name in OF_VARIANT if name in type(cell.model).model_fields}
    content = cell.model_dump_json(exclude={*(OF_VARIANT - of_model), "model"})
    return content + cell.model.model_dump_json(exclude=of_model)
