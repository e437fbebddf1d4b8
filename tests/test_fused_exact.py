"""Fused forms in PyTorch with extreme numbers: wide logits, faint weights, full padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from synthbench.backends.kernel_record import REFERENCE_KERNEL, recording_kernels
from synthbench.backends.torch import cpu_matmul
from synthbench.backends.torch.mixers import blockwise, flash, fused_attention, head_convolution
from synthbench.backends.torch.mixers.block_logits import Rows, as_they_are
from synthbench.backends.torch.mixers.blocks import BLOCK_SIZES, divide
from synthbench.backends.torch.mixers.numerics import ForwardInputs
from synthbench.backends.torch.private_api import fake_tensors, softmax_backward
from synthbench.kernel import Kernel
from synthbench.mixers.base import Array
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.start_values import start_values
from tests.onednn import by_onednn

SIZES = Sizes.of(d_model=8, heads=2, max_len=12)
B, L = 3, 11
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((B, L, 8))
MASK = np.ones((B, L), dtype=bool)
MASK[0, 7:] = MASK[1, :3] = MASK[2] = False


@pytest.fixture(autouse=True)
def without_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    by_onednn(monkeypatch, False)


def start_of(variant: str, scale: float = 1.0) -> dict[str, Array]:
    """Start values in float64 moved off zero; what makes logits is multiplied by `scale`."""
    noise = np.random.default_rng(1)
    found = {}
    for name, value in start_values(parse(variant).parameters(SIZES), seed=4).items():
        wide = scale if "." in name else 1.0
        found[name] = wide * (value + 0.3 * noise.standard_normal(value.shape))
    return found


def fused(mixer: Any, p: dict[str, Tensor], x: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """The fused form by the kernel that it takes without a measurement."""
    found = fused_attention.kernels(mixer, p, x)
    kernel = next(kernel for kernel in found if kernel.path != REFERENCE_KERNEL)
    return fused_attention.fused(mixer, p, x, mask, causal, kernel)


def both(
    variant: str, p: dict[str, Array], mask: Array | None, causal: bool, dtype: torch.dtype
) -> tuple[Array, Array]:
    """The fused form's outputs, and those of the NumPy reference in float64."""
    mixer: Any = parse(variant)
    tensors = {name: torch.tensor(value, dtype=dtype) for name, value in p.items()}
    x = torch.tensor(X, dtype=dtype)
    own_mask = None if mask is None else torch.tensor(mask)
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    with torch.no_grad():
        got = fused(mixer, tensors, x, own_mask, causal)
    for name, tensor in tensors.items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0, msg=f"{name} changed")
    wide = {name: t.double().numpy() for name, t in tensors.items()}
    want = mixer.reference(wide, x.double().numpy(), SIZES, padding_mask=mask, causal=causal)
    return got.double().numpy(), want


MASKS = [(None, False), (None, True), (MASK, False), (MASK, True)]


