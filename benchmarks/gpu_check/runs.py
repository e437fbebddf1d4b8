"""The real runner: cells that measure, cells that run out of memory or time, what stays behind."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from benchmarks.gpu_check.finding import Finding, Found, Settings, tried
from synthbench.record import Record
from synthbench.store import read_run

ROOT = Path(__file__).resolve().parents[2]
VARIANTS = ("V", "FD", "R+V", "D", "light_conv")
FREED_WITHIN = 512 * 2**20  # bytes that may stay taken after a run


def suite_of(settings: Settings, **changes: Any) -> dict[str, Any]:
    """A suite of train steps at one length."""
    axes: dict[str, Any] = {
        "variant": ["V"], "mode": ["train"], "seq_len": [64 if settings.small else 2048],
        "batch": [4 if settings.is_cuda else 1],
        "dtype": ["bfloat16" if settings.is_cuda else "float32"],
    }  # fmt: skip
    measure: dict[str, Any] = {
        "min_samples": 5, "min_seconds": 0.1, "max_seconds": 2, "timeout_seconds": 120,
        "kernel_seconds": 0, "ceiling": False,
    }  # fmt: skip
    return {
        "axes": axes | changes.get("axes", {}),
        "model": {"kind": "mixer", "d_model": 512, "heads": 8} | changes.get("model", {}),
        "measure": measure | changes.get("measure", {}),
    }


def run_suite(
    settings: Settings, framework: str, content: dict[str, Any], *options: str
) -> list[Record]:
    """The records of a run of `synthbench run`; raises RuntimeError with what it said."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "check.yaml").write_text(yaml.safe_dump(content))
        command = [
            sys.executable, "-P", "-m", "synthbench", "run", "--suite", str(folder / "check.yaml"),
            "--device", settings.device, "--framework", framework, "--out", str(folder / "out"),
            *options,
        ]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment(folder)
        )
        if not (folder / "out" / "run.json").exists():
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-400:]}")
        return list(read_run(folder / "out").records)


