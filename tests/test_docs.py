"""The pages are complete, their links lead somewhere, their commands and their Python exist."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import synthbench
from synthbench.mixers.notation import canonical
from synthbench.record import Outcome
from synthbench.report.data import grid
from synthbench.report.screen.texts import MARKS
from synthbench.report.tables import break_even, scaling, utilisation
from synthbench.report.tables.catalog import TABLES
from synthbench.run.extensions import load_plugin
from synthbench.run.planning import plan_suite
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import load_suite
from synthbench.tasks.catalog import TASKS
from synthbench.tasks.learning.base import LearningTask
from tests import doc_examples

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## (.*?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
OPTIONS = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def text(name: str) -> str:
    """A page, by its path from the root."""
    return (ROOT / name).read_text(encoding="utf-8")


def sections(name: str) -> dict[str, str]:
    """Heading -> what stands below it."""
    return dict(SECTION.findall(text(name)))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    content = FENCE.sub("", page.read_text(encoding="utf-8"))
    for heading in re.findall(r"^#+ (.*)$", content, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = sum(
            re.fullmatch(rf"{re.escape(slug)}(-\d+)?", other) is not None for other in found
        )
        found.add(f"{slug}-{number}" if number else slug)
    return found


def links(page: Path) -> Iterator[tuple[str, str]]:
    """Each relative link of a page: its file ("" for the page itself) and its anchor."""
    content = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", content):
        if "://" not in target:
            file, _, anchor = target.partition("#")
            yield file, anchor


def commands(page: Path, program: str) -> list[str]:
    """Every command of a page with this program, in indented and in fenced blocks."""
    content = page.read_text(encoding="utf-8").replace("\\\n", " ")
    shells = re.findall(r"^```(?:bash|console)\n(.*?)^```", content, re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^    (.*)$", FENCE.sub("", content), re.MULTILINE)
    lines = [line.removeprefix("$ ") for line in (*indented, *"".join(shells).splitlines())]
    return [line for line in lines if re.match(rf"{program} (?!\d)", line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_leads_somewhere(page: Path) -> None:
    for file, anchor in links(page):
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{page.name}: no {file}"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {target.name} has no #{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_exists(page: Path) -> None:
    from synthbench.cli.app import app

    makefile = text("Makefile")
    for command in commands(page, "make"):
        target = shlex.split(command, comments=True)[1]
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page.name}: no {command}"
    for command in commands(page, "synthbench"):
        words = shlex.split(command, comments=True)
        nested = [words[1], words[2]] if words[1] == "list" else [words[1]]
        shown = CliRunner().invoke(app, [*nested, "--help"], env={"COLUMNS": "200"})
        assert shown.exit_code == 0, f"{page.name}: {command}: no such command"
        for option in OPTIONS.findall(" ".join(words)):
            assert option in shown.output, f"{page.name}: {' '.join(nested)} has no {option}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_python_file_named_exists(page: Path) -> None:
    """A path may be given from the root, from the package, or from its folder."""
    for name in re.findall(r"`([\w/*.]+\.py)`", page.read_text(encoding="utf-8")):
        if page.name.startswith(("adding", "quickstart", "using")):
            continue  # files of the reader's own
        where = [ROOT.glob(name), ROOT.glob(f"synthbench/{name}"), ROOT.glob(f"[!.]*/**/{name}")]
        assert any(next(found, None) for found in where), f"{page.name}: there is no {name}"


def test_each_way_to_extend_names_its_test() -> None:
    """The row "a task" names a test file with a test about a task."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| an? (.+?) \| .* \| `(test_\w+\.py)` \|$", text, re.MULTILINE)
    kinds = "mixer component task executor table metric".split()
    assert {what for what, _ in rows} == {*kinds, "field of the model", "data source"}
    for what, file in rows:
        names = re.findall(r"^def test_(\w+)", (ROOT / "tests" / file).read_text(), re.MULTILINE)
        word = what.partition(" of ")[0].replace(" ", "_")
        assert any(word in name for name in names), f"{file}: no test about a {what}"


LEARNING_TASKS = {name: task for name, task in TASKS.items() if issubclass(task, LearningTask)}
SHARED_OPTIONS = {field.name for field in fields(LearningTask)}


