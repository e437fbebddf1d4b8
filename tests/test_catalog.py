"""What the registries of mixers and components refuse."""

from __future__ import annotations

from typing import ClassVar

import pytest

from synthbench.errors import NotationError
from synthbench.mixers.base import Mixer, Parameter
from synthbench.mixers.catalog import COMPONENT_REGISTRY, MIXER_REGISTRY
from synthbench.mixers.component import Component
from synthbench.mixers.sizes import Sizes

pytestmark = pytest.mark.usefixtures("registry")


class Bare(Component):
    """Has parameters and no framework."""

    name: ClassVar[str] = "bare"

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return {}


class Value(Bare):
    name: ClassVar[str] = "value"


class BareMixer(Mixer):
    name: ClassVar[str] = "bare_mixer"

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return {}


def test_a_component_needs_a_framework_and_a_name_of_its_own() -> None:
    with pytest.raises(NotationError, match=r"Bare has neither torch\(\) nor jax\(\)"):
        COMPONENT_REGISTRY.register(Bare)
    with pytest.raises(NotationError, match="component name 'value' is the name of a parameter"):
        COMPONENT_REGISTRY.register(Value)
    assert not COMPONENT_REGISTRY.plugins()


def test_a_mixer_needs_a_framework() -> None:
    with pytest.raises(NotationError, match=r"BareMixer has neither torch\(\) nor jax\(\)"):
        MIXER_REGISTRY.register(BareMixer)
    assert not MIXER_REGISTRY.plugins()
