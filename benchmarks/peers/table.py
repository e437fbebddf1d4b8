"""peers.md and peers.csv, made only from the samples; the same samples give the same bytes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers import samples
from benchmarks.peers.pairs import (
    AIMS,
    IN_TORCH_ONLY,
    NOT_SLOWER,
    NOTES,
    PAIRS,
    REFERENCE,
    TEXTBOOK,
)
from benchmarks.peers.samples import Sample
from synthbench.analysis.intervals import Interval, ratio_interval
from synthbench.metrics import significant
from synthbench.report.data.table import Column, Marked, Table, Value
from synthbench.report.text.comma_separated import csv_text
from synthbench.report.text.markdown import markdown_section

PACKAGES = ("torch", "jax", "flax", "linformer", "transformers", "numpy")
COLUMNS = (
    Column("framework", is_key=True),
    Column("variant", is_key=True),
    Column("against", is_key=True),
    Column("step", is_key=True),
    Column("length", "exact_count", is_key=True),
    Column("batch", "exact_count", is_key=True),
    *(Column(label, "ratio", "time") for label in ("ratio", "low", "high")),
    *(Column(label, "median_seconds", "ms") for label in ("ours", "theirs")),
    Column("ratio", "ratio", "memory"),
    *(Column(label, "peak_bytes", "MB") for label in ("ours", "theirs")),
    Column("difference", "relative_error"),
)
NOTE = (
    "time: median step time of theirs over ours; above 1, ours is faster; 95% confidence interval "
    "by bootstrap of the pairs of samples. memory: peak memory of theirs over ours in one step. "
    "difference: the largest difference of outputs (of losses in a train step) over the largest "
    "value, in the first step, with the same weights."
)
ALLOCATOR = {
    False: (
        "While steps were timed, the C library returned freed memory to the system, its default: a "
        "side that needs more memory also spends more time on clearing pages."
    ),
    True: "While steps were timed, the process kept freed memory, as in suites.",
}
GROUPS = {
    "Against our own reference form": (REFERENCE,),
    "Against packages": tuple({pair.peer: None for pair in PAIRS if pair.is_package}),
    "Against textbook code": (TEXTBOOK,),
}


def write_tables(folder: Path) -> list[Path]:
    """Make both files from the samples of a folder; raises ResultsError if it has none."""
    files = render(samples.read(folder), samples.read_environment(folder))
    for name, text in files.items():
        (folder / name).write_bytes(text.encode())
    return [folder / name for name in files]


def render(found: Sequence[Sample], environment: dict[str, Any]) -> dict[str, str]:
    """peers.md and peers.csv, name -> text."""
    order = {
        (pair.framework, pair.variant, pair.head_dim, pair.peer): n for n, pair in enumerate(PAIRS)
    }
    found = sorted(
        found,
        key=lambda one: (
            order.get((one.framework, one.variant, one.head_dim, one.peer), len(order)), one.key,
        ),
    )  # fmt: skip
    table = Table("peers", "", "", (), COLUMNS, [row(one) for one in found])
    sections = ["# Our mixers compared with their peers", "\n".join(head(found, environment))]
    sections += [summary(found)]
    for title, peers in GROUPS.items():
        rows = [row(one) for one in found if one.peer in peers]
        if rows:
            sections.append(markdown_section(Table("", title, NOTE, (), COLUMNS, rows)).rstrip())
    sections.append(notes(found))
    return {"peers.md": "\n\n".join(sections) + "\n", "peers.csv": csv_text(table)}


def time_ratio(one: Sample) -> Interval:
    """The step time of theirs over ours, for an ok cell."""
    assert one.ours is not None
    assert one.theirs is not None
    return ratio_interval(one.theirs.samples, one.ours.samples)


def row(one: Sample) -> tuple[Value, ...]:
    """A cell as a row of the table; its outcome instead of numbers if it is not ok."""
    keys: tuple[Value, ...]
    keys = (one.framework, one.label, one.peer, one.mode, one.seq_len, one.batch)
    differs_by: Value = "not compared" if one.difference is None else one.difference
    if one.outcome != "ok" or one.ours is None or one.theirs is None:
        return (*keys, *[one.outcome] * 8, differs_by)
    ratio = time_ratio(one)
    times = [statistics.median(side.samples) for side in (one.ours, one.theirs)]
    peaks: list[Value] = []
    for peak in (one.ours.peak_bytes, one.theirs.peak_bytes):
        peaks.append("not measured" if peak is None else peak)
    memory: Value = "not measured"
    if one.ours.peak_bytes and one.theirs.peak_bytes:
        memory = one.theirs.peak_bytes / one.ours.peak_bytes
    shown = [Marked(value) if one.warnings else value for value in (*ratio, *times)]
    return (*keys, *shown, memory, *peaks, differs_by)


def head(found: Sequence[Sample], environment: dict[str, Any]) -> list[str]:
    """What was measured, on which machine, with which versions."""
    versions = environment.get("versions", {})
    known = [f"{name} {versions[name]}" for name in PACKAGES if versions.get(name)]
    cores, sizes = environment.get("pinned_to") or [], environment.get("sizes", {})
    kinds = sorted({f"{one.dtype} on {one.device}" for one in found})
    forms = sorted({one.form for one in found if one.form})
    return [
        f"One layer, d_model {sizes.get('d_model', 'unknown')}, heads "
        f"{sizes.get('heads', 'unknown')}, max_len = the length, {', '.join(kinds)}; ours in form "
        f"auto (built: {' or '.join(forms) or 'not recorded'}).  ",
        f"Device: {environment.get('cpu', 'unknown CPU')}, {len(cores)} cores.  ",
        f"Versions: {', '.join(known) or 'not recorded'}.  ",
        f"Started {environment.get('taken', 'at an unknown time')}{resumed(environment)}.  ",
        "",
        f"Made from `{samples.SAMPLES}` by `python -m benchmarks.peers --tables`; do not edit.",
    ]


def resumed(environment: dict[str, Any]) -> str:
    """When a folder was resumed, and with which code, if it was."""
    times = environment.get("resumed", [])
    if not times:
        return ""
    codes = (((one.get("git") or {}).get("commit") or "unknown code")[:8] for one in times)
    return ", resumed " + ", ".join(
        f"{one['taken']} ({code})" for one, code in zip(times, codes, strict=True)
    )


def summary(found: Sequence[Sample]) -> str:
    """How many cells are fast enough, which are not, and whether the aims are reached."""
    timed = {one.key: time_ratio(one) for one in found if one.outcome == "ok"}
    slower = [one for one in found if one.key in timed and timed[one.key].value < NOT_SLOWER]
    others = [one for one in found if one.key not in timed]
    lines = [
        f"At least {NOT_SLOWER} times as fast as the peer: {len(timed) - len(slower)} of "
        f"{len(timed)} cells."
    ]
    lines += [f"- slower: {describe(one)}: {interval_text(timed[one.key])}" for one in slower]
    lines += [f"- {one.outcome}: {describe(one)}: {one.reason}" for one in others]
    for one in found:
        if one.peer != REFERENCE or one.key not in timed or one.variant not in AIMS:
            continue
        if one.framework == "torch" or one.variant not in IN_TORCH_ONLY:
            aim = AIMS[one.variant]
            ratio = timed[one.key]
            result = judge(aim, ratio)
            lines.append(f"- aim of {aim} times {result}: {describe(one)}: {interval_text(ratio)}")
    return "\n".join(lines)


def judge(aim: float, ratio: Interval) -> str:
    """Whether a ratio reaches an aim: the whole interval has to be on one side of it."""
    if ratio.low >= aim:
        return "reached"
    return "not reached" if ratio.high < aim else "undecided"


def describe(one: Sample) -> str:
    """A cell in one line."""
    size = f"{one.mode} L={one.seq_len} B={one.batch}"
    return f"{one.framework} {one.label} against {one.peer}, {size}"


def interval_text(ratio: Interval) -> str:
    """A ratio with its interval."""
    median, low, high = map(significant, ratio)
    return f"{median} ({low} to {high})"


def notes(found: Sequence[Sample]) -> str:
    """Notes on the peers, on how memory was measured, and on disturbed cells."""
    lines = ["## Notes", ""]
    lines += [f"- {peer}: {NOTES[peer]}." for peer in NOTES if any(o.peer == peer for o in found)]
    kept = {one.keeps_memory for one in found if one.outcome == "ok"}
    lines += [f"- {ALLOCATOR[each]}" for each in sorted(kept)]
    methods = sorted({one.memory_method for one in found if one.memory_method})
    lines += [f"- Memory: {method}." for method in methods]
    kernels: dict[str, set[str]] = {}
    for one in found:
        chosen = [one.kernel_choice.name] if one.kernel_choice else one.kernels
        if chosen:
            kernels.setdefault(f"{one.framework} {one.label}", set()).update(chosen)
    lines += [f"- Our kernels, {who}: {'; '.join(sorted(kernels[who]))}." for who in kernels]
    lines += [f"- \\*{describe(one)}: {'; '.join(one.warnings)}" for one in found if one.warnings]
    return "\n".join(lines)
