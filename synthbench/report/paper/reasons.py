"""Why our number differs from the published one: the only reasons that the tables may give."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "agrees": "agrees to the printed digit",
    "close": "within 0.01",
    "constant": "the constant in the note",
    "contradiction": "contradicts itself, see note",
    "device": "another device or size, see note",
    "paper only": "paper only, not reproduced here",
    "reduced": "reduced setting, see note",
    "setting": "another setting, see note",
    "no run": "not measured yet",
    "unexplained": "not explained",
}

# (table, column of the published file, variant or "*") -> the reason for a difference.
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
    """Why a number differs; "not explained" if no reason is known."""
    names = [(table, column, variant), (table, column, "*")]
    return why(next((EXPLAINED[name] for name in names if name in EXPLAINED), "unexplained"))
