"""Which kernel our side of a pair uses: what a run would choose for its shapes, by timing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.peers.samples import Sample
from synthbench.errors import SynthbenchError
from synthbench.kernel import Kernel
from synthbench.measure.kernel_choice import Timed, raced_cell
from synthbench.run.host_client import Host
from synthbench.run.kernel_choices import CHOOSE
from synthbench.suites import cell as shapes
from synthbench.suites.plan import DEFAULT_COMPILE, FRAMEWORKS

TIMEOUT_SECONDS = 600.0
STEPS_SECONDS = 30.0  # that two steps of each kernel may take, as after `tune --minutes 30`


def our_shapes(one: Sample, d_model: int, heads: int) -> shapes.Cell:
    """What a kernel is chosen for: our mixer at these sizes."""
    framework = next(name for name in FRAMEWORKS if name == one.framework)
    return raced_cell(
        shapes.Cell.from_flat(
            variant=one.variant, framework=framework, mode=one.mode, seq_len=one.seq_len,
            batch=one.batch, dtype=one.dtype, device=one.device, d_model=d_model, heads=heads,
            head_dim=one.head_dim, max_len=one.seq_len, compile=DEFAULT_COMPILE[framework],
        )
    )  # fmt: skip


def chosen_kernel(host: Host, cell: shapes.Cell, report: Callable[[str], object]) -> Kernel | None:
    """The kernel that is the fastest for our side, as a run chooses it; None if there is one only.

    Where its steps take too long to time them, that of half the length counts, as in a run. In a
    process of its own: it needs more memory than what is measured afterwards. `report` hears why
    there is no choice.
    """
    request: dict[str, Any] = {"memory_bytes": None, "most_seconds": STEPS_SECONDS}
    request["cell"] = cell.model_dump(mode="json")
    try:
        found: Timed = host.call(CHOOSE, request, TIMEOUT_SECONDS)
    except SynthbenchError as error:
        found = Timed(None, is_own=True, problem=f"{cell.variant} at {cell.seq_len}: {error}")
    if found.is_long and cell.seq_len > 1:
        half = cell.seq_len // 2
        model = cell.model.model_copy(update={"max_len": half})
        return chosen_kernel(host, cell.changed(seq_len=half, model=model), report)
    if found.problem:
        report(f"no kernel chosen for {found.problem}")
    return None if found.choice is None else found.choice.chosen
