"""What each model is, without a framework: a stack around a mixer, or the bare mixer.

    mixer            Y = mixer(X); X [B,L,d] is given, and Y is read as logits over d classes
    encoder          embedding + positions, pre-norm blocks, final norm, logits tied to embedding
    decoder          the same, every mixer causal
    classifier       an encoder whose outputs are averaged over the real tokens, times `labels`
    encoder_decoder  an encoder of the source; a decoder of the target, whose blocks also attend to
                     the encoder's outputs, always by dot product; one embedding

A block: x = x + mixer(norm(x)), then x = x + cross(norm(x), source) in the decoder of two, then
x = x + relu(norm(x) up + up_bias) down + down_bias.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from synthbench.errors import NotationError, ShapeError
from synthbench.mixers.attention import Attention
from synthbench.mixers.base import Array, Mixer, Parameter, Tensors
from synthbench.mixers.declaration import check_mixer, declared_parameters_of, flops_of
from synthbench.mixers.initializers import ZEROS, Normal, xavier
from synthbench.mixers.sizes import Sizes, require_divisible
from synthbench.models import layers
from synthbench.models.layers import CrossAttention, prefixed
from synthbench.models.positions import BUCKETS
from synthbench.models.reference import reference
from synthbench.models.spec import KINDS, ModelKind, ModelSpec


@dataclass(frozen=True)
class Stack:
    """One of the model's stacks: the prefix of its parameter names, and what its blocks contain."""

    prefix: str  # "" or "encoder." or "decoder."
    causal: bool
    cross: bool = False  # whether its blocks attend to another stack


