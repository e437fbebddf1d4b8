"""The page in a real browser: it filters, sorts, draws and explains, and asks nobody for anything.

Needs Debian's chromium and the extra `page-tests`: `make test-page`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from synthbench.report.page.page import report_page, write_page
from synthbench.store import read_run
from tests.learning_records import declare, learning_records
from tests.test_escaping import forged
from tests.test_plots import records
from tests.test_report_page import HOSTILE, REFERENCE
from tests.test_tables import cell, record, run_of

NEEDED = "needs the extra page-tests: pip install -e '.[page-tests]'"
sync_api = pytest.importorskip("playwright.sync_api", reason=NEEDED)
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason=NEEDED)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
if CHROMIUM is None:
    pytest.skip("needs chromium: apt-get install chromium", allow_module_level=True)

TRAINED = REFERENCE.parents[1] / "quality_synthetic" / "cpu-reference"
WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
SHOWN_ROWS = "table => [...table.tBodies[0].rows].filter(row => !row.hidden).length"


@dataclass
class Seen:
    """A page, and what it said and asked for."""

    page: Any
    section: str = "charts"
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def of_table(self, name: str) -> Any:
        return self.page.locator(f'[data-table="{name}"] table')

    def rows(self, name: str) -> int:
        return int(self.of_table(name).evaluate(SHOWN_ROWS))

    def column(self, name: str, heading: str) -> list[str]:
        script = """(table, heading) => {
            const at = [...table.querySelectorAll(".headings th")]
                .findIndex((one) => one.textContent === heading);
            return [...table.tBodies[0].rows].map((row) => row.cells[at].textContent);
        }"""
        return list(self.of_table(name).evaluate(script, heading))

    def drawn(self) -> int:
        """How often the charts were drawn so far."""
        return int(
            self.page.locator(f"section.{self.section}").first.get_attribute("data-drawn") or 0
        )

    def until_drawn(self, action: Callable[[], Any]) -> None:
        """Do something, and wait until the charts show it."""
        before = self.drawn()
        action()
        self.page.wait_for_function(
            "([section, before]) => document.querySelector(section).dataset.drawn > before",
            arg=[f"section.{self.section}", before],
        )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


def opened(browser: Any, path: Path, section: str = "charts", **options: Any) -> Seen:
    page = browser.new_context(**({"viewport": WIDE} | options)).new_page()
    page.set_default_timeout(120_000)
    seen = Seen(page, section)
    page.on("console", lambda message: seen.console.append(message.text))
    page.on("pageerror", lambda error: seen.console.append(str(error)))
    page.on("request", lambda request: seen.requests.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector(f"section.{section}[data-drawn]", state="attached")
    return seen


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three variants at three lengths; D runs out of memory at 512 in jax."""
    path = tmp_path_factory.mktemp("page") / "small.html"
    write_page(report_page([run_of(list(records()))]), path)
    return path


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "reference.html"
    write_page(report_page([read_run(REFERENCE)]), path)
    return path


@pytest.fixture
def seen(browser: Any, small: Path) -> Iterator[Seen]:
    made = opened(browser, small)
    yield made
    assert made.console == []
    assert made.requests == [small.as_uri()]
    made.page.context.close()


def test_filters_hide_rows_and_columns(seen: Seen) -> None:
    assert seen.rows("measurements") == 18
    seen.page.get_by_label("jax", exact=True).uncheck()
    assert seen.rows("measurements") == 9
    heading = seen.of_table("train").locator("thead").inner_text()
    assert "torch" in heading
    assert "jax" not in heading
    seen.page.get_by_label("256", exact=True).uncheck()
    assert seen.rows("measurements") == 6
    assert "L=256" not in seen.of_table("ratios").locator("thead").inner_text()
    seen.page.get_by_label("linformer", exact=True).uncheck()
    assert seen.rows("measurements") == 4
    assert seen.page.get_by_role("status").inner_text().endswith("rows are shown.")
    seen.page.get_by_label("jax", exact=True).check()
    assert seen.rows("measurements") == 8


def test_headings_sort_numbers_by_value_and_words_last(seen: Seen) -> None:
    table = seen.of_table("measurements")
    before = seen.column("measurements", "steady")
    button = table.get_by_role("button", name="steady")
    button.click()
    shown = seen.column("measurements", "steady")
    assert shown[-1] == "oom"
    numbers = [float(text) for text in shown[:-1]]
    assert numbers == sorted(numbers)
    assert table.locator('[aria-sort="ascending"]').inner_text() == "steady"
    button.click()
    shown = seen.column("measurements", "steady")
    assert [float(text) for text in shown[:-1]] == numbers[::-1]
    assert shown[-1] == "oom"
    button.click()
    assert seen.column("measurements", "steady") == before
    assert table.locator("[aria-sort]").count() == 0


