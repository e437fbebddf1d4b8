"""docs/adding_a_component.md, run as written: a component from outside in every mixture."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import synthbench
from synthbench.backends.kernel_record import force_long_kernels, recording_kernels
from synthbench.errors import UnsupportedError
from synthbench.measure import parity
from synthbench.mixers import catalog
from synthbench.mixers.attention import Attention
from synthbench.mixers.base import Parameter
from synthbench.mixers.component import Component
from synthbench.mixers.notation import canonical, parse
from synthbench.mixers.plugin_component import is_builtin, with_functions
from synthbench.mixers.sizes import Sizes
from synthbench.run.extensions import load_plugin
from tests.clean_environment import clean_environment
from tests.documents import blocks

PAGE = "adding_a_component.md"
FRAMEWORKS = ("torch", "jax")
SIZES: dict[str, Any] = {"heads": 4, "max_len": 12}
X = np.random.default_rng(0).standard_normal((2, 9, 16))

pytestmark = pytest.mark.usefixtures("registry")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory that holds my_components.py as the page has it."""
    parts = [block for block in blocks(PAGE, "python") if block.startswith("# my_components.py")]
    (tmp_path / "my_components.py").write_text("\n\n".join(parts), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_components", raising=False)
    importlib.invalidate_caches()
    return tmp_path


@pytest.fixture
def components(folder: Path) -> dict[str, type[Component]]:
    """The page's components, loaded as --plugin loads them."""
    return {cls.name: cls for cls in load_plugin("my_components")}


def test_a_component_stands_in_notation(components: dict[str, type[Component]]) -> None:
    assert list(components) == ["alibi", "block_alibi"]
    assert canonical("V+alibi(trained=true)") == "V+ALiBi(trained=true)"
    assert canonical("(alibi+V)(mixing=sum)") == "(ALiBi+V)(mixing=sum)"
    with pytest.raises(synthbench.SynthbenchError, match=r"these can: .*ALiBi, block_alibi"):
        parse("linformer+alibi")
    assert not any(is_builtin(cls()) for cls in components.values())


def test_an_installed_package_needs_no_option(folder: Path) -> None:
    (toml,) = blocks(PAGE, "toml")
    group = catalog.COMPONENT_REGISTRY.group
    points = tomllib.loads(toml)["project"]["entry-points"][group]
    info = folder / "my_components-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    sys.path.insert(0, str(folder))
    catalog.COMPONENT_REGISTRY._entry_points_read = False
    assert canonical("alibi+V") == "ALiBi+V"


WHOLE, BLOCKS = "alibi: all logits at once", "blocks of queries"
KERNELS = {
    "alibi": [WHOLE, BLOCKS],
    "alibi(trained=true)+V": [WHOLE, BLOCKS],
    "R+block_alibi(trained=true)+V": [BLOCKS],
}


@pytest.mark.long_but("alibi-*")
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("variant", KERNELS)
def test_both_forms_compute_what_numpy_computes(
    components: dict[str, type[Component]], variant: str, framework: str
) -> None:
    with recording_kernels() as kernels, force_long_kernels():
        fused = parity.collect(framework, variant, "float64", form="fused")
    plain = parity.collect(framework, variant, "float64", form="reference")
    assert list(kernels) == KERNELS[variant]
    assert len(fused) == 8  # no mask, padding, causal, both; at max_len and below
    for case, got in fused.items():
        for each in (got, plain[case]):
            assert parity.relative_error(each["forward"], each["reference"]) <= 1e-10
        difference = parity.gradient_difference(got["gradients"], plain[case]["gradients"])
        assert difference <= 1e-10


@dataclass(frozen=True)
class Scored(Component):
    """S = (X query) (X key)^T of one channel per head, as features."""

    name: ClassVar[str] = "scored"

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        weight = Parameter((sizes.d_model, sizes.heads), synthbench.Normal(0.3))
        return {"scored.query": weight, "scored.key": weight}

    def biases(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        return {"scored.query": (sizes.heads,)}

    def torch_features(self, sizes: Sizes) -> Any:
        def features(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            query = x @ p["scored.query"] + p.get("scored.query_bias", 0)
            return query.mT[..., None], (x @ p["scored.key"]).mT[..., None]

        return features

    jax_features = torch_features

    def torch(self, sizes: Sizes) -> Any:
        def logits(*inputs: Any) -> Any:
            query, key = self.torch_features(sizes)(*inputs)
            return query @ key.mT

        return logits

    jax = torch

    def reference(self, p: Any, x: Any, sizes: Sizes, **masks: Any) -> Any:
        query = x @ p["scored.query"] + p.get("scored.query_bias", 0)
        return query.swapaxes(1, 2)[..., None] * (x @ p["scored.key"]).swapaxes(1, 2)[:, :, None]


@pytest.mark.long_but("torch")
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_features_join_those_of_other_components(framework: str) -> None:
    synthbench.register(Scored)
    variant = "(scored+FR+V)(bias=true)"
    with recording_kernels() as kernels, force_long_kernels():
        fused = parity.collect(framework, variant, "float64", form="fused")
    assert list(kernels) in (["scaled_dot_product_attention"], [BLOCKS])
    for got in fused.values():
        assert parity.relative_error(got["forward"], got["reference"]) <= 1e-10


def test_without_a_formula_the_mixture_has_none() -> None:
    for variant in (
        synthbench.register(Scored).name,
        "scored+V",
    ):
        cost = synthbench.cost(variant, batch=1, seq_len=9, d_model=16, **SIZES)
        assert cost.flops is None
        assert cost.parameters > 2 * 16 * 4


def test_no_kernel_takes_it_for_a_built_in_component() -> None:
    """Not even one that has the name of one, and is not registered."""
    impostor = type("Impostor", (Scored,), {"name": "random", "parameters": lambda self, s: {
        "random.logits": Parameter((s.d_model, s.heads), synthbench.Normal(1.0))}})()  # fmt: skip
    mixture = Attention((impostor,))
    (component,) = with_functions(mixture, Sizes.of(d_model=16, **SIZES), "torch").components
    assert component.name not in catalog.known()


@pytest.mark.long
@pytest.mark.parametrize("command", [c for c in "".join(blocks(PAGE, "bash")).splitlines() if c])
def test_the_commands_run_as_written(folder: Path, command: str) -> None:
    program, *arguments = command.replace('"', "").split()
    assert program == "synthbench"
    done = run(folder, *arguments)
    assert "ALiBi" in done
    if arguments[0] == "run":
        (records,) = folder.glob("results/smoke/*/records.jsonl")
        lines = records.read_text().splitlines()
        assert len(lines) == 8  # two variants, two frameworks, forward and train step
        assert all('"outcome":"ok"' in line for line in lines)


def test_it_is_listed_with_its_equation(folder: Path) -> None:
    listed = run(folder, "list", "variants", "--plugin", "my_components")
    assert "S = -slope |l - m|" in listed


def run(folder: Path, *arguments: str) -> str:
    """What `synthbench` prints in a folder."""
    done = subprocess.run(
        [sys.executable, "-m", "synthbench", *arguments],
        cwd=folder, env=clean_environment(),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wrong(**changes: Any) -> Component:
    """The component above, with something else in place of a part."""
    cls = type("Wrong", (Scored,), {"__module__": "my_components", **changes})
    component: Component = cls()
    return component


def apply(component: Component, framework: str = "torch", form: str = "reference") -> Any:
    mixture = Attention((component,))
    parameters = synthbench.initialize(mixture, d_model=16, **SIZES)
    return synthbench.apply(mixture, parameters, X, framework=framework, form=form, **SIZES)


def answer(value: Any) -> Any:
    """A method that returns a function that returns `value`."""
    return lambda self, sizes: lambda *inputs: value


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"torch": answer(X)}, r"scored: torch\(\) gives logits of shape \(2, 9, 16\); "
         r"expected \[B or 1, H, L, L\] = \[2 or 1, 4, 9, 9\]"),
        ({"torch": answer(None)}, r"scored: torch\(\) gives logits of a NoneType, None; expected"),
        ({"torch": lambda self, sizes: 3}, r"Wrong\.torch\(\) returns 3; return a function"),
        ({"torch": lambda self, sizes: None}, r"Wrong\.torch\(\) returns None; return a function"),
        ({"torch": lambda self, sizes: 1 / 0}, r"Wrong\.torch\(\) of my_components failed: ZeroDi"),
        ({"torch": Component.torch}, r"scored has no torch\(\); it cannot run in PyTorch"),
        ({"parameters": lambda self, sizes: {"query": Parameter((3,), synthbench.Normal(1.0))}},
         r"declares 'query'; start the name with the component's, like 'scored\.query'"),
        ({"parameters": lambda self, sizes: [3]}, r"Wrong\.parameters\(\) returns \[3\]; return"),
        ({"check": lambda self, sizes, siblings: 1 / 0}, r"Wrong\.check\(\) of my_components fail"),
    ],
)  # fmt: skip
def test_a_wrong_component_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(synthbench.SynthbenchError, match=message):
        apply(wrong(**changes))


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": answer(X)}, r"{0}_features\(\) gives array.*; return the two arrays"),
        ({"features": answer((X, X))}, r"{0}_features\(\) gives query features of shape .*H, L, f"),
        ({"features": Component.torch_features, "rows": answer(X)},
         r"{0}_rows\(\) gives logits of shape .*expected \[B or 1, len\(heads\), len\(queries\), "),
    ],
)  # fmt: skip
def test_a_wrong_optional_step_is_named(
    framework: str, changes: dict[str, Any], message: str
) -> None:
    component = wrong(**{f"{framework}_{name}": value for name, value in changes.items()})
    with (
        force_long_kernels(),
        pytest.raises(synthbench.SynthbenchError, match=message.format(framework)),
    ):
        apply(component, framework, "fused")


