"""Fused forms in JAX where the numbers are extreme, and the parts of them, without compiling."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from synthbench.backends.jax.mixers import (
    attention,
    blockwise,
    fused_attention,
    head_convolution,
    light_conv,
)
from synthbench.backends.jax.mixers.blocks import FEWEST_QUERIES, Blocks, block_size, sizes
from synthbench.backends.jax.mixers.terms import Bias, Features, Outer
from synthbench.backends.jax.precision import full_precision
from synthbench.backends.kernel_record import REFERENCE_KERNEL, recording_kernels
from synthbench.kernel import Kernel
from synthbench.mixers.base import Array
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.start_values import start_values

SIZES = Sizes.of(d_model=4, heads=2, max_len=6)
L = 5
X = np.random.default_rng(0).standard_normal((3, L, 4))
MASK = np.ones((3, L), dtype=bool)
MASK[0, 0] = MASK[1, 3:] = MASK[2] = False


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    with full_precision("float64"):
        yield


def start_of(variant: str) -> dict[str, Array]:
    noise = np.random.default_rng(1)
    return {
        name: value + 0.3 * noise.standard_normal(value.shape)
        for name, value in start_values(parse(variant).parameters(SIZES), seed=4).items()
    }


def both(
    variant: str, p: dict[str, Array], mask: Array | None, causal: bool, dtype: Any
) -> tuple[Array, Array]:
    """The fused form's outputs, and those of the NumPy reference in float64."""
    mixer: Any = parse(variant)
    own = {name: value.astype(dtype) for name, value in p.items()}
    x = X.astype(dtype)
    given = {name: jnp.asarray(value) for name, value in own.items()}
    own_mask = None if mask is None else jnp.asarray(mask)
    found = fused_attention.kernels(mixer, given, jnp.asarray(x), own_mask, trained=False)
    kernel = next(kernel for kernel in found if kernel.path != REFERENCE_KERNEL)
    got = fused_attention.fused(mixer, given, jnp.asarray(x), own_mask, causal, kernel)
    exact = {name: value.astype(np.float64) for name, value in own.items()}
    want = mixer.reference(exact, x.astype(np.float64), SIZES, padding_mask=mask, causal=causal)
    return np.asarray(got, np.float64), want


