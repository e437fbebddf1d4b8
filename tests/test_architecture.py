"""The layers, what each back end offers, and which framework a module may load."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import grimp
import pytest

from synthbench.devices import ACCELERATORS, HOST
from synthbench.mixers import catalog

ROOT = Path(__file__).resolve().parents[1]
TWINS = ("torch", "jax")
FRAMEWORKS = ("torch", "fvcore", "jax", "jaxlib", "flax", "optax")
HEAVY = (*FRAMEWORKS, "numpy", "pydantic", "pandas", "scipy", "rich", "typer", "yaml")


def python(code: str, *, without: tuple[str, ...] = ()) -> str:
    """Run code in an interpreter of its own, in which importing any of `without` fails."""
    blocker = (
        "import importlib.abc, sys\n"
        "class Blocker(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {without!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Blocker())\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", blocker + code],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_by(module: str, suspects: tuple[str, ...]) -> list[str]:
    """Which of the suspects are loaded once `module` is imported."""
    code = (
        f"import json, {module}; print(json.dumps([m for m in {suspects!r} if m in sys.modules]))"
    )
    loaded: list[str] = json.loads(python(code))
    return loaded


def test_imports_go_down_only() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_contract_names_every_module() -> None:
    """A module that the contracts leave out could import what it likes."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    package = ROOT / "synthbench"
    present = {p.stem for p in package.glob("[!_]*.py")}
    present |= {p.parent.name for p in package.glob("*/__init__.py")} - {"backends"}
    present |= {f"backends.{p.stem}" for p in package.glob("backends/[!_]*.py")}
    forbidden = {c["id"]: c for c in contracts if c["type"] == "forbidden"}
    for framework, other in (("torch", "backends.jax"), ("jax", "backends.torch")):
        expected = {f"synthbench.{name}" for name in (*present, other)}
        assert set(forbidden.pop(framework)["source_modules"]) == expected
    others = {name.partition(".")[0] for name in present} - {"analysis"}
    named = set(forbidden.pop("analysis")["forbidden_modules"])
    assert named >= {f"synthbench.{name}" for name in others} | set(FRAMEWORKS)
    assert not forbidden


def import_graph() -> dict[str, set[str]]:
    """Module of the package -> what it imports, also inside functions and for type checking."""
    graph = grimp.build_graph("synthbench", include_external_packages=True, cache_dir=None)
    return {name: set(graph.find_modules_directly_imported_by(name)) for name in graph.modules}


def cycles(imports: dict[str, set[str]]) -> list[set[str]]:
    """The groups of modules that all import each other, directly or not."""
    reached: dict[str, set[str]] = {}
    for start in imports:
        seen: set[str] = set()
        waiting = list(imports[start])
        while waiting:
            if (name := waiting.pop()) not in seen:
                seen.add(name)
                waiting += imports.get(name, ())
        reached[start] = seen
    groups = {
        frozenset(other for other in reached[name] if name in reached.get(other, ()))
        for name in imports
    }
    return [set(group) for group in groups if group]


def test_cycles_are_found() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert sorted(map(sorted, cycles(imports))) == [["a", "b", "c"], ["d", "e"]]


def test_no_import_cycle() -> None:
    """Two files may import each other inside functions; more than two could not be understood."""
    imports = import_graph()
    assert "synthbench.mixers.notation" in imports
    too_long = [sorted(group) for group in cycles(imports) if len(group) > 2]
    assert not too_long, f"these modules import each other: {too_long}"


def test_in_mixers_only_notation_knows_the_notation() -> None:
    """A mixer is an object; how it is written must not matter to it."""
    notation = "synthbench.mixers.notation"
    users = [name for name, found in import_graph().items() if notation in found]
    assert not [name for name in users if name.startswith("synthbench.mixers.")]
    assert "synthbench.suites.cell" in users


# Names that frameworks give to devices, beside those of synthbench/devices.py.
OTHER_DEVICE_NAMES = ("gpu", "rocm", "hip", "metal", "xla")
TESTS_OF_TEXT = ("startswith", "endswith", "removeprefix", "removesuffix", "fullmatch", "match")


def device_branches(code: str) -> list[str]:
    """Where code decides by the name of a device: an accelerator's anywhere, the CPU's in a test.

    The CPU's name may stand for something else, as in what an environment says of the processor.
    """
    accelerators = {*ACCELERATORS, *OTHER_DEVICE_NAMES}

    def named(node: ast.AST | None, known: set[str]) -> bool:
        text = node.value if isinstance(node, ast.Constant) else None
        return isinstance(text, str) and text.partition(":")[0] in known

    found: set[ast.AST] = set()
    for node in ast.walk(ast.parse(code)):
        tested: list[ast.AST] = []
        match node:
            case ast.Compare():
                tested = [node.left, *node.comparators]
            case ast.Subscript():
                tested = [node.slice]
            case ast.MatchValue():
                tested = [node.value]
            case ast.Call(func=ast.Attribute(attr=name)) if name in TESTS_OF_TEXT:
                tested = [*node.args]
        inner = [each for top in tested for each in ast.walk(top)]
        found |= {each for each in inner if named(each, {HOST})}
        found |= {node} if named(node, accelerators) else set()
    ordered = sorted(found, key=lambda node: (node.lineno, node.col_offset))  # type: ignore[attr-defined]
    return [ast.unparse(node) for node in ordered]


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ('device == "cpu"', 1), ('device in ("cpu", "cuda")', 2), ('name.startswith("cuda")', 1),
        ('SIZES = {"cpu": 1, "cuda": 2}', 1), ('SIZES["cpu"]', 1), ('find("cuda:1")', 1),
        ('match device:\n    case "cpu" | "tpu":\n        pass', 2),
        ('def f(device: str = "cpu"): "cuda or tpu"', 0), ('environment.get("cpu")', 0),
        ('is_host(device)', 0), ('device == HOST', 0), ('x = "on cuda"', 0),
    ],
)  # fmt: skip
def test_a_branch_on_a_device_is_found(code: str, count: int) -> None:
    assert len(device_branches(code)) == count


