"""`synthbench show`: the equation, options and parameters of a variant, and its cost."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from synthbench.cli.completion import complete_variant
from synthbench.cli.options import Plugin
from synthbench.cli.output import print_columns, say

if TYPE_CHECKING:
    from synthbench.mixers.base import Mixer
    from synthbench.mixers.sizes import Sizes


def show(
    variant: Annotated[
        str,
        typer.Argument(help="Like V, FR(rank=32)+V or linformer.", autocompletion=complete_variant),
    ],
    batch: Annotated[int, typer.Option("--batch", min=1, help="B")] = 1,
    seq_len: Annotated[int, typer.Option("--seq-len", min=1, help="L")] = 512,
    d_model: Annotated[int, typer.Option("--d-model", min=1, help="d")] = 512,
    heads: Annotated[int, typer.Option("--heads", min=1, help="H")] = 8,
    head_dim: Annotated[
        int | None, typer.Option("--head-dim", min=1, help="k", show_default="d / H")
    ] = None,
    max_len: Annotated[
        int | None, typer.Option("--max-len", min=1, help="N", show_default="L")
    ] = None,
    plugin: Plugin = [],  # noqa: B006
) -> None:
    """Print the equation, options and parameters of a variant, and its cost at a size."""
    from synthbench.mixers.declaration import sizes_for
    from synthbench.mixers.notation import format_mixer, parse
    from synthbench.run.extensions import load_plugin

    for module in plugin:
        load_plugin(module)
    mixer = parse(variant)
    sizes = sizes_for(
        mixer, d_model=d_model, heads=heads, head_dim=head_dim, max_len=max_len or seq_len
    )
    sizes.require_length(seq_len)
    say(f"{format_mixer(mixer)}\n")
    for part in _parts(mixer):
        say(f"{part.name}: {part.equation or 'no equation given'}")
        if part.source:
            say(f"  source   {part.source}")
        if options := _options(part):
            say(f"  options  {', '.join(options)}")
    _print_cost(mixer, sizes, batch, seq_len)


def _parts(mixer: Mixer) -> list[Any]:
    """The components of an attention variant and the variant itself; else only the mixer."""
    from synthbench.mixers.attention import Attention

    return [*mixer.components, mixer] if isinstance(mixer, Attention) else [mixer]


def _options(part: Any) -> list[str]:
    fields = [field for field in dataclasses.fields(part) if field.name != "components"]
    return [
        f"{field.name}={getattr(part, field.name)}"
        + ("" if getattr(part, field.name) == field.default else f" (default {field.default})")
        for field in fields
    ]


def _print_cost(mixer: Mixer, sizes: Sizes, batch: int, seq_len: int) -> None:
    from synthbench.mixers.declaration import cost, declared_parameters_of

    counted = cost(mixer, sizes, batch=batch, seq_len=seq_len)
    rows = [
        (
            name,
            f"[{', '.join(map(str, parameter.shape))}]",
            f"{parameter.size:,}",
            "trained" if parameter.trainable else "constant",
            str(parameter.init),
        )
        for name, parameter in declared_parameters_of(mixer, sizes).items()
    ]
    say(
        f"\nAt batch B {batch}, length L {seq_len}, d_model d {sizes.d_model}, heads H "
        f"{sizes.heads}, head_dim k {sizes.head_dim}, max_len N {sizes.max_len}:\n"
    )
    if rows:
        print_columns(("parameter", "shape", "count", "kind", "start value"), rows)
        say("")
    flops = "no formula given" if counted.flops is None else f"{counted.flops:,}"
    say(f"parameters  {counted.parameters:,}")
    say(f"constants   {counted.constants:,}")
    say(f"FLOPs       {flops}  (one forward pass, 2 per multiply-accumulate)")
