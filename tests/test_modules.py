"""Mixers in a user's own model: docs/using_a_mixer.md as written, and what the modules promise."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

import synthbench
from synthbench import ShapeError, SynthbenchError, UnsupportedError
from synthbench.backends.kernel_record import force_long_kernels, recording_kernels
from synthbench.errors import NotationError
from synthbench.mixers.base import Array, Mixer, Parameter
from synthbench.mixers.sizes import Sizes
from tests.documents import blocks
from tests.test_architecture import python

PAGE = "using_a_mixer.md"
SIZES: dict[str, Any] = {"d_model": 16, "heads": 4, "max_len": 12}
KNOWN: dict[str, Any] = {"heads": 4, "max_len": 12}
X = np.random.default_rng(0).standard_normal((2, 9, 16))
MASK = np.ones((2, 9), dtype=bool)
MASK[1, 5:] = False
TORCH, JAX, CHECKPOINT = blocks(PAGE, "python")
# Parameters and constants, a whole mixer, biases; alpha of heads and of the layer.
VARIANTS = ["V", "Fix+D", "(R+FR+V)(mixing=layer, bias=true)", "linformer(rank=3)", "dynamic_conv"]


@pytest.mark.parametrize("block", [TORCH, JAX], ids=["torch", "jax"])
def test_the_training_loops_run_as_written(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(compile(block, PAGE, "exec"), names)
    first, last = names["losses"][0], np.mean(names["losses"][-5:])
    assert first > 2.5  # 16 tokens: log(16) = 2.77 for a guess
    assert last < 0.75 * first
    assert capsys.readouterr().out.startswith("loss ")


def test_the_checkpoint_moves_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(CHECKPOINT, PAGE, "exec"), {})
    assert float(capsys.readouterr().out.removeprefix("largest difference: ")) < 1e-5


def torch_outputs(module: Any, mask: Array | None = None) -> Array:
    x, seen = torch.from_numpy(X), None if mask is None else torch.from_numpy(mask)
    y: Array = module(x, seen).detach().numpy()
    return y


def nnx_outputs(module: Any, mask: Array | None = None) -> Array:
    forward = nnx.jit(lambda module, x, mask: module(x, mask))
    return np.asarray(forward(module, jnp.asarray(X), mask))


def train_torch(module: Any) -> None:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        module(torch.from_numpy(X), torch.from_numpy(MASK)).square().mean().backward()
        optimizer.step()


def train_nnx(module: Any) -> None:
    for _ in range(3):
        of_loss: Any = nnx.grad(lambda m: jnp.square(m(jnp.asarray(X), MASK)).mean())
        gradients = of_loss(module)
        state = nnx.state(module, nnx.Param)
        nnx.update(module, jax.tree.map(lambda p, g: p - 0.1 * g, state, gradients))


@pytest.mark.long_but("V-*", "dynamic_conv-*")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_checkpoint_gives_the_same_outputs_in_the_other_framework(
    variant: str, causal: bool
) -> None:
    options = {**SIZES, "causal": causal and "linformer" not in variant, "dtype": "float64"}
    with jax.enable_x64(True):
        ours: Any = synthbench.torch_module(variant, seed=0, **options)
        theirs: Any = synthbench.nnx_module(variant, seed=1, **options)
        before = synthbench.parameters_of(ours)
        train_torch(ours)
        trained = synthbench.parameters_of(ours)
        assert any(not np.array_equal(trained[name], before[name]) for name in trained)
        assert all(value.dtype == np.float64 for value in trained.values())
        synthbench.load_parameters(theirs, trained)
        for mask in (None, MASK):
            want = synthbench.apply(
                variant, trained, X, framework="numpy", padding_mask=mask, dtype="float64",
                causal=options["causal"], **KNOWN,
            )  # fmt: skip
            for got in (torch_outputs(ours, mask), nnx_outputs(theirs, mask)):
                np.testing.assert_allclose(got, want, rtol=0, atol=1e-10 * np.abs(want).max())
        if not causal:  # and back
            train_nnx(theirs)
            synthbench.load_parameters(ours, synthbench.parameters_of(theirs))
            np.testing.assert_allclose(torch_outputs(ours), nnx_outputs(theirs), atol=1e-10)


def test_parameters_have_the_declared_names_and_start_values() -> None:
    start = synthbench.initialize("Fix+V", seed=5, **SIZES)
    module = synthbench.torch_module("Fix+V", seed=5, **SIZES)
    other = synthbench.nnx_module("Fix+V", seed=5, **SIZES)
    constants = {"fixed_random.logits"}
    assert set(dict(module.named_parameters())) == set(start) - constants
    assert set(module.state_dict()) == set(start)
    paths = {".".join(map(str, path)) for path, _ in nnx.to_flat_state(nnx.state(other))}
    trained = nnx.to_flat_state(nnx.state(other, nnx.Param))
    assert paths == set(start)
    assert len(trained) == len(start) - 1
    for each in (module, other):
        held = synthbench.parameters_of(each)
        assert held.keys() == start.keys()
        for name, value in start.items():
            np.testing.assert_array_equal(held[name], value)
            assert held[name].dtype == np.float32


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within torch's compiler
@pytest.mark.parametrize("variant", ["V", "R+V", "FD"])
def test_it_works_under_torch_compile(variant: str) -> None:
    module = synthbench.torch_module(variant, dtype=torch.float64, **SIZES)
    compiled: Any = torch.compile(module)
    found = []
    for each in (module, compiled):
        x = torch.from_numpy(X).requires_grad_()
        y = each(x, torch.from_numpy(MASK))
        found.append((y, *torch.autograd.grad(y.square().sum(), [x, *module.parameters()])))
    torch.testing.assert_close(found[0], found[1], rtol=1e-9, atol=1e-9)
    assert synthbench.parameters_of(compiled).keys() == synthbench.parameters_of(module).keys()


def test_a_torch_module_can_be_copied_and_saved() -> None:
    module = synthbench.torch_module("R+V", dtype="float64", causal=True, **SIZES)
    for again in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert again is not module
        np.testing.assert_array_equal(torch_outputs(again), torch_outputs(module))
    other = synthbench.torch_module("R+V", dtype="float64", causal=True, seed=1, **SIZES)
    other.load_state_dict(module.state_dict())
    np.testing.assert_array_equal(torch_outputs(other), torch_outputs(module))


def test_types_and_masks_of_numbers() -> None:
    ours = synthbench.torch_module("V", dtype=torch.bfloat16, device="cpu", **SIZES)
    theirs = synthbench.nnx_module("V", dtype=jnp.bfloat16, **SIZES)
    assert {p.dtype for p in ours.parameters()} == {torch.bfloat16}
    assert all(value.dtype == np.float32 for value in synthbench.parameters_of(theirs).values())
    x = torch.from_numpy(X).bfloat16()
    ones = ours(x, torch.from_numpy(MASK.astype(int)))
    assert torch.equal(ones, ours(x, torch.from_numpy(MASK)))
    y = theirs(jnp.asarray(X, jnp.bfloat16), jnp.asarray(MASK, jnp.int32))
    assert y.dtype == jnp.bfloat16
    difference = ones.float().detach().numpy() - np.asarray(y, np.float32)
    assert np.abs(difference).max() < 0.05


class Scaled(Mixer):
    """Its modules are its own; causal or not is told to them."""

    name = "scaled"

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return {"weight": Parameter((sizes.d_model,), synthbench.Normal(1.0))}

    def torch(self, sizes: Sizes) -> Any:
        class Module(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(torch.empty(sizes.d_model))

            def forward(self, x: Any, padding_mask: Any, causal: bool) -> Any:
                return x * self.weight * (2 if causal else 1)

        return Module()

    def jax(self, sizes: Sizes) -> Any:
        class Module(nnx.Module):
            def __init__(self) -> None:
                self.weight = nnx.Param(jnp.empty(sizes.d_model))

            def __call__(self, x: Any, padding_mask: Any, causal: bool) -> Any:
                return x * self.weight[...] * (2 if causal else 1)

        return Module()


@pytest.mark.usefixtures("registry")
def test_a_plug_ins_own_modules_keep_their_names() -> None:
    synthbench.register(Scaled)
    (weight,) = synthbench.initialize("scaled", **SIZES).values()
    with jax.enable_x64(True):
        ours, theirs = (
            make("scaled", causal=True, dtype="float64", **SIZES)
            for make in (synthbench.torch_module, synthbench.nnx_module)
        )
        assert list(synthbench.parameters_of(ours)) == ["weight"]
        assert list(synthbench.parameters_of(theirs)) == ["weight"]
        for got in (torch_outputs(ours), nnx_outputs(theirs)):
            np.testing.assert_allclose(got, 2 * X * weight, rtol=1e-6)
    with pytest.raises(ShapeError, match="length 13 does not fit max_len 12"):
        ours(torch.zeros(1, 13, 16))


MAKERS = [synthbench.torch_module, synthbench.nnx_module]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"variant": "lin_former"}, "'lin_former' not known"),
        ({"variant": "linformer", "causal": True}, "causal"),
        ({"heads": 3}, "16 is not divisible by heads 3"),
        ({"causal": "no"}, "causal is 'no'; use True or False"),
        ({"form": "fast"}, "form 'fast' not known"),
        ({"dtype": "float16"}, "dtype 'float16' not known"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_a_wrong_argument_is_explained(make: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SynthbenchError, match=message):
        make(**{"variant": "V", **SIZES, **changes})


def test_what_one_framework_cannot_is_explained() -> None:
    with pytest.raises(UnsupportedError, match=r"float64 is switched off in jax; .*enable_x64"):
        synthbench.nnx_module("V", dtype="float64", **SIZES)
    with pytest.raises(NotationError, match="device 'npu' not known; use cpu, cuda, tpu"):
        synthbench.torch_module("V", device="npu", **SIZES)
    with pytest.raises(SynthbenchError, match=r"torch .* has no device 'cuda:7'"):
        synthbench.torch_module("V", device="cuda:7", **SIZES)


@pytest.mark.parametrize("make", MAKERS)
def test_a_wrong_input_is_explained(make: Any) -> None:
    module = make("V", **SIZES)
    array: Any = torch.zeros if make is synthbench.torch_module else jnp.zeros
    for shape, mask, message in (
        ((2, 13, 16), None, "length 13 does not fit max_len 12"),
        ((2, 9, 8), None, r"x has shape \(2, 9, 8\); expected .* with d_model 16"),
        ((9, 16), None, r"x has shape \(9, 16\)"),
        ((2, 9, 16), (2, 8), r"padding_mask has shape \(2, 8\); expected \[B, L\] = \(2, 9\)"),
    ):
        with pytest.raises(ShapeError, match=message):
            module(array(shape), None if mask is None else array(mask))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("variant", ["V", "R+V", "R", "light_conv", "glu"])
def test_an_empty_batch_is_refused_whatever_the_kernel(variant: str, make: Any) -> None:
    """Some kernels would give an empty output, and others fail, as it depends on the machine."""
    array: Any = torch.zeros if make is synthbench.torch_module else jnp.zeros
    with pytest.raises(ShapeError, match=r"x has shape \(0, 9, 16\); expected .*each at least 1"):
        make(variant, **SIZES)(array((0, 9, 16)))


@pytest.mark.parametrize("make", MAKERS)
def test_a_checkpoint_that_does_not_fit_is_explained(make: Any) -> None:
    module = make("V", **SIZES)
    values = synthbench.parameters_of(module)
    wrong: Any
    for wrong, message in (
        ({**values, "value": values["value"][:3]}, r"'value' is declared as \(16, 4, 4\), got \(3"),
        ({**values, "alpha": values["value"]}, r"'alpha' is declared as absent, got \(16, 4, 4\)"),
        ({"value": values["value"]}, "'dot_product.key' is declared as .* got none of that name"),
        ({**values, "value": "much"}, "'value' holds str"),
    ):
        with pytest.raises(SynthbenchError, match=message):
            synthbench.load_parameters(module, wrong)
    for name, value in synthbench.parameters_of(module).items():
        np.testing.assert_array_equal(value, values[name])


@pytest.mark.parametrize("what", [3, {}, None, np.ones(2), synthbench])
def test_what_is_not_a_module_is_refused(what: Any) -> None:
    for function in (synthbench.parameters_of, lambda m: synthbench.load_parameters(m, {})):
        with pytest.raises(NotationError, match=r"takes a module of torch_module or nnx_module"):
            function(what)


def test_apply_names_the_module_to_use_instead() -> None:
    parameters = synthbench.initialize("V", **SIZES)
    tensor = torch.from_numpy(X)
    held = {**parameters, "value": torch.nn.Parameter(torch.from_numpy(parameters["value"]))}
    for given, changes in (
        (tensor, {}),
        (tensor.clone().requires_grad_(), {}),
        (X, {"padding_mask": torch.ones(2, 9)}),
        (X, {"parameters": held}),
    ):
        options: dict[str, Any] = {"parameters": parameters, **KNOWN, **changes}
        with pytest.raises(NotationError, match=r"is a torch tensor; .*synthbench\.torch_module"):
            synthbench.apply("V", x=given, **options)  # type: ignore[arg-type]
    forward = jax.jit(lambda x: synthbench.apply("V", parameters, x, **KNOWN))
    with pytest.raises(NotationError, match=r"x is a traced jax array; .*synthbench\.nnx_module"):
        forward(X)
    y = synthbench.apply("V", parameters, jnp.asarray(X), **KNOWN)  # type: ignore[arg-type]
    np.testing.assert_allclose(y, synthbench.apply("V", parameters, X, **KNOWN), atol=1e-5)


def test_a_framework_that_is_not_installed_is_named() -> None:
    for function, blocked, name in (
        ("torch_module", "torch", "torch"), ("nnx_module", "jax", "jax"),
        ("nnx_module", "flax", "jax"),
    ):  # fmt: skip
        python(
            "import synthbench\n"
            "try:\n"
            f"    synthbench.{function}('V', d_model=8, heads=2, max_len=6)\n"
            "except synthbench.SynthbenchError as error:\n"
            f"    assert \"pip install 'synthbench[{name}]'\" in str(error), error\n"
            "else:\n"
            "    raise AssertionError('it is blocked')\n",
            without=(blocked,),
        )


@pytest.mark.parametrize(
    "variant",
    ["V", "R", "FR+V", "D", "glu", "conv", "linformer(rank=4)", "light_conv", "dynamic_conv"],
)
def test_under_autocast_a_module_is_the_reference_form(variant: str) -> None:
    """The fused forms have backward passes of their own, which see no types of autocast."""
    outputs, gradients = [], []
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 12, 8)).astype("float32"))
    for form in ("auto", "reference"):
        module = synthbench.torch_module(variant, d_model=8, heads=2, max_len=12, form=form)
        with torch.autocast("cpu", dtype=torch.bfloat16), recording_kernels() as kernels:
            y = module(x)
        y.float().square().sum().backward()
        assert not kernels
        outputs.append(y)
        gradients.append([p.grad for p in module.parameters()])
    torch.testing.assert_close(*outputs, rtol=0, atol=0)
    torch.testing.assert_close(*gradients, rtol=0, atol=0)
    assert outputs[0].dtype == torch.bfloat16


def test_an_array_of_numpy_is_an_input_like_any_other() -> None:
    """glu was cut into blocks of queries, and the input that its logits are of was not."""
    x = np.random.default_rng(0).standard_normal((2, 12, 8)).astype("float32")
    fused, plain = (
        synthbench.nnx_module("glu", d_model=8, heads=2, max_len=12, form=form)
        for form in ("fused", "reference")
    )
    with force_long_kernels():
        np.testing.assert_allclose(fused(x), plain(jnp.asarray(x)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("own", "of_input"), [("float32", "bfloat16"), ("bfloat16", "float32")])
@pytest.mark.parametrize("variant", ["glu", "R+V", "light_conv", "FD"])
def test_parameters_and_input_in_jax_may_have_different_types(
    variant: str, own: str, of_input: str
) -> None:
    """As in a model of bfloat16 whose parameters are float32; fused forms expect a single type."""
    x = jnp.asarray(np.random.default_rng(0).standard_normal((2, 12, 8)), of_input)
    values, gradients = [], []
    for form in ("fused", "reference"):
        module = synthbench.nnx_module(
            variant, d_model=8, heads=2, max_len=12, form=form, dtype=own
        )  # fmt: skip
        with force_long_kernels():
            y = module(x)
            found = nnx.grad(lambda module, x: jnp.square(module(x)).sum(), argnums=1)(module, x)
        assert (y.dtype, found.dtype) == (jnp.float32, x.dtype)
        values.append(y)
        gradients.append(found.astype(jnp.float32))
    np.testing.assert_allclose(values[0], values[1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-2, atol=1e-2)