@pytest.mark.parametrize("queries", [3, 512])
@pytest.mark.parametrize("scale", [1.0, 1e4, -1e4])
@pytest.mark.parametrize(
    "variant", ["V", "R", "Fix", "FR", "D", "FD", "glu", "conv", "bottleneck_conv", "R+V", "FR+R",
                "D+V", "(R+Fix)(mixing=sum)", "(R+glu)(mixing=sum)", "(conv+FD)(mixing=sum)",
                "(FR+V)(mixing=layer)"]
)  # fmt: skip
def test_wide_logits_keep_the_numbers_of_the_reference(
    variant: str, scale: float, queries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the largest of such logits has a weight: also beside padding and later keys."""
    size = {"queries": queries, "logits": 1 if queries < 9 else 2**18}
    monkeypatch.setitem(BLOCK_SIZES, "cpu", (size,))
    p = start_of(variant, scale)
    for mask, causal in MASKS:
        got, want = both(variant, p, mask, causal, torch.float64)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("offset", [0, 30, 60, 75, 87, 95, 100, 103, 110, 1e4])
def test_faint_weights_keep_their_digits(offset: float, causal: bool) -> None:
    """The padded key outweighs the others by e^offset: single precision loses them from e^87."""
    p = start_of("R")
    p["random.logits"][:, :, 0] += offset
    mask = MASK.copy()
    mask[0, 0] = False
    with recording_kernels() as kernels:
        got, want = both("R", p, mask, causal, torch.float32)
    np.testing.assert_allclose(got, want, rtol=3e-5, atol=3e-6)
    together, apart = offset <= 30, offset >= 75
    assert not (together and "blocks of queries" in kernels)
    assert not apart or "blocks of queries" in kernels


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_padding_as_a_feature_hides_any_logit(
    dtype: torch.dtype, scale: float, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one call of the fused attention a padded key is far below every logit."""
    monkeypatch.setattr(fused_attention, "WIDE", 99)
    p = start_of("FR+V", scale)
    p["alpha"][:] = 0
    with recording_kernels() as kernels:
        got, want = both("FR+V", p, MASK, causal, dtype)
    assert "scaled_dot_product_attention" in kernels
    assert not got[2].any()
    tolerance = 1e-9 if dtype == torch.float64 else 2e-4 if scale == 1.0 else 2e-3
    if dtype == torch.float64 or scale == 1.0:
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
        return
    # Rounding decides between two logits near 1e8; what is padded still has no weight.
    hidden = np.where(MASK[..., None], X, 50.0)
    tensors = {name: torch.tensor(value, dtype=dtype) for name, value in p.items()}
    mixer: Any = parse("FR+V")
    with torch.no_grad():
        y, z = (
            fused(mixer, tensors, torch.tensor(x, dtype=dtype), torch.tensor(MASK), causal)
            for x in (X, hidden)
        )
    torch.testing.assert_close(y[torch.tensor(MASK)], z[torch.tensor(MASK)])


@pytest.mark.parametrize("variant", ["R", "(R+Fix)(mixing=sum)", "(R+glu)(mixing=sum)"])
def test_a_table_of_logits_is_read_only(variant: str) -> None:
    """Its rows are masked and added up in other memory, also where gradients are needed."""
    mixer: Any = parse(variant)
    p = {name: torch.tensor(value, requires_grad=True) for name, value in start_of(variant).items()}
    for mask, causal in MASKS:
        before = {name: tensor.detach().clone() for name, tensor in p.items()}
        own_mask = None if mask is None else torch.tensor(mask)
        y = fused(mixer, p, torch.tensor(X), own_mask, causal)
        want = mixer.reference(
            {name: value.numpy() for name, value in before.items()}, X, SIZES,
            padding_mask=mask, causal=causal,
        )  # fmt: skip
        np.testing.assert_allclose(y.detach().numpy(), want, rtol=1e-9, atol=1e-9)
        for name, tensor in p.items():
            torch.testing.assert_close(tensor.detach(), before[name], rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_padding_as_a_feature_is_finite_in_every_type(dtype: torch.dtype) -> None:
    """float16 ends at 65504: minus infinity would make the gradients of a padded row NaN."""
    mixer: Any = parse("V")
    p = {
        name: torch.tensor(value, dtype=dtype, requires_grad=True)
        for name, value in start_of("V").items()
    }
    with recording_kernels() as kernels:
        y = fused(mixer, p, torch.tensor(X, dtype=dtype), torch.tensor(MASK), True)
    assert "scaled_dot_product_attention" in kernels
    loss: Any = y.float().square().sum()
    loss.backward()
    assert y.isfinite().all() and not y[2].any()
    for name, tensor in p.items():
        assert tensor.grad is not None and tensor.grad.isfinite().all(), name


@pytest.mark.parametrize("length", [1, 2, 5, 6, 7])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "logits"), [(1, 1), (3, 20), (3, 50), (5, 10**6), (9, 10**6)])
def test_blocks_take_every_query_once(length: int, causal: bool, queries: int, logits: int) -> None:
    kernel = Kernel("blocks", queries=queries, logits=logits)
    heads, batch = 3, 4
    taken = np.zeros((heads, batch, length), dtype=int)
    for block in divide(heads, batch, length, kernel, causal):
        taken[block.heads, block.examples, block.queries] += 1
        assert block.keys == (block.queries.stop if causal else length)
        count = (
            (block.heads.stop - block.heads.start) * (block.examples.stop - block.examples.start)
            * min(queries, length) * length
        )  # fmt: skip
        one = min(queries, length) * length
        assert count <= max(logits, one), "more logits than a block may have"
    assert (taken == 1).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("made", [as_they_are, lambda keys, table: 2 * table[..., :keys]])
@pytest.mark.parametrize(("heads", "batch"), [(3, 2), (3, 1), (1, 2), (1, 1)])
def test_blocks_add_to_the_gradient_of_a_shared_table(
    heads: int, batch: int, made: Callable[..., torch.Tensor], causal: bool
) -> None:
    """A table [heads or 1, batch or 1, l, l] of logits, larger than the inputs."""
    torch.manual_seed(0)
    length = 7
    table = torch.randn(heads, batch, length + 2, length + 2, dtype=torch.float64)
    value = torch.randn(3, 2, length, 4, dtype=torch.float64)
    dy, table = torch.randn_like(value), table.requires_grad_()
    kernel = Kernel("blocks", queries=3, logits=1)
    term = Rows(made, (table,))
    y = blockwise.attend(None, [term], value, causal=causal, kernel=kernel)
    (found,) = torch.autograd.grad(y, [table], dy)
    logits = made(length, table[:, :, :length])
    if causal:
        logits = logits.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
    plain = torch.softmax(logits, -1) @ value
    torch.testing.assert_close(y, plain)
    torch.testing.assert_close(found, torch.autograd.grad(plain, [table], dy)[0])


