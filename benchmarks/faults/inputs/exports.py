"""Runs that are valid but hard to show, and files that an export cannot write."""

from __future__ import annotations

from typing import Any

from benchmarks.faults.case import FOLDER, Case, Content, Special
from benchmarks.faults.inputs.examples import INFO, RECORD, RUN, changed, run_files

# Values that are allowed: every command must get through with them.
HOSTILE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a lone surrogate in a reason": (INFO, changed(RECORD, "reason", "caf\udce9")),
    "LaTeX in a machine": (
        changed(INFO, "machines.0.environment.cpu", "\\input{/etc/passwd}\n\\end{document}"),
        RECORD,
    ),
    "HTML in a device": (changed(INFO, "device", "<script>alert(1)</script>"), RECORD),
    "a formula in a reason": (INFO, changed(RECORD, "reason", "=cmd|' /C calc'!A0")),
    "markup in a reason": (INFO, changed(RECORD, "reason", "[/red][link=x]")),
    "an environment of other types": (
        changed(INFO, "machines.0.environment", {"versions": 3, "cpu": [], "load": "high"}),
        RECORD,
    ),
    "a start that is not a date": (changed(INFO, "started", "yesterday"), RECORD),
    "a reason of 100,000 characters": (INFO, changed(RECORD, "reason", "x" * 100_000)),
    "no samples": (INFO, changed(RECORD, "measurements.timing.samples", [])),
    "no measurements": (INFO, changed(RECORD, "measurements", {})),
    "samples of zero": (INFO, changed(RECORD, "measurements.timing.samples", [0.0, 0.0])),
    "the largest count": (INFO, changed(RECORD, "measurements.flops.formula", 2**63 - 1)),
    "samples of 1e300": (INFO, changed(RECORD, "measurements.timing.samples", [1e300] * 3)),
    "a host of other types": (INFO, changed(RECORD, "host", {"threads": "two", "cores": None})),
}
# Settings that are not those of a suite: refused, or shown without what depends on them.
SETTINGS: dict[str, Any] = {
    "no settings": {},
    "a baseline that is a list": {**INFO["settings"], "baseline": ["V"]},
    "a baseline that does not exist": {**INFO["settings"], "baseline": "nonsense"},
    "a margin that is a text": {**INFO["settings"], "margin": "wide"},
    "axes that are a number": {**INFO["settings"], "axes": 3},
    "a model that is a number": {**INFO["settings"], "model": 3},
    "a measure that is a list": {**INFO["settings"], "measure": []},
}
COMMANDS = (
    ("tables",),
    ("export", "--format", "csv"),
    ("export", "--format", "pytest-benchmark"),
    ("list", "runs"),
)

CANNOT_WRITE: dict[str, tuple[str, dict[str, Content]]] = {
    "a folder": ("there", {"there": FOLDER}),
    "below a file": ("there/x", {"there": "a file"}),
    "no such folder": ("no/such/x", {}),
    "a full disk": ("/dev/full", {}),
    "an empty name": ("", {}),
    "a link to itself": ("there", {"there": Special("link", "there")}),
    "a name that is too long": ("x" * 300, {}),
    "a file of the system": ("/proc/version", {}),
}

EXPORTS: list[Case] = [
    *(
        Case("export", f"{name} ({' '.join(command)})",
             command if command[0] == "list" else (*command, RUN),
             run_files(info, [record]), codes=(0, 2), writes=True, prints=True)
        for name, (info, record) in HOSTILE.items()
        for command in COMMANDS
    ),
    *(
        Case("export", f"{name} ({' '.join(command)})",
             command if command[0] == "list" else (*command, RUN),
             run_files(changed(INFO, "settings", settings)), codes=(0, 2), writes=True, prints=True)
        for name, settings in SETTINGS.items()
        for command in COMMANDS
    ),
    *(
        Case("export", f"to {name} ({form})", ("export", RUN, "--format", form, "--out", target),
             {**run_files(), **files})
        for name, (target, files) in CANNOT_WRITE.items()
        for form in ("csv", "pytest-benchmark")
    ),
    *(
        Case("export", f"{command[0]} to {name}", (*command, RUN), {**run_files(), **files},
             prints=True)
        for command, name, files in (
            (("tables",), "a file", {f"{RUN}/tables": "a file"}),
            (("plot", "--mode", "forward"), "a file", {f"{RUN}/plots": "a file"}),
            (("tables",), "a link to itself", {f"{RUN}/tables": Special("link", "tables")}),
        )
    ),
]  # fmt: skip
