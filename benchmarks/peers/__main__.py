"""The command: measure each cell in its own process, store and print it; make the tables."""

from __future__ import annotations

import importlib.metadata
import sys
import time
from collections import deque
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.peers import samples
from benchmarks.peers.kernels import TIMEOUT_SECONDS, chosen_kernel, our_shapes
from benchmarks.peers.measure import Budget
from benchmarks.peers.pairs import NEEDS, Cell, Pair, cells_of, choose_pairs
from benchmarks.peers.samples import Sample
from benchmarks.peers.table import describe, interval_text, summary, time_ratio, write_tables
from synthbench.cli.options import split_lengths
from synthbench.devices import ALLOWED, device_kind
from synthbench.errors import PackageMissingError, ResultsError, SynthbenchError
from synthbench.kernel import Kernel
from synthbench.measure.core_distance import UsualDistance
from synthbench.measure.environment import read_environment
from synthbench.run.host_client import Host
from synthbench.run.progress import duration

TARGET = "benchmarks.peers.measure:measure"
FAILED = "failed"  # measured again when the folder is resumed


def main(
    pairs: Annotated[
        str | None, typer.Option(help='Only pairs whose name contains this, like "jax D+V".')
    ] = None,
    seq_len: Annotated[
        list[str], typer.Option(help="Lengths, separated by commas.", show_default="128 to 8192")
    ] = [],  # noqa: B006  typer reads the default, nothing changes it
    batch: Annotated[
        int | None, typer.Option(min=1, help="Batch.", show_default="8 at 128 to 1 from 2048")
    ] = None,
    d_model: Annotated[int, typer.Option(min=1, help="Channels.")] = 512,
    heads: Annotated[int, typer.Option(min=1, help="Heads.")] = 8,
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "float32",
    device: Annotated[str, typer.Option(help=f"{ALLOWED}.")] = "cpu",
    threads: Annotated[
        int | None, typer.Option(min=1, help="Cores.", show_default="all usable")
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="Least total time of the samples of a cell.")
    ] = 0.6,
    limit: Annotated[
        float, typer.Option(help="Seconds after which 3 pairs of samples are enough.")
    ] = 4.0,
    keep_memory: Annotated[
        bool, typer.Option("--keep-memory", help="Keep freed memory, as suites do.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder; if it has samples, it is resumed.", show_default="by date"),
    ] = None,
    tables: Annotated[
        Path | None, typer.Option(help="Only make the tables of this folder, from its samples.")
    ] = None,
) -> None:
    """Measure every pair and print how they compare."""
    if tables is not None:
        typer.echo("\n".join(map(str, write_tables(tables))))
        return
    lengths = tuple(split_lengths(seq_len)) or None
    chosen = choose_pairs(pairs)
    require_packages(chosen)
    cells = cells_of(chosen, lengths, batch)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = out or Path("results/peers") / f"{device_kind(device).name}-{stamp}"
    sizes = {"d_model": d_model, "heads": heads, "keep_memory": keep_memory}
    known = start_or_resume(folder, threads, sizes)
    require_alike(folder, known, dtype, device)
    done = {one.key for one in known if one.outcome != FAILED}
    waiting = [cell for cell in cells if sample_of(cell, dtype, device).key not in done]
    if known and waiting:
        note_resumption(folder, threads)
    kwargs = {"d_model": d_model, "heads": heads, "dtype": dtype, "device": device}
    kwargs["keep_memory"] = keep_memory
    budget = asdict(Budget(seconds=seconds, limit=limit))
    kernels: dict[str, Kernel | None] = {}  # by the shapes they were chosen for
    frameworks = dict.fromkeys(cell.pair.framework for cell in cells)
    hosts = {name: Host(name, threads=threads, device=device) for name in frameworks}
    usual = UsualDistance()
    begin, spent = time.monotonic(), 0.0
    queue, number = deque(waiting), 0
    try:
        while queue:
            cell, number = queue.popleft(), number + 1
            one = sample_of(cell, dtype, device)
            raced = our_shapes(one, d_model, heads)
            host = hosts[cell.pair.framework]
            if raced.id not in kernels:
                kernels[raced.id] = chosen_kernel(host, raced, keep_memory, usual, report)
            one = one.model_copy(update={"kernel_choice": kernels[raced.id]})
            more = {"budget": budget, "cores_may_be_near": usual.is_near}
            one = measure(host, one, kwargs | more)
            samples.append(folder, one)
            usual.add(*one.core_distances)
            if one.warnings and number <= len(waiting):  # once more at the end: that counts then
                queue.append(cell)
            spent += effort(cell)
            remaining = (time.monotonic() - begin) * sum(map(effort, queue)) / spent
            report(f"[{number}/{number + len(queue)}] {line(one)}; {duration(remaining)} left")
            write_tables(folder)
    except KeyboardInterrupt:
        report(f"interrupted; resume with --out {folder}")
        raise typer.Exit(130) from None
    finally:
        for host in hosts.values():
            host.stop()
    typer.echo(summary(samples.read(folder)))
    typer.echo("\n".join(map(str, write_tables(folder))))


