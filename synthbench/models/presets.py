"""Models as they were published: every size and style under one name."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from synthbench.models.style import T2T, T5, Style


@dataclass(frozen=True)
class Preset:
    """A published model; its mixers' heads and head_dim may be set apart from the model's."""

    kind: str
    d_model: int
    heads: int
    head_dim: int
    layers: int  # of each stack
    feed_forward: int
    vocabulary: int
    max_len: int
    style: Style
    source: str
    target_len: int | None = None
    labels: int | None = None

    def model(self) -> dict[str, Any]:
        """What a suite's section `model` would have to say."""
        content = {name: getattr(self, name) for name in SIZES if getattr(self, name) is not None}
        return content | asdict(self.style)


SIZES = (
    "kind", "d_model", "heads", "head_dim", "layers", "feed_forward", "vocabulary", "max_len",
    "target_len", "labels",
)  # fmt: skip

PRESETS: dict[str, Preset] = {
    "t5_base": Preset(
        kind="encoder_decoder", d_model=768, heads=12, head_dim=64, layers=12, feed_forward=3072,
        vocabulary=32128, max_len=512, target_len=114, style=T5,
        source="Raffel et al. 2020; the Synthesizer paper's Table 4",
    ),
    "t5_small": Preset(
        kind="encoder_decoder", d_model=512, heads=8, head_dim=64, layers=6, feed_forward=2048,
        vocabulary=32128, max_len=512, target_len=114, style=T5,
        source="Raffel et al. 2020",
    ),
    "t2t_base": Preset(
        kind="encoder_decoder", d_model=512, heads=8, head_dim=64, layers=6, feed_forward=2048,
        vocabulary=33500, max_len=256, target_len=256, style=T2T,
        source="Vaswani et al. 2017; the Synthesizer paper's Table 2, translation",
    ),
    "lm_base": Preset(
        kind="decoder", d_model=512, heads=8, head_dim=64, layers=6, feed_forward=2048,
        vocabulary=32000, max_len=256, style=T2T,
        source="the Synthesizer paper's Table 2, language model",
    ),
    "text_base": Preset(
        kind="classifier", d_model=512, heads=8, head_dim=64, layers=6, feed_forward=2048,
        vocabulary=32000, max_len=256, labels=4, style=T2T,
        source="the Synthesizer paper's Table 7",
    ),
}  # fmt: skip
