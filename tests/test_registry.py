"""Registries: one of each kind of extension is found, listed, replaced, and refused clearly."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from synthbench.errors import NotationError, SynthbenchError, UnknownNameError
from synthbench.registry import Registry, load_plugin, register, require_methods


class Shape:
    """What the kinds below are made of."""

    name: ClassVar[str]
    label: ClassVar[str | None] = None

    def area(self) -> float:
        raise NotImplementedError


class Colour:
    name: ClassVar[str]


class Square(Shape):
    name = "square"
    label = "Sq"


class Red(Colour):
    name = "red"


def require_area(cls: type[Shape]) -> None:
    require_methods(cls, "area")
    if cls.area is Shape.area:
        raise NotationError(f"{cls.__name__} has no area()")


@pytest.fixture
def shapes() -> Registry[Shape]:
    return Registry(
        "shape", Shape, {"square": Square}, group="synthbench.shapes", page="docs/shapes.md",
        check=require_area, aliases={"Quadrat": "square"},
    )  # fmt: skip


@pytest.fixture
def colours(shapes: Registry[Shape]) -> Registry[Colour]:
    return Registry(
        "colour", Colour, {"red": Red}, group="synthbench.colours", page="docs/colours.md",
        shares_names_with=shapes,
    )  # fmt: skip


def shape(name: str | None, **attributes: Any) -> type[Shape]:
    """A class of its own place of definition for each name."""
    title = "My" + (name or "nameless").title()
    return type(title, (Shape,), {"name": name, "area": lambda self: 1.0, **attributes})


def test_a_class_is_found_by_name_label_and_alias(shapes: Registry[Shape]) -> None:
    disc = shapes.register(shape("disc", label="O"))
    assert shapes.find("disc") is shapes.find("O") is disc
    assert shapes.find("square") is shapes.find("Sq") is shapes.find("Quadrat") is Square
    assert shapes.known() == {"square": Square, "disc": disc}
    assert shapes.plugins() == {"disc": disc}
    message = r"shape 'dics' not known\. Did you mean disc\? Known: O, Sq, disc, square"
    with pytest.raises(UnknownNameError, match=message):
        shapes.find("dics")


def test_the_same_class_again_replaces_itself(shapes: Registry[Shape]) -> None:
    first, second = (shape("disc", area=lambda self, n=n: n) for n in (1, 2))
    assert shapes.register(first) is first
    assert shapes.register(second) is second
    assert shapes.find("disc") is second


def test_a_class_whose_name_was_edited_replaces_itself(shapes: Registry[Shape]) -> None:
    """As in a notebook; a class that is refused leaves the one before."""
    first, second, wrong = (
        type("MyDisc", (Shape,), {"name": name, "label": label, "area": lambda self: 1.0})
        for name, label in (("disc", "O"), ("round_disc", "O"), ("square", "O"))
    )
    shapes.register(first)
    shapes.register(second)
    assert shapes.plugins() == {"round_disc": second}
    with pytest.raises(NotationError, match="is taken by"):
        shapes.register(wrong)
    assert shapes.plugins() == {"round_disc": second}


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (
            shape("square"),
            r"name .square. is taken by tests\.test_registry\.Square; give MyS",
        ),
        (
            shape("Sq".lower(), label="square"),
            "label .square. is taken by .*; give MySq",
        ),
        (shape("disc", label="Quadrat"), "shape label 'Quadrat' is taken by .*Square"),
        (shape("red"), r"shape name 'red' is taken by tests\.test_registry\.Red"),
        (shape("disc", label="red"), r"shape label 'red' is taken by tests\.test_registry\.Red"),
        (shape(None), r"MyNameless\.name is None; give it a lower-case name"),
        (shape("disc", label="a disc"), r"MyDisc\.label is 'a disc'; give it a label"),
        (shape("disc", area=1.0), r"MyDisc\.area is not a method; write def area\(\.\.\.\)"),
        (shape("disc", area=Shape.area), r"MyDisc has no area\(\)"),
        (Red, r"register takes a subclass of synthbench\.Shape, got <class .*Red'>"),
        (3, r"register takes a subclass of synthbench\.Shape, got 3"),
    ],
)
@pytest.mark.usefixtures("colours")  # share the names of shapes
def test_a_wrong_class_is_refused(shapes: Registry[Shape], cls: Any, message: str) -> None:
    with pytest.raises(NotationError, match=message):
        shapes.register(cls)
    assert shapes.plugins() == {}


def test_a_class_goes_to_the_registry_of_its_kind(
    shapes: Registry[Shape], colours: Registry[Colour]
) -> None:
    blue = type("Blue", (Colour,), {"name": "blue"})
    assert register(blue, (shapes, colours)) is blue
    assert (shapes.plugins(), colours.plugins()) == ({}, {"blue": blue})
    message = r"a subclass of synthbench\.Shape or synthbench\.Colour, got <class 'int'>"
    with pytest.raises(NotationError, match=message):
        register(int, (shapes, colours))


def test_a_class_that_changes_its_kind_leaves_the_other(
    shapes: Registry[Shape], colours: Registry[Colour]
) -> None:
    shapes.register(shape("blue"))
    blue = colours.register(type("MyBlue", (Colour,), {"name": "blue"}))
    assert (shapes.plugins(), colours.plugins()) == ({}, {"blue": blue})


MODULE = """
from tests.test_registry import Colour, Shape, Square

