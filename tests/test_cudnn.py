"""cuDNN's attention in JAX: when it is asked, and what it is given; here XLA computes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from synthbench.backends.jax import placement, private_api
from synthbench.backends.jax.mixers import attention, cudnn, fused_attention
from synthbench.backends.jax.mixers.terms import Bias, Features
from synthbench.backends.jax.precision import full_precision
from synthbench.kernel import Kernel
from synthbench.mixers.base import Array
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.start_values import start_values

SIZES = Sizes.of(d_model=4, heads=2, max_len=6)
B, L = 3, 6
X = np.random.default_rng(0).standard_normal((B, L, 4))


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    with full_precision("float64"):
        yield


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an H100 with a cuDNN that has everything."""
    set_gpu(monkeypatch, (9, 0), 91900)


def set_gpu(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], version: int | None
) -> None:
    for module in (cudnn, fused_attention):
        monkeypatch.setattr(module, "platform", lambda: "cuda")
    monkeypatch.setattr(cudnn, "compute_capability", lambda: capability)
    monkeypatch.setattr(cudnn, "cudnn_version", lambda: version)


def paths(
    features: int = 64, channels: int = 64, dtype: Any = jnp.bfloat16, mask: Any = None,
    tables: int = 0, table_batch: int = 1, length: int = 2,
) -> tuple[list[str], list[str]]:  # fmt: skip
    pair = Features(jnp.zeros((1, 1, length, features)), jnp.zeros((1, 1, length, features)))
    table = Bias(jnp.zeros((table_batch, 1, length, length)), None)
    value = jnp.zeros((1, length, 1, channels), dtype)
    return cudnn.paths((pair, *[table] * tables), value, mask)


Paths = tuple[list[str], list[str]]  # to be used without a measurement, to be measured
NONE: Paths = ([], [])
ONLY: Paths = ([cudnn.ONE_SIZE], [])
BOTH: Paths = ([cudnn.ONE_SIZE], [cudnn.UNPADDED])
TABLE: Paths = ([], [cudnn.WITH_TABLE])


def test_on_a_cpu_it_is_not_asked() -> None:
    assert paths() == NONE


@pytest.mark.usefixtures("hopper")
def test_when_it_is_asked() -> None:
    assert paths() == paths(dtype=jnp.float16) == paths(128, 121) == ONLY
    assert paths(121, 1) == paths(1, 128) == BOTH
    assert paths(129, 129) == paths(256, 250) == ([], [cudnn.ONE_SIZE])
    assert paths(256, 64) == ([], [cudnn.ONE_SIZE, cudnn.UNPADDED])
    for other in (
        paths(dtype=jnp.float32), paths(257, 8), paths(8, 257), paths(mask=jnp.ones((1, 2), bool))
    ):  # fmt: skip
        assert other == NONE
    assert paths(tables=1) == paths(tables=2) == paths(72, 64, tables=1) == TABLE
    assert paths(tables=1, length=3) == paths(tables=1, table_batch=2) == NONE


@pytest.mark.usefixtures("hopper")
def test_other_logits_are_not_for_it() -> None:
    value = jnp.zeros((1, 2, 1, 64), jnp.bfloat16)
    pair = Features(jnp.zeros((1, 1, 2, 64)), jnp.zeros((1, 1, 2, 64)))
    assert cudnn.paths((Bias(jnp.zeros((1, 1, 2, 2)), None),), value, None) == NONE
    assert cudnn.paths((pair, pair), value, None) == NONE


