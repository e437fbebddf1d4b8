"""The pairs that are compared; torch_side.py and jax_side.py build the peers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from synthbench.errors import UnknownNameError

Mode = Literal["forward", "train"]

REFERENCE = "own reference form"
TEXTBOOK = "textbook"
# Batch at each length: textbook forms need several [B,H,L,L].
BATCHES = {128: 8, 512: 4, 1024: 2, 2048: 1, 4096: 1, 8192: 1}
BATCH = 1  # at any other length
SEQ_LENS = tuple(BATCHES)
FORWARD_ONLY_FROM = 8192  # a train step of the textbook forms does not fit into 24 GB there
OPTION_SEQ_LENS = (128, 1024)
# The reference forms are compared at the size for which the project states its aims.
REFERENCE_SEQ_LEN, REFERENCE_BATCH = 2048, 4
AIMS = {"R": 2.5, "FR": 2.0, "D": 1.7, "D+V": 2.5, "V": 2.5}  # times as fast, train step
IN_TORCH_ONLY = ("V",)  # of these aims
NOT_SLOWER = 0.95  # the smallest acceptable ratio

TEXTBOOK_VARIANTS = (
    "V", "R", "FR", "D", "FD", "R+V", "FR+V", "D+V", "linformer", "light_conv", "dynamic_conv",
)  # fmt: skip
# Variants that differ from these in an option, or in a function of the paper's Table 8.
OPTION_VARIANTS = (
    "Fix", "FR(rank=32)", "D(sharing=heads)", "D(sharing=full)", "FD(hidden=separate)",
    "V(bias=true)", "D(bias=true)", "(D+V)(bias=true)", "D(tie_query=true)+V",
    "(FR+V)(mixing=layer)", "(FR+V)(mixing=sum)", "(R+V)(mixing=sum)", "R+D", "FD+V",
    "conv", "conv_relu_conv", "bottleneck", "bottleneck_conv", "glu",
    "linformer(rank=128)", "linformer(sharing=kv)",
    *(f"{name}(width={width})" for name in ("light_conv", "dynamic_conv") for width in (3, 7, 63)),
    "light_conv(layout=mesh)", "dynamic_conv(layout=mesh)",
)  # fmt: skip
OTHER_HEAD_DIM = 32  # in place of d_model / heads
OTHER_HEAD_DIM_VARIANTS = ("V", "R", "FR", "D", "R+V", "D+V", "linformer")


@dataclass(frozen=True)
class Pair:
    """A variant of ours against a peer: a package's layer, textbook code, our reference form."""

    framework: str
    variant: str
    peer: str
    head_dim: int | None = None  # None: d_model / heads

    def __str__(self) -> str:
        """The name that --pairs searches."""
        return f"{self.framework} {labelled(self.variant, self.head_dim)} / {self.peer}"

    @property
    def seq_lens(self) -> tuple[int, ...]:
        """The lengths at which it is compared by default."""
        if self.peer == REFERENCE:
            return (REFERENCE_SEQ_LEN,)
        usual = self.variant in TEXTBOOK_VARIANTS and self.head_dim is None
        return SEQ_LENS if usual else OPTION_SEQ_LENS

    @property
    def is_package(self) -> bool:
        """Whether the peer is a layer of a package."""
        return self.peer not in (REFERENCE, TEXTBOOK)


@dataclass(frozen=True)
class Cell:
    """A pair in one mode at one size."""

    pair: Pair
    mode: Mode
    seq_len: int
    batch: int


PACKAGES = (
    Pair("torch", "linformer", "linformer.LinformerSelfAttention"),
    Pair("torch", "V", "nn.MultiheadAttention"),
    Pair("torch", "V", "nn.TransformerEncoderLayer"),
    Pair("torch", "V", "transformers T5Attention"),
    Pair("jax", "V", "nnx.MultiHeadAttention"),
)

PAIRS: tuple[Pair, ...] = (
    *(Pair(f, variant, REFERENCE) for f in ("torch", "jax") for variant in AIMS),
    *PACKAGES,
    *(
        Pair(f, variant, TEXTBOOK)
        for f in ("torch", "jax")
        for variant in (*TEXTBOOK_VARIANTS, *OPTION_VARIANTS)
    ),
    *(
        Pair(f, variant, TEXTBOOK, OTHER_HEAD_DIM)
        for f in ("torch", "jax")
        for variant in OTHER_HEAD_DIM_VARIANTS
    ),
)

# What a reader of the ratios should know about a peer.
NOTES = {
    "linformer.LinformerSelfAttention": "rank 32 like ours; without its output bias",
    "nn.MultiheadAttention": "called with defaults, so it also returns the mean weights; no bias",
    "nn.TransformerEncoderLayer": "only its self-attention, which returns no weights; no bias",
    "transformers T5Attention": (
        "a layer of T5EncoderModel without a position bias; it does not scale by 1/sqrt(k), so "
        "its query weights include this factor, and only the first step is the same"
    ),
    "nnx.MultiHeadAttention": "no bias",
    TEXTBOOK: "the equations of the papers, written plainly: textbook_torch.py, textbook_jax.py",
    REFERENCE: "the form `reference` of the same mixer, as in the suite `forms`",
}
NEEDS = {
    "linformer.LinformerSelfAttention": "linformer",
    "transformers T5Attention": "transformers",
}
SAME_AT_FIRST_ONLY = ("transformers T5Attention",)


def choose_pairs(wanted: str | None) -> list[Pair]:
    """The pairs whose name contains the text; UnknownNameError if there is none."""
    found = [pair for pair in PAIRS if wanted is None or wanted in str(pair)]
    if not found:
        raise UnknownNameError("pair", wanted or "", map(str, PAIRS))
    return found


def labelled(variant: str, head_dim: int | None) -> str:
    """A variant with its head_dim, where that is not d_model / heads."""
    return variant if head_dim is None else f"{variant}, head_dim {head_dim}"


def parts(variant: str) -> list[str]:
    """The names in a variant's notation without options: `(FR(rank=4)+V)(mixing=sum)`: FR, V."""
    return re.sub(r"\([^()]*=[^()]*\)", "", variant).strip("()").split("+")


def cells_of(pairs: list[Pair], seq_lens: tuple[int, ...] | None, batch: int | None) -> list[Cell]:
    """Every pair in both modes at every length, short lengths first.

    `seq_lens` and `batch` replace the usual ones, but the reference forms are compared only at the
    length of their aims.
    """
    cells: list[Cell] = []
    for seq_len in sorted(seq_lens or SEQ_LENS):
        for pair in pairs:
            if pair.peer == REFERENCE or not (seq_lens or seq_len in pair.seq_lens):
                continue
            modes: tuple[Mode, ...] = ("forward", "train")
            if seq_len >= FORWARD_ONLY_FROM:
                modes = ("forward",)
            size = batch or BATCHES.get(seq_len, BATCH)
            cells += [Cell(pair, mode, seq_len, size) for mode in modes]
    return cells + [
        Cell(pair, "train", REFERENCE_SEQ_LEN, batch or REFERENCE_BATCH)
        for pair in pairs
        if pair.peer == REFERENCE and REFERENCE_SEQ_LEN in (seq_lens or SEQ_LENS)
    ]