@pytest.mark.parametrize("name", LEARNING_TASKS)
def test_each_learning_task_has_a_section_with_its_metrics_and_options(name: str) -> None:
    task = LEARNING_TASKS[name]
    body = sections("docs/tasks.md")[name]
    own = {field.name: field.default for field in fields(task) if field.name not in SHARED_OPTIONS}
    for metric in task.metrics:
        assert f"`{metric}`" in body, metric
    for option, default in own.items():
        shown = str(default).lower() if isinstance(default, bool) else default
        assert f"`{option}` ({shown})" in body, option
    assert re.search(rf"^\| \[`{name}`\]\(#{name}\) \|", text("docs/tasks.md"), re.MULTILINE)


def test_each_option_of_all_learning_tasks_is_explained_with_its_default() -> None:
    body = sections("docs/tasks.md")["Options that every task has"]
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|", body, re.MULTILINE)
    shown = {
        name: default
        for names, defaults in rows
        for name, default in zip(re.findall(r"`(\w+)`", names), defaults.split(", "), strict=True)
    }
    expected = {field.name: field.default for field in fields(LearningTask)}
    assert shown.keys() == expected.keys()
    for name, default in expected.items():
        if default is None or isinstance(default, bool):  # as YAML has to write it
            assert shown[name] == {None: "none", False: "false", True: "true"}[default], name
        else:
            assert float(shown[name]) == default, name


