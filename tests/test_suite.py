"""Suite files: what they contain, where they are found, and the messages about mistakes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tarfile
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from synthbench.errors import NotationError, UnknownNameError
from synthbench.suites.find import list_suites
from synthbench.suites.suite import KEYS, Suite, deep_merge, load_suite, parse_suite

REPOSITORY = Path(__file__).parents[1]
BASE = """
axes: {variant: [V], seq_len: [64]}
model: {d_model: 8, heads: 2}
"""


def suite(text: str) -> Suite:
    return parse_suite(text, name="mine", source="mine.yaml")


def message(text: str) -> str:
    with pytest.raises(NotationError) as caught:
        suite(text)
    return str(caught.value)


def test_built_in_suites_are_found_and_serve_both_kinds_of_device() -> None:
    assert {"smoke", "seq_scaling"} <= set(list_suites())
    for name in ("smoke", "seq_scaling"):
        loaded = load_suite(name)
        assert loaded.description
        for kind in ("cpu", "cuda"):
            assert len(loaded.settings(kind).axes.variant) >= 21
            assert loaded.settings(kind).axes.framework == ("torch", "jax")


def test_seq_scaling_on_cuda_is_long_and_in_bfloat16() -> None:
    axes = load_suite("seq_scaling").settings("cuda").axes
    assert max(axes.seq_len) >= 8192
    assert max(load_suite("long").settings("cuda").axes.seq_len) == 32768
    assert axes.dtype == ("bfloat16",)
    for shorter, longer in zip(axes.seq_len, axes.seq_len[1:], strict=False):
        assert longer == 2 * shorter


def test_defaults() -> None:
    settings = suite(BASE).settings("cpu")
    assert settings.axes.framework == ("torch", "jax")
    assert settings.axes.mode == ("forward", "train")
    assert settings.model.max_len is None
    assert settings.measure.parity is True
    assert settings.baseline == "V"


def test_device_section_overrides_single_keys() -> None:
    loaded = suite(BASE + "devices: {cuda: {model: {heads: 4}, axes: {seq_len: [128, 256]}}}")
    cpu, cuda = loaded.settings("cpu"), loaded.settings("cuda")
    assert (cpu.model.heads, cpu.axes.seq_len) == (2, (64,))
    assert (cuda.model.heads, cuda.axes.seq_len) == (4, (128, 256))
    assert cuda.model.d_model == cpu.model.d_model == 8
    assert cuda.axes.variant == ("V",)


def test_deep_merge_leaves_both_sides_as_they_were() -> None:
    base = {"a": {"b": 1, "c": [1]}, "d": 1}
    override = {"a": {"c": [2]}, "d": {"e": None}}
    assert deep_merge(base, override) == {"a": {"b": 1, "c": [2]}, "d": {"e": None}}
    assert base == {"a": {"b": 1, "c": [1]}, "d": 1}


def test_a_suite_may_serve_one_kind_of_device_only() -> None:
    loaded = suite(
        "axes: {variant: [V]}\nmodel: {d_model: 8, heads: 2}\n"
        "devices: {cuda: {axes: {seq_len: [64]}}}"
    )
    assert loaded.settings("cuda").axes.seq_len == (64,)
    with pytest.raises(NotationError, match=r"mine\.yaml.*no settings for device cpu.*cuda"):
        loaded.settings("cpu")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (BASE + "measur: {}", ["measur: unknown key", "Did you mean measure"]),
        (
            "axes: {variant: [V], seq_len: [4], mod: [train]}\nmodel: {d_model: 8, heads: 2}",
            ["axes.mod: unknown key", "mode"],
        ),
        (
            "axes: {variant: [V], seq_len: [4]}\nmodel: {d_model: 8, head: 2}",
            ["model.heads: missing", "model.head: unknown key. Did you mean heads"],
        ),
        (BASE + "measure: {rounds: two}", ["measure.rounds: got 'two'", "an integer"]),
        (BASE + "measure: {rounds: 1.5}", ["measure.rounds: got 1.5", "an integer"]),
        (BASE + "margin: 1.5", ["margin: got 1.5", "a number less than 1"]),
        (BASE + "measure: {aa: often}", ["measure.aa: got 'often'", "true or false"]),
        (BASE + "measure: {parity: 1}", ["measure.parity: got 1", "true or false"]),
        (BASE + "measure: {seed: -1}", ["measure.seed: got -1", "a number of at least 0"]),
        (BASE + f"measure: {{seed: {2**63}}}", ["measure.seed: got", "a number less than"]),
        (BASE + "measure: {rounds: 99999}", ["measure.rounds: got 99999", "at most 10000"]),
        (BASE + "measure: {min_seconds: -1}", ["measure.min_seconds: got -1", "greater than 0"]),
        (BASE + "measure: {min_seconds: .inf}", ["measure.min_seconds: got inf", "finite"]),
        (
            BASE + "measure: {min_seconds: 2, max_seconds: 1}",
            ["measure.min_seconds: got 2.0, expected at most 1", "a larger max_seconds"],
        ),
        (
            BASE + "measure: {max_seconds: 0.1}",
            ["measure.min_seconds: got 0.5, expected at most 0.1", "(0.5 is its default)"],
        ),
        (
            BASE + "measure: {min_seconds: 20}",
            ["measure.min_seconds: got 20.0, expected at most 10", "(10 is its default)"],
        ),
        (
            BASE + "devices: {cuda: {measure: {max_seconds: 0.1}}}",
            ["devices.cuda.measure.min_seconds: got 0.5, expected at most 0.1"],
        ),
        (
            BASE + "measure: {machines: 3, rounds: 2}",
            ["measure.machines: got 3, expected at most 2 machines"],
        ),
        (BASE + "measure: 3", ["measure: got 3", "keys below it"]),
        (
            "axes: {variant: V, seq_len: [4]}\nmodel: {d_model: 8, heads: 2}",
            ["axes.variant: got 'V'", "a list; write [V]"],
        ),
        (
            "axes: {variant: [V], seq_len: 16}\nmodel: {d_model: 8, heads: 2}",
            ["axes.seq_len: got 16, expected a list; write [16]"],
        ),
        (
            "axes: {variant: 'V, R', seq_len: [4]}\nmodel: {d_model: 8, heads: 2}",
            ["axes.variant: got 'V, R', expected a list"],
        ),
        (
            "axes: {variant: [V], seq_len: []}\nmodel: {d_model: 8, heads: 2}",
            ["axes.seq_len: got []", "at least one"],
        ),
        (
            "axes: {variant: [V], seq_len: [4], mode: [trian]}\nmodel: {d_model: 8, heads: 2}",
            ["axes.mode.0: got 'trian'", "'forward', 'train' or 'decode'", "did you mean train"],
        ),
        (
            "axes: {variant: [V], seq_len: [4]}\nmodels: {small: {d_model: 8, head: 2}}",
            ["models.small.heads: missing", "models.small.head: unknown key. Did you mean heads"],
        ),
        (
            BASE.replace("heads: 2", "heads: 2, mixers: {R: {heads: 2, head_dims: 4}}"),
            ["model.mixers.R.head_dims: unknown key. Did you mean head_dim", "Known here: heads"],
        ),
        (BASE + "devices: {gpu: {}}", ["devices.gpu", "Known: cpu, cuda, mps"]),
        (BASE + "devices: {cuda: 3}", ["devices.cuda: expected keys below it, got 3"]),
        (
            BASE + "devices: [cuda]",
            ["devices: expected sections named cpu, cuda, tpu"],
        ),
        (
            BASE + "devices: {cuda: {model: {headz: 4}}}",
            ["devices.cuda.model.headz: unknown key. Did you mean heads"],
        ),
        (
            BASE + "devices: {cuda: {axes: {seq_len: [a]}}}",
            ["devices.cuda.axes.seq_len.0: got 'a', expected an integer"],
        ),
        (BASE + "model: {d_model: 9, heads: 3}", ["key 'model' is given twice", "line 4"]),
        ("axes: [", ["not valid YAML"]),
        ("- 1", ["expected keys description, axes", "got a list: [1]"]),
        ("smoke", ["expected keys description, axes", "got a text: 'smoke'"]),
        ("3", ["expected keys description, axes", "got a single value: 3"]),
        ("a: &a [*a]", ["a.0: circular YAML alias"]),
        (BASE + "measure: &a {rounds: *a}", ["measure.rounds: circular YAML alias"]),
        (BASE + "devices: &a {cuda: *a}", ["devices.cuda: circular YAML alias"]),
        (BASE + "2024-01-01: x", ["2024-01-01: unknown key", "Known here: description"]),
        (BASE + "measure: {2024-01-01: 3}", ["measure.2024-01-01: unknown key"]),
        (BASE + "measure: {null: 3}", ["measure.null: unknown key"]),
        (BASE + "devices: {cuda: {1: 2}}", ["devices.cuda.1: unknown key"]),
        (BASE + "margin: 2024-01-01", ["margin: got '2024-01-01', expected a number"]),
        (BASE + "margin: 2024-13-45", ["not valid YAML", "month must be in 1..12"]),
        (BASE + "margin: !!timestamp x", ["not valid YAML: a number, date or tag"]),
        (BASE + f"margin: {'9' * 5000}", ["not valid YAML", "1000 digits"]),
        (BASE + "1: x\n'1': y", ["key '1' is given twice", "line 5"]),
        ("[" * 3000, ["nested too deeply"]),
        (
            "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
            + "".join(
                f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in pairwise("abcdefghi")
            ),
            ["more than 100000 values"],
        ),
        ("", ["expected keys", "an empty file"]),
        (BASE + "description: [1]", ["description: expected a text"]),
    ],
)
def test_mistakes_name_file_key_and_expectation(text: str, parts: list[str]) -> None:
    said = message(text)
    for line in said.splitlines():
        if not line.startswith(" "):
            assert line.startswith("mine.yaml: ") or "YAML" in said
    for part in parts:
        assert part in said


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates()
    | st.datetimes() | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from([*KEYS, "cuda", "cpu", "variant", "seq_len", "heads", "d_model"])
        | st.none() | st.integers() | st.floats() | st.dates() | st.booleans(),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(content=ODD)
@settings(max_examples=200)
def test_any_file_is_a_suite_or_a_named_mistake(content: Any) -> None:
    with pytest.raises(NotationError, match=r"mine\.yaml: "):
        suite(yaml.safe_dump(content))


@given(value=ODD, key=st.sampled_from(["description", "measure", "baseline", "margin", "devices"]))
@settings(max_examples=200)
def test_any_value_is_accepted_or_named(value: Any, key: str) -> None:
    with contextlib.suppress(NotationError):
        loaded = suite(BASE + yaml.safe_dump({key: value}))
        assert loaded.settings("cpu").axes.variant == ("V",)


@given(text=st.text(max_size=40) | st.text("&*a[]{}:,-<> \n", max_size=40))
@example("&a {<<: *a}")
@example("&a <<: *a")
def test_any_text_is_refused_with_a_message(text: str) -> None:
    with pytest.raises(NotationError, match=r"mine\.yaml: "):
        suite(text)


def test_keys_may_be_merged_with_yaml_aliases() -> None:
    loaded = suite(
        "axes: {variant: [V], seq_len: [64]}\nmodel: &model {d_model: 8, heads: 2}\n"
        "devices: {cuda: {model: {<<: *model, heads: 4}}}"
    )
    assert loaded.settings("cuda").model.heads == 4


def test_equal_limits_of_seconds_fit_together() -> None:
    limits = suite(BASE + "measure: {min_seconds: 1, max_seconds: 1}").settings("cpu").measure
    assert limits.min_seconds == limits.max_seconds == 1


def test_a_wrong_entry_is_reported_once() -> None:
    text = "axes: {variant: [V], seq_len: [4, x]}\nmodel: {d_model: 8, heads: 2}"
    assert len(message(text).splitlines()) == 1


def test_a_mistake_in_one_of_several_models_is_reported_once() -> None:
    text = "axes: {variant: [V], seq_len: [4]}\nmodels: {small: {d_model: 8, heads: two}}"
    assert message(text) == "mine.yaml: models.small.heads: got 'two', expected an integer"


def test_unknown_suite_names_near_matches() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean smoke"):
        load_suite("smok")


def test_a_missing_suite_file_is_reported_by_its_path() -> None:
    with pytest.raises(NotationError, match=r"nowhere/mine\.yaml.*does not exist"):
        load_suite("nowhere/mine.yaml")


def test_a_folder_nearby_never_replaces_a_built_in_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "suites").mkdir()
    for decoy in ("suites/smoke.yaml", "smoke.yaml", "smoke"):
        (tmp_path / decoy).write_text(f"description: decoy\n{BASE}")
    monkeypatch.chdir(tmp_path)
    assert set(list_suites()) == {path.stem for path in (REPOSITORY / "suites").glob("*.yaml")}
    assert load_suite("smoke").description.startswith("Every variant in both frameworks")
    for path in ("suites/smoke.yaml", "./smoke.yaml", "./smoke"):
        assert load_suite(path).description == "decoy"


@pytest.mark.parametrize("file", ["mine.yaml", "suites/mine.yaml", "suites/mine.yml"])
def test_a_bare_name_of_an_own_file_asks_for_its_path(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "suites").mkdir()
    (tmp_path / file).write_text(BASE)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotationError, match="suite 'mine' is not built in") as caught:
        load_suite("mine")
    assert str(caught.value).endswith(f"give its path: --suite ./{file}")
    assert load_suite(f"./{file}").name == "mine"


def test_a_wheel_and_a_source_distribution_contain_the_suites(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="builds distributions")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True)
    names = [f"{name}.yaml" for name in list_suites()]
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        top = archive.name.removesuffix(".tar.gz")
        for folder in ("suites", "synthbench/suites/files"):
            assert all(source.getmember(f"{top}/{folder}/{name}").isfile() for name in names)
    (wheel,) = tmp_path.glob("*.whl")
    installed, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    with zipfile.ZipFile(wheel) as content:
        content.extractall(installed)
    (elsewhere / "suites").mkdir(parents=True)
    (elsewhere / "suites" / "smoke.yaml").write_text(f"description: decoy\n{BASE}")
    call = [sys.executable, "-m", "synthbench", "list", "suites"]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        call, cwd=elsewhere, env=environment, check=True, capture_output=True, text=True
    )
    listed = [line.split()[0] for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert listed == ["suite", *list_suites()]
    assert "decoy" not in done.stdout


def test_a_file_that_is_not_text_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NotationError, match=r"not UTF-8 text .* at byte 0\); save it as UTF-8"):
        load_suite(path)


def test_what_is_not_a_file_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "smoke").mkdir()
    for folder in ("mine", tmp_path / "mine"):
        with pytest.raises(NotationError, match=r"mine' is a folder, not a file; give a YAML file"):
            load_suite(folder)
    assert load_suite("smoke").name == "smoke"  # a name comes before a folder
    with pytest.raises(NotationError, match="not a regular file"):
        load_suite("/dev/null")
    for name in ("", "."):
        with pytest.raises(UnknownNameError, match=r"not known\. Known: .*seq_scaling, smoke"):
            load_suite(name)
    with pytest.raises(NotationError, match=r"\(5000 characters\): File name too long"):
        load_suite("a" * 5000)