def test_only_back_ends_and_one_declaration_know_devices_by_name() -> None:
    package = ROOT / "synthbench"
    allowed = [package / "backends" / own for own in TWINS] + [package / "devices.py"]
    found: dict[str, list[str]] = {}
    checked = 0
    for path in sorted(package.rglob("*.py")):
        if not any(path.is_relative_to(place) for place in allowed):
            checked += 1
            if branches := device_branches(path.read_text()):
                found[str(path.relative_to(ROOT))] = branches
    assert checked > 200
    assert not found, f"decide by what synthbench/devices.py or a back end says: {found}"
    assert device_branches((package / "devices.py").read_text())


def test_the_statistics_do_no_input_or_output() -> None:
    standard = {
        "__future__",
        "bisect",
        "collections",
        "dataclasses",
        "functools",
        "math",
        "statistics",
        "typing",
    }
    allowed = standard | {"numpy", "ruptures", "scipy"}
    for name, found in import_graph().items():
        if name.startswith("synthbench.analysis."):
            others = {one for one in found if not one.startswith("synthbench.analysis.")}
            assert others <= allowed, f"{name} imports {sorted(others - allowed)}"
    for path in (ROOT / "synthbench" / "analysis").glob("*.py"):
        called = {
            node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)
        }
        assert not called & {"open", "print", "input"}, path


def test_the_public_api_needs_neither_framework() -> None:
    python(
        "import synthbench, numpy\n"
        "sizes = {'heads': 2, 'max_len': 6}\n"
        "p = synthbench.initialize('R+V', d_model=8, **sizes)\n"
        "y = synthbench.apply('R+V', p, numpy.ones((1, 6, 8)), framework='numpy', **sizes)\n"
        "assert y.shape == (1, 6, 8)\n"
        "try:\n"
        "    synthbench.apply('R+V', p, numpy.ones((1, 6, 8)), framework='jax', **sizes)\n"
        "except synthbench.SynthbenchError as error:\n"
        "    assert \"pip install 'synthbench[jax]'\" in str(error), error\n"
        "else:\n"
        "    raise AssertionError('jax is blocked')\n",
        without=(*FRAMEWORKS, "pandas"),
    )


def test_importing_synthbench_loads_nothing_heavy() -> None:
    assert loaded_by("synthbench", HEAVY) == []


def test_every_public_name_is_found_on_first_use() -> None:
    python(
        "import synthbench\n"
        "assert set(synthbench.__all__) <= set(dir(synthbench))\n"
        "assert all(getattr(synthbench, n).__name__ == n for n in synthbench.__all__)\n"
        "assert not hasattr(synthbench, 'no_such_name')\n"
        "from synthbench import *\n"
        "assert issubclass(Mixer, object) and callable(apply)\n",
        without=(*FRAMEWORKS, "pandas"),
    )


def test_the_command_line_loads_no_framework() -> None:
    assert loaded_by("synthbench.cli", FRAMEWORKS) == []


@pytest.mark.parametrize(
    ("own", "other"), [("torch", ("jax", "jaxlib", "flax", "optax")), ("jax", ("torch", "fvcore"))]
)
def test_a_backend_loads_one_framework(own: str, other: tuple[str, ...]) -> None:
    assert loaded_by(f"synthbench.backends.{own}.backend", other) == []
    assert loaded_by(f"synthbench.backends.{own}.backend", (own,)) == [own]


def test_a_backend_works_without_the_other_framework() -> None:
    for own, other in (("torch", ("jax", "jaxlib", "flax", "optax")), ("jax", ("torch", "fvcore"))):
        python(
            "import synthbench, numpy\n"
            "p = synthbench.initialize('D+V', d_model=8, heads=2, max_len=6)\n"
            f"y = synthbench.apply('D+V', p, numpy.ones((1, 6, 8)), framework={own!r}, heads=2,"
            " max_len=6)\n"
            "assert y.shape == (1, 6, 8)\n",
            without=other,
        )


def backend_module(own: str, name: str) -> ModuleType:
    return importlib.import_module(f"synthbench.backends.{own}.mixers.{name}")


@pytest.mark.parametrize("own", TWINS)
def test_each_backend_has_every_mixer(own: str) -> None:
    mixers = backend_module(own, "catalog").MIXERS
    components = backend_module(own, "components").LOGITS
    for held, declared in (
        (components.keys(), catalog.COMPONENTS.keys()),
        (mixers.keys(), {"attention", *catalog.MIXERS}),
    ):
        assert held == declared, f"{own}: missing or unknown: {sorted(held ^ declared)}"


def test_twins_offer_the_same_forms() -> None:
    forms = {
        own: {
            name: {form for form in ("reference", "fused") if hasattr(module, form)}
            for name, module in backend_module(own, "catalog").MIXERS.items()
        }
        for own in TWINS
    }
    assert forms["torch"] == forms["jax"]
    assert all("reference" in offered for offered in forms["torch"].values())


def test_the_names_of_the_catalogue_are_those_of_the_classes() -> None:
    assert all(cls.name == name for name, cls in catalog.CATALOG.items())
    labels = [cls.label for cls in catalog.CATALOG.values() if cls.label]
    assert len(set(labels)) == len(labels)
    assert not set(labels) & catalog.CATALOG.keys()
