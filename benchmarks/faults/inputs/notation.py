"""Variants that are not in the notation, or cannot exist."""

from __future__ import annotations

from benchmarks.faults.case import Case
from benchmarks.faults.inputs.examples import SUITE

VARIANTS = (
    "", " ", "+", "V+", "+V", "V++R", "V,", ",V", "V R", "(", ")", "()", "(V", "V)", "((V))(",
    "V(,)", "FR(", "FR(rank", "FR(rank=", "FR(rank=)", "FR(rank=32", "FR(rank 32)",
    "FR(=32)", "FR(rank==32)", "FR(rank=32,)", "FR(rank=32,,)", "FR(rank=32, rank=8)", "FR(rnk=32)",
    "FR(32)", "FR(rank=0)", "FR(rank=-1)", "FR(rank=1.5)", "FR(rank=1e3)", "FR(rank=nan)",
    "FR(rank=inf)", "FR(rank=true)", "FR(rank=none)", "FR(rank='32')", 'FR(rank="32")',
    "FR(rank=big)", "FR(rank=0x10)", "FR(rank=\u0663)", "FR(rank=[])", "FR(rank=[8)", "FR(rank=8])",
    "FR(rank={})", "FR(rank=[8, x])", "FR(rank=(8))", "FR(rank=8;9)",
    "FR(rank=" + "9" * 5000 + ")", "FR(rank=-" + "9" * 30 + ")",
    "linfromer", "Linfomer(rank=8)", "linformer(rank=0)", "linformer(rank=8)+V", "V+linformer",
    "V+V", "R+R+R", "(R+V)(mixing=none)", "(R+V)(mixing=)", "(R+V)(bias=maybe)",
    "(R+V)(nonsense=1)", "R(mixing=layer)+V(mixing=head)", "D(tie_query=true)",
    "light_conv(width=0)", "light_conv(width=-3)", "light_conv(layout=news)", "light_conv(width=x)",
    "dynamic_conv(width=2.5)", "D(tie_query=1)", "V.R", "V-R", "V*R", "V|R", "V/R", "V\\R", "V;R",
    "V=R", "V:R", "V#R", "V@R", "V\nR+", "V\tR", "V\x00", "\ufeffV", "\uff36V", "v+", "\u2212V",
    "V\uff0bR", "[V]", "{V}", "'V'", '"V"', "[bold]V[/bold]", "[/]", "$(id)", "`id`",
    "__import__('os')",
    "a" * 3000, "V+" * 2000 + "V(", "(" * 3000 + "V", "V" + "(" * 3000,
)  # fmt: skip

NOTATION = [
    Case("notation", f"{place} {variant[:40]!r} ({len(variant)})", arguments, {"tiny.yaml": SUITE})
    for variant in VARIANTS
    for place, arguments in (
        ("show", ("show", "--", variant)),
        (
            "run",
            (
                "run",
                "--suite",
                "tiny.yaml",
                "--device",
                "cpu",
                "--dry-run",
                f"--variants={variant}",
            ),
        ),
    )
    if not (place == "run" and len(variant) > 100)
]
