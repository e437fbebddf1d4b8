"""The lines under every table: model, sizes, device, versions, rounds, noise floor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from synthbench.devices import is_host, is_same_kind
from synthbench.errors import SynthbenchError
from synthbench.mixers.catalog import SHOWCASE
from synthbench.mixers.notation import canonical
from synthbench.record import Record
from synthbench.report.data.grid import Grid
from synthbench.report.data.noise import Noise
from synthbench.report.data.quality import Agreement, Quality
from synthbench.report.data.setting import differing_fields
from synthbench.report.data.table import MARK
from synthbench.report.data.training_groups import training_records
from synthbench.report.data.verdicts import Verdicts
from synthbench.run_info import Ceiling, KernelChoice, RunInfo
from synthbench.store import Run
from synthbench.tasks.cost import Cost

VERSIONS = ("torch", "jax", "jaxlib", "flax", "optax", "numpy")
# Of an environment: what a resumed run may have differently.
CHANGED = {
    "cpu": "on another processor",
    "cores": "on other cores",
    "versions": "with other versions",
    "code_sha256": "with other code of synthbench",
}


@dataclass(frozen=True)
class Context:
    """What tables need in addition to the records: the baseline, the shared lines, the noise.

    `remarks`: those of the shared lines that restrict what may be concluded from the run.
    """

    baseline: str
    shared: tuple[str, ...]
    noise: Noise
    ceilings: tuple[Ceiling, ...] = ()
    by_machine: Mapping[str, Sequence[Ceiling]] = field(default_factory=dict)  # ceilings
    choices: Mapping[str, Sequence[KernelChoice]] = field(default_factory=dict)  # by machine
    remarks: tuple[str, ...] = ()
    verdicts: Verdicts = field(default_factory=dict)
    qualities: Sequence[Quality] = ()  # of its trainings
    agreements: Sequence[Agreement] = ()  # of the frameworks, about the same
    checks_parity: bool = True  # before a cell is measured
    started: str = ""  # ISO 8601, UTC

    def ceilings_of(self, machine: str) -> Sequence[Ceiling]:
        """The ceilings of a machine; all of the run where that is not known."""
        return self.by_machine.get(machine) or self.ceilings


def context_of(run: Run, grid: Grid, noise: Noise) -> Context:
    """Make the context from run.json, from the cells, and from the noise of the cost cells."""
    setting = _setting(grid)
    lines = [model_line(run), *setting, device_line(run.info, grid), _software(run.info)]
    rounds = len({record.round for record in run.records})
    times = len(run.info.resumed)
    sessions = f", resumed {'once' if times == 1 else f'{times} times'}" if times else ""
    lines.append(
        f"Run: suite {run.info.suite}, {rounds} round{'s' if rounds != 1 else ''}, started "
        f"{run.info.started}{sessions}{_changed(run.info)}."
    )
    if not grid.records or any(record.cell.task == Cost.name for record in grid.records):
        lines.append(noise.line)
    state = []
    if run.info.finished is None:
        state.append("This run is not finished; continue it with `synthbench run --resume`.")
    if run.damaged:
        state.append(f"{len(run.damaged)} damaged lines of records.jsonl were skipped.")
    lines += state
    if grid.disturbed:
        lines.append(
            f"{MARK}: something disturbed the cell while it was timed; see the table `warnings`."
        )
    baseline = named(str(run.info.settings.get("baseline", "V")))
    choices = {machine.id: machine.choices for machine in run.info.machines}
    remarks = (*setting, *state)
    ceilings = {machine.id: machine.ceilings for machine in run.info.machines}
    return Context(
        baseline, tuple(lines), noise, tuple(run.info.ceilings), ceilings, choices, remarks,
        checks_parity=run.info.settings.get("measure", {}).get("parity", True),
        started=run.info.started,
    )  # fmt: skip


def variant_order(info: RunInfo) -> list[str]:
    """The variants in the order of the suite, then the well-known ones."""
    listed = info.settings.get("axes", {}).get("variant", [])
    return list(dict.fromkeys(map(named, [*map(str, listed), *SHOWCASE])))


def named(variant: str) -> str:
    """The canonical notation of a variant; its text unchanged if it cannot be parsed."""
    try:
        return canonical(variant)
    except SynthbenchError:  # of a plug-in that is not loaded
        return variant


def _built(records: Iterable[Record]) -> str:
    """In parentheses, the forms that were built for `auto`; empty if no record has them."""
    forms = {r.built_form for r in records if r.cell.form == "auto"} - {None}
    return f" (built: {either(forms)})" if forms else ""


def model_line(run: Run) -> str:
    """Model, sizes, dtype, and eager or compiled."""
    cells = list({record.id: record.cell for record in run.records}.values())
    if not cells:
        return "No records yet."

    contents = [cell.content for cell in cells]

    def values(name: str) -> str:
        return either(content[name] for content in contents)

    max_len = values("max_len")
    if len({c.model.max_len for c in cells}) > 1 and all(
        c.model.max_len == c.seq_len for c in cells
    ):
        max_len = "= the length"
    head_dim = either(
        cell.model.head_dim or cell.model.d_model // cell.model.heads for cell in cells
    )
    parts = [
        f"model {values('model')}", f"d_model {values('d_model')}", f"heads {values('heads')}",
        f"head_dim {head_dim}", f"max_len {max_len}", f"batch {values('batch')}",
        values("dtype"), f"form {values('form')}{_built(run.records)}",
    ]  # fmt: skip
    if any(cell.model.kind != "mixer" for cell in cells):
        names = ("layers", "feed_forward", "vocabulary")
        parts[1:1] = [f"{name} {values(name)}" for name in names if values(name) != "None"]
    modes = {(cell.framework, cell.compile) for cell in cells}
    parts += [f"{framework} {compiled}" for framework, compiled in sorted(modes, reverse=True)]
    return f"Cells: {', '.join(parts)}."


def _setting(grid: Grid) -> list[str]:
    """A warning if rows differ in other fields too, so that nobody compares across settings."""
    trained = {record.id for record in training_records(grid.latest)}
    others = [record.cell for record in grid.records if record.id not in trained]
    fields = [
        name
        for name in grid.setting_fields
        # Trainings have a column for their task, and their tables take the mean over seeds.
        if not trained or name not in ("task", "seed") or name in differing_fields(others)
    ]
    return [f"Rows also differ in {', '.join(fields)}: compare within one setting."] * bool(fields)


def device_line(info: RunInfo, grid: Grid) -> str:
    """Device, processor, memory and GPUs, and the machines if there are several."""
    environment = info.environment
    cores = environment.get("cores") or []
    memory = environment.get("memory_bytes")
    parts = [str(environment.get("cpu", "unknown CPU")), f"{len(cores)} cores"]
    if memory:
        parts.append(f"{memory / 1e9:.1f} GB of memory")
    first = f"Device {info.device}: {', '.join([*parts, *gpus(info)])}."
    names = [str(m.environment.get("place") or m.id) for m in info.machines]
    if len(names) < 2:
        return first
    counts = grid.machine_counts
    of_row = f" Every row is from {max(counts)} of them." if len(counts) == 1 != max(counts) else ""
    return f"{first} Measured in {len(names)}: {', '.join(names)}.{of_row}"


def gpus(info: RunInfo) -> list[str]:
    """The GPUs of a run, as the frameworks describe them; none of a run on a CPU."""
    described = {
        str(description)
        for seen in info.environment.get("frameworks", {}).values()
        for name, description in seen.items()
        if not is_host(info.device) and is_same_kind(name, info.device)
    }
    return sorted(described)


def _software(info: RunInfo) -> str:
    found: Mapping[str, Any] = info.environment.get("versions", {})
    packages = [f"{name} {found[name]}" for name in VERSIONS if found.get(name)]
    python = info.environment.get("python")
    return f"Versions: {', '.join([f'Python {python}'] * bool(python) + packages)}."


def _changed(info: RunInfo) -> str:
    """A remark if the run was resumed with something else than it began with."""
    settings = {name for session in info.resumed for name in session.get("changed", [])}
    said = f" with other settings ({', '.join(sorted(settings))})" if settings else ""
    for session in info.resumed:
        environment = session.get("environment")  # not there: as when the run began
        for name, words in CHANGED.items():
            if environment and environment.get(name) != info.environment.get(name):
                return f"{said} {words}, so not all numbers are comparable"
    return said


def either(values: Iterable[Any]) -> str:
    """The distinct values, sorted: "16 or 32"."""
    distinct = set(values)
    return " or ".join(str(v) for v in sorted(distinct, key=lambda v: (str(type(v)), v)))
