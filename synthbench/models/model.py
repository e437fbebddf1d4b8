"""What each model is, with no framework imported: a stack around a mixer, or the bare mixer.

    mixer      Y = mixer(X); X [B,L,d] is given, and Y is read as logits over d classes
    encoder    embedding + positions, pre-norm blocks, final norm, logits tied to the embedding
    decoder    the same, every mixer causal

A block: x = x + mixer(norm(x)), then x = x + relu(norm(x) up + up_bias) down + down_bias.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthbench.errors import NotationError, ShapeError
from synthbench.mixers.base import (
    Array,
    Mixer,
    Parameter,
    Sizes,
    Tensors,
    checked,
    declared_by,
    flops_of,
    require_output,
)
from synthbench.mixers.initializers import ONES, ZEROS, Normal, xavier

KINDS = ("mixer", "encoder", "decoder")
NORM_EPSILON = 1e-5


@dataclass(frozen=True)
class Model:
    """A model around one mixer; `feed_forward` and `vocabulary` belong to the stacks."""

    kind: str
    mixer: Mixer
    sizes: Sizes
    layers: int = 1
    feed_forward: int | None = None  # default 4 d_model
    vocabulary: int | None = None
    causal: bool | None = None  # default: only the decoder is

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise NotationError(f"model {self.kind!r} not known. Known: {', '.join(KINDS)}")
        if self.kind == "mixer" and self.layers != 1:
            raise ShapeError(f"a bare mixer has one layer, got layers {self.layers}")
        if self.is_stack and self.vocabulary is None:
            raise ShapeError(f"model {self.kind} needs a vocabulary size, like vocabulary: 32000")
        if self.is_stack and self.feed_forward is None:
            object.__setattr__(self, "feed_forward", 4 * self.sizes.d_model)
        if self.causal is None:
            object.__setattr__(self, "causal", self.kind == "decoder")

    @property
    def is_stack(self) -> bool:
        """Whether there is a stack around the mixer."""
        return self.kind != "mixer"

    @property
    def classes(self) -> int:
        """How many classes the outputs are logits over."""
        return self.vocabulary if self.is_stack and self.vocabulary else self.sizes.d_model

    def check(self) -> None:
        """Raise ShapeError, NotationError or UnsupportedError where this model cannot be built."""
        checked(self.mixer, self.sizes, causal=bool(self.causal))

    def parameters(self) -> dict[str, Parameter]:
        """Declare every parameter of the model by its full name."""
        if not self.is_stack:
            return prefixed("mixer", declared_by(self.mixer, self.sizes))
        d = self.sizes.d_model
        declared = self.embedding_parameters()
        for layer in range(self.layers):
            declared |= prefixed(f"blocks.{layer}.mixer_norm", norm_parameters(d))
            declared |= prefixed(f"blocks.{layer}.mixer", declared_by(self.mixer, self.sizes))
            declared |= prefixed(f"blocks.{layer}.feed_forward_norm", norm_parameters(d))
            declared |= prefixed(f"blocks.{layer}.feed_forward", self.feed_forward_parameters())
        return declared | prefixed("final_norm", norm_parameters(d))

    def embedding_parameters(self) -> dict[str, Parameter]:
        """Declare the token embedding, tied to the logits, and the positions."""
        d = self.sizes.d_model
        init = Normal(d**-0.5)
        return {
            "embedding": Parameter((self.classes, d), init),
            "positions": Parameter((self.sizes.max_len, d), init),
        }

    def feed_forward_parameters(self) -> dict[str, Parameter]:
        """Declare the two-layer feed-forward of a block."""
        assert self.feed_forward is not None
        d, f = self.sizes.d_model, self.feed_forward
        return {
            "up": Parameter((d, f), xavier(d, f)),
            "up_bias": Parameter((f,), ZEROS),
            "down": Parameter((f, d), xavier(f, d)),
            "down_bias": Parameter((d,), ZEROS),
        }

    def flops(self, *, batch: int, seq_len: int) -> int | None:
        """FLOPs of one forward pass; None where the mixer gives no formula.

        The embedding look-up counts nothing; the tied logits count as the product they are.
        """
        mixer = flops_of(self.mixer, self.sizes, batch=batch, seq_len=seq_len)
        if not self.is_stack or mixer is None:
            return mixer
        assert self.feed_forward is not None
        tokens = 2 * batch * seq_len * self.sizes.d_model
        return self.layers * (mixer + tokens * 2 * self.feed_forward) + tokens * self.classes

    def reference(self, p: Tensors, inputs: Array, padding_mask: Array | None = None) -> Array:
        """Outputs [B,L,classes] in NumPy, in the precision of the parameters.

        `inputs` is X [B,L,d] for a bare mixer, token ids [B,L] for a stack.
        """

        def mix(x: Array, name: str) -> Array:
            own = {n.removeprefix(f"{name}."): v for n, v in p.items() if n.startswith(f"{name}.")}
            y = self.mixer.reference(
                own, x, self.sizes, padding_mask=padding_mask, causal=bool(self.causal)
            )
            require_output(self.mixer, "NumPy", y, x.shape)
            return y

        if not self.is_stack:
            return mix(inputs, "mixer")
        x = p["embedding"][inputs] + p["positions"][: inputs.shape[1]]
        for layer in range(self.layers):
            block = f"blocks.{layer}"
            x = x + mix(norm(x, p, f"{block}.mixer_norm"), f"{block}.mixer")
            hidden = norm(x, p, f"{block}.feed_forward_norm") @ p[f"{block}.feed_forward.up"]
            hidden = np.maximum(hidden + p[f"{block}.feed_forward.up_bias"], 0)
            x = x + hidden @ p[f"{block}.feed_forward.down"] + p[f"{block}.feed_forward.down_bias"]
        return norm(x, p, "final_norm") @ p["embedding"].T


def prefixed(prefix: str, declared: dict[str, Parameter]) -> dict[str, Parameter]:
    """The same declarations, each name below `prefix`."""
    return {f"{prefix}.{name}": parameter for name, parameter in declared.items()}


def norm_parameters(d: int) -> dict[str, Parameter]:
    """Declare a layer norm over d channels."""
    return {"scale": Parameter((d,), ONES), "bias": Parameter((d,), ZEROS)}


def norm(x: Array, p: Tensors, name: str) -> Array:
    """Layer norm (Ba et al. 2016) over the last axis."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + NORM_EPSILON) * p[f"{name}.scale"] + p[f"{name}.bias"]
