"""What pytest collects for a suite: one file with one item per cell."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from synthbench.devices import device_names
from synthbench.errors import SynthbenchError
from synthbench.pytest_plugin.measuring import (
    NO_STEPS,
    Bench,
    CellFailedError,
    Replay,
    measure_item,
)
from synthbench.registry import has_installed_extensions
from synthbench.report.export.benchmark import benchmark_names, group_names
from synthbench.report.export.pytest_benchmark import same_machine
from synthbench.run.devices import resolve_device
from synthbench.run.planning import plan_in_child, plan_suite
from synthbench.suites.cell import Cell
from synthbench.suites.plan import FRAMEWORKS, Plan
from synthbench.suites.suite import load_suite
from synthbench.tasks.base import Task
from synthbench.tasks.catalog import TASKS
from synthbench.tasks.learning.base import LearningTask

OFF = "; benchmarks are disabled: each cell is checked and run, but not timed"


class Suites:
    """The part of the plugin that is registered if --synthbench is given."""

    def __init__(self, config: pytest.Config) -> None:
        """Read the suites; raises UsageError for a mistake in them or in the call."""
        self.config = config
        self.notes: list[str] = []
        self.modules: list[str] = config.getoption("synthbench_plugin")
        if config.getoption("benchmark_disable", None) is None:
            raise pytest.UsageError("--synthbench needs pytest-benchmark; install it with pip")
        try:
            self.plans = self._read()
        except SynthbenchError as error:
            raise pytest.UsageError(f"--synthbench: {error}") from error
        if not config.getoption("file_or_dir"):
            config.args.clear()
        given = {Path(argument.partition("::")[0]).resolve() for argument in config.args}
        config.args += [str(path) for path in self.plans if path not in given]

    def _read(self) -> dict[Path, Plan]:
        """Suite file -> its plan."""
        wanted = ",".join(self.config.getoption("synthbench_framework"))
        frameworks = [name.strip() for name in wanted.split(",")] if wanted else None
        device = self.config.getoption("synthbench_device")
        device = resolve_device(device, frameworks or FRAMEWORKS)
        if len(device_names(device)) > 1:
            raise pytest.UsageError(
                f"--synthbench-device {device}: a session measures on one device; name one"
            )
        plans: dict[Path, Plan] = {}
        for name in self.config.getoption("synthbench"):
            suite = load_suite(name)
            path = Path(suite.source).resolve()
            if path not in plans and suite.name in {plan.suite for plan in plans.values()}:
                raise pytest.UsageError(
                    f"--synthbench: two suites have the name {suite.name}, so their benchmarks "
                    "could not be told apart; give one at a time"
                )
            if self.modules or has_installed_extensions():
                plans[path] = plan_in_child(suite, device, frameworks, plugins=self.modules)
            else:
                plans[path] = plan_suite(suite, device, frameworks)
            self.notes += plans[path].notes
        return plans

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> Any:
        """A collector for a file that is one of the suites."""
        plan = self.plans.get(file_path.resolve())
        if plan is None:
            return None
        bench = Bench(plan, self.modules, self.notes)
        return SuiteFile.from_parent(parent, path=file_path, plan=plan, bench=bench)

    def pytest_report_header(self) -> list[str]:
        """One line per suite."""
        option = self.config.getoption
        disabled = option("benchmark_disable") and not option("benchmark_enable")
        off = OFF if disabled or option("dist", "no") != "no" else ""
        return [
            f"synthbench: suite {plan.suite} on {plan.device}, {len(plan.cells)} cells{off}"
            for plan in self.plans.values()
        ]

    @pytest.hookimpl(tryfirst=True)
    def pytest_benchmark_compare_machine_info(
        self, machine_info: dict[str, Any], compared_benchmark: dict[str, Any]
    ) -> None:
        """Compare only what an exported file knows about its machine."""
        if "synthbench" in compared_benchmark and same_machine(
            machine_info, compared_benchmark["machine_info"]
        ):
            compared_benchmark["machine_info"] = machine_info  # pytest-benchmark requires equality

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the notes of the measurement."""
        if self.notes:
            terminalreporter.section("synthbench", sep="-")
            for note in self.notes:
                terminalreporter.write_line(note)


class SuiteFile(pytest.File):
    """A suite file; its host processes run from its first item to its last."""

    def __init__(self, *, plan: Plan, bench: Bench, **node: Any) -> None:
        super().__init__(**node)
        self.plan, self.bench = plan, bench
        self.config.add_cleanup(bench.stop)  # if the session ends without teardown

    def collect(self) -> Iterator[CellItem]:
        """One item per cell; cells that are not possible become skipped items."""
        impossible = {skip.cell.id: skip.reason for skip in self.plan.skipped}
        untimed = [cell for cell in self.plan.cells if trains(cell)]
        impossible |= {cell.id: NO_STEPS.format(cell.task) for cell in untimed}
        cells = [*self.plan.cells, *(skip.cell for skip in self.plan.skipped)]
        names, groups = benchmark_names(cells), group_names(cells)
        for cell in cells:
            replay = Replay()
            item: CellItem = CellItem.from_parent(
                self,
                name=names[cell.id],
                cell=cell,
                callobj=self._function(cell, names[cell.id], replay, impossible.get(cell.id)),
            )
            measure = self.plan.settings.measure
            item.add_marker(
                pytest.mark.benchmark(
                    group=groups[cell.id],
                    timer=replay.synthbench,
                    disable_gc=True,
                    min_rounds=measure.min_samples,
                    min_time=measure.min_seconds,
                    max_time=measure.max_seconds,
                )
            )
            yield item

    def _function(
        self, cell: Cell, name: str, replay: Replay, impossible: str | None
    ) -> Callable[[Any], None]:
        def measure_cell(benchmark: Any) -> None:
            benchmark.skipped = True  # until it is used, in case the cell is interrupted
            if impossible is not None:
                pytest.skip(f"{name}: unsupported: {impossible}")
            measure_item(self.bench, self._selected(), cell, name, benchmark, replay)

        return measure_cell

    def _selected(self) -> list[Cell]:
        """The cells that this session measures; others need no host process."""
        items = [item for item in self.session.items if isinstance(item, CellItem)]
        selected = {item.cell.id for item in items if item.parent is self}
        return [cell for cell in self.plan.cells if cell.id in selected and not trains(cell)]

    def teardown(self) -> None:
        """Stop the host processes."""
        self.bench.stop()


def trains(cell: Cell) -> bool:
    """Whether a cell is a training of a task of this package: known before it has run for hours."""
    return issubclass(TASKS.get(cell.task, Task), LearningTask)


class CellItem(pytest.Function):
    """A cell as a test function with the `benchmark` fixture, as pytest-benchmark expects."""

    def __init__(self, *, cell: Cell, **node: Any) -> None:
        super().__init__(**node)
        self.cell = cell

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """Report the suite file instead of the source of this plugin."""
        return self.path, 0, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Only the reason of a failed cell; its traceback would show this plugin."""
        if isinstance(excinfo.value, CellFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)
