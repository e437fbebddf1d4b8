"""Whole runs on a real Slurm: the suite smoke, and trainings that are interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from synthbench.record import Training
from synthbench.store import read_run
from synthbench.suites.suite import load_suite
from tests.slurm_caller import ROOT, SECONDS, Caller, caller, cluster, form

__all__ = ["caller", "cluster"]  # fixtures
# How the cells of smoke are measured, so that all 84 take about a minute. What is tested is that
# all of them arrive; that jobs check parity, test_slurm.py tests.
SHORT = {"threads": 1, "min_samples": 3, "min_seconds": 0.001, "max_seconds": 2, "ceiling": False,
         "parity": False, "kernel_seconds": 0, "aa": False, "retries": 0,
         "timeout_seconds": 600}  # fmt: skip
# One training: it takes about ten seconds, and saves its state thirty times.
TRAINING = """
axes: {variant: [V], framework: [torch], task: [mqar], mode: [train], seq_len: [32], batch: [8]}
model: {kind: decoder, d_model: 16, heads: 2, layers: 1, vocabulary: 32}
tasks: {mqar: {steps: 3000, evaluations: 30, held_out: 16}}
measure: {rounds: 1, aa: false, ceiling: false, kernel_seconds: 0, retries: 0, threads: 1}
baseline: V
"""


@pytest.mark.long
def test_the_whole_suite_smoke_has_the_tables_of_a_local_run(caller: Caller) -> None:
    suite = yaml.safe_load((ROOT / "suites" / "smoke.yaml").read_text())
    suite["measure"] |= SHORT
    (caller.folder / "mine.yaml").write_text(yaml.safe_dump(suite))
    caller.call(*caller.run("--detach"))
    local = caller.begin("run", "--suite", "mine.yaml", "--device", "cpu", "--out", "local")
    caller.call(*caller.run("--resume"), seconds=2 * SECONDS)
    printed, _ = local.communicate(timeout=2 * SECONDS)
    assert local.returncode == 0, printed
    axes = load_suite("smoke").settings("cpu").axes
    places = len(axes.variant) * len(axes.framework) * len(axes.mode)
    assert (len(axes.variant), places) == (21, 84)
    caller.require_complete(places)
    names = {*axes.variant, *axes.framework, *axes.mode}
    assert form(caller.folder / "out", names) == form(caller.folder / "local", names)


@pytest.mark.long
def test_a_training_goes_on_from_its_saved_state_after_a_requeue(caller: Caller) -> None:
    (caller.folder / "mine.yaml").write_text(TRAINING)
    caller.call(*caller.run("--detach"))
    (job,) = caller.jobs()
    caller.until(lambda: list(caller.folder.glob("out/in-progress/*/training.npz")))
    caller.requeue(job)
    assert caller.measured == 0  # it was requeued amid its training
    caller.call(*caller.run("--resume"))
    caller.require_complete(1)
    assert not (caller.folder / "out" / "in-progress").exists()
    caller.call("run", "--suite", "mine.yaml", "--device", "cpu", "--out", "local")
    interrupted, alone = (training(caller.folder / name) for name in ("out", "local"))
    assert (interrupted.resumed, alone.resumed) == (1, 0)
    # Nothing was done twice or left out: the numbers are those of a training in one go.
    assert [(e.step, e.loss) for e in interrupted.evaluations] == [
        (e.step, e.loss) for e in alone.evaluations
    ]


def training(run_dir: Path) -> Training:
    """The training of a run that has one."""
    (record,) = read_run(run_dir).records
    assert record.measurements.training is not None
    return record.measurements.training
