"""`synthbench inspect`: draw what a model's mixers weigh, before and after it has learnt a task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from synthbench.cli.options import Plugin, Results
from synthbench.cli.output import complain
from synthbench.cli.runs import find_run
from synthbench.errors import NotationError, UnknownNameError

if TYPE_CHECKING:
    from synthbench.mixers.base import Array
    from synthbench.suites.cell import Cell

START = "at the start"


def inspect(
    source: Annotated[
        str,
        typer.Argument(
            metavar="RUN|CHECKPOINT",
            help="A run, of which --variant says the cell; or a file that this command wrote.",
        ),
    ],
    variant: Annotated[
        str | None, typer.Option("--variant", help="Which of the run's variants.", show_default="V")
    ] = None,
    framework: Annotated[
        str | None,
        typer.Option(
            "--framework", help="Where it is trained: torch or jax.", show_default="the first"
        ),
    ] = None,
    steps: Annotated[int, typer.Option("--steps", min=0, help="Adam steps to train.")] = 300,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Examples a step.")] = 16,
    head: Annotated[int, typer.Option("--head", min=0, help="Which head heat maps show.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Where to write.", show_default="inspect in the run"
        ),
    ] = None,
    data: Annotated[
        str,
        typer.Option("--data", help="What it is trained on; `synthbench list data` shows all."),
    ] = "walks",
    plugin: Plugin = [],  # noqa: B006
    results: Results = Path("results"),
) -> None:
    """Draw histograms and heat maps of what each layer's mixer weighs, as SVG and PNG.

    The model of a run's cell is trained from its start values on a small task that needs no data
    (the next token of random walks and the like), and drawn before and after; its parameters are
    kept as checkpoints beside the pictures.
    """
    from synthbench.checkpoint import read_checkpoint
    from synthbench.report.figures.image_files import write_pictures
    from synthbench.report.figures.weights import heat_maps, histograms, weights_of
    from synthbench.run.extensions import load_plugin

    for module in plugin:
        load_plugin(module)
    if Path(source).is_file():
        cell, parameters = read_checkpoint(Path(source))
        states = {Path(source).stem: parameters}
        folder = out or Path(source).parent
        name = Path(source).stem
    else:
        run = find_run(source, results)
        cell = _choose(run, variant, framework).model_copy(update={"batch": batch})
        name = _file_name(cell)
        folder = out or run / "inspect"
        states = _train(cell, steps, folder / name, data, plugin)
    found = weights_of(cell, states, data)
    title = f"{cell.variant} in {cell.framework}: weights"
    pictures = {
        f"{name}-histograms": histograms(found, title),
        f"{name}-maps": heat_maps(found, title, head),
    }
    for path in write_pictures(pictures, folder):
        typer.echo(path)


def _train(
    cell: Cell, steps: int, stem: Path, data: str, plugins: list[str]
) -> dict[str, dict[str, Array]]:
    from synthbench.checkpoint import write_checkpoint
    from synthbench.models.start_values import start_values
    from synthbench.run.host_client import Host
    from synthbench.suites.cell import model_of

    start = start_values(model_of(cell).parameters(), cell.seed)
    states = {START: start}
    if steps:
        host = Host(cell.framework, plugins=plugins, device_kind=cell.device.partition(":")[0])
        try:
            trained = host.call(
                "synthbench.tasks.training:train",
                {"cell": cell.model_dump(mode="json"), "steps": steps, "data": data},
                timeout_seconds=24 * 3600,
            )
        finally:
            host.stop()
        first, last = trained.losses[0], trained.losses[-1]
        complain(f"loss {first:.3f} at the start, {last:.3f} at the end")
        states[f"after {steps} steps"] = trained.end
    for state, parameters in states.items():
        path = stem.with_name(f"{stem.name}-{state.replace(' ', '-')}.npz")
        write_checkpoint(path, cell, parameters)
        typer.echo(path)
    return states


def _choose(run: Path, variant: str | None, framework: str | None) -> Cell:
    """The longest cell of a variant in a framework, train steps before forward passes."""
    from synthbench.mixers.notation import canonical
    from synthbench.store import read_run

    cells = [record.cell for record in read_run(run).records]
    if not cells:
        raise NotationError(f"{run} has no records yet, so no model to look at")
    frameworks = sorted({cell.framework for cell in cells}, reverse=True)
    if framework is not None and framework not in frameworks:
        raise UnknownNameError("framework of this run", framework, frameworks)
    variants = list(dict.fromkeys(cell.variant for cell in cells))
    name = canonical(variant) if variant else ("V" if "V" in variants else variants[0])
    if name not in variants:
        raise UnknownNameError("variant of this run", name, variants)
    chosen = framework or frameworks[0]
    fitting = [c for c in cells if (c.variant, c.framework) == (name, chosen) and not c.replica]
    if not fitting:
        raise NotationError(f"{run} has no cell of {name} in {chosen}")
    return max(fitting, key=lambda cell: (cell.mode == "train", cell.seq_len))


def _file_name(cell: Cell) -> str:
    kept = "".join(c if c.isalnum() or c in "+-." else "_" for c in cell.variant)
    label = f"{cell.label}-" if cell.label else ""
    return f"{label}{kept.strip('_')}-{cell.framework}"
