"""Every mixer and component by name: the built-in ones in two literal dicts, and plug-ins."""

from __future__ import annotations

import dataclasses
from typing import Any

from synthbench import registry
from synthbench.errors import NotationError
from synthbench.mixers.base import Mixer
from synthbench.mixers.component import Component
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
from synthbench.registry import Registry, require_methods

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

# Names used in papers, accepted in addition to labels and names.
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

# Parameters and options of the frame around components, of which a component cannot have the names.
FRAME_PARAMETERS = ("value", "output", "alpha", "position_bias")
FRAME_OPTIONS = ("mixing", "bias")


def check_mixer(cls: type[Mixer]) -> None:
    """Raise NotationError unless a class has what a mixer must have."""
    _check_methods(cls, Mixer)


def check_component(cls: type[Component]) -> None:
    """Raise NotationError unless a class has what a component must have."""
    if cls.name in FRAME_PARAMETERS:
        raise NotationError(
            f"component name {cls.name!r} is the name of a parameter of every mixture; "
            f"give {cls.__name__} another name"
        )
    for field in dataclasses.fields(cls):
        if field.name in FRAME_OPTIONS:
            raise NotationError(
                f"{cls.__name__}.{field.name} has the name of an option of every mixture; give it "
                "another name"
            )
    _check_methods(cls, Component)


def _check_methods(cls: type[Any], base: type[Any]) -> None:
    require_methods(cls, "parameters", "torch", "jax")
    if cls.parameters is base.parameters:
        raise NotationError(f"{cls.__name__} has no parameters(); return {{}} if it has none")
    if cls.torch is base.torch and cls.jax is base.jax:
        raise NotationError(f"{cls.__name__} has neither torch() nor jax(); define at least one")


MIXER_REGISTRY: Registry[Mixer] = Registry(
    "mixer",
    Mixer,
    MIXERS,
    group="synthbench.mixers",
    page="docs/adding_a_mixer.md",
    check=check_mixer,
    aliases=ALIASES,
)
COMPONENT_REGISTRY: Registry[Component] = Registry(
    "component",
    Component,
    COMPONENTS,
    group="synthbench.components",
    page="docs/adding_a_component.md",
    check=check_component,
    shares_names_with=MIXER_REGISTRY,
)
REGISTRIES = (MIXER_REGISTRY, COMPONENT_REGISTRY)


def known() -> dict[str, type[Mixer] | type[Component]]:
    """Every name that notation accepts, plug-ins found by entry point included."""
    return {**known_components(), **MIXER_REGISTRY.known()}


def known_components() -> dict[str, type[Component]]:
    """Every component by name, plug-ins found by entry point included."""
    return COMPONENT_REGISTRY.known()


def plugins() -> dict[str, type[Mixer] | type[Component]]:
    """The mixers and components registered in addition to the built-in ones."""
    return {**MIXER_REGISTRY.plugins(), **COMPONENT_REGISTRY.plugins()}


def find(name: str) -> type[Mixer] | type[Component]:
    """The class of a name or label; raises UnknownNameError with near matches."""
    return registry.find(name, REGISTRIES, "mixer")
