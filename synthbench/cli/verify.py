"""`synthbench verify`: check the parity of variants and print their largest errors."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from synthbench.cli.completion import complete_variant
from synthbench.cli.options import (
    FRAMEWORKS_ADVICE,
    FrameworkOption,
    Plugin,
    split_list,
    split_variants,
)
from synthbench.cli.output import complain
from synthbench.errors import FrameworkMissingError, NotationError, UnknownNameError

if TYPE_CHECKING:
    from synthbench.run.verify import Verdict


class DType(StrEnum):
    """The floating-point types that can be compared."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


def verify(
    variant: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[VARIANT]...",
            help="Like V or FR(rank=32)+V. Default: all variants.",
            show_default=False,
            autocompletion=complete_variant,
        ),
    ] = None,
    framework: FrameworkOption = [],  # noqa: B006
    dtype: Annotated[DType, typer.Option("--dtype", help="Floating-point type.")] = DType.FLOAT32,
    require_both: Annotated[
        bool,
        typer.Option("--require-both", help="Fail where a framework is missing or not supported."),
    ] = False,
    plugin: Plugin = [],  # noqa: B006
) -> None:
    """Compare torch, jax and the NumPy reference on small inputs.

    Without a mask, with padding, causal, and with both; at L = max_len and L < max_len; outputs and
    gradients, in the fused and the reference form. Errors are relative to the largest value. Exit
    code 1: an error is above its tolerance, an output depends on inputs that a mask hides, the
    output of a mixer has a wrong shape or type, a mixer raised anything but UnsupportedError, or
    nothing could be compared.
    """
    from synthbench.mixers.catalog import SHOWCASE, plugins
    from synthbench.mixers.notation import canonical, parse
    from synthbench.run.extensions import load_plugin
    from synthbench.run.verify import Verifier
    from synthbench.suites.plan import FRAMEWORKS

    for module in plugin:
        load_plugin(module)
    chosen = list(dict.fromkeys(split_list(framework, FRAMEWORKS_ADVICE) or FRAMEWORKS))
    for name in chosen:
        if name not in FRAMEWORKS:
            raise UnknownNameError("framework", name, FRAMEWORKS)
    if require_both and len(chosen) < len(FRAMEWORKS):
        raise NotationError(
            f"--require-both needs {' and '.join(FRAMEWORKS)}, got --framework {','.join(chosen)}; "
            "leave one of the two options out"
        )
    wanted = split_variants(variant or []) or [*SHOWCASE, *sorted(plugins())]
    names = list(dict.fromkeys(map(canonical, wanted)))
    failed = 0
    with Verifier(chosen, plugin) as verifier:
        if len(verifier.missing) == len(chosen):
            raise FrameworkMissingError("\n".join(verifier.missing.values()))
        for reason in verifier.missing.values():
            complain(reason)
        width = max(len("variant"), *map(len, names))
        present = [name for name in chosen if name not in verifier.missing]
        typer.echo(_line(width, "variant", [*[f"{n}-numpy" for n in present], *PAIR], "verdict"))
        for verdict in verifier.verify(names, dtype, require_both=require_both):
            failed += not verdict.passed
            _print(verdict, width, present, parse(verdict.variant).has_reference)
    if failed:
        complain(f"{failed} of {len(names)} variant{'s' * (len(names) > 1)} did not pass")
        raise typer.Exit(1)
    if verifier.missing:
        raise typer.Exit(FrameworkMissingError.exit_code)


PAIR = ("torch-jax", "gradients")


def _print(verdict: Verdict, width: int, frameworks: list[str], has_reference: bool) -> None:
    outputs = [verdict.worst("outputs", framework, "numpy") for framework in frameworks]
    outputs.append(verdict.worst("outputs", "torch", "jax"))
    gradients = verdict.worst("gradients", "torch", "jax") or verdict.worst("gradients")
    found = [*outputs, gradients]
    shown = ["-" if worst is None else f"{worst.error:.1e}" for worst in found]
    failures = verdict.failures
    limits = dict.fromkeys(f"{worst.tolerance:g}" for worst in found if worst is not None)
    result = f"at most {' and '.join(limits)}: {'FAILED' if failures else 'ok'}"
    if not verdict.comparisons:
        result = "FAILED" if failures else "FAILED: nothing to compare"
    notes = [f"{name} not supported: {reason}" for name, reason in verdict.unsupported.items()]
    notes += verdict.notes
    if not has_reference:
        notes.append("it has no reference(): only the two frameworks were compared")
    typer.echo(_line(width, verdict.variant, shown, "; ".join([result, *notes])))
    for failure in failures:
        typer.echo(f"  {failure}")


def _line(width: int, variant: str, values: list[str], verdict: str) -> str:
    return "  ".join([f"{variant:<{width}}", *(f"{value:>11}" for value in values), verdict])
