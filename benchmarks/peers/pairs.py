"""The pairs that are compared; torch_side.py and jax_side.py build the peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from synthbench.errors import UnknownNameError

Mode = Literal["forward", "train"]

REFERENCE = "own reference form"
TEXTBOOK = "textbook"
SEQ_LENS = (512, 1024, 2048, 4096)
BATCHES = {2048: 1, 4096: 1}  # others: BATCH; textbook forms need several [B,H,L,L]
BATCH = 2
# The reference forms are compared at the size for which the project states its aims.
REFERENCE_SEQ_LEN, REFERENCE_BATCH = 2048, 4
AIMS = {"R": 2.5, "FR": 2.0, "D": 1.7, "D+V": 2.5, "V": 2.5}  # times as fast, train step
IN_TORCH_ONLY = ("V",)  # of these aims
NOT_SLOWER = 0.95  # the smallest acceptable ratio

TEXTBOOK_VARIANTS = (
    "V", "R", "FR", "D", "FD", "R+V", "FR+V", "D+V", "linformer", "light_conv", "dynamic_conv",
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """A variant of ours against a peer: a package's layer, textbook code, our reference form."""

    framework: str
    variant: str
    peer: str

    def __str__(self) -> str:
        """The name that --pairs searches."""
        return f"{self.framework} {self.variant} / {self.peer}"

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
    *(Pair(f, variant, TEXTBOOK) for f in ("torch", "jax") for variant in TEXTBOOK_VARIANTS),
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


def cells_of(pairs: list[Pair], seq_lens: tuple[int, ...], batch: int | None) -> list[Cell]:
    """Every pair in both modes at every length, short lengths first."""
    cells: list[Cell] = []
    for seq_len in sorted(seq_lens):
        usual = BATCHES.get(seq_len, BATCH)
        for pair in pairs:
            if pair.peer == REFERENCE:
                continue
            for mode in ("forward", "train"):
                cells.append(Cell(pair, mode, seq_len, batch or usual))
    return cells + [
        Cell(pair, "train", REFERENCE_SEQ_LEN, batch or REFERENCE_BATCH)
        for pair in pairs
        if pair.peer == REFERENCE and REFERENCE_SEQ_LEN in seq_lens
    ]
