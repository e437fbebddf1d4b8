"""Models as they were published: every size under one name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

T5_STYLE: dict[str, Any] = {"norm": "rms", "positions": "relative", "bias": False}
T2T_STYLE: dict[str, Any] = {"norm": "layer", "positions": "sinusoidal", "bias": True}


@dataclass(frozen=True)
class Preset:
    """A published model: fields of ModelSpec, and where they were published."""

    model: dict[str, Any]
    source: str


PRESETS: dict[str, Preset] = {
    "t5_base": Preset(
        {
            "kind": "encoder_decoder", "d_model": 768, "heads": 12, "head_dim": 64, "layers": 12,
            "feed_forward": 3072, "vocabulary": 32128, "max_len": 512, "target_len": 114,
            **T5_STYLE,
        },
        source="Raffel et al. 2020; the Synthesizer paper's Table 4",
    ),
    "t5_small": Preset(
        {
            "kind": "encoder_decoder", "d_model": 512, "heads": 8, "head_dim": 64, "layers": 6,
            "feed_forward": 2048, "vocabulary": 32128, "max_len": 512, "target_len": 114,
            **T5_STYLE,
        },
        source="Raffel et al. 2020",
    ),
    "t2t_base": Preset(
        {
            "kind": "encoder_decoder", "d_model": 512, "heads": 8, "head_dim": 64, "layers": 6,
            "feed_forward": 2048, "vocabulary": 33500, "max_len": 256, "target_len": 256,
            **T2T_STYLE,
        },
        source="Vaswani et al. 2017; the Synthesizer paper's Table 2, translation",
    ),
    "lm_base": Preset(
        {
            "kind": "decoder", "d_model": 512, "heads": 8, "head_dim": 64, "layers": 6,
            "feed_forward": 2048, "vocabulary": 32000, "max_len": 256, **T2T_STYLE,
        },
        source="the Synthesizer paper's Table 2, language model",
    ),
    "text_base": Preset(
        {
            "kind": "classifier", "d_model": 512, "heads": 8, "head_dim": 64, "layers": 6,
            "feed_forward": 2048, "vocabulary": 32000, "max_len": 256, "labels": 4, **T2T_STYLE,
        },
        source="the Synthesizer paper's Table 7",
    ),
}  # fmt: skip
