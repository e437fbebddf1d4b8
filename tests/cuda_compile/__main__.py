"""Compile every mixer's programs for an H100, without one: what fails, is slow or holds too much.

    make test-cuda-compile                                  # every variant; about an hour
    python -m tests.cuda_compile --variants V,R+V --seq-len 512

Each variant is compiled in a process of its own. A line per program; exit code 1 if a program does
not compile within SECONDS (elapsed, or of the processor on a busy machine), if its loops take fewer
than LEAST_QUERIES queries at a time, or if its memory grows faster than the length to the power
EXPONENT although it holds no [H,L,L] table.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from synthbench.mixers.catalog import SHOWCASE
from synthbench.mixers.notation import parse

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 20.0
EXPONENT = 1.15  # of the planned memory, from the shorter of GROWTH to the longer
GROWTH = (2048, 8192)
LEAST_QUERIES = 64
# Components whose logits [H,L,L] are parameters, or made by a convolution over the keys.
TABLES = frozenset({"random", "fixed_random", "conv", "conv_relu_conv"})
BATCH = 1
MASKS = ("", "padded", "causal", "padded causal")


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile, print, judge."""
    options = parse_options(arguments)
    if options.child:
        compile_all(options)
        return 0
    problems: list[str] = []
    slowest: dict[str, Any] = {"name": "", "seconds": 0.0}
    number, steepest = 0, 0.0
    for variant in options.variants:
        found = list(of_variant(variant, options))
        problems += judge(variant, found)
        made = [one for one in found if "error" not in one]
        number += len(made)
        slowest = max([slowest, *made], key=lambda one: one["seconds"])
        if not has_table(variant):
            steepest = max([steepest, *(exponent for _, exponent in growth(made))])
    print(
        f"{number} programs; the slowest took {slowest['seconds']:.1f} s ({slowest['name']}); "
        f"memory without a table grows with the length to the {steepest:.2f} at most"
    )
    print("\n".join(problems) or "every program compiles as it should")
    return int(bool(problems))


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m tests.cuda_compile")
    parser.add_argument("--variants", type=lambda text: text.split(","), default=list(SHOWCASE))
    parser.add_argument("--seq-len", type=lambda text: [*map(int, text.split(","))],
                        default=[512, *GROWTH])  # fmt: skip
    parser.add_argument("--dtype", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--mode", nargs="+", default=["forward", "train"])
    parser.add_argument("--masks", nargs="+", default=MASKS, choices=MASKS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def of_variant(variant: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What a child prints about one variant; a child that dies is the last entry."""
    command = [
        sys.executable, "-P", "-m", "tests.cuda_compile", "--child", "--variants", variant,
        "--seq-len", ",".join(map(str, options.seq_len)), "--dtype", *options.dtype,
        "--mode", *options.mode, "--masks", *options.masks,
    ]  # fmt: skip
    environment = {
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_gpu_autotune_level=0", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=dict(os.environ) | environment,
    )  # fmt: skip
    assert child.stdout is not None
    for line in child.stdout:
        if line.startswith("{"):
            found = json.loads(line)
            print(describe(found), flush=True)
            yield found
    if child.wait():
        yield {"name": variant, "error": f"the process ended with code {child.returncode}"}


def compile_all(options: argparse.Namespace) -> None:
    """Compile every program of the options in this process; a line of JSON for each."""
    import jax

    jax.devices()  # of the CPU, before anything asks for a GPU
    from tests.cuda_compile.programs import Program, compile_program

    for variant, seq_len, dtype, mode, mask in itertools.product(
        options.variants, options.seq_len, options.dtype, options.mode, options.masks
    ):
        padded, causal = ("padded" in mask), ("causal" in mask)
        if variant.startswith("linformer") and causal:
            continue  # it cannot be
        asked = Program(variant, seq_len, BATCH, dtype, mode, padded, causal)
        found: dict[str, Any] = {"name": asked.name, "seq_len": seq_len, "how": [dtype, mode, mask]}
        try:
            made = compile_program(asked)
        except Exception as error:  # whatever does not compile is a finding
            found["error"] = f"{type(error).__name__}: {error}"[:400]
        else:
            found |= {
                "seconds": round(made.seconds, 2), "peak": made.peak_bytes,
                "temporary": made.temporary_bytes, "trips": made.trips, "calls": made.calls,
                "kernels": made.kernels,
            }  # fmt: skip
        print(json.dumps(found), flush=True)


def describe(found: dict[str, Any]) -> str:
    """One line of text."""
    if "error" in found:
        return f"{found['name']}: {found['error']}"
    loops = f", loops of {', '.join(map(str, found['trips']))}" if found["trips"] else ""
    used = ", ".join([*found["kernels"], *found["calls"]])
    return (
        f"{found['name']}: {found['seconds']:.1f} s, {found['peak'] / 1e6:,.0f} MB of which "
        f"{found['temporary'] / 1e6:,.0f} temporary{loops}; {used}"
    )


def judge(variant: str, found: Sequence[dict[str, Any]]) -> list[str]:
    """What is wrong with the programs of a variant."""
    problems = [describe(one) for one in found if "error" in one]
    made = [one for one in found if "error" not in one]
    for one in made:
        if one["seconds"] > SECONDS:
            problems.append(f"{one['name']}: {one['seconds']:.0f} s to compile")
        if any(one["seq_len"] / trips < LEAST_QUERIES for trips in one["trips"]):
            problems.append(f"{one['name']}: loops of {one['trips']} iterations")
    if not has_table(variant):
        problems += [
            f"{name}: memory grows with the length to the {exponent:.2f}"
            for name, exponent in growth(made)
            if exponent > EXPONENT
        ]
    return problems


def has_table(variant: str) -> bool:
    """Whether a variant holds logits [H,L,L]."""
    names = {component.name for component in getattr(parse(variant), "components", ())}
    return bool(names & TABLES)


def growth(made: Sequence[dict[str, Any]]) -> list[tuple[str, float]]:
    """The programs of the longer of GROWTH, and how their memory grows up to there."""
    by_length = {(one["seq_len"], *one["how"]): one for one in made}
    found = []
    for (length, *how), short in by_length.items():
        long = by_length.get((GROWTH[1], *how))
        if length != GROWTH[0] or long is None:
            continue
        exponent = math.log(long["peak"] / short["peak"]) / math.log(GROWTH[1] / GROWTH[0])
        found.append((long["name"], exponent))
    return found


if __name__ == "__main__":
    sys.exit(main())
