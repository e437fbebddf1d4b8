"""Extension points: classes by name, the built-in ones in a literal dict, others as registered.

One `Registry` per kind of extension. Registries whose names stand in the same place (mixers and
components, both in notation) share one set of names.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import get_annotations
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from synthbench.errors import NotationError, SynthbenchError, UnknownNameError, quote

T = TypeVar("T")

GROUPS = "synthbench."  # what the groups of entry points of all kinds begin with


def text_of(error: BaseException) -> str:
    """The text of an exception; empty where its own code for that fails."""
    try:
        return str(error)
    except Exception:
        return ""


def accept(cls: type[Any]) -> None:
    """The check of a kind that asks for nothing beyond a name."""


# Behind the names that are known: the mistake is most often that this was left out.
OWN = ". One of your own needs --plugin MODULE, or in Python synthbench.register"


class Registry(Generic[T]):
    """The classes of one kind of extension, by name.

    `base` is the public class that extensions derive from; `check` raises NotationError where a
    class does not fulfil the kind's protocol; `aliases` are further names of built-in classes.
    """

    def __init__(
        self,
        kind: str,
        base: type[T],
        builtin: Mapping[str, type[T]],
        *,
        group: str,
        page: str,
        check: Callable[[type[T]], None] = accept,
        aliases: Mapping[str, str] | None = None,
        shares_names_with: Registry[Any] | None = None,
    ) -> None:
        self.kind = kind  # as messages name it: "mixer"
        self.base = base
        self.builtin = builtin
        self.group = group  # of entry points: "synthbench.mixers"
        self.page = page  # that explains how to write one: "docs/adding_a_mixer.md"
        self._check = check
        self._aliases = aliases or {}
        self._plugins: dict[str, type[T]] = {}
        self._entry_points_read = False
        self.reads_entry_points = True  # whether classes of installed packages are looked for
        self._namespace: list[Registry[Any]] = (
            shares_names_with._namespace if shares_names_with else []
        )
        self._namespace.append(self)

    def known(self) -> dict[str, type[T]]:
        """Every class by name, those of installed packages included."""
        self.read_entry_points()
        return {**self.builtin, **self._plugins}

    def plugins(self) -> dict[str, type[T]]:
        """The classes registered in addition to the built-in ones."""
        self.read_entry_points()
        return dict(self._plugins)

    def find(self, name: str) -> type[T]:
        """The class of a name or label; raises UnknownNameError with near matches."""
        found: type[T] = find(name, [self], self.kind)
        return found

    def register(self, cls: type[T]) -> type[T]:
        """Add a class and return it; the same class again (module and qualname) replaces itself.

        Raises NotationError where the class does not fulfil the protocol or its name is taken.
        """
        if not self.accepts(cls):
            raise NotationError(f"register takes a subclass of {self.base_name}, got {quote(cls)}")
        _check_name(cls)
        self._check(cls)
        if dataclasses.is_dataclass(self.base):
            _check_fields(cls)
        renamed = self._under_other_names(cls)
        for old in renamed:
            del self._plugins[old]
        try:
            self._check_not_taken(cls)
        except NotationError:
            self._plugins.update(renamed)
            raise
        name = name_of(cls)
        for registry in self._namespace:  # the class may have been of another kind before
            registry._plugins.pop(name, None)
        self._plugins[name] = cls
        return cls

    def _under_other_names(self, cls: type[T]) -> dict[str, type[T]]:
        """The same class as it was before its name was edited, as in a notebook."""
        if "<locals>" in cls.__qualname__:  # a function may make several
            return {}
        place = cls.__module__, cls.__qualname__
        return {
            name: other
            for name, other in self._plugins.items()
            if (other.__module__, other.__qualname__) == place and name != name_of(cls)
        }

    def accepts(self, cls: Any) -> bool:
        """Whether this is a class of the kind."""
        return isinstance(cls, type) and issubclass(cls, self.base)

    @property
    def base_name(self) -> str:
        """The class to derive from, as users write it."""
        return f"synthbench.{self.base.__name__}"

    def _check_not_taken(self, cls: type[T]) -> None:
        """Raise NotationError where another class has the name or the label."""
        name, label = name_of(cls), label_of(cls)
        for registry in self._namespace:
            for other in (*registry.builtin.values(), *registry._plugins.values()):
                other_name = name_of(other)
                others = {label_of(other), *registry._aliases_of(other_name)} - {None}
                if other_name == name:
                    clash = "" if _is_same_class(other, cls) else "name"
                elif label is not None and label in {other_name, *others}:
                    clash = "label"
                else:
                    clash = "name" if name in others else ""
                if clash:
                    raise NotationError(
                        f"{self.kind} {clash} {getattr(cls, clash)!r} is taken by "
                        f"{other.__module__}.{other.__qualname__}; "
                        f"give {cls.__name__} another {clash}"
                    )

    def _aliases_of(self, name: str) -> set[str]:
        return {alias for alias, of in self._aliases.items() if of == name}

    def registered(self, name: str) -> type[T] | None:
        """The class of a name or label among those known so far; no package is asked."""
        classes = {**self.builtin, **self._plugins}
        name = self._aliases.get(name, name)
        by_label = {label_of(cls): cls for cls in classes.values() if label_of(cls)}
        return classes.get(name) or by_label.get(name)

    def entry_points(self) -> importlib.metadata.EntryPoints:
        """What installed packages offer of this kind; nothing is imported."""
        return importlib.metadata.entry_points(group=self.group)

    def read_entry_points(self) -> None:
        """Register what installed packages offer, once.

        Raises SynthbenchError for the first that cannot be used, after the others are registered.
        """
        if self._entry_points_read or not self.reads_entry_points:
            return
        self._entry_points_read = True
        broken: SynthbenchError | None = None
        for point in self.entry_points():
            try:
                self.register(point.load())
            except KeyboardInterrupt:
                self._entry_points_read = False
                raise
            except BaseException as error:  # another's package may fail in any way, and even exit
                problem = f"{type(error).__name__}: {text_of(error)}".removesuffix(": ")
                found = SynthbenchError(
                    f"entry point {point.name!r} = {point.value!r} in group {self.group} cannot be "
                    f"used: {problem}; fix or uninstall "
                    f"{point.dist.name if point.dist else 'its package'}"
                )
                found.__cause__ = error
                broken = broken or found
        if broken is not None:
            self._entry_points_read = False  # so that the next call reports it again
            raise broken


def find(name: str, registries: Sequence[Registry[Any]], kind: str) -> type[Any]:
    """The class of a name or label in any of the registries; raises UnknownNameError.

    A broken package blocks only its own classes: it is an error only of a name that is not found.
    """
    for registry in registries:
        if found := registry.registered(name):
            return found
    broken: SynthbenchError | None = None
    for registry in registries:
        try:
            registry.read_entry_points()
        except SynthbenchError as error:
            broken = broken or error
        if found := registry.registered(name):
            return found
    if broken is not None:
        raise broken
    classes = [cls for registry in registries for cls in registry.known().values()]
    names = {name_of(cls) for cls in classes} | {label_of(cls) or "" for cls in classes}
    raise UnknownNameError(kind, name, names - {""}, OWN)


def register(cls: type[Any], registries: Sequence[Registry[Any]]) -> type[Any]:
    """Add a class to the registry of its kind and return it.

    Raises NotationError where it is of no kind, or as `Registry.register` does.
    """
    for registry in registries:
        if registry.accepts(cls):
            return registry.register(cls)
    raise NotationError(f"register takes a subclass of {_base_names(registries)}, got {quote(cls)}")


def has_installed_extensions() -> bool:
    """Whether an installed package offers an extension of any kind; imports none of them."""
    groups = importlib.metadata.entry_points().groups
    return any(group.startswith(GROUPS) for group in groups)


def load_plugin(module_name: str, registries: Sequence[Registry[Any]]) -> list[type[Any]]:
    """Import a module (from the working directory too) and register every class it defines.

    Base classes without a name of their own, shared by classes of the module, are left out. Raises
    SynthbenchError where the module cannot be imported or defines no class of any kind.
    """
    module = _imported(module_name)
    classes = [
        value
        for value in dict.fromkeys(filter(_is_class, vars(module).values()))
        if value.__module__ == module.__name__ and any(r.accepts(value) for r in registries)
    ]
    if not classes:
        pages = " or ".join(registry.page for registry in registries)
        raise SynthbenchError(
            f"plug-in {module_name!r} defines no subclass of {_base_names(registries)}; see "
            f"{pages} for an example"
        )
    return [register(cls, registries) for cls in classes if not _is_nameless_base(cls, classes)]


def name_of(cls: type[Any]) -> str:
    """The name that a class is found by."""
    name: str = cls.name
    return name


def label_of(cls: type[Any]) -> str | None:
    """The short name that a class is found by too, where it has one."""
    label: str | None = getattr(cls, "label", None)
    return label


def require_methods(cls: type[Any], *methods: str) -> None:
    """Raise NotationError unless each of these is a method of the class."""
    for method in methods:
        if not callable(getattr(cls, method)):
            raise NotationError(f"{cls.__name__}.{method} is not a method; write def {method}(...)")


def _imported(module_name: str) -> ModuleType:
    if module_name.endswith(".py") or "/" in module_name:
        path = Path(module_name)
        raise SynthbenchError(
            f"--plugin takes a module name, got {module_name!r}; "
            f"write {path.stem!r} and run from its folder, {str(path.parent)!r}"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last: its files must not hide other modules
    try:
        return importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plug-in may fail in any way of its own, and even exit
        problem = f"{type(error).__name__}: {text_of(error)}".removesuffix(": ")
        raise SynthbenchError(
            f"plug-in {module_name!r} cannot be imported: {problem}; it is looked for on the "
            f"Python path and in {here}"
        ) from error


def _is_class(value: Any) -> bool:
    return isinstance(value, type)


def _is_nameless_base(cls: type[Any], classes: Iterable[type[Any]]) -> bool:
    """Whether a class has no name of its own and others of the module derive from it."""
    derived = any(other is not cls and issubclass(other, cls) for other in classes)
    return derived and vars(cls).get("name") is None


def _is_same_class(one: type[Any], other: type[Any]) -> bool:
    """Whether both were defined at the same place, as a class that is edited in a notebook."""
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def _base_names(registries: Sequence[Registry[Any]]) -> str:
    *others, last = [registry.base_name for registry in registries]
    return f"{', '.join(others)} or {last}" if others else last


def _check_name(cls: type[Any]) -> None:
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z_]\w*", name):
        raise NotationError(
            f"{cls.__name__}.name is {quote(name)}; give it a lower-case name like 'fnet', "
            "which stands in notation, records and tables"
        )
    label: object = label_of(cls)  # whatever another's class holds
    if not (label is None or (isinstance(label, str) and re.fullmatch(r"[A-Za-z_]\w*", label))):
        raise NotationError(
            f"{cls.__name__}.label is {quote(label)}; give it a label like 'FNet', which stands in "
            "notation and tables, or none"
        )


def _check_fields(cls: type[Any]) -> None:
    """Raise NotationError unless the fields can be options: of a dataclass, with defaults."""
    for field in dataclasses.fields(cls):
        if field.default is dataclasses.MISSING:
            raise NotationError(f"{cls.__name__}.{field.name} has no default; give it one")
    options = [n for n, kind in get_annotations(cls).items() if "ClassVar" not in str(kind)]
    if options and "__dataclass_params__" not in vars(cls):
        raise NotationError(
            f"{cls.__name__} has fields ({', '.join(options)}) and is not a dataclass; "
            "write @dataclass(frozen=True) above it, so that they are its options"
        )
