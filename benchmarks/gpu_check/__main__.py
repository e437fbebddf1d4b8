"""Try every branch that needs a GPU, and say which ran, which was correct, with a figure.

    python -m benchmarks.gpu_check --out FOLDER               # the GPU, or this CPU, in 10 minutes
    python -m benchmarks.gpu_check --out FOLDER --step cells --device cuda:1

Each step runs in a process of its own, with a time limit. findings.jsonl in FOLDER gets a line per
finding at once; summary.md is made from it at the end. A step that has ended there is not run
again, so that a check that was cut short can be continued. Exit code 1: something failed or was
wrong, or there was no time for it; 2: FOLDER has findings of another device, sizes or frameworks.
"""

from __future__ import annotations

import argparse
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.gpu_check.finding import END, FAILED, RAN, Finding, Settings
from benchmarks.gpu_check.steps import STEPS
from benchmarks.gpu_check.summary import summary

ROOT = Path(__file__).resolve().parents[2]
MINUTES = 9.5
FRAMEWORKS = ("torch", "jax")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps, print and store what they find."""
    options = parse(arguments)
    begin = time.monotonic()
    device = options.device or ("cuda" if has_nvidia_device() else "cpu")
    frameworks = tuple(name for name in FRAMEWORKS if name in options.framework)
    settings = Settings(device, options.small, frameworks)
    options.out.mkdir(parents=True, exist_ok=True)
    file, kept = options.out / "findings.jsonl", options.out / "settings.json"
    before = kept.read_text(encoding="utf-8") if kept.exists() else "unknown settings"
    if file.exists() and before != settings.dump():
        print(
            f"{options.out} has findings of {before}, not {settings.dump()}; give another --out",
            file=sys.stderr,
        )
        return 2
    kept.write_text(settings.dump(), encoding="utf-8")
    found = of_ended_steps(read(file))
    rewrite(file, found)
    done = {finding.step for finding in found}
    late = []
    with open(file, "a", encoding="utf-8") as lines:

        def keep(finding: Finding) -> None:
            found.append(finding)
            lines.write(finding.line() + "\n")
            lines.flush()
            print(describe(finding), flush=True)

        for name in options.step or STEPS:
            if name in done and not options.step:
                continue
            left = 60 * options.minutes - (time.monotonic() - begin)
            if left <= 0:
                late.append(name)
                continue
            if not run_step(name, settings, STEPS[name].limit, keep, left):
                late.append(name)
    text = summary(found, settings)
    (options.out / "summary.md").write_text(text, encoding="utf-8")
    print(f"\n{text}")
    if late:
        print(f"No time left for {', '.join(late)}: run the check again.")
    return int(bool(late) or any(finding.is_bad for finding in found))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="of the findings")
    parser.add_argument("--device", help="cuda, cuda:N or cpu (default: cuda where one is seen)")
    parser.add_argument("--step", nargs="+", choices=STEPS, help="only these, also once more")
    parser.add_argument("--framework", nargs="+", choices=FRAMEWORKS, default=FRAMEWORKS)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="at most (default: 9.5)")
    parser.add_argument("--small", action="store_true", help="small sizes, to try the check itself")
    return parser.parse_args(arguments)


def has_nvidia_device() -> bool:
    """Whether the driver sees a device."""
    from synthbench.measure.gpu import nvidia_devices

    return bool(nvidia_devices())


def read(file: Path) -> list[Finding]:
    """What was found before; an incomplete line is left out."""
    found = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            found.append(Finding.read(line))
        except (ValueError, TypeError):
            continue
    return found


def of_ended_steps(found: Iterable[Finding]) -> list[Finding]:
    """The findings of steps that have ended; a step that was cut short is done again as a whole."""
    ended: list[Finding] = []
    begun: dict[str, list[Finding]] = {}
    for finding in found:
        begun.setdefault(finding.step, []).append(finding)
        if finding.is_end:
            ended += begun.pop(finding.step)
    return ended


def rewrite(file: Path, found: Iterable[Finding]) -> None:
    """Leave only these findings in a file, as a whole."""
    new = file.with_suffix(".new")
    new.write_text("".join(finding.line() + "\n" for finding in found), encoding="utf-8")
    new.replace(file)


def run_step(
    name: str,
    settings: Settings,
    limit: float,
    keep: Callable[[Finding], None],
    left: float = math.inf,
) -> bool:
    """Run a step in a child, which is killed when its time has passed; its end is a finding.

    False, without an end, if that was not its own limit but the time that was `left` for all.
    """
    command = [sys.executable, "-P", "-m", "benchmarks.gpu_check.child", name, settings.dump()]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(paths)}
    environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    seconds = min(limit, left)
    print(f"{name} (at most {seconds:.0f} s)", flush=True)
    begin = time.monotonic()
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env=environment, start_new_session=True
        ) as child,
    ):
        late = True
        try:
            late = follow(child, begin + seconds, keep)
        finally:
            if late:  # or this process was interrupted, which its group does not notice
                os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        errors.seek(0, os.SEEK_END)
        errors.seek(max(0, errors.tell() - 400))
        said = errors.read().decode(errors="replace")
    if late and left < limit:
        return False
    how = ""
    if late or child.returncode:
        how = f"ended after {limit:.0f} s" if late else f"exit code {child.returncode}: {said}"
    took = time.monotonic() - begin
    keep(Finding(name, END, FAILED if how else RAN, reason=how, seconds=took))
    return True


def follow(
    child: subprocess.Popen[bytes], deadline: float, keep: Callable[[Finding], None]
) -> bool:
    """Keep what a child prints until it ends; whether it was too late."""
    assert child.stdout is not None
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if not selector.select(left):
                break
            chunk = os.read(child.stdout.fileno(), 2**16)
            if not chunk:
                return False
            *lines, rest = (rest + chunk).split(b"\n")
            keep_lines(lines, keep)
    return True


def keep_lines(lines: Iterable[bytes], keep: Callable[[Finding], None]) -> None:
    """Keep the lines that are findings; a library may print others."""
    for line in lines:
        try:
            finding = Finding.read(line.decode())
        except (ValueError, TypeError):
            continue
        keep(finding)


def describe(finding: Finding) -> str:
    """A finding in a line of text."""
    verdict = {True: ", correct", False: ", WRONG", None: ""}[finding.correct]
    said = "; ".join(filter(None, [finding.figure, finding.reason]))
    return f"  {finding.branch}: {finding.outcome}{verdict}{': ' if said else ''}{said}"


if __name__ == "__main__":
    sys.exit(main())