class _Base(Shape):
    def area(self):
        return self.side ** 2

class Small(_Base):
    name = "small"
    side = 1

class Large(_Base):
    name = "large"
    side = 2

class Blue(Colour):
    name = "blue"

Again = Small
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that --plugin can name, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_shapes", raising=False)
    importlib.invalidate_caches()
    return tmp_path / "my_shapes.py"


def test_a_module_gives_its_classes_of_every_kind_and_not_their_bases(
    module: Path, shapes: Registry[Shape], colours: Registry[Colour]
) -> None:
    module.write_text(MODULE)
    found = load_plugin("my_shapes", (shapes, colours))
    assert [cls.__name__ for cls in found] == ["Small", "Large", "Blue"]
    assert list(shapes.plugins()) == ["small", "large"]
    assert list(colours.plugins()) == ["blue"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("class Large(Shape): ...", r"Large\.name is None; give it a lower-case name"),
        ("", r"'my_shapes' defines no subclass of synthbench\.Shape or synthbench\.Colour; see "
             r"docs/shapes\.md or docs/colours\.md"),
        ("1 / 0", "plug-in 'my_shapes' cannot be imported: ZeroDivisionError"),
    ],
)  # fmt: skip
def test_a_module_without_a_usable_class_is_refused(
    module: Path, shapes: Registry[Shape], colours: Registry[Colour], content: str, message: str
) -> None:
    module.write_text(f"from tests.test_registry import Shape\n{content}\n")
    with pytest.raises(SynthbenchError, match=message):
        load_plugin("my_shapes", (shapes, colours))


def test_an_installed_package_is_found_and_a_broken_one_named_each_time(
    module: Path, shapes: Registry[Shape], colours: Registry[Colour]
) -> None:
    module.write_text(MODULE)
    info = module.parent / "my_shapes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-shapes\nVersion: 1.0\n")
    points = "[synthbench.shapes]\nsmall = my_shapes:Small\n"
    (info / "entry_points.txt").write_text(f"{points}[synthbench.colours]\nx = my_shapes:Absent\n")
    sys.path.insert(0, str(module.parent))
    assert shapes.find("small").__name__ == "Small"
    assert colours.find("red") is Red  # what is built in asks no package
    for _ in range(2):
        with pytest.raises(SynthbenchError, match="has no attribute 'Absent'; fix or uninstall my"):
            colours.find("blue")
