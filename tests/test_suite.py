"""Suite files: what they say, and what is said of the mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from synthbench.errors import NotationError, UnknownNameError
from synthbench.suites.suite import Suite, deep_merge, list_suites, load_suite, parse_suite

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


def test_own_suites_are_found_and_serve_both_kinds_of_device() -> None:
    assert {"smoke", "seq_scaling"} <= set(list_suites())
    for name in ("smoke", "seq_scaling"):
        loaded = load_suite(name)
        assert loaded.description
        for kind in ("cpu", "cuda"):
            assert len(loaded.settings(kind).axes.variant) >= 21
            assert loaded.settings(kind).axes.framework == ("torch", "jax")


def test_seq_scaling_on_cuda_is_long_and_in_bfloat16() -> None:
    axes = load_suite("seq_scaling").settings("cuda").axes
    assert max(axes.seq_len) >= 16384
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
        (BASE + "measure: {rounds: two}", ["measure.rounds: got 'two'", "a whole number"]),
        (BASE + "measure: {rounds: 1.5}", ["measure.rounds: got 1.5", "a whole number"]),
        (BASE + "margin: 1.5", ["margin: got 1.5", "a number less than 1"]),
        (BASE + "measure: {aa: often}", ["measure.aa: got 'often'", "true or false"]),
        (BASE + "measure: {parity: 1}", ["measure.parity: got 1", "true or false"]),
        (BASE + "measure: {min_seconds: -1}", ["measure.min_seconds: got -1", "greater than 0"]),
        (BASE + "measure: {min_seconds: .inf}", ["measure.min_seconds: got inf", "finite"]),
        (BASE + "measure: 3", ["measure: got 3", "keys below it"]),
        (
            "axes: {variant: V, seq_len: [4]}\nmodel: {d_model: 8, heads: 2}",
            ["axes.variant: got 'V'", "a list"],
        ),
        (
            "axes: {variant: [V], seq_len: []}\nmodel: {d_model: 8, heads: 2}",
            ["axes.seq_len: got []", "at least one"],
        ),
        (
            "axes: {variant: [V], seq_len: [4], mode: [trian]}\nmodel: {d_model: 8, heads: 2}",
            ["axes.mode.0: got 'trian'", "'forward' or 'train'", "did you mean train"],
        ),
        (BASE + "devices: {gpu: {}}", ["devices.gpu", "Known: cpu, cuda"]),
        (BASE + "devices: {cuda: 3}", ["devices.cuda: expected keys below it, got 3"]),
        (BASE + "devices: [cuda]", ["devices: expected sections cpu and cuda"]),
        (
            BASE + "devices: {cuda: {model: {headz: 4}}}",
            ["devices.cuda.model.headz: unknown key. Did you mean heads"],
        ),
        (
            BASE + "devices: {cuda: {axes: {seq_len: [a]}}}",
            ["devices.cuda.axes.seq_len.0: got 'a', expected a whole number"],
        ),
        (BASE + "model: {d_model: 9, heads: 3}", ["key 'model' stands twice", "line 4"]),
        ("axes: [", ["not valid YAML"]),
        ("- 1", ["expected keys description, axes", "got a list"]),
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


def test_a_wrong_entry_is_told_once() -> None:
    text = "axes: {variant: [V], seq_len: [4, x]}\nmodel: {d_model: 8, heads: 2}"
    assert len(message(text).splitlines()) == 1


def test_unknown_suite_names_near_matches() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean smoke"):
        load_suite("smok")


def test_missing_suite_file_is_told_as_a_path() -> None:
    with pytest.raises(NotationError, match=r"nowhere/mine\.yaml.*does not exist"):
        load_suite("nowhere/mine.yaml")


def test_a_suite_in_the_working_directory_comes_before_the_projects_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "smoke.yaml").write_text(f"description: my own\n{BASE}")
    (tmp_path / "elsewhere.yaml").write_text(BASE)
    monkeypatch.chdir(tmp_path)
    assert load_suite("smoke").description == "my own"
    assert load_suite("seq_scaling").description
    assert load_suite("elsewhere.yaml").name == "elsewhere"


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NotationError, match="cannot be read as a suite file"):
        load_suite(path)
