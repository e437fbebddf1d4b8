"""The fused forms of synthetic attention in JAX; the equations are in mixers/attention.py.

The same numbers as `reference`, which holds [B,H,L,L]: by blocks of queries (blockwise.py), the
weights made once for the whole batch where no term depends on it, cuDNN's kernel where it can.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import Array, lax

from synthbench.backends import kernel_record
from synthbench.backends.jax.mixers import cudnn, features
from synthbench.backends.jax.mixers.blocks import ALL_TOGETHER_UP_TO, sizes
from synthbench.backends.jax.mixers.blockwise import attend
from synthbench.backends.jax.mixers.numerics import ForwardInputs, add_bias, zero_padded
from synthbench.backends.jax.mixers.terms import Bias, Features, Term
from synthbench.backends.jax.placement import platform
from synthbench.backends.kernel_choice import may_be_plain, that_differ
from synthbench.backends.kernel_record import REFERENCE_KERNEL
from synthbench.kernel import Kernel
from synthbench.mixers.attention import Attention

# If the logits of a row differ by less than this part of what makes a weight underflow, all weights
# keep their digits, whichever logit is the highest: by 61 in float32 and bfloat16, 6.8 in float16.
SPREAD = 0.7
# Up to these lengths, measured, a CPU is faster in the reference form: in any case, and for one
# component alone with gradients.
PLAIN_UP_TO = {"conv": 4096}
PLAIN_TRAINED_ALONE_UP_TO = {"dot_product": 512, "fixed_random": 512}
SHARED = frozenset({"random", "fixed_random", "factorized_random"})
BLOCKS = "blocks of queries"
SHARED_BLOCKS = "one product per head, by blocks of queries"


def kernels(
    mixer: Attention,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    *,
    trained: bool,
) -> list[Kernel]:
    """The kernels for inputs like x, the one to take without a measurement first."""
    (B, L), H = x.shape[:2], p["value"].shape[1]
    path = SHARED_BLOCKS if is_shared(mixer) else BLOCKS
    table = "position_bias" in p or any(map(features.is_table, mixer.components))
    logits = L * L if platform() == "cpu" else B * H * L * L  # of an iteration at most
    different = that_differ(sizes(platform(), table=table), L, logits)
    if platform() == "cpu" and L <= ALL_TOGETHER_UP_TO:
        different = different[:1]  # all queries are one block
    found = [Kernel(path, **size) for size in different]
    if platform() == "cuda" and not is_shared(mixer):
        # Only shapes matter here; the features are made where the kernel is used.
        terms = jax.eval_shape(
            lambda p, x: features.terms(mixer, ForwardInputs(p, x, None, False)), p, x
        )
        value = jax.ShapeDtypeStruct((B, L, *p["value"].shape[1:]), x.dtype)
        first, others = cudnn.paths(terms, value, padding_mask)
        found = [*map(Kernel, first), *found, *map(Kernel, others)]
    plain = Kernel(REFERENCE_KERNEL)
    if plain_is_faster(mixer, L, trained=trained):
        return [plain, *found]
    names = {component.name for component in mixer.components}
    return found + [plain] * may_be_plain(names, B, H, L)


def fused(
    mixer: Attention,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    causal: bool,
    kernel: Kernel,
) -> Array:
    """The same numbers, with no [L,L] in memory but the table of R."""
    inputs = ForwardInputs(p, x, padding_mask, causal)
    terms = features.terms(mixer, inputs)
    value = zero_padded(inputs.project("value"), padding_mask)  # 0 weight x NaN would be NaN
    kernel_record.record_kernel(kernel.path)
    if kernel.path == SHARED_BLOCKS:
        heads = shared(terms, value, padding_mask, causal, kernel)
    elif kernel.path in cudnn.PATHS:
        heads = cudnn.attend(terms, value, causal, kernel.path)
    else:
        heads = by_example(terms, value, padding_mask, causal, kernel)
    y = jnp.einsum("bhlk,hkd->bld", heads, p["output"])
    return add_bias(y, p.get("output_bias"))


def is_shared(mixer: Attention) -> bool:
    """Whether the logits are the same for every example."""
    return SHARED.issuperset(component.name for component in mixer.components)


def plain_is_faster(mixer: Attention, seq_len: int, *, trained: bool) -> bool:
    """Whether the reference form is the faster one on this device, with or without gradients."""
    lengths = [PLAIN_UP_TO.get(component.name, 0) for component in mixer.components]
    if trained and len(mixer.components) == 1:
        lengths.append(PLAIN_TRAINED_ALONE_UP_TO.get(mixer.components[0].name, 0))
    return platform() == "cpu" and seq_len <= kernel_record.threshold(max(lengths))


def by_example(
    terms: tuple[Term, ...],
    value: Array,
    padding_mask: Array | None,
    causal: bool,
    kernel: Kernel,
) -> Array:
    """Value [B,L,H,k] -> [B,H,L,k]; the logits of each example separately."""
    kernel_record.record_kernel(BLOCKS)
    return attend(terms, value.swapaxes(1, 2), padding_mask, causal=causal, kernel=kernel)


def shared(
    terms: tuple[Term, ...],
    value: Array,
    padding_mask: Array | None,
    causal: bool,
    kernel: Kernel,
) -> Array:
    """The same for logits that do not depend on the example: each weight is computed once.

    Padding keeps the weights shared: with P = exp(S - max S) and a mask m over the keys,
    Y = (P (m V)) / (P m). A row of logits so wide that P could vanish where an example's own
    maximum is takes the other way.
    """
    B, L, H, k = value.shape
    columns = value.transpose(2, 1, 0, 3).reshape(1, H, L, B * k)

    def apart(y: Array) -> Array:
        return y.reshape(H, L, B, k).transpose(2, 0, 1, 3)

    if padding_mask is None:
        return apart(attend(terms, columns, None, causal=causal, kernel=kernel))

    def together(terms: tuple[Term, ...], value: Array, columns: Array) -> Array:
        keys = jnp.broadcast_to(padding_mask.T.astype(value.dtype), (1, H, L, B))
        columns = jnp.concatenate([columns, keys], axis=-1)
        y = attend(terms, columns, None, causal=causal, kernel=kernel, normalized=False)
        total = y[0, ..., B * k :].transpose(2, 0, 1)[..., None]  # [B,H,L,1]
        total = jnp.where(total == 0, 1, total)
        # Twice, so that no gradient has the square of a small total, which would underflow.
        scale = lax.stop_gradient(total)
        return (apart(y[..., : B * k]) / scale) / (total / scale)

    def alone(terms: tuple[Term, ...], value: Array, columns: Array) -> Array:
        return by_example(terms, value, padding_mask, causal, kernel)

    widest = -SPREAD * math.log(float(jnp.finfo(value.dtype).tiny))
    narrow = sum(spread(t, L) for t in terms) < widest
    return lax.cond(narrow, together, alone, terms, value, columns)


def spread(t: Term, seq_len: int) -> Array:
    """An upper bound of the differences between the logits of a row."""
    if isinstance(t, Bias):
        rows = t.table[..., :seq_len, :seq_len]
        widest = rows.max(axis=-1) - rows.min(axis=-1)
        weight = 1 if t.weight is None else t.weight[..., 0]
        return lax.stop_gradient((widest * weight).max())
    assert isinstance(t, Features)
    query, key = (jnp.square(x).sum(axis=-1).max(axis=-1) for x in (t.query, t.key))
    return lax.stop_gradient(2 * jnp.sqrt(query * key).max())