def test_a_click_on_a_number_shows_what_it_rests_on(seen: Seen) -> None:
    seen.of_table("measurements").locator("td[data-cell]").first.click()
    dialog = seen.page.locator("dialog")
    dialog.wait_for()
    assert dialog.get_by_role("heading").inner_text() == "V, torch, train, length 128"
    assert "95% interval" in dialog.inner_text()
    dialog.locator("summary").first.click()
    assert "0.0009" in dialog.locator("pre").first.inner_text()
    dialog.locator("summary").last.click()
    assert '"outcome": "ok"' in dialog.locator("pre").last.inner_text()
    seen.page.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_the_keyboard_alone_reaches_every_number(seen: Seen) -> None:
    table = seen.of_table("measurements")
    assert table.locator('td[tabindex="0"]').count() == 1
    table.locator('td[tabindex="0"]').focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        seen.page.keyboard.press(key)
    at = "[document.activeElement.parentElement.rowIndex, document.activeElement.cellIndex]"
    assert seen.page.evaluate(at) == [3, 5]
    seen.page.keyboard.press("Enter")
    seen.page.locator("dialog").wait_for()
    seen.page.keyboard.press("Escape")
    assert seen.page.evaluate(at) == [3, 5]


def test_charts_follow_filters_and_axes(seen: Seen) -> None:
    def marks(chart: str) -> int:
        """The points of a chart in jax."""
        panel = f'[data-chart="{chart}"] .panel[data-framework="jax"]'
        return int(seen.page.locator(f"{panel} .mark-symbol.role-mark path").count())

    assert [marks(name) for name in ("time", "memory", "ratio")] == [8, 8, 5]
    assert marks("pareto") == 2
    seen.until_drawn(lambda: seen.page.get_by_label("512", exact=True).uncheck())
    assert (marks("time"), marks("pareto")) == (6, 3)
    seen.until_drawn(lambda: seen.page.get_by_label("D", exact=True).uncheck())
    assert marks("time") == 4
    seen.until_drawn(lambda: seen.page.get_by_label("Axes").select_option("linear"))
    ticks = '[data-chart="time"] .panel[data-framework="jax"] .role-axis-label text'
    assert "0" in seen.page.locator(ticks).all_text_contents()
    seen.until_drawn(lambda: seen.page.get_by_label("V", exact=True).uncheck())
    seen.until_drawn(lambda: seen.page.get_by_label("linformer", exact=True).uncheck())
    text = seen.page.locator('[data-chart="time"] .panel').first.inner_text()
    assert "Nothing was measured for this choice." in text


def test_charts_follow_the_filter_of_modes(browser: Any, tmp_path: Path) -> None:
    """Else rows of one mode would stand below curves of the other."""
    found = [record(cell(variant, "torch", mode, length)) for mode in ("forward", "train")
             for variant in ("V", "R") for length in (64, 128)]  # fmt: skip
    path = tmp_path / "modes.html"
    write_page(report_page([run_of(found)]), path)
    seen = opened(browser, path)
    drawn = seen.page.locator('section.charts select[name="mode"]')
    box = {
        name: seen.page.locator(f'fieldset[data-filter="mode"] input[value="{name}"]')
        for name in ("forward", "train")
    }
    assert drawn.input_value() == "train"
    seen.until_drawn(box["train"].uncheck)
    assert drawn.input_value() == "forward"
    seen.until_drawn(box["forward"].uncheck)
    assert "Nothing was measured" in seen.page.locator('[data-chart="time"]').first.inner_text()
    for name in box:
        seen.until_drawn(box[name].check)
    assert drawn.input_value() == "train"  # as before
    assert seen.console == []
    seen.page.context.close()


def test_the_pareto_plot_is_at_the_longest_length_that_has_a_point(
    browser: Any, tmp_path: Path
) -> None:
    """Of the setting and the variants that are chosen, and it says which length it is."""
    short = [one for one in records(1, batch=8) if one.cell.seq_len == 128]
    path = tmp_path / "settings.html"
    write_page(report_page([run_of([*records(1), *short])]), path)
    seen = opened(browser, path)
    panel = seen.page.locator('[data-chart="pareto"] .panel[data-framework="jax"]')

    def shown() -> tuple[int, list[str]]:
        """How many points, and the heading."""
        points = panel.locator(".mark-symbol.role-mark path").count()
        return points, panel.locator(".role-title-text text").all_text_contents()

    assert shown() == (2, ["length 512"])  # D ran out of memory there
    setting = seen.page.locator('section.charts select[name="setting"]')
    seen.until_drawn(lambda: setting.select_option("batch=8"))
    assert shown() == (3, ["length 128"])
    seen.until_drawn(lambda: setting.select_option("batch=2"))
    for variant in ("V", "linformer"):
        seen.until_drawn(seen.page.get_by_label(variant, exact=True).uncheck)
    assert shown() == (1, ["length 256"])
    assert seen.console == []
    seen.page.context.close()