def require_packages(chosen: list[Pair]) -> None:
    """Raise PackageMissingError if the package of a peer is not installed."""
    needed = dict.fromkeys(NEEDS[pair.peer] for pair in chosen if pair.peer in NEEDS)
    if missing := [name for name in needed if version(name) is None]:
        raise PackageMissingError(
            f"{' and '.join(missing)}: not installed; use `make peers`, which installs it, or "
            "pip install --no-deps -r requirements-peers.lock, or choose other --pairs"
        )


def start_or_resume(folder: Path, threads: int | None, sizes: dict[str, int]) -> list[Sample]:
    """The samples of an existing folder; else create it, with a description of the machine.

    Raises ResultsError for a folder with other sizes.
    """
    if (folder / samples.SAMPLES).exists():
        other = samples.read_environment(folder).get("sizes")
        if other != sizes:
            raise ResultsError(f"{folder} was measured at {other}, not {sizes}; give another --out")
        return samples.read(folder)
    folder.mkdir(parents=True, exist_ok=True)
    environment = read_environment(threads)
    environment["versions"] |= {name: version(name) for name in ("linformer", "transformers")}
    samples.write_environment(folder, environment | {"sizes": sizes})
    return []


def note_resumption(folder: Path, threads: int | None) -> None:
    """Add to the description of a folder when, where and with which code it is resumed."""
    now, environment = read_environment(threads), samples.read_environment(folder)
    found = {name: now[name] for name in ("taken", "cpu", "git", "code_sha256")}
    environment.setdefault("resumed", []).append(found)
    samples.write_environment(folder, environment)


def require_alike(folder: Path, known: list[Sample], dtype: str, device: str) -> None:
    """Raise ResultsError if a folder has samples of another type or device: no row says which."""
    wanted = f"{dtype} on {device}"
    if others := {f"{one.dtype} on {one.device}" for one in known} - {wanted}:
        found = " and ".join(sorted(others))
        raise ResultsError(f"{folder} was measured in {found}, not {wanted}; give another --out")


def measure(host: Host, one: Sample, kwargs: dict[str, object]) -> Sample:
    """Measure a cell in a child process of its framework's host; a failure keeps its reason."""
    fields = ("framework", "variant", "peer", "mode", "seq_len", "batch", "head_dim")
    cell = {name: getattr(one, name) for name in fields}
    cell["kernel"] = None if one.kernel_choice is None else asdict(one.kernel_choice)
    try:
        return Sample.model_validate(host.call(TARGET, cell | kwargs, TIMEOUT_SECONDS))
    except SynthbenchError as error:
        return one.model_copy(update={"outcome": FAILED, "reason": str(error)})


def sample_of(cell: Cell, dtype: str, device: str) -> Sample:
    """The sample of a cell before it is measured."""
    pair = cell.pair
    return Sample(
        framework=pair.framework, variant=pair.variant, peer=pair.peer, mode=cell.mode,
        seq_len=cell.seq_len, batch=cell.batch, head_dim=pair.head_dim, dtype=dtype, device=device,
    )  # fmt: skip


def effort(cell: Cell) -> float:
    """The relative duration of a cell, for the estimate of the time left."""
    step = cell.batch * cell.seq_len**2 * (4 if cell.mode == "train" else 1)
    return 1 + step / 5e6


def line(one: Sample) -> str:
    """A cell and its result in one line."""
    if one.outcome != "ok":
        return f"{describe(one)}: {one.outcome}: {one.reason}"
    text = f"{describe(one)}: {interval_text(time_ratio(one))} times as fast"
    assert one.ours is not None
    assert one.theirs is not None
    if one.ours.peak_bytes and one.theirs.peak_bytes:
        text += f", memory {one.theirs.peak_bytes / one.ours.peak_bytes:.3g}"
    return text + "*" * bool(one.warnings)


def version(package: str) -> str | None:
    """The installed version of a package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def report(text: str) -> None:
    """Print a line to standard error."""
    typer.echo(text, err=True)


if __name__ == "__main__":
    try:
        typer.run(main)
    except SynthbenchError as error:
        report(f"peers: {error}")
        sys.exit(error.exit_code)