def test_a_wrong_reference_or_count_is_named() -> None:
    with pytest.raises(synthbench.ShapeError, match=r"scored: reference\(\) gives logits of shape"):
        apply(wrong(reference=lambda self, p, x, sizes, **masks: x), "numpy")
    with pytest.raises(UnsupportedError, match="gives no NumPy reference"):
        apply(wrong(reference=Component.reference), "numpy")
    countless = wrong(flops=lambda self, sizes, **options: "many")
    mixture = Attention((countless,))
    with pytest.raises(synthbench.SynthbenchError, match=r"Wrong\.flops\(\) returns 'many'"):
        synthbench.cost(mixture, batch=1, seq_len=9, d_model=16, **SIZES)
    biased = wrong(biases=lambda self, sizes: {"scored.value": (4,)})
    with pytest.raises(synthbench.SynthbenchError, match=r"biases\(\) names 'scored.value', which"):
        Attention((biased,), bias=True).parameters(Sizes.of(d_model=16, **SIZES))
    for given in (None, ["scored.value"]):
        biased = wrong(biases=lambda self, sizes, given=given: given)
        with pytest.raises(synthbench.SynthbenchError, match=r"biases\(\) returns .* a dict"):
            Attention((biased,), bias=True).parameters(Sizes.of(d_model=16, **SIZES))


