"""A run as the template shows it: plain values, no numbers that are computed here."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from synthbench.errors import ResultsError
from synthbench.printable import one_line
from synthbench.report.data.grid import Grid
from synthbench.report.data.table import Table
from synthbench.report.figures.learning_plot import NAMES
from synthbench.report.figures.series import PREFERRED, choose_variants
from synthbench.report.page.answers import answers
from synthbench.report.page.chart_data import chart_points
from synthbench.report.page.charts import CHARTS, PARETO, chart_specs
from synthbench.report.page.details import details
from synthbench.report.page.environment import Pairs, commands, environment
from synthbench.report.page.learning_view import LearningView, learning_view
from synthbench.report.page.measurements import measurements
from synthbench.report.page.packing import packed
from synthbench.report.page.run_data import RunData
from synthbench.report.page.table_view import TableView, table_view
from synthbench.report.tables.catalog import FOR_EVERY_TASK
from synthbench.store import Run

FIRST = ("quality", "train", "forward", "ratios")  # the tables above the charts
INSPECT = "inspect"  # where `synthbench inspect` puts its figures
PARETO_TITLE = "Time against memory at the longest chosen length that was measured (Pareto plot)"
PARETO_NOTE = (
    "Down and to the left is better. On the dashed line are the variants of the run to which no "
    "other is better in both."
)


@dataclass(frozen=True)
class ChartsView:
    """The charts of a run; `data`: what the script of the page reads, packed."""

    modes: list[str]  # the first is shown first
    settings: list[str]
    frameworks: list[tuple[str, str]]  # name, heading
    figures: list[dict[str, str]]
    bands: str
    data: str


@dataclass(frozen=True)
class RunView:
    """Everything that the template shows of one run."""

    id: str
    name: str
    parts: list[tuple[str, str]]  # name of a section, its heading
    trust: list[str]  # whether its numbers can be trusted
    context: tuple[str, ...]
    filters: list[tuple[str, str, list[str]]]  # name, heading, values
    first: list[TableView]
    measurements: TableView | None  # None: no cell of the task `cost`
    others: list[TableView]
    charts: ChartsView | None
    learned: LearningView | None  # None: no training
    pictures: list[tuple[str, str]]  # of `inspect`: title, address with the picture inside
    commands: list[str]
    has_options: bool  # whether those of the command that measured it are known
    environment: list[tuple[str, Pairs]]
    details: str


def run_view(run: Run, number: int) -> RunView:
    """The view of a run, the `number`-th of the page."""
    data = RunData(run)
    found = {table.name: table for table in data.tables}
    screen, answer = answers(data)
    first = [] if answer is None else [table_view(answer, data.cost_grid)]
    first += [_view(data, found[name]) for name in FIRST if name in found]
    others = [_view(data, table) for name, table in found.items() if name not in FIRST]
    charts = _charts(data)
    pictures = _pictures(run.path / INSPECT)
    learned = learning_view(data.prepared, _in_all_settings(data.grid, data.grid.variants))
    parts = [("summary", "Summary")]
    parts += [("curves", "Learning curves")] if learned else []
    parts += [("charts", "Charts")] if charts else []
    parts += [("tables", "Tables")]
    parts += [("weights", "Weights")] if pictures else []
    parts += [("method", "Method and environment")]
    return RunView(
        id=f"run{number}",
        name=run_name(run),
        parts=parts,
        trust=[*screen.trust, *screen.failures],
        context=data.context.shared,
        filters=_filters(data.grid),
        first=first,
        measurements=_measurements(data),
        others=others,
        charts=charts,
        learned=learned,
        pictures=pictures,
        commands=commands(run),
        has_options=run.info.options is not None,
        environment=environment(run.info),
        details=packed(details(data)),
    )


def run_name(run: Run) -> str:
    """What the run is called on the page."""
    return f"{run.info.suite} on {run.info.device}, {run.full_path.name}"


def _view(data: RunData, table: Table) -> TableView:
    return table_view(table, data.grid if table.name in FOR_EVERY_TASK else data.cost_grid)


def _in_all_settings(grid: Grid, choose: Callable[[str], Sequence[str]]) -> list[str]:
    """The variants chosen in each setting, as the page shows them, without repetition."""
    found = (one_line(v) for setting in grid.settings() for v in choose(setting))
    return list(dict.fromkeys(found))


def _filters(grid: Grid) -> list[tuple[str, str, list[str]]]:
    offered = [
        ("framework", "Framework", grid.frameworks()),
        ("mode", "Mode", grid.modes()),
        ("length", "Length", list(map(str, grid.lengths()))),
        ("variant", "Variant", _in_all_settings(grid, grid.variants)),
    ]
    return [(name, heading, values) for name, heading, values in offered if values]


def _charts(data: RunData) -> ChartsView | None:
    """The charts; None for a run without a measured cell of the task `cost`."""
    grid, points = data.cost_grid, chart_points(data)
    drawn = [point for point in points if point["time"] is not None or point["memory"] is not None]
    if not drawn:
        return None
    with_numbers = {point["setting"] for point in drawn}
    present = list(map(one_line, grid.settings()))
    settings = sorted(present, key=lambda s: (s not in with_numbers, PREFERRED not in s.split()))
    selection = _in_all_settings(grid, lambda setting: choose_variants(grid, setting))
    variants = list(dict.fromkeys([*selection, *_in_all_settings(grid, grid.variants)]))
    fields = [chart.field for chart in CHARTS]
    names = [f for f in fields if any(point[f] is not None for point in points)] + [PARETO]
    titles = {chart.field: chart.title for chart in CHARTS} | {
        "ratio": f"Speed relative to {data.context.baseline}",
        PARETO: PARETO_TITLE,
    }
    several = len({record.round for record in data.run.records}) > 1
    specs = {
        scale: {name: spec for name, spec in of_scale.items() if name in names}
        for scale, of_scale in chart_specs(variants, bands=several).items()
    }
    return ChartsView(
        modes=grid.modes()[::-1],
        settings=settings,
        frameworks=[(f, NAMES.get(f, f)) for f in grid.frameworks()],
        figures=[
            {"name": name, "title": titles[name], "note": PARETO_NOTE if name == PARETO else ""}
            for name in names
        ],
        bands=BANDS if several else "One round gives no bands.",
        data=packed(
            {
                "specs": specs,
                "points": points,
                "variants": variants,
                "selection": selection,
                "lengths": grid.lengths(),
                "setting": settings[0],
            }
        ),
    )


BANDS = (
    "Bands: of time, what the 95% intervals of the rounds span; of memory, the range of their "
    "peaks; of ratios, the 95% confidence interval."
)


def _measurements(data: RunData) -> TableView | None:
    """All cells of the task `cost`; None for a run that only trained."""
    if data.context.qualities and not data.cost_grid.records:
        return None
    return table_view(measurements(data), data.cost_grid)


def _address(svg: bytes) -> str:
    """An address that holds the picture itself."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode('ascii')}"


def _pictures(folder: Path) -> list[tuple[str, str]]:
    """The figures in a folder as addresses that hold them; a picture in a page runs no scripts."""
    found: list[tuple[str, str]] = []
    try:
        for path in sorted(folder.glob("*.svg")):
            found.append((path.stem, _address(path.read_bytes())))
    except OSError as error:
        raise ResultsError(f"cannot read the figures in {folder}: {error.strerror}") from error
    return found