def test_the_suite_of_the_learning_tasks_can_be_planned(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```yaml\n(.*?)^```", text("docs/tasks.md"), re.MULTILINE | re.DOTALL)
    (tmp_path / "learn.yaml").write_text(example)
    plan = plan_suite(load_suite(str(tmp_path / "learn.yaml")), "cpu")
    planned = {(cell.task, cell.model.kind) for cell in plan.cells}
    assert planned == {("mqar", "decoder"), ("copying", "decoder"), ("listops", "classifier")}


def test_each_table_has_a_section() -> None:
    headings = [heading.partition(":")[0] for heading in sections("docs/tables.md")]
    assert [heading for heading in headings if heading in TABLES] == list(TABLES)


def test_the_list_of_questions_has_each_table() -> None:
    first = text("docs/tables.md").partition("\n## ")[0]
    assert re.findall(r"\| \[(\w+)\]\(#", first) == list(TABLES)


@pytest.mark.parametrize("table", TABLES)
def test_the_section_of_a_table_answers_a_question(table: str) -> None:
    heading = next(h for h in sections("docs/tables.md") if h.partition(":")[0] == table)
    assert heading.endswith("?"), heading


def test_each_outcome_is_explained_once() -> None:
    body = next(b for h, b in sections("docs/tables.md").items() if h.startswith("outcomes:"))
    for outcome in get_args(Outcome):
        assert len(re.findall(rf"^\| `{outcome}` \| \w", body, re.MULTILINE)) == 1, outcome


@pytest.mark.parametrize(
    "word",
    [
        grid.NOT_RUN,
        grid.NOT_MEASURED,
        grid.NO_CELL,
        scaling.TOO_FEW,
        utilisation.NO_CEILING,
        break_even.NEVER,
        break_even.NO_EAGER,
    ],
)
def test_each_word_in_a_cell_is_explained(word: str) -> None:
    assert f"`{word}`" in text("docs/tables.md")


def test_each_table_has_an_example() -> None:
    examples = doc_examples.EXAMPLE.finditer(text("docs/tables.md"))
    # No committed run has rows of them.
    absent = {"choices", "throughput", "metrics", "outcomes", "devices"}
    assert {example["table"] for example in examples} == set(TABLES) - absent


@pytest.mark.parametrize("page", doc_examples.PAGES, ids=lambda page: page.name)
def test_the_example_rows_are_those_of_the_records(page: Path) -> None:
    examples = list(doc_examples.EXAMPLE.finditer(page.read_text(encoding="utf-8")))
    assert examples
    for example in examples:
        assert example["body"] == doc_examples.rendered(example), (
            f"the example of table {example['table']} is not what its records give; "
            "write it again with `python -m tests.doc_examples`"
        )


@pytest.mark.parametrize("page", doc_examples.PAGES_WITH_SCREENS, ids=lambda page: page.name)
def test_the_example_screens_are_those_of_the_records(page: Path) -> None:
    screens = list(doc_examples.SCREEN.finditer(page.read_text(encoding="utf-8")))
    assert screens
    for screen in screens:
        assert screen["body"] == doc_examples.rendered_screen(screen), (
            "the example of the screen is not what its records give; write it again with "
            "`python -m tests.doc_examples`"
        )


def test_each_mark_and_option_of_the_screen_is_explained() -> None:
    body = next(b for h, b in sections("docs/tables.md").items() if h.startswith("The screen:"))
    for verdict, mark in MARKS.items():
        assert re.search(rf"^\| `{re.escape(mark)}` \| `{verdict}`", body, re.MULTILINE), verdict
    for option in (
        "--table",
        "--all",
        "--variants",
        "--framework",
        "--mode",
        "--seq-len",
        "--sort",
    ):
        assert f"`{option}" in body, option


def test_each_public_name_has_a_section() -> None:
    missing = set(synthbench.__all__) - set(sections("docs/api.md"))
    assert not missing, f"docs/api.md has no section for {sorted(missing)}"


@pytest.mark.parametrize("name", synthbench.__all__)
def test_a_public_name_has_an_example(name: str) -> None:
    assert "```python" in sections("docs/api.md")[name]


@pytest.mark.usefixtures("registry")
def test_the_examples_of_the_api_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "api"}
    head, *_ = text("docs/api.md").partition("\n## ")
    for code in re.findall(r"```python\n(.*?)```", head, re.DOTALL):
        exec(compile(code, "docs/api.md", "exec"), names)
    ran = []
    for heading, body in sections("docs/api.md").items():
        if heading not in synthbench.__all__:
            continue
        for code in re.findall(r"```python\n(.*?)```", body, re.DOTALL):
            exec(compile(code, f"docs/api.md, {heading}", "exec"), names)
            ran.append(heading)
    assert set(ran) == set(synthbench.__all__)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the reader of the quickstart has saved its files."""
    for name, language in (("first.yaml", "yaml"), ("my_mixers.py", "python")):
        block = re.search(rf"```{language}\n(.*?)```", text("docs/quickstart.md"), re.DOTALL)
        assert block is not None
        (tmp_path / name).write_text(block[1], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_mixers", raising=False)
    return tmp_path


@pytest.mark.usefixtures("registry", "reader")
def test_the_mixer_of_the_quickstart_can_be_measured() -> None:
    load_plugin("my_mixers")
    variants = ["V", "FR(rank=32)", "linformer(rank=32)", "average"]
    plan = make_plan(load_suite("first.yaml"), "cpu", None, variants, None)
    assert {cell.variant for cell in plan.cells} == set(map(canonical, variants))
    sizes: dict[str, Any] = {"heads": 4, "max_len": 12}
    parameters = synthbench.initialize("average", d_model=32, **sizes)
    x = np.random.default_rng(0).standard_normal((2, 9, 32))
    mask = np.arange(9) < np.array([[9], [4]])
    outputs = [
        synthbench.apply("average", parameters, x, framework=name, padding_mask=mask, **sizes)
        for name in ("numpy", "torch", "jax")
    ]
    for y in outputs[1:]:
        np.testing.assert_allclose(y[mask], outputs[0][mask], rtol=0, atol=1e-5)


@pytest.mark.skipif(
    "torch_module" not in synthbench.__all__, reason="this version has no torch_module"
)
def test_the_model_of_the_quickstart_trains() -> None:
    code = re.findall(r"```python\n(.*?)```", text("docs/quickstart.md"), re.DOTALL)[-1]
    names: dict[str, Any] = {"__name__": "quickstart"}
    exec(compile(code, "docs/quickstart.md", "exec"), names)
    assert np.isfinite(names["loss"].item())


def test_the_hooks_run_what_make_test_runs() -> None:
    """Every check of `make test` that takes seconds, and nothing else; pytest takes minutes."""
    recipes = dict(re.findall(r"^([\w-]+):.*\n((?:\t.*\n)+)", text("Makefile"), re.MULTILINE))
    parts = re.findall(r"check-\w+", recipes["test"])
    assert len(parts) == 3
    checks = [
        line.strip().replace("$(BIN)", ".venv/bin")
        for part in parts
        for line in recipes[part].splitlines()
    ]
    hooks = yaml.safe_load(text(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    assert sorted(hook["entry"] for hook in hooks) == sorted(checks)
    assert all(hook["language"] == "system" and not hook["pass_filenames"] for hook in hooks)


def test_the_citation_has_what_the_format_requires() -> None:
    citation = yaml.safe_load(text("CITATION.cff"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == synthbench.__version__
    assert citation["license"] == "Apache-2.0"
    assert citation["authors"] == [{"name": "The synthbench developers"}]
