"""Suite files: YAML -> Suite, with what is wrong named by file, key and expectation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from synthbench.errors import NotationError, UnknownNameError, quote
from synthbench.models.presets import PRESETS
from synthbench.suites.settings import Settings
from synthbench.suites.validation import explain

KINDS = ("cpu", "cuda")
KEYS = ("description", *Settings.model_fields, "devices")
MOST_VALUES = 100_000  # in one file, aliases written out: what no hand has written
MERGE = "tag:yaml.org,2002:merge"  # the key <<, which may stand beside the keys it brings


class Suite(BaseModel):
    """A suite file: what it says for each kind of device, overrides already merged in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    source: str  # the file it was read from
    description: str
    devices: dict[str, Settings]  # cpu, cuda -> settings

    def settings(self, kind: str) -> Settings:
        """The settings for `cpu` or `cuda`; NotationError where the suite has none for it."""
        if kind not in self.devices:
            raise NotationError(
                f"{self.source}: no settings for device {kind}; it has some for "
                f"{', '.join(self.devices)}. Add a section devices.{kind} with what is missing"
            )
        return self.devices[kind]


def load_suite(name_or_path: str | Path) -> Suite:
    """Read a suite by file path, or by name from ./suites and then the project's own suites.

    Raises UnknownNameError with near matches, or NotationError with file, key and expectation.
    """
    path = _find(name_or_path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise NotationError(
            f"{path}: cannot be read as a suite file: it is no UTF-8 text ({error.reason} at byte "
            f"{error.start}); save it as UTF-8"
        ) from error
    except OSError as error:
        raise NotationError(
            f"{path}: cannot be read as a suite file: {error.strerror or error}"
        ) from error
    return parse_suite(text, name=path.stem, source=str(path))


def parse_suite(text: str, *, name: str, source: str) -> Suite:
    """Read a suite from its YAML text; raises NotationError with file, key and expectation."""
    try:
        raw = yaml.load(text, _Loader)
        _require_tree(source, raw)
    except yaml.YAMLError as error:
        raise NotationError(f"{source}: not valid YAML: {error}") from error
    except RecursionError:
        raise NotationError(f"{source}: not valid YAML: nested too deeply") from None
    except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as error:
        # what PyYAML lets through from a date, a number or a tag that it cannot make sense of
        raise NotationError(
            f"{source}: not valid YAML: a number, date or tag cannot be read: {error}"
        ) from error
    if not isinstance(raw, dict):
        got = "an empty file" if raw is None else f"{_kind(raw)}: {quote(raw)}"
        raise NotationError(f"{source}: expected keys {', '.join(KEYS)} at the top, got {got}")
    base = dict(raw)
    description = base.pop("description", "")
    sections = base.pop("devices", None) or {}
    if not isinstance(description, str):
        raise NotationError(f"{source}: description: expected a text, got {quote(description)}")
    _check_sections(source, sections)
    devices: dict[str, Settings] = {}
    for kind in KINDS:
        override = sections.get(kind)
        try:
            devices[kind] = _validated(with_presets(deep_merge(base, override or {}), source))
        except ValidationError as error:
            incomplete = all(e["type"] == "missing" for e in error.errors())
            if override is None and sections and incomplete:
                continue  # this suite leaves that kind of device out
            raise NotationError(explain(error, source, kind, override, top_keys=KEYS)) from error
    return Suite(name=name, source=source, description=description.strip(), devices=devices)


def list_suites() -> dict[str, Path]:
    """Every suite that `load_suite` finds by name, name -> file."""
    found: dict[str, Path] = {}
    for folder in (*reversed(_own_folders()), Path("suites")):
        for path in sorted(folder.glob("*.yaml")):
            found[path.stem] = path
    return dict(sorted(found.items()))


def deep_merge(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """`base` with the keys of `override`; mappings are merged, everything else is replaced."""
    merged = dict(base)
    for key, value in override.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = deep_merge(merged[key], value) if both else value
    return merged


def with_presets(content: dict[str, Any], source: str) -> dict[str, Any]:
    """The content with the keys of each model's preset below those that are given."""
    models = content.get("models")
    if isinstance(models, dict) and models:
        if "model" in content:
            raise NotationError(f"{source}: model: stands beside models; give one of the two")
        filled = {n: _filled(m, f"{source}: models.{n}") for n, m in models.items()}
        return content | {"models": filled, "model": next(iter(filled.values()))}
    if "model" in content:
        return content | {"model": _filled(content["model"], f"{source}: model")}
    return content


def _filled(model: Any, where: str) -> Any:
    name = model.get("preset") if isinstance(model, dict) else None
    if not isinstance(name, str):
        return model
    if name not in PRESETS:
        raise NotationError(f"{where}.preset: {UnknownNameError('preset', name, PRESETS)}")
    return PRESETS[name].model | model


def _require_tree(source: str, raw: Any) -> None:
    """NotationError where a value holds itself, by an alias, or aliases make it boundless."""
    seen = 0

    def visit(value: Any, path: tuple[str, ...], above: tuple[int, ...]) -> None:
        nonlocal seen
        seen += 1
        if id(value) in above:
            raise NotationError(f"{source}: {'.'.join(path)}: this alias holds itself")
        if seen > MOST_VALUES:
            raise NotationError(f"{source}: more than {MOST_VALUES} values, aliases written out")
        if isinstance(value, dict | list):
            entries = value.items() if isinstance(value, dict) else enumerate(value)
            for key, entry in entries:
                visit(entry, (*path, str(key)), (*above, id(value)))

    visit(raw, (), ())


def _kind(value: Any) -> str:
    """What a value of a YAML file is called."""
    names: dict[type, str] = {list: "a list", str: "a text"}
    return names.get(type(value), "a single value")


def _validated(content: dict[str, Any]) -> Settings:
    # As JSON, since strict validation takes a list for a tuple only there.
    return Settings.model_validate_json(json.dumps(content, default=str))


def _check_sections(source: str, sections: Any) -> None:
    if not isinstance(sections, dict):
        raise NotationError(
            f"{source}: devices: expected sections cpu and cuda, got {quote(sections)}"
        )
    for kind, section in sections.items():
        if kind not in KINDS:
            error = UnknownNameError("device section", str(kind), KINDS)
            raise NotationError(f"{source}: devices.{kind}: {error}")
        if not isinstance(section, dict):
            raise NotationError(
                f"{source}: devices.{kind}: expected keys below it, got {quote(section)}"
            )


def _find(name_or_path: str | Path) -> Path:
    path, given = Path(name_or_path), quote(str(name_or_path))
    try:
        is_file, is_folder, is_there = path.is_file(), path.is_dir(), path.exists()
    except OSError as error:  # a name too long, a folder that may not be looked into
        raise NotationError(f"suite file {given}: {error.strerror or error}") from error
    if is_file:
        return path
    suites = list_suites()
    if str(name_or_path) in suites:
        return suites[str(name_or_path)]
    named = path.parts and is_there
    if not (named or path.suffix in (".yaml", ".yml") or len(path.parts) > 1):
        raise UnknownNameError("suite", str(name_or_path), suites)
    problem = f"does not exist (looked from {Path.cwd()})"
    if named:
        problem = "is a folder, and no file" if is_folder else "is no ordinary file"
    raise NotationError(
        f"suite file {given} {problem}; give a YAML file, or one of the suites known by name: "
        f"{', '.join(suites)}"
    )


def _own_folders() -> list[Path]:
    package = Path(__file__).resolve().parents[1]
    return [package.parent / "suites", package / "suites" / "files"]


class _Loader(yaml.SafeLoader):
    """Safe YAML in which a key that stands twice is an error, not a silent overwrite.

    Every key becomes a text, as it will be told: 3 and 2024-01-01 are keys that no suite knows.
    """

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if key_node.tag == MERGE:
                continue
            key = _as_text(self.construct_object(key_node, deep=True))
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {quote(key)} stands twice", key_node.start_mark
                )
            seen.add(key)
        mapping = super().construct_mapping(node, deep)
        return {_as_text(key): value for key, value in mapping.items()}


def _as_text(key: Any) -> str:
    if isinstance(key, str):
        return key
    return json.dumps(key) if key is None or isinstance(key, int | float) else str(key)
