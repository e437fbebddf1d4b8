"""docs/suites.md and `synthbench init`: complete, made from the schema, loadable as they are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import yaml

from synthbench.cli.app import main as command_line
from synthbench.models.presets import PRESETS
from synthbench.models.spec import ModelSpec
from synthbench.run.planning import plan_suite
from synthbench.store import read_run
from synthbench.suites import reference
from synthbench.suites.schema import SECTIONS, flow, keys_of
from synthbench.suites.settings import Settings
from synthbench.suites.suite import KEYS, load_suite, parse_suite
from synthbench.suites.template import template

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "suites.md"


def test_the_page_has_the_tables_of_the_schema() -> None:
    assert reference.main([str(PAGE), "--check"]) == 0


def test_a_page_that_differs_is_reported_and_written_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "suites.md"
    page.write_text(PAGE.read_text().replace("| `rounds` |", "| `rouns` |"))
    assert reference.main([str(page), "--check"]) == 1
    message = f"{page} differs from the schema; write it with python -m synthbench.suites.reference"
    assert capsys.readouterr().err.startswith(message)
    assert reference.main([str(page)]) == 0
    assert page.read_text() == PAGE.read_text()


@pytest.mark.parametrize("page", ["", "<!-- begin axes -->\n<!-- end axes -->"])
def test_a_page_without_a_table_is_reported(
    page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.md"
    path.write_text(page)
    for call in ([str(path)], [str(path), "--check"], [str(tmp_path / "absent.md")]):
        assert reference.main(call) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert path.read_text() == page


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_has_a_row_with_an_example_that_is_valid(section: str) -> None:
    cls = SECTIONS[section]
    keys = {key.name: key for key in keys_of(section)}
    assert list(keys) == list(cls.model_fields)
    text = PAGE.read_text()
    for key in keys.values():
        assert f"| `{key.name}` | {key.type} |" in text
        assert f"| `{key.name}: {key.example}` |" in text
        given = {k.name: yaml.safe_load(k.example) for k in keys.values() if k.default is None}
        if key.name == "models":  # takes the place of model
            given["model"] = {"d_model": 8, "heads": 2}
        yaml_text = yaml.safe_dump(given | yaml.safe_load(f"{key.name}: {key.example}"))
        found = cls.model_validate_json(_as_json(yaml_text, section, key.name))
        assert key.name in found.model_fields_set


def _as_json(text: str, section: str, key: str) -> str:
    content = yaml.safe_load(text)
    if (section, key) == ("settings", "models"):  # presets are filled in where a suite is read
        content["models"] = {n: {"d_model": 8, "heads": 2} for n in content["models"]}
    return json.dumps(content)


def test_every_key_is_typed_in_words() -> None:
    types = {(section, key.name): key.type for section in SECTIONS for key in keys_of(section)}
    assert types["measure", "rounds"] == "integer >= 1 and <= 10000 or section"
    assert types["measure", "precision"] == "number > 0 and < 1 or null"
    assert types["axes", "mode"] == "list: `forward`, `train` or `decode`"
    assert types["axes", "d_model"] == "list: integer > 0 and <= 1e+09 or null"
    assert types["settings", "measure"] == "section"
    assert types["model", "bias"] == "true or false"
    assert get_args(ModelSpec.model_fields["norm"].annotation) == ("layer", "rms")
    assert types["model", "norm"] == "`layer` or `rms`"


def test_every_preset_is_on_the_page() -> None:
    for name, preset in PRESETS.items():
        assert f"| `{name}` | `{flow(preset.model)[1:-1]}` | {preset.source} |" in PAGE.read_text()


def test_every_key_at_the_top_is_on_the_page() -> None:
    assert all(f"`{key}`" in PAGE.read_text() for key in KEYS)


def blocks() -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_complete_example_can_be_measured() -> None:
    *_, example = blocks()
    suite = parse_suite(example, name="example", source="docs/suites.md")
    on_cpu, on_cuda = plan_suite(suite, "cpu"), plan_suite(suite, "cuda")
    assert {c.variant for c in on_cpu.cells} == {
        "V", "FR", "FR(rank=32)", "FR(rank=32)+V", "linformer",
    }  # fmt: skip
    assert {c.model.heads for c in on_cpu.cells if c.variant == "FR(rank=32)"} == {2}
    assert {c.dtype for c in on_cuda.cells} == {"bfloat16", "float16"}
    assert {c.seq_len for c in on_cuda.cells} == {1024, 2048}
    for plan in (on_cpu, on_cuda):
        assert {c.model.d_model for c in plan.cells} == {64, 128}
        assert not plan.skipped
        assert not plan.notes
    assert set(yaml.safe_load(example)) == set(KEYS) - {"models", "tasks", "by_task"}


def test_the_other_examples_are_read() -> None:
    *others, _ = blocks()
    assert others
    for example in others:
        base = "" if "axes:" in example else "axes: {variant: [V], seq_len: [8]}\n"
        assert parse_suite(base + example, name="part", source="docs/suites.md").devices


# --- synthbench init -----------------------------------------------------------------------------


def test_every_key_of_the_template_is_given_or_a_comment_with_its_default() -> None:
    text = template("my_suite.yaml")
    given = yaml.safe_load(text)
    spelled = text
    for section in ("settings", "axes", "model", "measure"):
        above, indent = (given, "") if section == "settings" else (given[section], "  ")
        for key in keys_of(section):
            if key.name in above or (section == "axes" and key.is_model_axis):
                continue
            comment = f"\n{indent}# {key.name}: {key.default}\n"
            assert spelled.count(comment) == 1, key.name
            spelled = spelled.replace(comment, comment.replace("# ", ""))
    settings = parse_suite(spelled, name="mine", source="mine.yaml").settings("cpu")
    assert settings == parse_suite(text, name="mine", source="mine.yaml").settings("cpu")
    assert set(settings.measure.model_fields_set) == {key.name for key in keys_of("measure")}
    assert set(settings.model_fields_set) == set(Settings.model_fields)


def test_every_cell_of_the_template_can_exist() -> None:
    suite = parse_suite(template("mine.yaml"), name="mine", source="mine.yaml")
    for device in ("cpu", "cuda"):
        plan = plan_suite(suite, device)
        assert plan.cells
        assert not plan.skipped
        assert not plan.notes


def test_init_writes_a_suite_and_never_overwrites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def init(name: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as exit:
            command_line(["init", name])
        out, err = capsys.readouterr()
        return exit.value.code or 0, out + err

    code, printed = init("mine.yaml")
    assert code == 0
    assert "synthbench run --suite mine.yaml --dry-run" in printed
    assert load_suite("mine.yaml").name == "mine"
    Path("mine.yaml").write_text("precious")
    for name, problem in {
        "mine.yaml": "mine.yaml exists already and is not overwritten; give another name",
        "mine": "must end in .yaml; write mine.yaml",
        "absent/mine.yaml": "the folder absent does not exist",
    }.items():
        code, printed = init(name)
        assert code == 2
        assert problem in printed
        assert "Traceback" not in printed
    assert Path("mine.yaml").read_text() == "precious"


@pytest.mark.long
def test_a_suite_from_init_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = template("mine.yaml").replace("rounds: 2", "rounds: 1")
    Path("mine.yaml").write_text(text.replace("# ceiling: true", "ceiling: false"))
    call = [sys.executable, "-m", "synthbench", "run", "--suite", "mine.yaml", "--device", "cpu",
            "--framework", "torch", "--variants", "V,FR(rank=[2, 4])", "--seq-len", "8",
            "--out", "run"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    records = read_run(Path("run")).records
    assert {record.cell.variant for record in records} == {"V", "FR(rank=2)", "FR(rank=4)"}
    assert [record.outcome for record in records] == ["ok"] * len(records)
    assert len(records) == 2 * 3  # modes, variants
