"""The forked child process: it limits itself, does one job, writes the result and exits."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from synthbench.backends.base import BACKENDS, Backend
from synthbench.backends.kernel_choice import using_kernel
from synthbench.devices import is_host
from synthbench.errors import NotationError, SynthbenchError
from synthbench.kernel import Kernel
from synthbench.measure.memory_limit import lift_memory_limit, limit_memory
from synthbench.measure.memory_prediction import available_memory_for
from synthbench.record import Measurements, Parity, now
from synthbench.run import limits
from synthbench.run.extensions import load_plugin
from synthbench.run.job import Job, Reply, sign
from synthbench.run.outcome import classify_exception, shortened
from synthbench.run.planning import plan_suite
from synthbench.run.worker import run_cell
from synthbench.run_info import Ceiling
from synthbench.suites.cell import Cell
from synthbench.suites.measure import Measure
from synthbench.suites.plan import Plan
from synthbench.suites.suite import Suite
from synthbench.tasks.base import Baseline
from synthbench.tasks.catalog import task_of
from synthbench.tasks.programs import Programs

Send = Callable[[Reply], None]


def run_child(
    backend: Backend, job: Job, *, host_pid: int, result_fd: int, output_fd: int, key: bytes
) -> NoReturn:
    """Do the job and exit; everything printed goes to `output_fd`.

    Before each stage, a reply is written to `result_fd` that is right if the process dies in that
    stage. The last reply is written at the end. Replies are signed with `key`.
    """
    os.setsid()
    limits.die_with_parent()
    if os.getppid() != host_pid:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _redirect(output_fd, keep=result_fd)

    def send(reply: Reply) -> None:
        content = sign(reply.encode(), key)
        while content:
            content = content[os.write(result_fd, content) :]

    facts: dict[str, Any] = {"pid": os.getpid()}
    stages = _Stages(send, facts)
    try:
        facts |= _limit(backend, job)
        with using_kernel(_kernel(job.content.get("kernel"))):
            result, notes = _perform(backend, job, stages)
        reply = Reply("ok", "; ".join(notes), result, facts=facts)
    except BaseException as error:  # anything that a job raises is its outcome
        lift_memory_limit()
        outcome, reason = classify_exception(error)
        if stages.stage and outcome in ("crashed", "oom"):
            reason = f"while {stages.stage}: {reason}"
        name = type(error).__name__ if isinstance(error, SynthbenchError) else ""
        reply = Reply(outcome, reason, stages.result, name, facts)
    stages.end_stage()
    other = next(name for name in BACKENDS if name != backend.name)
    facts["other_framework_loaded"] = other in sys.modules
    send(reply)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


class _Stages:
    """The current stage of a cell, what has been measured so far, and seconds per stage."""

    def __init__(self, send: Send, facts: dict[str, Any]) -> None:
        self.send, self.facts = send, facts
        self.stage = ""
        self.result: Any = None
        self.begun = time.perf_counter()

    def __call__(self, stage: str, measured: Measurements) -> None:
        self.end_stage()
        self.stage = stage
        self.result = {"measurements": measured.model_dump(mode="json")}
        self.send(Reply("crashed", f"while {stage}", self.result, facts=self.facts))

    def end_stage(self) -> None:
        """Add the time since the current stage began to that stage."""
        now = time.perf_counter()
        seconds = self.facts.setdefault("stage_seconds", {})
        name = self.stage or "starting"
        seconds[name] = round(seconds.get(name, 0.0) + now - self.begun, 6)
        self.begun = now


def _limit(backend: Backend, job: Job) -> dict[str, Any]:
    cores = limits.pin(job.limits.threads)
    limits.be_killed_first()
    facts: dict[str, Any] = {"cores": cores, "threads": len(cores)}
    if job.kind == "plan" or is_host(job.content.get("cell", {}).get("device")):
        # Not for others: CUDA's context reserves more address space than any machine has memory.
        facts["memory_limit"] = limit_memory(job.limits.memory_bytes, len(cores))
    backend.set_threads(len(cores))
    return facts


def _perform(backend: Backend, job: Job, stages: _Stages) -> tuple[Any, list[str]]:
    content = job.content
    match job.kind:
        case "cell":
            cell = Cell.model_validate(content["cell"])
            measure = Measure.model_validate(content["measure"])
            limit = stages.facts.get("memory_limit")
            raw, ceiling = content["parity"], content.get("ceiling")
            baseline, programs = content.get("baseline"), content["programs"]
            planned = content.get("planned")
            folder, checkpoints = (p if p is None else Path(p) for p in content["folders"])
            measured, notes = run_cell(
                backend,
                cell,
                measure,
                None if raw is None else Parity.model_validate(raw),
                stages,
                None if ceiling is None else Ceiling.model_validate(ceiling),
                None if measure.force else available_memory_for(backend, cell, limit),
                folder,
                checkpoints,
                None if baseline is None else _baseline(**baseline),
                _kernel(content["kernel"]),
                None if programs is None else _programs(*programs),
                content["cores_may_be_near"],
                None if planned is None else Cell.model_validate(planned),
            )
            return {"measurements": measured.model_dump(mode="json")}, notes
        case "parity":
            asked = Cell.model_validate(content["cell"])
            found = task_of(asked).check_parity(backend, asked)
            return found.model_dump(mode="json") | {"checked_at": now()}, []
        case "own_length":
            asked = Cell.model_validate(content["cell"])
            available = available_memory_for(backend, asked, stages.facts.get("memory_limit"))
            checked = task_of(asked).check_own_length(backend, asked, available)
            return checked.model_dump(mode="json") | {"checked_at": now()}, []
        case "devices":
            if content["require"] is not None:
                backend.require_device(content["require"])
            return [asdict(device) for device in backend.devices()], []
        case "plan":
            return _plan(content, stages).dump(), []
        case "call":
            value = find_function(content["target"])(**content["kwargs"])
            Path(content["answer"]).write_bytes(pickle.dumps(value))
            return None, []


def _baseline(cell: dict[str, Any], kernel: dict[str, Any] | None) -> Baseline:
    return Baseline(Cell.model_validate(cell), _kernel(kernel))


def _programs(folder: str, of_run: str, is_known: bool) -> Programs:
    return Programs(Path(folder), Path(of_run), is_known)


def _kernel(content: dict[str, Any] | None) -> Kernel | None:
    return None if content is None else Kernel(**content)


def _plan(content: dict[str, Any], stages: _Stages) -> Plan:
    """The plan of a suite with plug-ins; the stage says which of them runs."""
    for plugin in content["plugins"]:
        stages(f"importing plug-in {plugin}", Measurements())
        load_plugin(plugin)

    def begin(cell: Cell) -> None:
        stage = f"checking {cell.variant}"
        if stages.stage != stage:
            stages(stage, Measurements())

    stages("reading the suite", Measurements())
    suite = Suite.model_validate_json(json.dumps(content["suite"]))
    return plan_suite(suite, **content["selection"], begin=begin)


def find_function(target: str) -> Callable[..., Any]:
    """The function of "module:function"; raises NotationError if it does not exist."""
    module_name, _, name = target.partition(":")
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise NotationError(
            f"{target!r} is not a function: {shortened(str(error))}; write it as module:function"
        ) from error
    return function


def _redirect(output_fd: int, keep: int) -> None:
    """Read nothing, print everything to `output_fd`, close the host's own pipes."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output_fd, 1)
    os.dup2(output_fd, 2)
    for fd in {nothing, output_fd} - {0, 1, 2, keep}:
        os.close(fd)
