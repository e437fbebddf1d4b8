"""How a stack is built around its mixers: norms, positions, biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from synthbench.errors import NotationError

NormKind = Literal["layer", "rms"]
PositionKind = Literal["learned", "sinusoidal", "relative"]


@dataclass(frozen=True)
class Style:
    """What stacks differ in beside their sizes.

    norm        layer (Ba et al. 2016, scale and bias) or rms (Zhang and Sennrich 2019, scale)
    positions   learned [N,d]; sinusoidal (Vaswani et al. 2017, no parameters); relative: a bias of
                the attention logits by distance (Raffel et al. 2020), shared by a stack's layers
    bias        whether the feed-forward has biases
    """

    norm: NormKind = "layer"
    positions: PositionKind = "learned"
    bias: bool = True

    def __post_init__(self) -> None:
        for what, value, known in (
            ("norm", self.norm, get_args(NormKind)),
            ("positions", self.positions, get_args(PositionKind)),
        ):
            if value not in known:
                raise NotationError(f"{what} {value!r} not known. Known: {', '.join(known)}")


PLAIN = Style()
T5 = Style(norm="rms", positions="relative", bias=False)
T2T = Style(positions="sinusoidal")
