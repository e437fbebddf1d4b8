"""What pytest collects of a suite: a file, and an item for each of its cells."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from synthbench.errors import SynthbenchError
from synthbench.pytest_plugin.measuring import Bench, CellFailedError, Replay, measure_item
from synthbench.report.export.benchmark import benchmark_names, setting_name
from synthbench.report.export.pytest_benchmark import same_machine
from synthbench.run.devices import resolve_device
from synthbench.run.extensions import load_plugin
from synthbench.run.planning import plan_suite
from synthbench.suites.cell import Cell
from synthbench.suites.plan import FRAMEWORKS, Plan
from synthbench.suites.suite import load_suite

OFF = "; benchmarks are disabled: each cell is checked and run, no time is taken"


class Suites:
    """The part of the plugin that is there where --synthbench is given."""

    def __init__(self, config: pytest.Config) -> None:
        """Read the suites; raises UsageError for what is wrong with them or with the call."""
        self.config = config
        self.notes: list[str] = []
        self.modules: list[str] = config.getoption("synthbench_plugin")
        if config.getoption("benchmark_disable", None) is None:
            raise pytest.UsageError("--synthbench needs pytest-benchmark: install it with pip")
        try:
            self.plans = self._read()
        except SynthbenchError as error:
            raise pytest.UsageError(f"--synthbench: {error}") from error
        if not config.getoption("file_or_dir"):
            config.args.clear()
        there = {Path(argument.partition("::")[0]).resolve() for argument in config.args}
        config.args += [str(path) for path in self.plans if path not in there]

    def _read(self) -> dict[Path, Plan]:
        """Suite file -> its plan."""
        for module in self.modules:
            load_plugin(module)
        asked = ",".join(self.config.getoption("synthbench_framework"))
        frameworks = [name.strip() for name in asked.split(",")] if asked else None
        device = self.config.getoption("synthbench_device")
        device = resolve_device(device, frameworks or FRAMEWORKS, self.modules)
        plans: dict[Path, Plan] = {}
        for name in self.config.getoption("synthbench"):
            suite = load_suite(name)
            path = Path(suite.source).resolve()
            if path not in plans and suite.name in {plan.suite for plan in plans.values()}:
                raise pytest.UsageError(
                    f"--synthbench: two suites are called {suite.name}, and so would their "
                    "benchmarks; give one at a time"
                )
            plans[path] = plan_suite(suite, device, frameworks)
            self.notes += plans[path].notes
        return plans

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> Any:
        """A collector for each suite that was named."""
        plan = self.plans.get(file_path.resolve())
        if plan is None:
            return None
        bench = Bench(plan, self.modules, self.notes)
        return SuiteFile.from_parent(parent, path=file_path, plan=plan, bench=bench)

    def pytest_report_header(self) -> list[str]:
        """A line for each suite."""
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
        """Of an exported file, which knows less of its machine, compare what it knows."""
        if "synthbench" in compared_benchmark and same_machine(
            machine_info, compared_benchmark["machine_info"]
        ):
            compared_benchmark["machine_info"] = machine_info  # pytest-benchmark asks for equality

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """What a person should know of the measuring."""
        if self.notes:
            terminalreporter.section("synthbench", sep="-")
            for note in self.notes:
                terminalreporter.write_line(note)


class SuiteFile(pytest.File):
    """A suite file; its hosts live from its first item to its last."""

    def __init__(self, *, plan: Plan, bench: Bench, **node: Any) -> None:
        super().__init__(**node)
        self.plan, self.bench = plan, bench
        self.config.add_cleanup(bench.stop)  # where the session ends without its teardown

    def collect(self) -> Iterator[CellItem]:
        """An item for each cell, also for those that cannot exist: these are skipped."""
        impossible = {skip.cell.id: skip.reason for skip in self.plan.skipped}
        cells = [*self.plan.cells, *(skip.cell for skip in self.plan.skipped)]
        names = benchmark_names(cells)
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
                    group=setting_name(cell),
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
            benchmark.skipped = True  # until it is used: an interrupted cell has left it so
            if impossible is not None:
                pytest.skip(f"{name}: unsupported: {impossible}")
            self.bench.start(self._chosen(), timed=benchmark.enabled)
            measure_item(self.bench, cell, name, benchmark, replay)

        return measure_cell

    def _chosen(self) -> list[Cell]:
        """The cells that this session measures: deselected ones need no host."""
        items = [item for item in self.session.items if isinstance(item, CellItem)]
        own = {item.cell.id for item in items if item.parent is self}
        return [cell for cell in self.plan.cells if cell.id in own]

    def teardown(self) -> None:
        """End the hosts."""
        self.bench.stop()


class CellItem(pytest.Function):
    """A cell: a test function with the `benchmark` fixture, so that pytest-benchmark knows it."""

    def __init__(self, *, cell: Cell, **node: Any) -> None:
        super().__init__(**node)
        self.cell = cell

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """The suite file, where pytest would name the plugin's source."""
        return self.path, 0, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Of a cell that failed the reason alone: its traceback would be the plugin's."""
        if isinstance(excinfo.value, CellFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)
