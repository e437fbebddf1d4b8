"""Every mixer by name: the built-in ones in two literal dicts, plug-ins as they are registered."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import re
import sys
from collections.abc import Mapping
from inspect import get_annotations
from pathlib import Path

from synthbench.errors import NotationError, SynthbenchError, UnknownNameError, quote
from synthbench.mixers.attention import Component
from synthbench.mixers.base import Mixer
from synthbench.mixers.convolutional import BottleneckConv, Conv, ConvReluConv
from synthbench.mixers.dense import Dense
from synthbench.mixers.dot_product import DotProduct
from synthbench.mixers.dynamic_conv import DynamicConv
from synthbench.mixers.factorized_dense import FactorizedDense
from synthbench.mixers.factorized_random import FactorizedRandom
from synthbench.mixers.light_conv import LightConv
from synthbench.mixers.linformer import Linformer
from synthbench.mixers.pointwise import Bottleneck, Glu
from synthbench.mixers.random import FixedRandom, Random

ENTRY_POINT_GROUP = "synthbench.mixers"

# Synthesizing functions: alone or mixed by +, inside one attention frame.
COMPONENTS: dict[str, type[Component]] = {
    "dot_product": DotProduct,
    "random": Random,
    "fixed_random": FixedRandom,
    "factorized_random": FactorizedRandom,
    "dense": Dense,
    "factorized_dense": FactorizedDense,
    "conv": Conv,
    "conv_relu_conv": ConvReluConv,
    "bottleneck": Bottleneck,
    "bottleneck_conv": BottleneckConv,
    "glu": Glu,
}

# Whole mixers.
MIXERS: dict[str, type[Mixer]] = {
    "linformer": Linformer,
    "light_conv": LightConv,
    "dynamic_conv": DynamicConv,
}

CATALOG: dict[str, type[Mixer] | type[Component]] = {**COMPONENTS, **MIXERS}

# The names that papers print, accepted beside labels and names.
ALIASES: dict[str, str] = {
    "Linformer": "linformer",
    "LightConv": "light_conv",
    "DynamicConv": "dynamic_conv",
}

# What the paper and its baselines compare, and the options that change a forward pass.
SHOWCASE: list[str] = [
    "V",
    "R",
    "Fix",
    "FR",
    "FR(rank=32)",
    "D",
    "FD",
    "R+V",
    "FR+V",
    "D+V",
    "R+D",
    "FD+V",
    "D(tie_query=true)+V",
    "conv",
    "conv_relu_conv",
    "bottleneck",
    "bottleneck_conv",
    "glu",
    "linformer",
    "light_conv",
    "dynamic_conv",
]

_plugins: dict[str, type[Mixer]] = {}
_entry_points_read = False


def known() -> dict[str, type[Mixer] | type[Component]]:
    """Every name that notation accepts, plug-ins found by entry point included."""
    global _entry_points_read
    if not _entry_points_read:
        _entry_points_read = True
        for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
            try:
                register(point.load())
            except KeyboardInterrupt:
                _entry_points_read = False
                raise
            except BaseException as error:  # another's package may fail in any way, and even exit
                _entry_points_read = False  # so that the next call tells it again
                raise SynthbenchError(
                    f"entry point {point.name!r} = {point.value!r} in group {ENTRY_POINT_GROUP} "
                    f"cannot be used: {type(error).__name__}: {error}; mend or uninstall "
                    f"{point.dist.name if point.dist else 'its package'}"
                ) from error
    return {**CATALOG, **_plugins}


def plugins() -> dict[str, type[Mixer]]:
    """The mixers registered beside the built-in ones."""
    known()
    return dict(_plugins)


def find(name: str) -> type[Mixer] | type[Component]:
    """The class of a name or label; raises UnknownNameError with near matches.

    A built-in name asks no installed package: one that is broken blocks only its own mixers.
    """
    name = ALIASES.get(name, name)
    found = _named(name, CATALOG) or _named(name, known())
    if found is None:
        classes = known()
        labels_first = {cls.label or n for n, cls in classes.items()} | set(classes)
        raise UnknownNameError("mixer", name, labels_first)
    return found


def _named(
    name: str, classes: Mapping[str, type[Mixer] | type[Component]]
) -> type[Mixer] | type[Component] | None:
    by_label = {cls.label: cls for cls in classes.values() if cls.label}
    return classes.get(name) or by_label.get(name)


def register(cls: type[Mixer]) -> type[Mixer]:
    """Add a mixer class to the catalogue and return it; registering it again changes nothing.

    Raises NotationError where the class does not fulfil the interface or its name is taken.
    """
    name = getattr(cls, "name", None)
    if not (isinstance(cls, type) and issubclass(cls, Mixer)):
        raise NotationError(f"register takes a subclass of synthbench.Mixer, got {quote(cls)}")
    if not isinstance(name, str) or not re.fullmatch(r"[a-z_]\w*", name):
        raise NotationError(
            f"{cls.__name__}.name is {quote(name)}; give it a lower-case name like 'fnet', "
            "which stands in notation, records and tables"
        )
    label: object = cls.label  # whatever another's class holds
    if not (label is None or (isinstance(label, str) and re.fullmatch(r"[A-Za-z_]\w*", label))):
        raise NotationError(
            f"{cls.__name__}.label is {quote(label)}; give it a label like 'FNet', which stands in "
            "notation and tables, or none"
        )
    for method in ("parameters", "torch", "jax"):
        if not callable(getattr(cls, method)):
            raise NotationError(f"{cls.__name__}.{method} is no method; write def {method}(...)")
    if cls.parameters is Mixer.parameters:
        raise NotationError(f"{cls.__name__} has no parameters(); return {{}} if it has none")
    if cls.torch is Mixer.torch and cls.jax is Mixer.jax:
        raise NotationError(f"{cls.__name__} has neither torch() nor jax(); define at least one")
    for field in dataclasses.fields(cls):
        if field.default is dataclasses.MISSING:
            raise NotationError(f"{cls.__name__}.{field.name} has no default; give it one")
    options = [n for n, kind in get_annotations(cls).items() if "ClassVar" not in str(kind)]
    if options and "__dataclass_params__" not in vars(cls):
        raise NotationError(
            f"{cls.__name__} has fields ({', '.join(options)}) and is no dataclass; "
            "write @dataclass(frozen=True) above it, so that they are its options"
        )
    for other in (*CATALOG.values(), *_plugins.values()):
        labels = {other.label, *(a for a, n in ALIASES.items() if n == other.name)} - {None}
        clash = "label" if cls.label in {other.name, *labels} else "name" if name in labels else ""
        if other.name != name and clash:
            raise NotationError(
                f"mixer {clash} {getattr(cls, clash)!r} is taken by "
                f"{other.__module__}.{other.__qualname__}; give {cls.__name__} another {clash}"
            )
    taken = CATALOG.get(name) or _plugins.get(name)
    same = taken is not None and (taken.__module__, taken.__qualname__) == (
        cls.__module__,
        cls.__qualname__,
    )
    if taken is not None and not same:
        raise NotationError(
            f"mixer name {name!r} is taken by {taken.__module__}.{taken.__qualname__}; "
            f"give {cls.__name__} another name"
        )
    _plugins[name] = cls
    return cls


def load_plugin(module_name: str) -> list[type[Mixer]]:
    """Import a module (from the working directory too) and register every mixer it defines.

    Raises SynthbenchError where it cannot be imported or defines no mixer.
    """
    if module_name.endswith(".py") or "/" in module_name:
        path = Path(module_name)
        raise SynthbenchError(
            f"--plugin takes a module name, got {module_name!r}; "
            f"write {path.stem!r} and run from its folder, {str(path.parent)!r}"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plug-in may fail in any way of its own, and even exit
        problem = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise SynthbenchError(
            f"plug-in {module_name!r} cannot be imported: {problem}; it is looked for on the "
            f"Python path and in {here}"
        ) from error
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Mixer)
        and value.__module__ == module.__name__
    ]
    if not classes:
        raise SynthbenchError(
            f"plug-in {module_name!r} defines no subclass of synthbench.Mixer; see "
            "docs/adding_a_mixer.md for an example"
        )
    return [register(cls) for cls in classes]
