"""docs/adding_a_mixer.md, run as written: a mixer from outside is as good as a built-in one."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from math import log2
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

import synthbench
from synthbench.backends.base import BACKENDS, Backend, Setting
from synthbench.errors import UnsupportedError
from synthbench.measure import parity
from synthbench.measure.inputs import random_batch
from synthbench.mixers import catalog
from synthbench.mixers.base import Array, Mixer, Parameter
from synthbench.mixers.notation import canonical, format_mixer, parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.start_values import start_values
from synthbench.run.extensions import load_plugin
from synthbench.suites.cell import Cell
from tests.clean_environment import clean_environment
from tests.documents import blocks

PAGE = "adding_a_mixer.md"
FRAMEWORKS = ("torch", "jax")
NAMES = ("fnet", "spatial_gating")
SIZES: dict[str, Any] = {"heads": 4, "max_len": 12}

pytestmark = pytest.mark.usefixtures("registry")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory that holds my_mixers.py as the document has it."""
    parts = [block for block in blocks(PAGE, "python") if block.startswith("# my_mixers.py")]
    (tmp_path / "my_mixers.py").write_text("\n\n".join(parts), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_mixers", raising=False)
    importlib.invalidate_caches()
    return tmp_path


@pytest.fixture
def mixers(folder: Path) -> dict[str, type[Mixer]]:
    """The document's mixers, loaded as --plugin loads them."""
    return {cls.name: cls for cls in load_plugin("my_mixers")}


def test_the_plugin_option_registers_every_class(mixers: dict[str, type[Mixer]]) -> None:
    assert tuple(mixers) == NAMES
    assert catalog.plugins() == mixers
    assert canonical("fnet") == canonical("FNet") == "FNet"
    with pytest.raises(synthbench.SynthbenchError, match=r"'fent' not known.*FNet or fnet"):
        parse("fent")


def test_the_notebook_runs_as_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    (notebook,) = [block for block in blocks(PAGE, "python") if "synthbench.register" in block]
    exec(compile(notebook, "notebook", "exec"), {})
    error, cost = capsys.readouterr().out.splitlines()
    assert float(error) < 1e-3
    assert cost.startswith("Cost(parameters=0, constants=0, flops=")
    assert list(catalog.plugins()) == ["fnet"]


def test_a_class_edited_in_a_notebook_takes_the_place_of_the_old_one() -> None:
    def cell(rank: int) -> type[Mixer]:
        class Mine(Mixer):
            name = "mine"

            def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
                return {"weight": Parameter((rank,), synthbench.Normal(1.0))}

            def torch(self, sizes: Sizes) -> Any:
                return None

        return Mine

    for rank in (3, 4):
        synthbench.register(cell(rank))
        assert synthbench.cost("mine", batch=1, seq_len=1, d_model=4, **SIZES).parameters == rank


def test_an_installed_package_needs_no_option(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (toml,) = blocks(PAGE, "toml")
    group = catalog.MIXER_REGISTRY.group
    points = tomllib.loads(toml)["project"]["entry-points"][group]
    info = folder / "my_mixers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-mixers\nVersion: 1.0\n")
    lines = [
        f"[{catalog.MIXER_REGISTRY.group}]",
        *(f"{n} = {value}" for n, value in points.items()),
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(catalog.MIXER_REGISTRY, "_entry_points_read", False)
    assert format_mixer(parse("fnet")) == "FNet"
    assert set(NAMES) <= catalog.known().keys()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import absent", "No module named 'absent'"),
        ("", "has no attribute 'Wrong'"),
        ("Wrong = 3", "takes a subclass of synthbench.Mixer, got 3"),
    ],
)
def test_an_installed_package_that_fails_is_named_each_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch, content: str, said: str
) -> None:
    info = folder / "others-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    points = f"[{catalog.MIXER_REGISTRY.group}]\nwrong = others_mixers:Wrong\n"
    (info / "entry_points.txt").write_text(points)
    (folder / "others_mixers.py").write_text(content)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(catalog.MIXER_REGISTRY, "_entry_points_read", False)
    for _ in range(2):
        monkeypatch.delitem(sys.modules, "others_mixers", raising=False)
        assert parse("V").name == "attention"  # what is built in asks no package
        with pytest.raises(synthbench.SynthbenchError, match=said) as caught:
            parse("others")
        assert "entry point 'wrong' = 'others_mixers:Wrong'" in str(caught.value)
        assert "fix or uninstall others" in str(caught.value)


