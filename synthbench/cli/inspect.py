"""`synthbench inspect`: draw the mixing weights of models before and after training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from synthbench.cli.completion import complete_run, complete_variants
from synthbench.cli.options import VARIANTS_NAMES, Plugin, Results, split_variants
from synthbench.cli.output import say
from synthbench.cli.runs import find_run
from synthbench.errors import NotationError

LARGEST = 2**31 - 1  # number of an example: what NumPy takes as an index on every machine


def inspect(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|CHECKPOINT...",
            help="A run, with --variants to choose its models; or one checkpoint or several.",
            autocompletion=complete_run,
        ),
    ],
    variants: Annotated[
        list[str],
        typer.Option(
            *VARIANTS_NAMES,
            metavar='"V,D"',
            help="Variants of the run, by comma; several are also drawn side by side.",
            show_default="V",
            autocompletion=complete_variants,
        ),
    ] = [],  # noqa: B006
    framework: Annotated[
        str | None,
        typer.Option("--framework", help="Of torch or jax.", show_default="the first"),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="The training with this seed.", show_default="the smallest"),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            help="The learning task to train on; `synthbench list tasks` shows all.",
            show_default="that of the cell, or walks",
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps",
            min=0,
            help="Number of training steps.",
            show_default="those of the run's training, or 300",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            "--batch",
            min=1,
            help="Examples per step.",
            show_default="those of the run's training, or the cell's, 16 at least",
        ),
    ] = None,
    head: Annotated[
        int, typer.Option("--head", min=0, help="The head of the heat maps by state.")
    ] = 0,
    example: Annotated[
        int,
        typer.Option(
            "--example", min=0, max=LARGEST, help="The held-out example of the heat maps."
        ),
    ] = 0,
    text: Annotated[
        str | None,
        typer.Option("--text", help="A text for the heat maps, in place of a held-out example."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="Beside --text: what the decoder of two stacks reads."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Save the parameters beside the figures.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="The folder to write to.",
            show_default="inspect in the run",
        ),
    ] = None,
    plugin: Plugin = [],  # noqa: B006
    results: Results = Path("results"),
) -> None:
    """Draw histograms and heat maps of the mixing weights of each layer, as SVG and PNG.

    Where the run kept the trained parameters (option keep of its task), these are drawn, beside the
    start values of the same seed. Else the model of a cell is trained now: on the learning task of
    the cell, or on a small generated task such as predicting the next token of random walks.
    Histograms are of a batch of held-out examples, and the spread of the same weights is written as
    CSV; heat maps are of one example.
    """
    from synthbench.cli.inspected import from_checkpoint, from_run, trained, with_different_names
    from synthbench.cli.inspected import keep as keep_checkpoints
    from synthbench.cli.inspected_cells import Wanted, every_variant, variants_of
    from synthbench.cli.inspected_figures import check, draw, examples_of
    from synthbench.run.extensions import load_plugin

    for module in plugin:
        load_plugin(module)
    if target is not None and text is None:
        raise NotationError("--target stands beside --text; give both")
    paths = [Path(source) for source in sources]
    if all(path.is_file() for path in paths):
        if len({path.resolve() for path in paths}) < len(paths):
            raise NotationError("the same model is given twice; name each checkpoint once")
        folder = out or paths[0].parent
        models = with_different_names([from_checkpoint(path, task) for path in paths])
    elif len(sources) == 1:
        run = find_run(sources[0], results)
        folder = out or run / "inspect"
        wanted = Wanted(framework, seed, task, steps, batch)
        names = variants_of(run, split_variants(variants))
        if not variants and (others := [n for n in every_variant(run) if n not in names]):
            say(f"Only {names[0]} is drawn; with --variants also {', '.join(others)}")
        models = with_different_names([from_run(run, name, wanted) for name in names])
    else:
        raise NotationError(
            "several sources have to be files of checkpoints; choose one run, or name files that "
            "exist"
        )
    examples = examples_of(models, example, text, target)
    check(models, examples, head, folder)
    models = [trained(one, plugin) for one in models]
    if keep:
        keep_checkpoints(models, folder)
    for path in draw(models, examples, head, folder):
        say(path)