def environment(folder: Path) -> dict[str, str]:
    """Where this package is found, and a cache that nobody else uses."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return dict(os.environ) | {
        "PYTHONPATH": os.pathsep.join(paths), "XDG_CACHE_HOME": str(folder / "cache"),
    }  # fmt: skip


def cells(settings: Settings) -> Iterator[Finding]:
    """One train step of some variants as a run measures it, with the kernels that it chose."""
    content = suite_of(settings, measure={"kernel_seconds": 20 if settings.is_cuda else 5})
    content["axes"]["variant"] = list(VARIANTS[:2] if settings.small else VARIANTS)
    for framework in settings.frameworks:
        try:
            records = run_suite(settings, framework, content)
        except RuntimeError as error:
            yield Finding("cells", framework, "failed", reason=str(error))
            continue
        for record in records:
            yield of_record("cells", f"{framework} {record.cell.variant}", record)


def of_record(step: str, branch: str, record: Record, wanted: str = "ok") -> Finding:
    """What a record says in a line."""
    measured = record.measurements
    said: list[str] = [record.outcome]
    if measured.timing is not None:
        said.append(f"{1e3 * statistics.median(measured.timing.samples):.3g} ms")
    if (queue := measured.throughput) is not None:
        on_device = queue.device_seconds
        said.append(f"queued {1e3 * queue.seconds:.3g} ms")
        said += [f"on the device {1e3 * on_device:.3g} ms"] if on_device is not None else []
        said += [f"{queue.joules:.3g} J"] if queue.joules is not None else []
    if measured.memory is not None:
        peak = measured.memory.peak
        size = "no peak" if peak is None else f"{peak / 1e6:.4g} MB"
        said.append(f"{size} ({measured.memory.method or measured.missing.get('peak_bytes')})")
    if measured.kernel_choice is not None:
        said.append(measured.kernel_choice.name)
    said += measured.kernels + measured.warnings
    return Finding(
        step, branch, correct=record.outcome == wanted, figure="; ".join(said),
        reason=record.reason, seconds=record.wall_seconds,
    )  # fmt: skip


def memory(settings: Settings) -> Iterator[Finding]:
    """A long input: the measured peak next to what was planned, and blocks of several sizes."""
    seq_len = 128 if settings.small else 8192 if settings.is_cuda else 2048
    content = suite_of(settings, axes={"variant": ["V", "R+V"], "seq_len": [seq_len], "batch": [1]})
    for framework in settings.frameworks:
        try:
            records = run_suite(settings, framework, content)
        except RuntimeError as error:
            yield Finding("memory", framework, "failed", reason=str(error))
            continue
        for record in records:
            found = of_record("memory", f"{framework} {record.cell.variant} L {seq_len}", record)
            memory = record.measurements.memory
            planned = "no plan"
            if memory is not None and memory.planned is not None:
                planned = f"planned {memory.planned / 1e6:.4g} MB ({memory.planned_tool})"
            yield replace(found, figure=f"{planned}; {found.figure}")
    if "torch" in settings.frameworks:
        for queries in (32, 512) if settings.small else (32, 128, 512, 2048):
            name = f"torch R+V L {seq_len}, blocks of {queries} queries"
            yield tried("memory", name, partial(blocks, settings, seq_len, queries))


def blocks(settings: Settings, seq_len: int, queries: int) -> Found:
    """Milliseconds of a train step of R+V with blocks of one size."""
    from synthbench.api import backend_of
    from synthbench.backends.base import Setting
    from synthbench.backends.kernel_choice import using_kernel
    from synthbench.kernel import Kernel
    from synthbench.measure.inputs import random_batch
    from synthbench.measure.timing import timed
    from synthbench.mixers.notation import parse
    from synthbench.mixers.sizes import Sizes
    from synthbench.models.model import Model
    from synthbench.models.start_values import start_values

    model = Model.of("mixer", parse("R+V"), Sizes.of(d_model=512, heads=8, max_len=seq_len))
    dtype = "bfloat16" if settings.is_cuda else "float32"
    step = backend_of("torch").build(
        model, start_values(model.parameters()), Setting(dtype=dtype, device=settings.device),
        "train", random_batch(model, 1, seq_len),
    )  # fmt: skip
    kernel = Kernel("blocks of queries", logits=2**26, queries=queries)
    with using_kernel(kernel):
        seconds = [timed(step, step.wait) for _ in range(2 if settings.small else 5)]
    return None, f"{1e3 * min(seconds[1:]):.4g} ms, first {1e3 * seconds[0]:.4g} ms"


def ends(settings: Settings) -> Iterator[Finding]:
    """Cells that end otherwise: out of memory, too late; then the device is free again."""
    free = free_bytes(settings)
    huge = {"variant": ["V"], "form": ["reference"], "seq_len": [2**16], "batch": [8]}
    limit = {} if settings.is_cuda else {"memory_limit_gb": 4}
    oom = suite_of(settings, axes=huge, measure={"parity": False, **limit})
    late = suite_of(
        settings, axes={"variant": ["R+V"], "seq_len": [2048], "batch": [4]},
        measure={"timeout_seconds": 0.2, "parity": False, "max_seconds": 60, "min_samples": 1000},
    )  # fmt: skip
    for framework in settings.frameworks:
        for name, content, options in (("oom", oom, ["--force"]), ("timeout", late, [])):
            try:
                (record,) = run_suite(settings, framework, content, *options)
            except (RuntimeError, ValueError) as error:
                yield Finding("ends", f"{framework} {name}", "failed", reason=str(error)[:400])
                continue
            yield of_record("ends", f"{framework} {name}", record, wanted=name)
    if settings.is_cuda:
        time.sleep(1.0)
        lost = (free or 0) - (free_bytes(settings) or 0)
        yield Finding("ends", "memory of the device is free again", correct=lost < FREED_WITHIN,
                      figure=f"{lost / 2**20:.0f} MiB less free than before")  # fmt: skip


def free_bytes(settings: Settings) -> int | None:
    """Free memory of the device, as the driver sees it, from another process."""
    if not settings.is_cuda:
        return None
    from synthbench.measure.gpu import handle_of, open_nvml

    with open_nvml() as nvml:
        handle = None if nvml is None else handle_of(nvml, settings.device)
        return None if handle is None else int(nvml.nvmlDeviceGetMemoryInfo(handle).free)