@dataclass(frozen=True)
class Model:
    """A model around one mixer; `causal` defaults to True only for a decoder."""

    mixer: Mixer
    spec: ModelSpec
    causal: bool | None = None

    @classmethod
    def of(
        cls, kind: str, mixer: Mixer, sizes: Sizes, *, causal: bool | None = None, **spec: Any
    ) -> Model:
        """A model with a mixer of these sizes; `spec` are further fields of ModelSpec.

        Raises NotationError for an unknown kind, ShapeError for sizes that the kind needs.
        """
        if kind not in KINDS:
            raise NotationError(f"model {kind!r} not known. Known: {', '.join(KINDS)}")
        return cls(mixer, ModelSpec(kind=kind, **asdict(sizes), **spec), causal)

    def __post_init__(self) -> None:
        if self.kind == "mixer" and self.layers != 1:
            raise ShapeError(f"a bare mixer has one layer, got layers {self.layers}")
        for what, kinds, like in (
            ("vocabulary", KINDS[1:], 32000),
            ("target_len", ("encoder_decoder",), 128),
            ("labels", ("classifier",), 4),
        ):
            if self.kind in kinds and getattr(self.spec, what) is None:
                raise ShapeError(f"model {self.kind} needs {what}, like {what}: {like}")
        if self.causal is None:
            object.__setattr__(self, "causal", self.kind == "decoder")

    def changed(self, **spec: Any) -> Model:
        """The same model with other fields of its spec."""
        return replace(self, spec=self.spec.model_copy(update=spec))

    @property
    def kind(self) -> ModelKind:
        """Which of the models this is."""
        return self.spec.kind

    @property
    def layers(self) -> int:
        """Blocks of each stack."""
        return self.spec.layers

    @property
    def feed_forward(self) -> int:
        """Hidden channels of the feed-forward."""
        return self.spec.feed_forward or 4 * self.spec.d_model

    @property
    def vocabulary(self) -> int | None:
        """Tokens of the embedding; None for a bare mixer."""
        return self.spec.vocabulary

    @property
    def target_len(self) -> int | None:
        """Tokens of the target; None if there is only one sequence, whatever the spec says.

        The models of a suite may share one `model` section, and with it the field.
        """
        return self.spec.target_len if self.kind == "encoder_decoder" else None

    @property
    def labels(self) -> int | None:
        """Classes of a classifier; None for other models, whatever the spec says."""
        return self.spec.labels if self.kind == "classifier" else None

    @cached_property
    def sizes(self) -> Sizes:
        """The sizes of the mixer."""
        spec = self.spec
        return Sizes.of(
            d_model=spec.d_model, heads=spec.heads, max_len=spec.max_len, head_dim=spec.head_dim
        )

    @property
    def is_stack(self) -> bool:
        """Whether the mixer is inside a stack."""
        return self.kind != "mixer"

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The stacks, in the order in which they run; none around a bare mixer."""
        if self.kind == "encoder_decoder":
            return Stack("encoder.", bool(self.causal)), Stack("decoder.", True, cross=True)
        return (Stack("", bool(self.causal)),) if self.is_stack else ()

    @property
    def classes(self) -> int:
        """How many classes the outputs are logits over."""
        found = {"mixer": self.sizes.d_model, "classifier": self.labels}.get(
            self.kind, self.vocabulary
        )
        assert found is not None
        return found

    def targets_of(self, seq_len: int) -> tuple[int, ...]:
        """The shape of one example's targets: one class per token, or one per example."""
        return () if self.kind == "classifier" else (self.target_len or seq_len,)

    def input_len(self, seq_len: int) -> int:
        """Positions of one example's inputs: those of both sequences where there are two."""
        return seq_len + (self.target_len or 0) if len(self.stacks) == 2 else seq_len

    @property
    def has_position_bias(self) -> bool:
        """Whether the mixer's logits get a bias by distance: only attention has logits."""
        relative = self.is_stack and self.spec.positions == "relative"
        return relative and isinstance(self.mixer, Attention)

    @property
    def cross(self) -> CrossAttention:
        """The attention of the decoder on the encoder's outputs."""
        spec, sizes = self.spec, self.sizes
        heads = spec.cross_heads or sizes.heads
        default = sizes.head_dim if spec.cross_heads is None else sizes.d_model // heads
        return CrossAttention(sizes.d_model, heads, spec.cross_head_dim or default)

    @property
    def needed_share(self) -> float:
        """The share of `flops` that no exact implementation can do without.

        A causal product counts in full, and half of it is hidden.
        """
        causal = bool(self.causal) or any(stack.causal for stack in self.stacks)
        return self.mixer.needed_share * (0.5 if causal else 1.0)

    def check(self) -> None:
        """Raise ShapeError, NotationError or UnsupportedError where this model cannot be built."""
        for causal in {bool(self.causal)} | {stack.causal for stack in self.stacks}:
            check_mixer(self.mixer, self.sizes, causal=causal)
        spec = self.spec
        if self.kind == "encoder_decoder" and spec.cross_heads and spec.cross_head_dim is None:
            or_else = ", or give cross_head_dim"
            require_divisible(spec.d_model, spec.cross_heads, or_else, what="cross_heads")
        if self.target_len is not None:
            self.sizes.require_length(self.target_len)

    def parameters(self) -> dict[str, Parameter]:
        """Declare every parameter of the model by its full name."""
        if not self.is_stack:
            return prefixed("mixer", declared_parameters_of(self.mixer, self.sizes))
        declared = self.embedding_parameters()
        for stack in self.stacks:
            declared |= {f"{stack.prefix}{n}": p for n, p in self.stack_parameters(stack).items()}
        return declared | self.label_parameters()

    def embedding_parameters(self) -> dict[str, Parameter]:
        """Declare the token embedding, tied to the logits, and the learned positions."""
        d = self.sizes.d_model
        init = Normal(d**-0.5)
        assert self.vocabulary is not None
        declared = {"embedding": Parameter((self.vocabulary, d), init)}
        if self.spec.positions == "learned":
            declared["positions"] = Parameter((self.sizes.max_len, d), init)
        return declared

    def stack_parameters(self, stack: Stack) -> dict[str, Parameter]:
        """Declare a stack's blocks, its final norm and its position bias."""
        declared = self.bias_parameters()
        for layer in range(self.layers):
            declared |= prefixed(f"blocks.{layer}", self.block_parameters(stack))
        return declared | prefixed("final_norm", self.norm_parameters())

    def bias_parameters(self) -> dict[str, Parameter]:
        """Declare the position bias per distance bucket and head, if the model has one."""
        shape = (BUCKETS, self.sizes.heads)
        return {"relative_bias": Parameter(shape, ZEROS)} if self.has_position_bias else {}

    def block_parameters(self, stack: Stack) -> dict[str, Parameter]:
        """Declare one block."""
        declared = prefixed("mixer_norm", self.norm_parameters())
        declared |= prefixed("mixer", declared_parameters_of(self.mixer, self.sizes))
        if stack.cross:
            declared |= prefixed("cross_norm", self.norm_parameters())
            declared |= prefixed("cross", self.cross.parameters())
        declared |= prefixed("feed_forward_norm", self.norm_parameters())
        return declared | prefixed("feed_forward", self.feed_forward_parameters())

    def norm_parameters(self) -> dict[str, Parameter]:
        """Declare a norm of this model's style."""
        return layers.norm_parameters(self.sizes.d_model, self.spec.norm)

    def feed_forward_parameters(self) -> dict[str, Parameter]:
        """Declare the two-layer feed-forward of a block."""
        return layers.feed_forward_parameters(self.sizes.d_model, self.feed_forward, self.spec.bias)

    def label_parameters(self) -> dict[str, Parameter]:
        """Declare the classifier's map to its labels."""
        if self.kind != "classifier":
            return {}
        d, c = self.sizes.d_model, self.classes
        return {"labels": Parameter((d, c), xavier(d, c)), "labels_bias": Parameter((c,), ZEROS)}

    def mixer_flops(self, *, batch: int, seq_len: int) -> int | None:
        """FLOPs of one mixer's forward pass; None where it gives no formula."""
        return flops_of(self.mixer, self.sizes, batch=batch, seq_len=seq_len)

    def flops(self, *, batch: int, seq_len: int) -> int | None:
        """FLOPs of one forward pass; None where the mixer gives no formula.

        The embedding look-up counts nothing; the tied logits count as the product they are.
        With two sequences, `seq_len` is the length of the source.
        """
        if not self.is_stack:
            return self.mixer_flops(batch=batch, seq_len=seq_len)
        d, total, length = self.sizes.d_model, 0, seq_len
        for stack in self.stacks:
            length = self.target_len or seq_len if stack.cross else seq_len
            mixer = self.mixer_flops(batch=batch, seq_len=length)
            if mixer is None:
                return None
            block = mixer + 2 * 2 * batch * length * d * self.feed_forward
            if stack.cross:
                block += self.cross.flops(batch=batch, target_len=length, source_len=seq_len)
            total += self.layers * block
        return total + 2 * batch * (1 if self.kind == "classifier" else length) * d * self.classes

    def reference(self, p: Tensors, inputs: Array, padding_mask: Array | None = None) -> Array:
        """Outputs [B,L,classes] in NumPy, in the precision of the parameters.

        `inputs` is X [B,L,d] for a bare mixer, token ids [B,L] for a stack, and source and target
        side by side [B, L + target_len] for two. A classifier's outputs are [B,classes].
        """
        return reference(self, p, inputs, padding_mask)

    def split(self, tokens: Any) -> tuple[Any, ...]:
        """What each stack reads of tokens, or of their mask: a second one, the last target_len."""
        if self.kind != "encoder_decoder":
            return (tokens,)
        if tokens is None:
            return None, None
        assert self.target_len is not None
        return tokens[:, : -self.target_len], tokens[:, -self.target_len :]
