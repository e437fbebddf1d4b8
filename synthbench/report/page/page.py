"""One HTML file about runs: it loads nothing, and the same records give the same bytes."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from synthbench.errors import ResultsError
from synthbench.printable import one_line
from synthbench.report.page.policy import policy
from synthbench.report.page.run_view import run_name, run_view
from synthbench.store import Run, without_garbage_collection

_CODE = re.compile(r"`([^`]+)`")
PACKAGE = "synthbench.report.page"
SCRIPTS = ("theme.js", "filters.js", "sorting.js", "details.js")
SHARED = ("packing.js", "embedding.js")  # functions that other scripts use
METHOD = (
    "Before anything is timed, outputs and gradients of a variant are compared with a NumPy "
    "reference; a cell that fails is quarantined and not timed. Each cell runs in its own process. "
    "The plan is measured in rounds, in a new order each time; ratios to the baseline are taken "
    "within a round, on a CPU within a process, in which both take turns. Time: the median of the "
    "steps after warm-up, in each round with its 95% interval. Memory: the peak of a step. FLOPs: "
    "2 per multiply-accumulate.",
    "The baseline measured against itself (the A/A twin) gives the noise floor; a verdict needs a "
    "difference beyond it and beyond the margin of the suite, at 95% confidence after correction "
    "for the variants of its framework, mode and length. Speed describes these implementations on "
    "this machine; FLOPs describe the mixer. More: docs/methodology.md and docs/measuring.md of "
    "synthbench.",
)

METHOD_OF_TRAININGS = (
    "A training is one cell: a variant, a framework and a seed. The seed determines start values, "
    "data and their order, the same for all variants, so differences are taken within a seed; "
    "intervals and verdicts are over seeds, after correction for the variants of one task and "
    "framework.",
)


def report_page(runs: Sequence[Run]) -> str:
    """The page about these runs."""
    with without_garbage_collection():
        views = [run_view(run, number) for number, run in enumerate(runs, 1)]
    has_charts = any(view.charts or view.learned for view in views)
    title = run_name(runs[0]) if len(runs) == 1 else f"{len(runs)} runs of synthbench"
    method = METHOD + METHOD_OF_TRAININGS * any(view.learned for view in views)
    return render("page.html.j2", _scripts(has_charts), title=title, runs=views, method=method)


def write_page(text: str, path: Path) -> None:
    """Write a page; raises ResultsError if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    except OSError as error:
        raise ResultsError(
            f"cannot write {path}: {error.strerror or error}; choose another file with --out"
        ) from error


def render(template: str, scripts: Sequence[str], **values: Any) -> str:
    """A template with the style sheet, these scripts and the policy that allows them."""
    style = _asset("page.css")
    shared = {
        "version": importlib.metadata.version("synthbench"),
        "style": Markup(style),
        "scripts": list(map(Markup, scripts)),
        "policy": policy(scripts, [style]),
    }
    return _environment().get_template(template).render(shared | values)


def table_scripts() -> str:
    """The script for tables, filters and details."""
    return _joined(SCRIPTS)


def _scripts(has_charts: bool) -> list[str]:
    if not has_charts:
        return [table_scripts()]
    return [_vega(), _joined([*SCRIPTS, "charts.js", "learning.js"])]


@cache
def _vega() -> str:
    """Vega, Vega-Lite and vega-embed as one script."""
    import vl_convert

    return _own_scope(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _joined(names: Sequence[str]) -> str:
    """These files as one script, each with its names for itself, after what they share."""
    blocks = [f"{{\n{_asset(name)}\n}}" for name in names]
    return _own_scope("\n".join(['"use strict";', *map(_asset, SHARED), *blocks]))


def _own_scope(script: str) -> str:
    """The script with its names for itself; it must not end the element that holds it."""
    if "</script" in script.lower() or "<!--" in script:
        raise ResultsError("a script of the page holds </script or <!--, which HTML would read")
    return f"(() => {{\n{script}\n}})();"


def _asset(name: str) -> str:
    return files(PACKAGE).joinpath("assets", name).read_text(encoding="utf-8").strip()


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        keep_trailing_newline=True,
    )
    made.filters["prose"] = _prose
    return made


def _prose(text: str) -> Markup:
    """A sentence whose `code` is shown as code, and all else as it is."""
    parts = _CODE.split(one_line(text))
    shown = [Markup("<code>{}</code>").format(p) if i % 2 else p for i, p in enumerate(parts)]
    return Markup("").join(shown)


def _printable(value: Any) -> Any:
    """A text without characters that HTML cannot hold, or that turn the direction of writing."""
    return one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value