@pytest.mark.parametrize(
    ("capability", "version", "equal", "unequal", "many"),
    [
        ((7, 5), 91900, NONE, NONE, NONE),
        ((8, 0), 91900, ONLY, ONLY, NONE),
        ((9, 0), 90999, ONLY, ONLY, ([], [cudnn.ONE_SIZE])),
        ((9, 0), 91000, ONLY, BOTH, ([], [cudnn.ONE_SIZE])),
        ((9, 0), 0, ONLY, ONLY, ([], [cudnn.ONE_SIZE])),
        ((9, 0), None, NONE, NONE, NONE),
        ((12, 0), 91900, ONLY, BOTH, ([], [cudnn.ONE_SIZE])),
    ],
)
def test_what_a_gpu_and_a_version_have(
    capability: tuple[int, int], version: int | None, equal: Any, unequal: Any, many: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    set_gpu(monkeypatch, capability, version)
    assert (paths(), paths(96, 64), paths(256, 256)) == (equal, unequal, many)


@pytest.mark.usefixtures("hopper")
def test_values_of_their_own_size_need_a_function_that_jax_does_not_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(f"{private_api.CUDNN}.dot_product_attention")
    assert not private_api.has_cudnn_attention()
    assert paths(96, 64) == ONLY


def test_the_version_of_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> int:
        raise RuntimeError("cuDNN is not detected.")

    name = f"{private_api.CUDNN}.check_cudnn_version"
    for found, want in ((lambda: 91900, 91900), (missing, None)):
        monkeypatch.setattr(name, found)
        assert private_api.cudnn_version() == want
    monkeypatch.delattr(name)
    assert private_api.cudnn_version() == 0


def test_the_compute_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    class Device:
        compute_capability = "9.0"

    assert placement.compute_capability() == (0, 0)
    monkeypatch.setattr(jax, "devices", lambda platform=None: [Device()])
    assert placement.compute_capability() == (9, 0)


def start_of(variant: str) -> dict[str, Array]:
    noise = np.random.default_rng(1)
    return {
        name: value + 0.3 * noise.standard_normal(value.shape)
        for name, value in start_values(parse(variant).parameters(SIZES), seed=4).items()
    }


@pytest.fixture
def by_xla(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """XLA in place of cuDNN; the options of each call of jax.nn's function."""
    made: list[dict[str, Any]] = []
    own = jax.nn.dot_product_attention

    def called(query: Any, key: Any, value: Any, bias: Any = None, **options: Any) -> Any:
        made.append(options | {"shapes": [query.shape, key.shape, value.shape]})
        return own(query, key, value, bias, **options | {"implementation": "xla"})

    def unequal(query: Any, key: Any, value: Any, *, causal: bool) -> Any:
        made.append({"shapes": [query.shape, key.shape, value.shape]})
        features = query.shape[-1] - value.shape[-1]
        wider = jnp.pad(value, ((0, 0),) * 3 + ((0, features),))
        heads = own(query, key, wider, scale=1.0, is_causal=causal)
        return heads[..., : value.shape[-1]]

    monkeypatch.setattr(jax.nn, "dot_product_attention", called)
    monkeypatch.setattr(cudnn, "cudnn_attention", unequal)
    return made


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("variant", "path", "sizes"),
    [
        ("FR(rank=3)+V", cudnn.ONE_SIZE, (8, 8)),
        ("FR(rank=9)+V", cudnn.UNPADDED, (16, 8)),
        ("R+V", cudnn.WITH_TABLE, (8, 8)),
        ("R+D", cudnn.WITH_TABLE, (8, 8)),
        ("(Fix+R+V)(mixing=sum)", cudnn.WITH_TABLE, (8, 8)),
    ],
)
def test_outputs_and_gradients_are_those_of_the_reference_form(
    variant: str, path: str, sizes: tuple[int, int], causal: bool, by_xla: list[dict[str, Any]]
) -> None:
    """Heads third, sizes that are multiples of 8, scale 1; shorter than max_len too."""
    mixer: Any = parse(variant)
    p = {name: jnp.asarray(value) for name, value in start_of(variant).items()}
    length = L - 2 if causal else L
    x = jnp.asarray(X[:, :length])

    def fused(p: Any) -> Any:
        return fused_attention.fused(mixer, p, x, None, causal, Kernel(path))

    def plain(p: Any) -> Any:
        return attention.reference(mixer, p, x, None, causal)

    def run(form: Any) -> Any:
        return jax.jit(lambda p: (form(p), jax.grad(lambda p: jnp.square(form(p)).sum())(p)))(p)

    (got, gradients), (want, expected) = run(fused), run(plain)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)  # softmax in float32
    for name, gradient in expected.items():
        np.testing.assert_allclose(gradients[name], gradient, rtol=1e-4, atol=1e-5, err_msg=name)
    features, channels = ((B, length, 2, size) for size in sizes)
    assert by_xla and all(c["shapes"] == [features, features, channels] for c in by_xla)


def test_the_call_that_jax_is_asked_for(by_xla: list[dict[str, Any]]) -> None:
    mixer: Any = parse("V")
    p = {name: jnp.asarray(value) for name, value in start_of("V").items()}
    for causal in (False, True):
        kernel = Kernel(cudnn.ONE_SIZE)
        fused_attention.fused(mixer, p, jnp.asarray(X), None, causal, kernel)
    found = [(c["implementation"], c["scale"], c["is_causal"]) for c in by_xla]
    assert found == [("cudnn", 1.0, False), ("cudnn", 1.0, True)]


@pytest.mark.parametrize("causal", [False, True])
def test_the_function_behind_jax_nns(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given what jax.nn's function would give it."""
    given: list[dict[str, Any]] = []

    def called(query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
        given.append(options)
        return value

    module = private_api.CUDNN
    monkeypatch.setattr(f"{module}.dot_product_attention", called)
    monkeypatch.setattr("jax._src.nn.functions.cudnn_dot_product_attention", called)
    x = jnp.zeros((1, 2, 1, 8), jnp.bfloat16)
    private_api.cudnn_attention(x, x, x, causal=causal)
    jax.nn.dot_product_attention(x, x, x, scale=1.0, is_causal=causal, implementation="cudnn")
    ours, theirs = given
    assert ours["mask_type"] == theirs["mask_type"] and ours["scale"] == theirs["scale"]