def test_a_filter_is_seen_where_other_variants_were_trained(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The filter has the variants of all tasks, the charts those that were timed."""
    declare(monkeypatch)
    timed = [
        record(cell(variant, "torch", "train", length))
        for variant in ("V", "R", "FR", "Fix")
        for length in (64, 128)
    ]
    learned = learning_records(frameworks=("torch",), seeds=(0,), variants=("V", "linformer"))
    path = tmp_path / "mixed.html"
    write_page(report_page([run_of([*timed, *learned])]), path)
    seen = opened(browser, path)
    marks = '[data-chart="time"] .panel[data-framework="torch"] .mark-symbol.role-mark path'
    assert seen.page.locator(marks).count() == 6  # V, R and FR: Fix is not in the selection
    seen.until_drawn(lambda: seen.page.get_by_label("R", exact=True).uncheck())
    assert seen.page.locator(marks).count() == 6  # every chosen one: V, FR and Fix
    assert seen.console == []
    seen.page.context.close()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "trained.html"
    write_page(report_page([read_run(TRAINED)]), path)
    return path


def test_learning_curves_follow_filters_and_axes(browser: Any, trained: Path) -> None:
    seen = opened(browser, trained, "learning")
    first = 'section.learning figure[data-kind="{}"] .panel[data-framework="{}"]'

    def panel(kind: str, framework: str = "jax") -> Any:
        return seen.page.locator(first.format(kind, framework)).first

    def marks(kind: str) -> int:
        return int(panel(kind).locator(".mark-symbol.role-mark path").count())

    def axis_titles(kind: str) -> list[str]:
        return list(panel(kind).locator(".role-axis-title text").all_text_contents())

    def choose(name: str, value: str) -> None:
        control = seen.page.locator(f'section.learning select[name="{name}"]')
        seen.until_drawn(lambda: control.select_option(value))

    with_marks, variants = marks("curves"), 6
    evaluations = with_marks // variants
    assert with_marks == variants * evaluations > variants
    assert marks("pareto") == variants
    assert axis_titles("curves") == ["training steps", "exact match % (higher is better)"]
    assert axis_titles("pareto")[0] == "time of a step (ms)"
    seen.until_drawn(lambda: seen.page.get_by_label("Fix", exact=True).uncheck())
    assert marks("curves") == (variants - 1) * evaluations
    assert marks("pareto") == variants - 1
    choose("axis", "flops")
    choose("quantity", "loss")
    assert axis_titles("curves") == ["training FLOPs", "held-out loss (nats)"]
    assert marks("curves") == (variants - 1) * evaluations
    choose("cost", "step_flops")
    assert axis_titles("pareto")[0] == "FLOPs of a step"
    seen.until_drawn(lambda: seen.page.get_by_label("jax", exact=True).uncheck())
    assert not panel("curves").is_visible()
    assert panel("curves", "torch").is_visible()
    seen.until_drawn(lambda: seen.page.get_by_label("21", exact=True).uncheck())  # of copying
    assert not panel("curves", "torch").is_visible()
    assert violations(seen.page) == []
    assert seen.console == []
    assert seen.requests == [trained.as_uri()]
    seen.page.context.close()


def test_light_and_dark(seen: Seen) -> None:
    def background() -> str:
        return str(seen.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light = background()
    assert light == "rgb(255, 255, 255)"
    seen.page.emulate_media(color_scheme="dark")
    dark = background()
    assert dark != light
    seen.page.get_by_label("Colours").select_option("light")
    assert background() == light
    seen.page.get_by_label("Colours").select_option("dark")
    seen.page.emulate_media(color_scheme="light")
    assert background() == dark
    seen.page.emulate_media(media="print")
    assert background() == light


@pytest.mark.long_but("light")
@pytest.mark.parametrize("options", [
    {}, {"color_scheme": "dark"}, {"viewport": PHONE, "is_mobile": True, "has_touch": True},
], ids=["light", "dark", "phone"])  # fmt: skip
def test_the_reference_page_is_accessible_and_quiet(
    browser: Any, reference: Path, options: dict[str, Any]
) -> None:
    seen = opened(browser, reference, **options)
    width = seen.page.evaluate("document.documentElement.scrollWidth")
    assert width <= seen.page.viewport_size["width"]
    assert violations(seen.page) == []
    seen.of_table("ratios").locator("td[data-cell]").first.click()
    seen.page.locator("dialog").wait_for()
    assert violations(seen.page) == []
    assert seen.console == []
    assert seen.requests == [reference.as_uri()]
    seen.page.context.close()


def violations(page: Any) -> list[tuple[str, str]]:
    """What axe-core finds, of any impact."""
    found = axe.Axe().run(page).response["violations"]
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_run_nothing(browser: Any, tmp_path: Path, text: str) -> None:
    path = tmp_path / "hostile.html"
    write_page(report_page([run_of(forged(text), suite=text)]), path)
    seen = opened(browser, path)
    seen.page.on("dialog", lambda dialog: seen.console.append(dialog.message))
    seen.of_table("measurements").locator("td[data-cell]").first.click()
    seen.page.locator("dialog").wait_for()
    seen.page.locator(".mark-symbol.role-mark path").first.hover(force=True)
    assert text in seen.page.locator("#main").inner_text()
    assert seen.console == []
    assert seen.requests == [path.as_uri()]
    seen.page.context.close()


def test_tables_are_complete_without_javascript(browser: Any, small: Path) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(small.as_uri())
    assert page.locator('[data-table="measurements"] tbody tr').count() == 18
    assert page.get_by_text("Charts, filters and sorting need JavaScript.").is_visible()
    assert not page.locator("form.filters").is_visible()
    page.context.close()
