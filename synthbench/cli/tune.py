"""`synthbench tune`: measure which kernels are the fastest here, for later runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from synthbench.cli.options import (
    FRAMEWORKS_ADVICE,
    BatchOption,
    DeviceOption,
    FrameworkOption,
    ModeOption,
    Plugin,
    SeqLenOption,
    SuiteOption,
    VariantsOption,
    axis_options,
    split_list,
)
from synthbench.cli.output import console, say
from synthbench.devices import AUTO
from synthbench.errors import FrameworkMissingError, UnsupportedError
from synthbench.kernel import Purpose


def tune(
    context: typer.Context,
    suite: SuiteOption = "seq_scaling",
    device: DeviceOption = AUTO,
    framework: FrameworkOption = [],  # noqa: B006  typer reads the default, nothing changes it
    variants: VariantsOption = [],  # noqa: B006
    seq_len: SeqLenOption = [],  # noqa: B006
    mode: ModeOption = [],  # noqa: B006
    batch: BatchOption = [],  # noqa: B006
    minutes: Annotated[
        float,
        typer.Option(
            "--minutes", min=0.1, max=1e4, help="How long it may take, for all devices together."
        ),
    ] = 30.0,
    slots: Annotated[
        int | None,
        typer.Option(
            "--slots",
            metavar="N",
            help="On a CPU: choose for each of N slots, as `run --slots N` measures on them.",
            show_default=False,
        ),
    ] = None,
    purpose: Annotated[
        Purpose | None,
        typer.Option(
            "--for",
            help="On a CPU: only for runs, which keep freed memory, or only for your own modules, "
            "which do not.",
            show_default="both",
        ),
    ] = None,
    plugin: Plugin = [],  # noqa: B006
) -> None:
    """Time the kernels of each form at a suite's shapes, and keep the fastest for later.

    Later runs use them, and modules and `synthbench.apply` in your own programs. A run does the
    same, within the seconds of its suite, for shapes that have no choice yet. Other runs wait for
    the device until this is done.
    """
    from synthbench.registry import has_installed_extensions
    from synthbench.report.tables.choices import choice_table
    from synthbench.report.text.terminal import print_tables
    from synthbench.run.devices import resolve_device
    from synthbench.run.extensions import ignoring_installed_extensions
    from synthbench.run.planning import plan_in_child, plan_suite
    from synthbench.run.progress import make_observer
    from synthbench.run.tune import tune_plan
    from synthbench.suites.plan import FRAMEWORKS
    from synthbench.suites.suite import load_suite

    context.with_resource(ignoring_installed_extensions())
    frameworks = split_list(framework, FRAMEWORKS_ADVICE) or None
    selection = axis_options(variants, seq_len, mode, batch)
    where = resolve_device(device, frameworks or FRAMEWORKS)
    loaded = load_suite(suite)
    if plugin or has_installed_extensions():
        plan = plan_in_child(loaded, where, frameworks, **selection, plugins=plugin)
    else:
        plan = plan_suite(loaded, where, frameworks, **selection)
    if not plan.cells:
        raise UnsupportedError(f"no cell of suite {plan.suite} can be run, so nothing is measured")
    purposes = tuple(Purpose) if purpose is None else (purpose,)
    tuned = tune_plan(plan, 60 * minutes, plugin, make_observer(), slots, purposes)
    if not any(tuned.choices.values()) and tuned.missing:
        raise FrameworkMissingError("\n".join(tuned.missing.values()))
    order, tables = list(plan.settings.axes.variant), []
    for use, choices in tuned.choices.items():
        table = choice_table({"": choices}, order, ())
        tables.append(replace(table, title=f"{table.title}, for {use}"))
    print_tables(console(), tables)
    disturbed = sum(bool(choice.warnings) for choice in tuned.kept)
    say(f"\nChoices kept in {', '.join(tuned.files)}: {len(tuned.kept)}")
    if disturbed:
        say(
            f"Of these, disturbed while they were timed: {disturbed}; runs time these again, as "
            "far as their time allows, and modules do not use them"
        )
    if others := sum(map(len, tuned.choices.values())) - len(tuned.kept):
        say(
            f"Choices not kept: {others}; they were disturbed and an earlier one was not, the code "
            "of a plug-in may change, or the time was too short to time them"
        )
