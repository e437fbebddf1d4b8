"""`synthbench run`: measure a suite, write its tables, print one screen about it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from synthbench.cli.call_again import call_again, given_options
from synthbench.cli.options import (
    FRAMEWORKS_ADVICE,
    BatchOption,
    DeviceOption,
    FrameworkOption,
    ModeOption,
    Plugin,
    Results,
    SeqLenOption,
    SlotsOption,
    SuiteOption,
    VariantsOption,
    axis_options,
    split_list,
)
from synthbench.cli.output import complain, console, say
from synthbench.cli.runs import newest_unfinished
from synthbench.cli.shown import Format, Shown
from synthbench.devices import AUTO
from synthbench.errors import NotationError, ResultsError, UnknownNameError, UnsupportedError

if TYPE_CHECKING:
    from synthbench.run.executors.base import Executor
    from synthbench.run.runner import Summary
    from synthbench.suites.plan import Plan

FAILED = (
    "crashed",
    "quarantined",
    "unchecked",
)  # what makes a run exit 1: out of memory is a result


def run(
    context: typer.Context,
    suite: SuiteOption,
    device: DeviceOption = AUTO,
    framework: FrameworkOption = [],  # noqa: B006  typer reads the default, nothing changes it
    variants: VariantsOption = [],  # noqa: B006
    seq_len: SeqLenOption = [],  # noqa: B006
    mode: ModeOption = [],  # noqa: B006
    batch: BatchOption = [],  # noqa: B006
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="The run's folder.",
            show_default="results/<suite>/<device>-<time>",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Measure only what is missing: of --out, or of the newest unfinished run of this "
            "suite and device.",
        ),
    ] = False,
    retry: Annotated[
        list[str],
        typer.Option(
            "--retry",
            metavar="unchecked,disturbed",
            help="With --resume, measure cells with these outcomes again, by comma; disturbed: "
            "cells with warnings or far cores. Repeatable.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
    allow_changed: Annotated[
        bool,
        typer.Option(
            "--allow-changed",
            help="With --resume, also where the suite, the device or the selection has changed "
            "since the run began; run.json lists what has.",
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Run also the cells that are predicted to need more memory than there is.",
        ),
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="FILE|SOURCE",
            help="What learning tasks learn from: a text, CSV, TSV or JSONL file, or a source that "
            "`synthbench list data` shows.",
            show_default="as the suite says",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Measure and write nothing: print the cells, what is skipped and why, and how "
            "long the run will take.",
        ),
    ] = False,
    executor: Annotated[
        str,
        typer.Option("--executor", help="Where cells run; `synthbench list executors` shows all."),
    ] = "local",
    slurm: Annotated[
        list[str],
        typer.Option(
            "--slurm",
            metavar="partition=a100,gres=gpu:1,time=02:00:00",
            help="With --executor slurm: options of sbatch by their long names, by comma. "
            "Repeatable; an option that is given twice has both values.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
    detach: Annotated[
        bool,
        typer.Option(
            "--detach",
            help="With --executor slurm: return when the jobs are submitted; `synthbench status` "
            "shows them, and --resume waits for them.",
        ),
    ] = False,
    slots: SlotsOption = None,
    machines: Annotated[
        int | None,
        typer.Option(
            "--machines",
            metavar="N",
            help="Spread the rounds of each cell over N machines of one kind: nodes of a cluster, "
            "several devices, or slots. Intervals then include how machines differ.",
            show_default="measure.machines of the suite",
        ),
    ] = None,
    ray_address: Annotated[
        str | None,
        typer.Option(
            "--ray-address",
            metavar="ADDRESS",
            help="With the executor ray: the cluster; auto is the one that this machine is in.",
            show_default="auto",
        ),
    ] = None,
    plugin: Plugin = [],  # noqa: B006
    results: Results = Path("results"),
) -> None:
    """Measure every cell of a suite, write its tables, and print one screen about them.

    Exit code 0: done; out of memory and time-outs are results. 1: a cell crashed, was unchecked or
    quarantined. 2: a mistake in the call, or a framework or device that is not there.
    130: Ctrl-C; what was measured is kept.
    """
    from synthbench.registry import has_installed_extensions
    from synthbench.run.devices import resolve_device
    from synthbench.run.executors.base import require_kind
    from synthbench.run.executors.catalog import EXECUTOR_REGISTRY, EXECUTORS
    from synthbench.run.extensions import ignoring_installed_extensions, load_plugin
    from synthbench.run.planning import plan_in_child, plan_suite
    from synthbench.run.progress import make_observer
    from synthbench.run.runner import run_plan
    from synthbench.store import has_begun
    from synthbench.suites.plan import FRAMEWORKS
    from synthbench.suites.suite import load_suite

    if executor not in EXECUTORS:  # it runs in this process; other plug-ins do not
        for module in plugin:
            load_plugin(module)
    options = {"slots": slots, "ray_address": ray_address, "slurm": slurm or None,
               "detach": detach or None}  # fmt: skip
    chosen = _with_options(EXECUTOR_REGISTRY.find(executor), options)
    if chosen.stores_records and device == AUTO:
        raise NotationError(
            f"--executor {executor} needs --device: the devices of this machine may be others than "
            "those of the nodes; write --device cuda, or --device cpu"
        )
    if chosen.chooses_devices:
        require_kind(executor, device)  # before a list is made of cuda:all, as seen from here
    context.with_resource(ignoring_installed_extensions())
    outcomes = _outcomes(retry, resume)
    if allow_changed and not resume:
        raise NotationError("--allow-changed is about an existing run; add --resume")
    loaded = load_suite(suite)
    frameworks = split_list(framework, FRAMEWORKS_ADVICE) or None
    selection = {
        **axis_options(variants, seq_len, mode, batch),
        "force": force, "data": data, "machines": machines,
    }  # fmt: skip
    where = resolve_device(device, frameworks or FRAMEWORKS)
    if plugin or has_installed_extensions():
        plan = plan_in_child(loaded, where, frameworks, **selection, plugins=plugin)
    else:
        plan = plan_suite(loaded, where, frameworks, **selection)
    if not plan.cells:
        reasons = "; ".join(dict.fromkeys(skip.reason for skip in plan.skipped))
        raise UnsupportedError(f"no cell of suite {plan.suite} can be run: {reasons}")
    if dry_run:
        _print_dry_run(plan, results, resume, slots)
        return
    if out is None and resume:
        out = newest_unfinished(plan.suite, where, results)
    elif out is None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        name = where.replace(":", "").replace(",", "-")
        out = results / plan.suite / f"{name}-{stamp}"
    elif resume and not has_begun(out):
        raise ResultsError(
            f"--resume: there is no run in {out} to go on with; leave --resume out to begin one "
            "there, or name another --out (`synthbench list runs` shows the runs)"
        )
    summary = run_plan(
        plan,
        out,
        resume=resume,
        plugins=plugin,
        observer=make_observer(),
        executor=chosen,
        retry=outcomes,
        allow_changed=allow_changed,
        options=given_options(context),
    )
    if summary.detached:
        say(f"Records: {out}\nJobs:    synthbench status {shlex.quote(str(out))}")
        raise typer.Exit
    if summary.interrupted:
        begun = has_begun(out)
        _tell_kept(summary, resume, call_again(context, where, out, resume=begun, retry=retry))
        if chosen.stores_records and begun:
            complain(
                f"its jobs go on; end them with: {shlex.join(['synthbench', 'cancel', str(out)])}"
            )
        raise typer.Exit(130)
    again = partial(call_again, context, where, out, resume=True)
    raise typer.Exit(_conclude(summary, again))


def _with_options(executor: type[Executor], options: Mapping[str, Any]) -> Executor:
    """An executor with the options that were given; raises NotationError for those of others."""
    from synthbench.run.executors.catalog import EXECUTORS

    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in executor.options:
            owners = [each for each, other in EXECUTORS.items() if name in other.options]
            raise NotationError(
                f"{_flag(name)} is an option of the executor {' or '.join(owners)}, not of "
                f"{executor.name}; leave it out, or add --executor {owners[0]}"
            )
    return executor(**given)


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _outcomes(retry: list[str], resume: bool) -> list[str]:
    """The outcomes of --retry; raises UnknownNameError or NotationError for a wrong call."""
    from synthbench.record import Outcome
    from synthbench.run.runner import DISTURBED

    known = [*get_args(Outcome), DISTURBED]
    found = split_list(retry, "write --retry unchecked,disturbed")
    for name in found:
        if name not in known:
            raise UnknownNameError("outcome", name, known)
    if found and not resume:
        raise NotationError("--retry measures cells of an existing run again; add --resume")
    return found


def _print_dry_run(plan: Plan, results: Path, resume: bool, slots: int | None) -> None:
    """Print what the run of a plan would measure, and how long it would take."""
    from synthbench.cli.dry_run import dry_run_lines
    from synthbench.run.estimate import estimate
    from synthbench.run.places import places_of

    if resume:
        raise NotationError("--dry-run shows the whole plan of a suite; leave --resume out")
    if slots is not None:
        places_of(plan, slots)  # as a run would refuse them
    for line in dry_run_lines(plan, estimate(plan, results, slots), console().width):
        say(line)


def _tell_kept(summary: Summary, resume: bool, again: str) -> None:
    """After Ctrl-C: what is kept, and how to go on."""
    kept = sum(summary.outcomes.values())
    records = "1 record is" if kept == 1 else f"{kept} records are"
    folder = summary.run_dir
    if kept:
        complain(f"interrupted: {records} kept in {folder}")
    elif resume:  # what the run has was not read yet
        complain(f"interrupted before another cell was measured: {folder} keeps its records")
    else:
        complain("interrupted before the first cell was measured")
    complain(f"go on with: {again}")


def _conclude(summary: Summary, again: Callable[..., str]) -> int:
    """Write the tables of what was measured, and print the screen; the exit code.

    `again`: the command that goes on with it, but for `retry`.
    """
    from synthbench.store import read_run

    if summary.outcomes:
        folder = _write_tables(summary.run_dir)
        Shown().print_run(read_run(summary.run_dir), Format.TERMINAL, footer=2)
        say(f"Records: {summary.run_dir}\nTables:  {folder}")
    failed = {name: count for name in FAILED if (count := summary.outcomes[name])}
    if failed:
        found = " and ".join(f"{count} {name}" for name, count in failed.items())
        complain(
            f"{found}: every reason is in the table `outcomes`; to measure these again: "
            f"{again(retry=[','.join(failed)])}"
        )
    if summary.missing:
        complain(f"not run: {', '.join(summary.missing)} (the reason stands above)")
        return 2
    return 1 if failed else 0


def _write_tables(run_dir: Path) -> str:
    """Write the tables of a run, where packages extend them in a child process; the folder."""
    from synthbench.registry import has_installed_extensions
    from synthbench.run.host_client import NO_FRAMEWORK, call_in_child

    if not has_installed_extensions():
        return tables_of(str(run_dir))
    target = f"{tables_of.__module__}:{tables_of.__name__}"
    folder: str = call_in_child(NO_FRAMEWORK, target, {"run_dir": str(run_dir.resolve())})
    return folder


def tables_of(run_dir: str) -> str:
    """Write the tables of a run; the folder they are in."""
    from synthbench.report.text.files import write_tables
    from synthbench.store import read_run

    return str(write_tables(read_run(Path(run_dir))))
