"""Suite files: YAML -> Suite, with what is wrong named by file, key and expectation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from synthbench.errors import NotationError, UnknownNameError
from synthbench.models.presets import PRESETS
from synthbench.suites.settings import Settings
from synthbench.suites.validation import explain

KINDS = ("cpu", "cuda")
KEYS = ("description", *Settings.model_fields, "devices")


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
    except (OSError, UnicodeDecodeError) as error:
        raise NotationError(f"{path}: cannot be read as a suite file: {error}") from error
    return parse_suite(text, name=path.stem, source=str(path))


def parse_suite(text: str, *, name: str, source: str) -> Suite:
    """Read a suite from its YAML text; raises NotationError with file, key and expectation."""
    try:
        raw = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise NotationError(f"{source}: not valid YAML: {error}") from error
    if not isinstance(raw, dict):
        got = "an empty file" if raw is None else f"a {type(raw).__name__}"
        raise NotationError(f"{source}: expected keys {', '.join(KEYS)} at the top, got {got}")
    base = dict(raw)
    description = base.pop("description", "")
    sections = base.pop("devices", None) or {}
    if not isinstance(description, str):
        raise NotationError(f"{source}: description: expected a text, got {description!r}")
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
    return PRESETS[name].model() | model


def _validated(content: dict[str, Any]) -> Settings:
    # As JSON, since strict validation takes a list for a tuple only there.
    return Settings.model_validate_json(json.dumps(content, default=str))


def _check_sections(source: str, sections: Any) -> None:
    if not isinstance(sections, dict):
        raise NotationError(f"{source}: devices: expected sections cpu and cuda, got {sections!r}")
    for kind, section in sections.items():
        if kind not in KINDS:
            error = UnknownNameError("device section", str(kind), KINDS)
            raise NotationError(f"{source}: devices.{kind}: {error}")
        if not isinstance(section, dict):
            raise NotationError(
                f"{source}: devices.{kind}: expected keys below it, got {section!r}"
            )


def _find(name_or_path: str | Path) -> Path:
    path = Path(name_or_path)
    if path.is_file():
        return path
    looks_like_path = path.suffix in (".yaml", ".yml") or len(path.parts) > 1
    if looks_like_path:
        raise NotationError(
            f"suite file {str(name_or_path)!r} does not exist (looked from {Path.cwd()}); "
            f"suites known by name: {', '.join(list_suites())}"
        )
    suites = list_suites()
    if str(name_or_path) not in suites:
        raise UnknownNameError("suite", str(name_or_path), suites)
    return suites[str(name_or_path)]


def _own_folders() -> list[Path]:
    package = Path(__file__).resolve().parents[1]
    return [package.parent / "suites", package / "suites" / "files"]


class _Loader(yaml.SafeLoader):
    """Safe YAML in which a key that stands twice is an error, not a silent overwrite."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} stands twice", key_node.start_mark
                )
            if isinstance(key, str):
                seen.add(key)
        return super().construct_mapping(node, deep)