@pytest.mark.parametrize("offset", [0, 40, 58, 62, 80, 95, 104, 1e4])
def test_faint_weights_keep_their_digits(offset: float) -> None:
    """A padded key outweighs the others by e^offset, which single precision loses from e^87."""
    p = start_of("R")
    p["random.logits"] *= 0.01
    p["random.logits"][:, :, 0] += offset
    got, want = both("R", p, MASK, False, np.float32)
    np.testing.assert_allclose(got, want, rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("offset", [0, 5, 12, 20, 40])
def test_faint_weights_keep_their_digits_in_half_precision(offset: float) -> None:
    """A padded key outweighs the others by e^offset, which float16 loses from e^10 on."""
    p = start_of("R")
    p["random.logits"] *= 0.01
    p["random.logits"][:, :, 0] += offset
    got, want = both("R", p, MASK, False, np.float16)
    np.testing.assert_allclose(got, want, atol=5e-3)


@pytest.mark.parametrize(
    ("dtype", "offset", "tolerance"),
    [(np.float32, 0, 1e-5), (np.float32, 40, 1e-4), (np.float32, 55, 1e-4), (np.float32, 80, 1e-4),
     (np.float16, 0, 2e-2), (np.float16, 6, 2e-2), (np.float16, 20, 2e-2)],
)  # fmt: skip
def test_gradients_of_faint_weights_are_those_of_the_reference(
    dtype: Any, offset: float, tolerance: float
) -> None:
    """A division by a small sum of weights has its square in the gradient, which may underflow."""
    mixer: Any = parse("R")
    p = start_of("R")
    p["random.logits"] *= 0.01
    p["random.logits"][:, :, 0] += offset
    given = {name: jnp.asarray(value, dtype) for name, value in p.items()}
    x, mask = jnp.asarray(X, dtype), jnp.asarray(MASK)
    found = fused_attention.kernels(mixer, given, x, mask, trained=True)
    kernel = next(kernel for kernel in found if kernel.path != REFERENCE_KERNEL)

    def loss(form: Any, *more: Any) -> Any:
        return lambda p, x: jnp.square(form(mixer, p, x, mask, False, *more)).mean()

    got = jax.grad(loss(fused_attention.fused, kernel), (0, 1))(given, x)
    exact = jax.tree.map(lambda value: value.astype(jnp.float64), (given, x))
    want = jax.grad(loss(attention.reference), (0, 1))(*exact)
    for mine, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        scale = float(jnp.abs(other).max())
        np.testing.assert_allclose(np.asarray(mine, np.float64), other, atol=tolerance * scale)


def test_the_spreads_of_all_terms_add_up() -> None:
    """Two tables, each spread by less than the bound, together by more."""
    p = start_of("(R+Fix)(mixing=sum)")
    for name in ("random.logits", "fixed_random.logits"):
        p[name] *= 0.01
        p[name][:, :, 0] += 50
    got, want = both("(R+Fix)(mixing=sum)", p, MASK, True, np.float32)
    np.testing.assert_allclose(got, want, rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("rank", [1, 3])
def test_the_spread_of_a_pair_counts_both_signs(rank: int) -> None:
    """Products from -49 to 49 are spread by 98, though none is above 60."""
    variant = f"FR(rank={rank})"
    p = start_of(variant)
    p["factorized_random.left"][:] = 7 / rank**0.5
    p["factorized_random.right"][:] = -7 / rank**0.5
    p["factorized_random.right"][:, 0] *= -1
    p["factorized_random.right"][:, 1:] *= np.linspace(0.99, 1, 5)[None, :, None]
    got, want = both(variant, p, MASK, False, np.float32)
    np.testing.assert_allclose(got, want, rtol=3e-5, atol=3e-6)


def test_spread_is_an_upper_bound_that_is_reached() -> None:
    table = np.zeros((1, 2, 6, 6))
    table[0, 1, 2, 3], table[0, 1, 2, 1] = 7, -4
    table[0, :, :, 5] = 1e6  # beyond the length
    table[0, :, 5] = -1e6
    spread = fused_attention.spread
    assert float(spread(Bias(jnp.asarray(table), None), 5)) == 11
    weight = jnp.asarray([1.0, 0.5]).reshape(1, 2, 1, 1)
    assert float(spread(Bias(jnp.asarray(table), weight), 5)) == 5.5
    query, key = np.zeros((1, 1, 5, 2)), np.zeros((1, 1, 5, 2))
    query[0, 0, 1], key[0, 0, 2], key[0, 0, 3] = (3, 4), (6, 8), (-6, -8)
    pair = Features(jnp.asarray(query), jnp.asarray(key))
    assert float(spread(pair, 5)) == pytest.approx(2 * 5 * 10)


@pytest.mark.parametrize("scale", [1e4, -1e4])
@pytest.mark.parametrize("variant", ["V", "R", "FR", "FD", "D+R"])
def test_wide_logits_keep_the_numbers_of_the_reference(variant: str, scale: float) -> None:
    p = {name: value * (scale if "." in name else 1) for name, value in start_of(variant).items()}
    for mask, causal in ((MASK, False), (MASK, True)):
        got, want = both(variant, p, mask, causal, np.float64)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
        assert not got[2].any()


def test_weights_of_all_examples_are_made_once_unless_that_loses_digits() -> None:
    p = start_of("R")
    for mask, kernels in ((None, 1), (MASK, 2)):  # a cond traces both ways
        with recording_kernels() as used:
            both("R", p, mask, False, np.float64)
        assert len(used) == kernels
        assert next(iter(used)) == "one product per head, by blocks of queries"


def with_gradients(convolve: Any, causal: bool, u: Any, kernel: Any, dy: Any) -> Any:
    """A convolution, and its gradients of u and of the kernel."""
    made, pull = jax.vjp(lambda u, kernel: convolve(u, kernel, causal), u, kernel)
    return made, *pull(dy)


@pytest.mark.parametrize(
    ("width", "causal"), [(1, False), (2, False), (2, True), (5, False), (5, True)]
)
def test_convolution_by_head_is_its_definition(
    width: int, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of shifts, banded products, and the gradients of both, in blocks of four outputs."""
    monkeypatch.setattr(head_convolution, "BLOCK", 4)
    H, c, length = 2, 3, 7
    random = np.random.default_rng(width)
    u, dy = random.standard_normal((2, 2, length, H * c))
    before = width - 1 if causal else width // 2
    for by_position in (False, True):
        shape = (2, length, H, width) if by_position else (1, 1, H, width)
        kernel = random.standard_normal(shape)
        y, du, d_kernel = np.zeros_like(u), np.zeros_like(u), np.zeros_like(kernel)
        for b, t, channel, j in np.ndindex(2, length, H * c, width):
            s, h = t - before + j, channel // c
            if 0 <= s < length:
                place = (b, t, h, j) if by_position else (0, 0, h, j)
                y[b, t, channel] += kernel[place] * u[b, s, channel]
                du[b, s, channel] += kernel[place] * dy[b, t, channel]
                d_kernel[place] += u[b, s, channel] * dy[b, t, channel]

        for convolve in light_conv.CONVOLUTIONS.values():
            found = jax.jit(partial(with_gradients, convolve, causal))(u, kernel, dy)
            for got, want in zip(found, (y, du, d_kernel), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


def test_the_widest_shifted_kernel_is_inside() -> None:
    for width, first in ((64, "shifted sums"), (65, "banded products")):
        assert light_conv.kernels(width)[0].path == first


def test_sizes_of_blocks() -> None:
    kernel = Kernel("blocks", logits=1000, queries=100)
    assert FEWEST_QUERIES == {"cpu": 32, "cuda": 128}

    def size(length: int, together: int, kernel: Kernel = kernel) -> int:
        return block_size(length, length, kernel, 32, together)

    assert size(7, 50) == 7
    assert size(50, 50) == 50  # all together
    assert size(20, 50) == 20
    assert size(64, 50) == 32  # a divisor, though 50 are allowed
    assert size(101, 50) == 50  # a prime has none: the most that is allowed
    assert size(10, 0) == 10  # 100 queries of 10 keys
    assert size(200, 0) == 25  # at least 32 are allowed; 25 divides 200
    assert size(31, 0) == 31
    capped = Kernel("blocks", logits=10**9, queries=16)
    assert size(64, 0, capped) == 16
    assert size(16, 0, capped) == 16


def test_a_block_on_a_gpu_counts_the_logits_of_all_examples_and_heads() -> None:
    """Enough to fill it, however long the input is; few iterations, which each add to all."""
    first, *others = (Kernel("blocks", **size) for size in sizes("cuda", table=False))  # type: ignore[arg-type]
    fewest = FEWEST_QUERIES["cuda"]
    for length, batch, queries in ((512, 4, 512), (8192, 4, 512), (32768, 1, 512), (32768, 4, 128)):
        logits = batch * 8 * length
        assert block_size(length, logits, first, fewest) == queries
        assert all(block_size(length, logits, other, fewest) >= 128 for other in others)


@pytest.mark.parametrize(
    ("batch", "heads", "length", "iterations"),
    [(1, 1, 2048, (1, 1, 1)), (1, 1, 2049, (1, 1, 3)), (2, 2, 1024, (1, 1, 1)),
     (2, 3, 1024, (2, 3, 1))],
)  # fmt: skip
def test_up_to_four_million_logits_without_gradients_are_one_iteration(
    batch: int, heads: int, length: int, iterations: tuple[int, int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    counts: list[tuple[int, int, int]] = []
    forward = blockwise._forward
    kernel = Kernel("blocks", logits=2**21, queries=1024)

    def counted(blocks: Blocks, *rest: Any) -> Any:
        counts.append(blocks.counts)
        return forward(blocks, *rest)

    monkeypatch.setattr(blockwise, "_forward", counted)

    def attend(x: jax.Array) -> jax.Array:
        return blockwise.attend((Features(x, x),), x, None, causal=False, kernel=kernel)

    jax.eval_shape(attend, jax.ShapeDtypeStruct((batch, heads, length, 4), jnp.float32))
    assert counts == [iterations]


@pytest.mark.parametrize(
    ("examples_apart", "heads_apart"), [(a, b) for a in (0, 1) for b in (0, 1)]
)
def test_the_loop_takes_every_query_once(examples_apart: bool, heads_apart: bool) -> None:
    blocks = Blocks(3, 2, 7, 3, bool(examples_apart), bool(heads_apart), causal=False)
    batch, heads, queries = blocks.counts
    assert (batch, heads, queries) == (3 if examples_apart else 1, 2 if heads_apart else 1, 3)
    taken = jnp.zeros((3, 2, 9, 1))
    for n in range(batch * heads * queries):
        place = blocks.place(jnp.asarray(n))
        part = blocks.part_of(taken, place, True)
        assert part.shape == (1 if examples_apart else 3, 1 if heads_apart else 2, 3, 1)
        taken = blocks.add(taken, part * 0 + 1, place, True)
        # What all examples share is never cut by example; the axis of keys is never cut.
        assert blocks.part_of(jnp.zeros((1, 1, 9, 2)), place, False).shape == (1, 1, 9, 2)
    assert (taken == 1).all()


@pytest.mark.parametrize("keys_first", [False, True])
def test_each_term_gives_its_logits_in_both_orders(keys_first: bool) -> None:
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, 2, 3, 2)), random.standard_normal((2, 2, 3, 4))
    outer = np.stack([a[..., j // 4] * b[..., j % 4] for j in range(7)], axis=-1)
    got = Outer(jnp.asarray(a), jnp.asarray(b)).logits(7, keys_first)
    np.testing.assert_allclose(got, outer.swapaxes(2, 3) if keys_first else outer, rtol=1e-12)
    query, key = random.standard_normal((2, 2, 3, 4)), random.standard_normal((1, 2, 7, 4))
    pair = query @ key.swapaxes(2, 3)
    got = Features(jnp.asarray(query), jnp.asarray(key)).logits(7, keys_first)
    np.testing.assert_allclose(got, pair.swapaxes(2, 3) if keys_first else pair, rtol=1e-12)
    weight = random.standard_normal((1, 2, 1, 1))
    table = random.standard_normal((1, 2, 3, 9))
    rows = (table * weight)[..., :7]
    got = Bias(jnp.asarray(table), jnp.asarray(weight)).logits(7, keys_first)
    np.testing.assert_allclose(got, rows.swapaxes(2, 3) if keys_first else rows, rtol=1e-12)


def test_when_the_reference_form_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_attention, "PLAIN_UP_TO", {"conv": 9})
    monkeypatch.setattr(fused_attention, "PLAIN_TRAINED_ALONE_UP_TO", {"dot_product": 5})

    def chosen(variant: str, length: int) -> tuple[bool, bool]:
        mixer: Any = parse(variant)
        return (
            fused_attention.plain_is_faster(mixer, length, trained=False),
            fused_attention.plain_is_faster(mixer, length, trained=True),
        )

    assert chosen("conv", 9) == (True, True) and chosen("conv", 10) == (False, False)
    assert chosen("V+conv", 9) == (True, True)
    assert chosen("V", 5) == (False, True) and chosen("V", 6) == (False, False)
    assert chosen("R+V", 5) == (False, False)
    monkeypatch.setattr(fused_attention, "platform", lambda: "cuda")
    assert chosen("conv", 1) == chosen("V", 1) == (False, False)


def test_a_train_step_of_a_short_v_is_the_reference_form() -> None:
    mixer: Any = parse("V")
    p = {name: jnp.asarray(value) for name, value in start_of("V").items()}
    run = lambda p: attention.fused(mixer, p, jnp.asarray(X), None, True).sum()  # noqa: E731
    with recording_kernels() as used:
        jax.eval_shape(run, p)
    assert list(used) == ["blocks of queries"]
    with recording_kernels() as used:
        jax.eval_shape(jax.grad(run), p)
    assert "reference form" in used


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("convolution", ["shifted_sums", "banded_products"])
def test_at_length_one_each_example_has_its_own_kernel(convolution: str, causal: bool) -> None:
    """[B,1,H,K] has one position, as the kernel of all examples and positions has."""
    noise = np.random.default_rng(2)
    u, kernel = noise.standard_normal((3, 1, 4)), noise.standard_normal((3, 1, 2, 5))
    at = 4 if causal else 2  # the only position that exists
    want = (u.reshape(3, 1, 2, 2) * kernel[..., at, None]).reshape(u.shape)
    function = partial(getattr(head_convolution, convolution), causal=causal)
    np.testing.assert_allclose(function(u, kernel), want, rtol=1e-12)
    by_u, by_kernel = jax.grad(lambda *both: function(*both).sum(), argnums=(0, 1))(
        jnp.asarray(u), jnp.asarray(kernel)
    )
    np.testing.assert_allclose(by_u, np.repeat(kernel[..., at], 2, -1), rtol=1e-12)
    of_kernel = np.zeros_like(kernel)
    of_kernel[..., at] = u.reshape(3, 1, 2, 2).sum(-1)
    np.testing.assert_allclose(by_kernel, of_kernel, rtol=1e-12)
