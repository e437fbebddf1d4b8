"""Check that a planted slowdown of 10% is found on this machine, and that no other is reported.

    python -m benchmarks.planted_slowdown

Measures a small cell of a mixer that does the work of V ten times, its A/A twin, and a mixer that
does it eleven times (10% more of the same work), in both frameworks, in several runs of the whole
harness. Prints each verdict and how often it occurred. Nothing else should run at the same time.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from benchmarks.whole_run import run_whole
from synthbench.mixers.attention import Attention
from synthbench.mixers.base import Mixer, Parameter
from synthbench.mixers.dot_product import DotProduct
from synthbench.mixers.sizes import Sizes
from synthbench.report.tables.catalog import make_tables
from synthbench.run.extensions import load_plugin
from synthbench.store import read_run
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import parse_suite

MODULE = "benchmarks.planted_slowdown"
V = Attention((DotProduct(),))
SUITE = """
axes: {{variant: [repeated, repeated(times=11)], framework: [torch, jax], mode: [forward],
        seq_len: [64], batch: [2]}}
model: {{kind: mixer, d_model: 64, heads: 4}}
measure: {{rounds: {rounds}, aa: true, min_samples: 5, min_seconds: 0.2, max_seconds: 1,
           timeout_seconds: 60, threads: 1, parity: false}}
baseline: repeated
"""


@dataclass(frozen=True)
class Repeated(Mixer):
    """V applied repeatedly; each pass needs the result of the last, so none can be skipped."""

    name: ClassVar[str] = "repeated"
    times: int = 10

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return V.parameters(sizes)

    def torch(self, sizes: Sizes) -> Any:
        from synthbench.backends.torch.mixers import attention

        return self._chain(attention.reference)

    def jax(self, sizes: Sizes) -> Any:
        from synthbench.backends.jax.mixers import attention

        return self._chain(attention.reference)

    def _chain(self, once: Any) -> Any:
        def forward(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            for _ in range(self.times):
                x = once(V, p, x, padding_mask, causal)
            return x

        return forward


def main(
    runs: Annotated[int, typer.Option(help="Number of runs.")] = 10,
    rounds: Annotated[int, typer.Option(help="Rounds per run.")] = 5,
) -> None:
    """Print the verdicts of each run, and how many of them are right."""
    load_plugin(MODULE)
    suite = parse_suite(SUITE.format(rounds=rounds), name="planted", source="planted")
    found: dict[tuple[str, str], list[str]] = {}
    for number in range(runs):
        with tempfile.TemporaryDirectory(prefix="planted-") as folder:
            run_whole(make_plan(suite, "cpu"), Path(folder) / "run", plugins=[MODULE])
            tables = {table.name: table for table in make_tables(read_run(Path(folder) / "run"))}
        for row in tables["ratios"].rows:
            framework, _, variant, ratio, low, high, verdict = row
            name = str(verdict).partition(" (")[0]
            found.setdefault((str(framework), str(variant)), []).append(name)
            typer.echo(
                f"run {number + 1}: {framework:5} {variant:20} "
                f"{ratio:.3f} ({low:.3f} to {high:.3f}) {verdict}"
            )
    for (framework, variant), verdicts in sorted(found.items()):
        counts = {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))}
        typer.echo(f"{framework} {variant}: {counts}")


if __name__ == "__main__":
    typer.run(main)
