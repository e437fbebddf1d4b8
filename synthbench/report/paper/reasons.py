"""Why a figure of ours is not the paper's: the only reasons that its tables may give."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "agrees": "agrees to the printed digit",
    "close": "within 0.01",
    "constant": "the constant of the note",
    "contradiction": "contradicts itself, see note",
    "device": "another device",
    "theirs": "theirs alone",
    "no run": "not measured yet",
    "unexplained": "not explained",
}

# (table, column of the published file, variant or "*") -> reason, where the figures differ.
EXPLAINED: dict[tuple[str, str, str], str] = {
    **{
        ("table2", "nmt_params_millions", variant): "constant"
        for variant in ("V", "Fix", "R", "FR", "R+V")
    },
    ("table2", "lm_params_millions", "*"): "contradiction",
}


def why(reason: str) -> str:
    """The text of a reason; KeyError for one that is not listed."""
    return REASONS[reason]


def why_different(table: str, column: str, variant: str) -> str:
    """Why a figure differs; "not explained" where nothing that is known explains it."""
    names = [(table, column, variant), (table, column, "*")]
    return why(next((EXPLAINED[name] for name in names if name in EXPLAINED), "unexplained"))