def test_an_installed_package_that_fails_blocks_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what the user has registered nor what another package offers."""
    info = folder / "several-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: several\nVersion: 1.0\n")
    points = "broken = broken_mixers:Broken\nsound = sound_mixers:Sound\n"
    (info / "entry_points.txt").write_text(f"[{catalog.MIXER_REGISTRY.group}]\n{points}")
    (folder / "broken_mixers.py").write_text("1 / 0")
    (folder / "sound_mixers.py").write_text(
        "import synthbench\n"
        "class Sound(synthbench.Mixer):\n"
        "    name = 'sound'\n"
        "    def parameters(self, sizes): return {}\n"
        "    def torch(self, sizes): return lambda p, x, padding_mask, causal: x\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(catalog.MIXER_REGISTRY, "_entry_points_read", False)
    synthbench.register(Whole)
    assert parse("whole").name == "whole"
    assert "broken_mixers" not in sys.modules and "sound_mixers" not in sys.modules
    assert parse("sound").name == "sound"
    for _ in range(2):
        with pytest.raises(synthbench.SynthbenchError, match="entry point 'broken'"):
            parse("absent")
        assert parse("sound").name == "sound"


@pytest.mark.parametrize("name", NAMES)
def test_the_frameworks_compute_what_numpy_computes(
    mixers: dict[str, type[Mixer]], name: str
) -> None:
    for dtype, tolerance in (("float64", 1e-10), ("float32", 2e-5)):
        torch, jax = (parity.collect(framework, name, dtype) for framework in FRAMEWORKS)
        assert len(torch) == (4 if name == "fnet" else 8)  # fnet is never causal
        for case in torch:
            for got in (torch[case], jax[case]):
                assert parity.relative_error(got["forward"], got["reference"]) <= tolerance
            ours, theirs = torch[case]["gradients"], jax[case]["gradients"]
            assert parity.gradient_difference(ours, theirs) <= tolerance


@pytest.mark.long_but("*-mixer-*")
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("kind", ["mixer", "encoder"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_cell_of_it_passes_the_check_before_timing(
    mixers: dict[str, type[Mixer]], framework: str, kind: str, name: str, dtype: str
) -> None:
    stack = {} if kind == "mixer" else {"feed_forward": 8, "vocabulary": 9}
    cell = Cell.from_flat(**{
            "variant": canonical(name), "framework": framework, "mode": "train", "model": kind,
            "seq_len": 8, "batch": 2, "d_model": 16, "heads": 4, "max_len": 8, "dtype": dtype,
            "compile": "eager" if framework == "torch" else "compiled", **stack,
        }
    )  # fmt: skip
    checked = parity.check_cell(backend_of(framework), cell)
    assert checked.against == "numpy"
    assert checked.passed, checked


@pytest.mark.parametrize("framework", ["numpy", *FRAMEWORKS])
@pytest.mark.parametrize("name", NAMES)
def test_padding_and_causal_hide_what_they_should(
    mixers: dict[str, type[Mixer]], framework: str, name: str
) -> None:
    parameters = synthbench.initialize(name, d_model=16, **SIZES)
    x = np.random.default_rng(0).standard_normal((2, 9, 16))
    mask = np.ones((2, 9), dtype=bool)
    mask[:, 6:] = False
    changed = np.where(mask[..., None], x, np.nan)

    def first(x: Array, **masks: Any) -> Array:
        y = synthbench.apply(
            name, parameters, x, framework=framework, dtype="float64", **SIZES, **masks
        )
        return y[:, :6]

    np.testing.assert_allclose(first(x, padding_mask=mask), first(changed, padding_mask=mask))
    if name == "fnet":
        with pytest.raises(UnsupportedError, match="fnet cannot be causal"):
            first(x, causal=True)
    else:
        changed = np.where(mask[..., None], x, 1e6)
        np.testing.assert_array_equal(first(x, causal=True), first(changed, causal=True))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_formula_stands_beside_what_is_traced(
    mixers: dict[str, type[Mixer]], framework: str
) -> None:
    sizes = Sizes.of(d_model=16, **SIZES)
    setting = Setting(compile="eager" if framework == "torch" else "compiled")
    traced = {}
    for name in NAMES:
        model = Model.of("mixer", parse(name), sizes)
        batch = random_batch(model, batch=3, seq_len=9)
        start = start_values(model.parameters())
        step = backend_of(framework).build(model, start, setting, "forward", batch)
        traced[name] = step.traced_flops()
    formulas = {n: synthbench.cost(n, batch=3, seq_len=9, d_model=16, **SIZES).flops for n in NAMES}
    assert traced["spatial_gating"].flops == formulas["spatial_gating"] == 2 * 3 * 9 * 9 * 16
    assert traced["spatial_gating"].uncounted == {}
    assert formulas["fnet"] == round(5 * 3 * 9 * 16 * log2(9 * 16))
    assert traced["fnet"].flops == 0
    assert any("fft" in operation for operation in traced["fnet"].uncounted)


@pytest.mark.long_but("synthbench verify*")
@pytest.mark.parametrize("command", [c for c in "".join(blocks(PAGE, "bash")).splitlines() if c])
def test_the_commands_run_as_written(folder: Path, command: str) -> None:
    program, *arguments = command.replace('"', "").split()
    assert program == "synthbench"
    done = subprocess.run(
        [sys.executable, "-m", "synthbench", *arguments],
        cwd=folder, env=clean_environment(),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FNet" in done.stdout
    if arguments[0] == "run":
        (records,) = folder.glob("results/smoke/*/records.jsonl")
        lines = records.read_text().splitlines()
        assert len(lines) == 8  # two variants, two frameworks, forward and train step
        assert all('"outcome":"ok"' in line for line in lines)


class Whole(Mixer):
    """A mixer with everything that must be there; each mistake below takes something away."""

    name: ClassVar[str] = "whole"

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return {"weight": Parameter((sizes.max_len, sizes.max_len), synthbench.Normal(1.0))}

    def torch(self, sizes: Sizes) -> Any:
        import torch

        module = torch.nn.Module()
        module.weight = torch.nn.Parameter(torch.empty(sizes.max_len + 1, sizes.max_len))
        return module

    def jax(self, sizes: Sizes) -> Any:
        from flax import nnx
        from jax import numpy as jnp

        class Module(nnx.Module):
            def __init__(self) -> None:
                self.weights = nnx.Param(jnp.empty((sizes.max_len, sizes.max_len)))

        return Module()


@pytest.mark.parametrize(
    ("framework", "held"),
    [
        ("torch", r"declared as \(12, 12\), got \(13, 12\)"),
        ("jax", r"declared as \(12, 12\), got none"),
    ],
)
def test_a_module_that_holds_something_else_is_named(framework: str, held: str) -> None:
    synthbench.register(Whole)
    parameters = synthbench.initialize("whole", d_model=16, **SIZES)
    message = rf"the {framework} module: parameter 'weight' is {held}"
    with pytest.raises(synthbench.SynthbenchError, match=message):
        synthbench.apply("whole", parameters, np.ones((1, 12, 16)), framework=framework, **SIZES)


def test_a_framework_that_is_left_out_is_named() -> None:
    class TorchOnly(Whole):
        name = "torch_only"
        jax = Mixer.jax

    synthbench.register(TorchOnly)
    parameters = synthbench.initialize("torch_only", d_model=16, **SIZES)
    x = np.ones((1, 12, 16))
    with pytest.raises(UnsupportedError, match=r"torch_only has no jax\(\); it cannot run in JAX"):
        synthbench.apply("torch_only", parameters, x, framework="jax", **SIZES)
    with pytest.raises(UnsupportedError, match="torch_only gives no NumPy reference"):
        synthbench.apply("torch_only", parameters, x, framework="numpy", **SIZES)


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no name": ({"name": None}, r"Wrong\.name is None; give it a lower-case name like 'fnet'"),
    "a name that is no word": ({"name": "My Mixer"}, r"Wrong\.name is 'My Mixer'"),
    "a name that is taken": ({"name": "linformer"}, r"'linformer' is taken by .*Linformer"),
    "a label that is no word": ({"label": "My Mixer"}, r"Wrong\.label is 'My Mixer'"),
    "a label that is taken": ({"label": "V"}, r"label 'V' is taken by .*DotProduct"),
    "a name for a label": ({"label": "dense"}, r"label 'dense' is taken by .*Dense"),
    "an alias for a label": ({"label": "Linformer"}, r"label 'Linformer' is taken by"),
    "a label that is no text": ({"label": 3}, r"Wrong\.label is 3; give it a label"),
    "parameters that are no method": ({"parameters": {}}, r"Wrong\.parameters is not a method"),
    "torch is not a method": ({"torch": 3}, r"Wrong\.torch is not a method; write def torch"),
    "fields without @dataclass": (
        {"rank": 8, "__annotations__": {"rank": "int"}},
        r"has fields \(rank\) and is not a dataclass; write @dataclass\(frozen=True\)",
    ),
    "no parameters": ({"parameters": Mixer.parameters}, r"no parameters\(\); return {} if"),
    "no framework": ({"torch": Mixer.torch, "jax": Mixer.jax}, r"neither torch\(\) nor jax\(\)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_class_that_cannot_be_a_mixer_is_refused(mistake: str) -> None:
    changes, message = MISTAKES[mistake]
    wrong = type("Wrong", (Whole,), {"name": "wrong", "__module__": __name__, **changes})
    with pytest.raises(synthbench.SynthbenchError, match=message):
        synthbench.register(wrong)
    assert catalog.plugins() == {}


def test_what_is_no_class_is_refused() -> None:
    with pytest.raises(synthbench.SynthbenchError, match=r"of synthbench\.Mixer, .*, got 3"):
        synthbench.register(cast(Any, 3))


class NoMixer:
    name = "no_mixer"


@pytest.mark.parametrize("what", [None, "fnet", Whole(), NoMixer, NoMixer(), int, lambda: 0])
def test_what_is_no_mixer_class_is_refused(what: Any) -> None:
    with pytest.raises(
        synthbench.SynthbenchError, match=r"a subclass of synthbench\.Mixer, .*, got"
    ):
        synthbench.register(what)
    assert catalog.plugins() == {}


def test_a_name_that_is_another_mixers_label_is_refused() -> None:
    synthbench.register(type("First", (Whole,), {"name": "first", "label": "second"}))
    second = type("Second", (Whole,), {"name": "second"})
    with pytest.raises(
        synthbench.SynthbenchError, match=r"mixer name 'second' is taken by .*First"
    ):
        synthbench.register(second)
    third = type("Third", (Whole,), {"name": "first"})
    with pytest.raises(synthbench.SynthbenchError, match=r"'first' is taken by .*First"):
        synthbench.register(third)


PLUGINS = {
    "leaving": ("raise SystemExit", r"'leaving' cannot be imported: SystemExit; it is looked for"),
    "exiting": ("import sys; sys.exit(3)", r"'exiting' cannot be imported: SystemExit: 3"),
    "odd": ("class Odd(BaseException): ...\nraise Odd('why')", r"'odd' cannot .*: Odd: why"),
    "absent": (None, r"'absent' cannot be imported: ModuleNotFoundError"),
    "broken": ("1 / 0", r"'broken' cannot be imported: ZeroDivisionError: division by zero"),
    "empty": ("from synthbench import Mixer", r"'empty' defines no subclass of synthbench.Mixer"),
}


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_that_cannot_be_loaded_is_named(folder: Path, name: str) -> None:
    content, message = PLUGINS[name]
    if content is not None:
        (folder / f"{name}.py").write_text(content)
    with pytest.raises(synthbench.SynthbenchError, match=message):
        load_plugin(name)


def test_ctrl_c_while_a_plugin_is_imported_is_ctrl_c(folder: Path) -> None:
    (folder / "slow.py").write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load_plugin("slow")


def test_a_file_in_place_of_a_module_is_explained() -> None:
    with pytest.raises(synthbench.SynthbenchError, match=r"module name.*write 'my_mixers'"):
        load_plugin("elsewhere/my_mixers.py")


def backend_of(framework: str) -> Backend:
    return cast(Backend, importlib.import_module(BACKENDS[framework]))