@pytest.mark.parametrize("queries", [2, 5])
def test_keys_that_no_query_sees_have_no_gradient(queries: int) -> None:
    """More keys than queries, and as many features as queries; memory is not cleared by itself."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)  # new memory has NaN
    try:
        query, key = torch.randn(2, 1, 5, 5), torch.randn(2, 1, 7, 5, requires_grad=True)
        value = torch.randn(2, 1, 5, 3)
        kernel = Kernel("blocks", queries=queries, logits=10**6)
        y = blockwise.attend((query, key), [], value, kernel=kernel)
        (found,) = torch.autograd.grad(y.square().sum(), [key])
    finally:
        torch.use_deterministic_algorithms(False)
    assert found[:, :, :5].isfinite().all() and found[:, :, :5].any()
    assert not found[:, :, 5:].any()


def test_the_gradient_of_softmax_is_right_in_memory_of_any_order() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    weights = torch.softmax(logits, -1)
    d_weights = torch.randn(2, 5, 3, dtype=torch.float64).mT
    (want,) = torch.autograd.grad(weights, [logits], d_weights)
    for out in (None, d_weights.clone(), d_weights.contiguous()):
        given = d_weights.clone() if out is None else out
        torch.testing.assert_close(softmax_backward(given, weights.detach(), out), want)


def test_gradients_over_many_blocks_keep_the_digits_of_bfloat16() -> None:
    """Summed in bfloat16, each of 64 blocks would lose what is small beside the sum."""
    torch.manual_seed(0)
    heads, batch, length, size = 2, 2, 512, 8
    shapes = {
        "query": (heads, batch, length, size), "key": (heads, batch, length, size),
        "value": (heads, batch, length, size), "table": (heads, 1, length, length),
        "scale": (heads, 1, 1, 1),
    }  # fmt: skip
    exact = {name: torch.randn(shape).bfloat16().double() for name, shape in shapes.items()}
    dy = torch.randn(shapes["value"]).bfloat16()

    def gradients(dtype: torch.dtype, queries: int) -> dict[str, torch.Tensor]:
        p = {name: t.to(dtype).requires_grad_() for name, t in exact.items()}

        def rows(keys: int, table: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return table[..., :keys] * scale

        # one example and head at a time
        kernel = Kernel("blocks", queries=queries, logits=queries * length)
        y = blockwise.attend(
            (p["query"], p["key"]), [Rows(rows, (p["table"],), (p["scale"],))],
            p["value"], kernel=kernel,
        )  # fmt: skip
        found = torch.autograd.grad(y, list(p.values()), dy.to(dtype))
        assert all(gradient.dtype == dtype for gradient in found)
        return dict(zip(p, found, strict=True))

    want = gradients(torch.float64, length)

    def errors(queries: int) -> dict[str, float]:
        found = gradients(torch.bfloat16, queries)
        return {n: float((found[n].double() - w).norm() / w.norm()) for n, w in want.items()}

    one, many = errors(length), errors(8)
    for name in want:
        assert many[name] < 1.1 * one[name], name


def test_when_the_reference_form_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds themselves are inside: up to this many logits, and up to this length."""
    monkeypatch.setattr(fused_attention, "PLAIN_UP_TO", {
        "forward": 2 * 2 * 4 * 4, "train": 2 * 2 * 6 * 6, "train by blocks": 2 * 2 * 8 * 8
    })  # fmt: skip
    monkeypatch.setattr(fused_attention, "PLAIN_TRAINED_ALONE_UP_TO", {"glu": 9})

    def chosen(variant: str, length: int, trained: bool, **p: Tensor) -> bool:
        value = torch.zeros(8, 2, 4, requires_grad=trained)
        x = torch.zeros(2, length, 8)
        mixer: Any = parse(variant)
        products = cpu_matmul.libraries(x)[0]
        return fused_attention.plain_is_faster(mixer, {"value": value, **p}, x, products)

    for variant, length, trained in (
        ("V", 4, False), ("V", 6, True), ("FD", 8, True), ("R+V", 8, True), ("glu", 9, True),
    ):  # fmt: skip
        assert chosen(variant, length, trained), variant
        assert not chosen(variant, length + 1, trained), variant
    assert chosen("V", 8, True, position_bias=torch.zeros(1))
    assert not chosen("glu", 9, False)
    assert chosen("glu+V", 8, True) and not chosen("glu+V", 9, True)
    for shared in ("R", "Fix", "FR", "R+FR"):
        assert not chosen(shared, 1, False) and not chosen(shared, 1, True)
    for convolution in ("conv", "conv_relu_conv", "bottleneck_conv", "conv+V"):
        assert not chosen(convolution, 1, False) and not chosen(convolution, 1, True)
    with torch.no_grad():
        assert not chosen("V", 6, True)
    by_onednn(monkeypatch, True)
    assert not chosen("V", 4, False) and not chosen("V", 6, True)
    assert chosen("glu", 9, True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("length", [1, 4, 7, 8])
def test_convolution_by_head_is_its_definition(
    length: int, width: int, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of shifts and both banded products, in blocks of four outputs, against loops."""
    monkeypatch.setattr(head_convolution, "BLOCKS", {2: 3, 2**31: 4})
    H, c = 2, 3
    random = np.random.default_rng(width)
    u, kernel = random.standard_normal((2, length, H * c)), random.standard_normal((H, width))
    own = random.standard_normal((2, length, H, width))
    before = width - 1 if causal else width // 2
    same, by_position = np.zeros_like(u), np.zeros_like(u)
    for b, t, channel, j in np.ndindex(2, length, H * c, width):
        if 0 <= t - before + j < length:
            seen = u[b, t - before + j, channel]
            same[b, t, channel] += kernel[channel // c, j] * seen
            by_position[b, t, channel] += own[b, t, channel // c, j] * seen
    made = head_convolution.shifted_sums(torch.tensor(u), torch.tensor(kernel), causal)
    np.testing.assert_allclose(made, same, rtol=1e-12, atol=1e-12)
    made = head_convolution.banded_products(torch.tensor(u), torch.tensor(kernel), causal)
    np.testing.assert_allclose(made, same, rtol=1e-12, atol=1e-12)
    made = head_convolution.banded_products_by_position(torch.tensor(u), torch.tensor(own), causal)
    np.testing.assert_allclose(made, by_position, rtol=1e-12, atol=1e-12)


def test_a_projection_is_made_once_per_pass() -> None:
    made = []

    def times(left: Tensor, right: Tensor) -> Tensor:
        made.append(right.shape)
        return left @ right

    weight = torch.randn(8, 2, 4)
    inputs = ForwardInputs({"value": weight}, torch.tensor(X).float(), None, False, times)
    first = inputs.project("value")
    assert inputs.project("value") is first
    assert made == [(8, 8)]
    torch.testing.assert_close(first, torch.einsum("bld,dhk->blhk", inputs.x, weight))


@pytest.mark.parametrize("variant", ["FR+V", "D(sharing=full)", "D+V", "bottleneck_conv", "V"])
@pytest.mark.parametrize("causal", [False, True])
def test_values_may_keep_their_own_size(variant: str, causal: bool) -> None:
    """On CUDA, where PyTorch has kernels for that; a CPU computes all logits."""
    mixer: Any = parse(variant)
    p = {name: torch.tensor(value) for name, value in start_of(variant).items()}
    x = torch.tensor(X)
    for mask in (None, MASK):
        own_mask = None if mask is None else torch.tensor(mask)
        with recording_kernels() as used:
            kernel = Kernel(flash.UNPADDED)
            got = fused_attention.fused(mixer, p, x, own_mask, causal, kernel)
        assert list(used) == [flash.UNPADDED]
        want = mixer.reference(start_of(variant), X, SIZES, padding_mask=mask, causal=causal)
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("variant", "padded", "differ"),
    [
        ("V", False, False), ("V", True, True), ("FR(rank=3)+V", False, True),
        ("FR(rank=8)+V", True, True), ("D(sharing=full)", False, True), ("D", False, False),
        ("D(bias=true)", False, True), ("bottleneck(bias=true)", False, True),
        ("R+V", False, False), ("FR", False, False),
    ],
)  # fmt: skip
def test_where_values_may_keep_their_own_size(variant: str, padded: bool, differ: bool) -> None:
    """Sizes count as multiples of 8; padding is one more feature. Values have 8 channels."""
    mixer: Any = parse(variant)
    sizes = Sizes.of(d_model=16, heads=2, max_len=4)
    for device in ("cuda", "cpu"):
        with fake_tensors():
            p = {
                name: torch.empty(declared.shape, device=device)
                for name, declared in mixer.parameters(sizes).items()
            }
            x = torch.empty(2, 4, 16, device=device)
            mask = torch.empty(2, 4, device=device) if padded else None
            offered = fused_attention.kernels(mixer, p, x, mask)
        assert (Kernel(flash.UNPADDED) in offered) == (differ and device == "cuda")


@pytest.mark.parametrize("variant", ["R", "FR", "R+FR"])
def test_compiled_code_hides_padding_whatever_it_weighs(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot look whether the others' weights underflow, and would divide 0 by 0."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    p = start_of(variant, 300.0)
    got, want = both(variant, p, MASK, False, torch.float32)
    np.testing.assert_allclose(got, want, rtol=3e-4, atol=3e-4)
