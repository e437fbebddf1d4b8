"""FLOPs of single products and convolutions, against known counts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from jax.sharding import AbstractMesh, AxisType, PartitionSpec
from torch import nn

from synthbench.backends.jax import flops as jax_flops
from synthbench.backends.torch import flops as torch_flops
from tests.counting import B, D, H, K, L, M, exactly, quick, stepped, traced, walked

# The products of the definitions' cost table, each 2 x the sizes of all its indices.
COST_TABLE = {
    "projection": "bld,dhk->blhk",
    "V logits": "blhk,bmhk->bhlm",
    "FR logits, once for the batch": "hlr,hmr->hlm",
    "D logits": "blhk,hkm->bhlm",
    "D logits shared by the heads": "blhk,km->bhlm",
    "FD factor": "blhk,hkn->blhn",
    "weights times values": "bhlm,bmhk->blhk",
    "shared weights times values": "hlm,bmhk->blhk",
    "output": "blhk,hkd->bld",
    "linformer, keys compressed": "mr,bmhk->brhk",
    "linformer, logits": "blhk,brhk->bhlr",
    "dynamic convolution, kernels": "bld,dhw->blhw",
    "dynamic convolution, applied": "blhkw,blhw->blhk",
    "no output named": "ij,jk",
    "ellipsis": "...lk,...mk->...lm",
}


@pytest.mark.parametrize("equation", COST_TABLE.values(), ids=COST_TABLE.keys())
@quick
@given(drawn=st.lists(st.integers(1, 6), min_size=26, max_size=26))
def test_einsum_is_the_product_of_its_sizes(equation: str, drawn: list[int]) -> None:
    sizes = dict(zip("abcdefghijklmnopqrstuvwxyz", drawn, strict=True))
    terms = equation.split("->")[0].replace("...", "bh").split(",")
    shapes = [tuple(sizes[i] for i in term) for term in terms]
    flops = 2 * prod(sizes[i] for i in set("".join(terms)))
    assert exactly(traced(partial(torch.einsum, equation), *shapes), flops)
    assert exactly(walked(partial(jnp.einsum, equation), *shapes), flops)
    if min(min(shape) for shape in shapes) > 1:
        assert exactly(stepped(partial(torch.einsum, equation), *shapes), flops)


@pytest.mark.parametrize("opt_einsum", [False, True])
@pytest.mark.parametrize("equation", ["ab,bc,cd->ad", "ab,bc,cd,de->ae", "abc,bd,ce,a->de"])
@quick
@given(drawn=st.lists(st.integers(2, 9), min_size=5, max_size=5))
def test_einsum_of_many_operands_follows_torchs_path(
    equation: str, opt_einsum: bool, drawn: list[int]
) -> None:
    sizes = dict(zip("abcde", drawn, strict=True))
    shapes = [tuple(sizes[i] for i in term) for term in equation.split("->")[0].split(",")]
    enabled = opt_einsum and torch.backends.opt_einsum.is_available()
    with torch.backends.opt_einsum.flags(enabled=enabled):
        function = partial(torch.einsum, equation)
        count = traced(function, *shapes)
        assert count == replace(stepped(function, *shapes), tool=count.tool)
    if equation == "ab,bc,cd->ad" and not enabled:
        a, b, c, d, _ = drawn
        assert count.flops == 2 * (a * b * c + a * c * d)


@pytest.mark.parametrize(
    ("equation", "shapes", "flops"),
    [
        ("bld,d->bld", [(2, 3, 4), (4,)], 0),  # elementwise
        ("h,bhlm->bhlm", [(3,), (2, 3, 4, 4)], 0),
        ("ij,jk->k", [(2, 3), (3, 4)], 2 * 3 * 4),  # i is summed out before
        ("ij,ij->", [(2, 3), (2, 3)], 2 * 6),
        ("i,j->ij", [(3,), (4,)], 2 * 12),  # an outer product: a product of inner size 1
        ("ij->ji", [(3, 4)], 0),
    ],
)
def test_einsum_that_is_not_a_matrix_product(
    equation: str, shapes: list[tuple[int, ...]], flops: int
) -> None:
    assert exactly(traced(partial(torch.einsum, equation), *shapes), flops)
    assert exactly(walked(partial(jnp.einsum, equation), *shapes), flops)


@pytest.mark.parametrize(
    ("shapes", "flops"),
    [
        ([(L, K), (K, M)], 2 * L * K * M),
        ([(B, H, L, K), (B, H, K, M)], 2 * B * H * L * K * M),
        ([(H, L, L), (B, H, L, K)], 2 * B * H * L * L * K),  # fvcore's own: without B
        ([(B, H, L, K), (K, M)], 2 * B * H * L * K * M),
        ([(B, 1, L, K), (H, K, M)], 2 * B * H * L * K * M),
        ([(L, K), (K,)], 2 * L * K),
        ([(K,), (K, M)], 2 * K * M),
        ([(K,), (K,)], 2 * K),
        ([(L, 1), (1, M)], 2 * L * M),
    ],
)
def test_matmul_with_broadcasting(shapes: list[tuple[int, ...]], flops: int) -> None:
    assert exactly(traced(torch.matmul, *shapes), flops)
    assert exactly(stepped(torch.matmul, *shapes), flops)
    assert exactly(walked(jnp.matmul, *shapes), flops)


@pytest.mark.parametrize(
    ("function", "shapes", "flops"),
    [
        (torch.mm, [(L, K), (K, M)], 2 * L * K * M),
        (torch.bmm, [(B, L, K), (B, K, M)], 2 * B * L * K * M),
        (torch.mv, [(L, K), (K,)], 2 * L * K),
        (torch.dot, [(K,), (K,)], 2 * K),
        (torch.inner, [(L, K), (M, K)], 2 * L * K * M),
        (torch.addmm, [(L, M), (L, K), (K, M)], 2 * L * K * M),
        (torch.addmv, [(L,), (L, K), (K,)], 2 * L * K),
        (torch.baddbmm, [(B, L, M), (B, L, K), (B, K, M)], 2 * B * L * K * M),
        (torch.addbmm, [(L, M), (B, L, K), (B, K, M)], 2 * B * L * K * M),
        (lambda s, x, y: s.clone().addmm_(x, y), [(L, M), (L, K), (K, M)], 2 * L * K * M),
        (F.linear, [(B, L, K), (M, K), (M,)], 2 * B * L * K * M),
        (partial(torch.tensordot, dims=2), [(B, L, K), (L, K, M)], 2 * B * L * K * M),
        (partial(torch.tensordot, dims=([2], [0])), [(B, L, K), (K, M)], 2 * B * L * K * M),
    ],
)
def test_torch_products(function: Any, shapes: list[tuple[int, ...]], flops: int) -> None:
    assert exactly(traced(function, *shapes), flops)
    assert exactly(stepped(function, *shapes), flops)


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolution_forward_and_backward(groups: int, stride: int) -> None:
    length, channels, out, width = 8, 6, 12, 3
    positions = length // stride
    flops = 2 * B * positions * out * (channels // groups) * width
    options = {"stride": stride, "padding": 1, "groups": groups}
    conv = partial(F.conv1d, **options)
    assert exactly(traced(conv, (B, channels, length), (out, channels // groups, width)), flops)

    x = torch.randn(B, channels, length, requires_grad=True)
    w = torch.randn(out, channels // groups, width, requires_grad=True)
    both = torch_flops.trace_step(lambda: conv(x, w).square().sum().backward())
    assert exactly(both, 3 * flops)
    kernel_only = torch_flops.trace_step(lambda: conv(x.detach(), w).square().sum().backward())
    assert exactly(kernel_only, 2 * flops)

    def jax_conv(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, (stride,), [(1, 1)],
            dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=groups,
        )  # fmt: skip

    def loss(x: Any, w: Any) -> Any:
        return jnp.square(jax_conv(x, w)).sum()

    shapes = (B, length, channels), (width, channels // groups, out)
    assert exactly(walked(jax_conv, *shapes), flops)
    assert exactly(walked(jax.grad(loss, argnums=(0, 1)), *shapes), 3 * flops)
    assert exactly(walked(jax.grad(loss, argnums=1), *shapes), 2 * flops)


@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_transposed_convolution_forward_and_backward(stride: int, padding: str) -> None:
    length, channels, out, width = 16, 6, 4, 5
    flops = 2 * B * length * channels * out * width  # the whole kernel at every input position
    conv = partial(lax.conv_transpose, strides=(stride,), padding=padding)

    def loss(x: Any, w: Any) -> Any:
        return jnp.square(conv(x, w)).sum()

    shapes = (B, length, channels), (width, channels, out)
    assert exactly(walked(conv, *shapes), flops)
    assert exactly(walked(jax.grad(loss, argnums=0), *shapes), 2 * flops)
    assert exactly(walked(jax.grad(loss, argnums=1), *shapes), 2 * flops)
    assert exactly(walked(jax.grad(loss, argnums=(0, 1)), *shapes), 3 * flops)


def test_other_convolutions() -> None:
    image, kernel = (B, 6, 8), (6, 4, 3)
    assert exactly(traced(F.conv_transpose1d, image, kernel), 2 * B * 8 * 6 * 4 * 3)
    transposed = walked(lambda x, w: lax.conv_transpose(x, w, (2,), "SAME"), (B, 8, 6), (3, 6, 4))
    assert exactly(transposed, 2 * B * 8 * 6 * 4 * 3)
    same = partial(F.conv1d, padding="same")
    assert exactly(traced(same, image, (4, 6, 3)), 2 * B * 8 * 6 * 4 * 3)
    assert exactly(traced(F.conv1d, (6, 8), (4, 6, 3)), 2 * 6 * 6 * 4 * 3)  # without a batch
    grouped = partial(F.conv2d, groups=2)
    assert exactly(traced(grouped, (B, 6, 8, 8), (4, 3, 3, 3)), 2 * B * 36 * 4 * 3 * 9)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_forward_and_backward(causal: bool) -> None:
    q, k, v = (B, H, L, K), (B, H, M, K), (B, H, M, D)
    shapes = [q, k, v] if not causal else [q, q, q]
    keys, features = (L, 2 * K) if causal else (M, K + D)
    forward = 2 * B * H * L * keys * features
    attend: Any = partial(F.scaled_dot_product_attention, is_causal=causal)
    assert exactly(traced(attend, *shapes), forward)
    assert exactly(stepped(attend, *shapes), forward)
    if causal:  # one kernel with its own backward: the logits recomputed, then four products
        leaves = [torch.randn(s, requires_grad=True) for s in shapes]
        step = torch_flops.trace_step(lambda: attend(*leaves).sum().backward())
        assert exactly(step, 2 * B * H * L * L * K * (2 + 5))
    jax_shapes = [(s[0], s[2], s[1], s[3]) for s in ([q, k, k] if not causal else [q, q, q])]
    attended = walked(partial(jax.nn.dot_product_attention, is_causal=causal), *jax_shapes)
    assert exactly(attended, 2 * B * H * L * keys * 2 * K)


def test_attention_with_fewer_key_heads() -> None:
    attend = partial(F.scaled_dot_product_attention, enable_gqa=True)
    count = traced(attend, (B, 4, L, K), (B, 2, M, K), (B, 2, M, K))
    assert exactly(count, 2 * 2 * B * 4 * L * M * K)


def test_torch_attention_layers_are_counted_in_training_and_evaluation() -> None:
    layer = nn.TransformerEncoderLayer(D, 2, 12, dropout=0.0, batch_first=True)
    x = torch.randn(B, L, D)
    flops = 2 * B * L * (4 * D * D + 2 * D * 12) + 2 * 2 * B * L * L * D
    for mode in (True, False):
        layer.train(mode)
        assert exactly(torch_flops.trace_forward(layer, (x,)), flops)
        with torch.no_grad():
            assert exactly(torch_flops.trace_step(lambda: layer(x)), flops)


def test_ragged_and_sharded_products() -> None:
    groups = jax.ShapeDtypeStruct((2,), jnp.int32)
    shapes = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((10, K), (2, K, M))]
    assert exactly(jax_flops.trace(lax.ragged_dot, *shapes, groups), 2 * 10 * K * M)
    mesh = AbstractMesh((2,), ("i",), axis_types=(AxisType.Auto,))
    specs: dict[str, Any] = {
        "in_specs": (PartitionSpec("i"), PartitionSpec()),
        "out_specs": PartitionSpec("i"),
    }
    sharded = jax.shard_map(lambda x, y: x @ y, mesh=mesh, **specs)
    assert exactly(walked(sharded, (4, K), (K, M)), 2 * 4 * K * M)
