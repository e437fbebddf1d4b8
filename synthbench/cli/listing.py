"""`synthbench list`: variants, suites, devices, runs, tasks, executors, data."""

from __future__ import annotations

from collections import Counter
from dataclasses import Field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from synthbench.cli.options import Plugin, Results
from synthbench.cli.output import print_columns, say
from synthbench.cli.runs import run_name, state
from synthbench.errors import SynthbenchError

if TYPE_CHECKING:
    from synthbench.registry import Registry

app = typer.Typer(
    no_args_is_help=True, help="List variants, suites, devices, runs, tasks, executors or data."
)


@app.command()
def variants(plugin: Plugin = []) -> None:  # noqa: B006
    """List every mixer by its notation; `show` prints the details of one."""
    from synthbench.mixers.attention import Attention
    from synthbench.mixers.catalog import SHOWCASE, plugins
    from synthbench.mixers.notation import parse
    from synthbench.run.extensions import load_plugin

    for module in plugin:
        load_plugin(module)
    rows = []
    for notation in SHOWCASE:
        mixer = parse(notation)
        alone = isinstance(mixer, Attention) and len(mixer.components) == 1
        part = mixer.components[0] if isinstance(mixer, Attention) and alone else mixer
        is_mixture = isinstance(mixer, Attention) and not alone
        name = "mixture" if is_mixture else part.name
        rows.append(
            (notation, name, "logits added in one softmax" if is_mixture else part.equation)
        )
    rows += [(name, name, cls.equation or "-") for name, cls in sorted(plugins().items())]
    print_columns(("variant", "name", "equation"), rows)


@app.command()
def suites() -> None:
    """The built-in suites: `run --suite` takes their names, or the path of a file of yours."""
    from synthbench.suites.find import list_suites
    from synthbench.suites.suite import load_suite

    suites = [load_suite(name) for name in list_suites()]
    rows = [(suite.name, " ".join(suite.devices), suite.description) for suite in suites]
    print_columns(("suite", "devices", "description"), rows)


@app.command()
def devices() -> None:
    """List the devices of each framework, or why it cannot be used."""
    from synthbench.run.devices import device_report

    rows = []
    for framework, found in device_report().items():
        if isinstance(found, str):
            rows.append((framework, "none", found))
        else:
            rows += [(framework, device.name, device.description) for device in found]
    print_columns(("framework", "device", "description"), rows)


@app.command()
def runs(results: Results = Path("results")) -> None:
    """List the runs in the results folder with the outcomes of their cells."""
    from synthbench.record import latest
    from synthbench.store import list_runs, read_run

    rows = []
    for folder in list_runs(results):
        name = run_name(folder, results)
        try:
            run = read_run(folder)
        except SynthbenchError as error:
            rows.append((name, "-", "-", "-", str(error)))
            continue
        counts = Counter(record.outcome for record in latest(run.records))
        found = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
        rows.append(
            (name, run.info.device, run.info.started[:19], state(run.info), found or "none")
        )
    if not rows:
        say(f"no run found in {results}")
        return
    print_columns(("run", "device", "started (UTC)", "state", "records"), rows)


@app.command()
def tasks(plugin: Plugin = []) -> None:  # noqa: B006
    """What a cell can do: the tasks that a suite names under axes.task."""
    from synthbench.tasks.catalog import TASK_REGISTRY

    _print_registry("task", TASK_REGISTRY, plugin)


@app.command()
def executors(plugin: Plugin = []) -> None:  # noqa: B006
    """Where cells can run: the executors that `run --executor` takes."""
    from synthbench.run.executors.catalog import EXECUTOR_REGISTRY

    _print_registry("executor", EXECUTOR_REGISTRY, plugin)


@app.command()
def data(plugin: Plugin = []) -> None:  # noqa: B006
    """Where texts come from: the data sources that the option `data` of a text task takes."""
    from synthbench.tasks.data.catalog import DATA_SOURCE_REGISTRY

    _print_registry("data source", DATA_SOURCE_REGISTRY, plugin)


def _print_registry(heading: str, registry: Registry[Any], plugins: list[str]) -> None:
    from synthbench.run.extensions import load_plugin

    for module in plugins:
        load_plugin(module)
    rows = []
    for name, cls in sorted(registry.known().items()):
        options = [f"{field.name}={field.default}" for field in _fields(cls)]
        if isinstance(own := getattr(cls, "options", None), tuple):  # of an executor
            options += [f"--{option.replace('_', '-')}" for option in own]
        rows.append((name, cls.description or "-", ", ".join(options) or "-"))
    print_columns((heading, "description", "options"), rows)


def _fields(cls: type[Any]) -> tuple[Field[Any], ...]:
    return fields(cls) if is_dataclass(cls) else ()