def test_one_framework_is_enough() -> None:
    class TorchOnly(Scored):
        name = "torch_only"
        jax = Component.jax

        def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
            return {}

        def torch(self, sizes: Sizes) -> Any:
            return lambda p, x, padding_mask, causal: x.new_zeros(1, sizes.heads, 9, 9)

        def torch_features(self, sizes: Sizes) -> Any:
            return None

        def reference(self, p: Any, x: Any, sizes: Sizes, **masks: Any) -> Any:
            return np.zeros((1, sizes.heads, 9, 9))

    synthbench.register(TorchOnly)
    parameters = synthbench.initialize("torch_only+V", d_model=16, **SIZES)
    y = synthbench.apply("torch_only+V", parameters, X, framework="torch", **SIZES)
    want = synthbench.apply("torch_only+V", parameters, X, framework="numpy", **SIZES)
    np.testing.assert_allclose(y, want, atol=1e-5)
    with pytest.raises(UnsupportedError, match=r"torch_only has no jax\(\); it cannot run in JAX"):
        synthbench.apply("torch_only+V", parameters, X, framework="jax", **SIZES)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "value"}, "component name 'value' is the name of a parameter of every mixture"),
        ({"name": "linformer"}, "component name 'linformer' is taken by .*Linformer"),
        ({"label": "V"}, r"component label 'V' is taken by .*DotProduct"),
        ({"torch": Component.torch, "jax": Component.jax}, r"has neither torch\(\) nor jax\(\)"),
        ({"parameters": Component.parameters}, r"no parameters\(\); return {} if"),
    ],
)
def test_a_class_that_cannot_be_a_component_is_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(synthbench.SynthbenchError, match=message):
        synthbench.register(type(wrong(**{"name": "wrong", **changes})))
    assert catalog.plugins() == {}


@pytest.mark.parametrize("option", ["bias", "mixing"])
def test_an_option_of_the_mixture_is_none_of_a_component(option: str) -> None:
    """In notation it would be the mixture's."""
    own = {"__module__": __name__, "__annotations__": {option: "bool"}, option: False}
    cls: Any = dataclass(frozen=True)(type("Wrong", (Scored,), own))
    message = rf"Wrong\.{option} has the name of an option of every mixture; give it another name"
    with pytest.raises(synthbench.SynthbenchError, match=message):
        synthbench.register(cls)
    assert catalog.plugins() == {}
