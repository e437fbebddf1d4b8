"""The baseline's step in the process of another cell: built, timed, and never at its expense."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest

from synthbench.api import backend_of
from synthbench.backends.kernel_choice import take, taken_kernel
from synthbench.backends.kernel_record import force_long_kernels, record_kernel, recording_kernels
from synthbench.kernel import Kernel
from synthbench.measure.timing import timed
from synthbench.record import Measurements, PairedBaseline, Record, Timing, now
from synthbench.run.cell_runner import CellRunner
from synthbench.run.progress import Silent
from synthbench.run.runner import run_plan
from synthbench.run.worker import run_cell
from synthbench.store import read_records
from synthbench.suites.cell import Cell
from synthbench.suites.measure import Measure
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import parse_suite
from synthbench.tasks import cost, paired
from synthbench.tasks.base import Baseline
from synthbench.tasks.paired import PairedStep
from synthbench.tasks.programs import Programs, compile_or_load, counted_once
from tests.test_tables import cell

FRAMEWORKS = ("torch", "jax")
MEASURE = Measure(min_samples=3, min_seconds=0.02, max_seconds=1.0)


@pytest.fixture(autouse=True)
def _freed_memory_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of these tests is no cell's: it goes on after them."""
    monkeypatch.setattr(cost, "keep_freed_memory", lambda: False)
    for module in (cost, paired):
        monkeypatch.setattr(module, "raise_memory_limit", lambda more: None)


def shared(folder: Path, *, is_known: bool = False) -> Programs:
    of_run = folder / "of the run"
    of_run.mkdir(exist_ok=True)
    return Programs(folder, of_run, is_known)


def files(folder: Path, suffix: str) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file() and file.suffix == suffix)


def measured(
    framework: str,
    baseline: Baseline | None,
    available: int | None = None,
    mode: str = "train",
    programs: Programs | None = None,
) -> tuple[Measurements, list[str]]:
    own = cell("R", framework, mode, 16)
    return run_cell(
        backend_of(framework), own, MEASURE, available_memory=available, baseline=baseline,
        programs=programs,
    )  # fmt: skip


def baseline_of(framework: str, **fields: Any) -> Baseline:
    return Baseline(cell("V", framework, "train", 16, **fields), None)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_cell_times_its_baseline_and_is_itself_as_without(framework: str, tmp_path: Path) -> None:
    alone, _ = measured(framework, None)
    programs = shared(tmp_path)
    found, notes = measured(framework, baseline_of(framework), programs=programs)
    again, _ = measured(framework, baseline_of(framework), programs=programs)
    assert notes == []
    assert alone.timing is not None
    assert alone.timing.baseline is None
    for one in (found, again):
        assert one.timing is not None
        beside = one.timing.baseline
        assert beside is not None
        assert beside.id == cell("V", framework, "train", 16).id
        assert len(beside.seconds) >= MEASURE.min_samples
        assert beside.after[-1] == len(one.timing.samples)
        assert (one.form, one.kernels, one.kernel_choice) == (
            alone.form, alone.kernels, alone.kernel_choice
        )  # fmt: skip
        assert (one.parameters, one.flops, one.predicted_memory) == (
            alone.parameters, alone.flops, alone.predicted_memory
        )  # fmt: skip
    own, _ = run_cell(backend_of(framework), cell("V", framework, "train", 16), MEASURE)
    for one in (found, again):
        assert one.timing is not None
        assert one.timing.baseline is not None
        used = one.timing.baseline
        assert (used.kernels, used.kernel_choice) == (own.kernels, own.kernel_choice)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("mode", ["forward", "train"])
def test_a_kept_program_gives_the_same_bits_and_kernels(
    framework: str, mode: str, tmp_path: Path
) -> None:
    backend, own = backend_of(framework), cell("V", framework, mode, 16)
    found = []
    for _ in range(2):
        take(Kernel("of an earlier cell"))
        baseline = Baseline(own, None)
        step = paired.build_step(backend, baseline)
        paired.compile_baseline(step, baseline, shared(tmp_path, is_known=True))
        produced = step()
        step.wait(produced)
        found.append((step.first_losses, step.sample(produced).tobytes(), taken_kernel()))
    assert found[0] == found[1]
    assert found[0][2] != Kernel("of an earlier cell")
    assert len(files(tmp_path, "")) == len(files(tmp_path, ".compiled")) == (framework == "jax")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_run_has_the_compile_time_of_a_kept_program_once(framework: str, tmp_path: Path) -> None:
    """Also where an earlier run has compiled it; an eager step has its own time each time."""
    begun = now()
    kinds = (shared(tmp_path), shared(tmp_path, is_known=True), shared(tmp_path))
    found = [measured(framework, None, programs=each)[0] for each in kinds]
    first, second, later = (one.timing for one in found)
    assert first is not None and second is not None and later is not None
    assert first.compile_seconds is not None
    assert first.compiled_at is None
    if framework == "torch":
        assert second.compile_seconds is not None
        assert later.compiled_at is None
    else:
        assert (second.compile_seconds, second.compiled_at) == (None, None)
        assert later.compile_seconds == first.compile_seconds
        assert later.compiled_at is not None
        assert begun <= later.compiled_at <= now()
    for one in found[1:]:
        assert (one.kernels, one.kernel_choice, one.flops, one.predicted_memory) == (
            found[0].kernels, found[0].kernel_choice, found[0].flops, found[0].predicted_memory
        )  # fmt: skip


def test_compiling_by_another_process_gives_no_time_to_repeat_steps_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They may take a share of what this process has spent."""
    spent: list[float] = []

    def none(median: float, draw: float, seconds: float, wanted: int) -> int:
        spent.append(seconds)
        return 0

    monkeypatch.setattr(cost, "affordable_steps", none)
    for at in (None, now()):
        timing = Timing(
            build_seconds=1.0, compile_seconds=10.0, compiled_at=at, first_step_seconds=1.0,
            warmup_steps=1, samples=[0.5, 0.5], clock="",
        )  # fmt: skip
        context: Any = SimpleNamespace(measured=SimpleNamespace(timing=timing))
        step: Any = SimpleNamespace(first_losses=[1.0])
        cost.repeat_first_steps(context, step, 0.0)
    assert spent == [12.0, 2.0]


class FakeProgram:
    """Can be loaded from any file that is there."""

    def compile(self) -> None:
        """Nothing takes time."""

    def keep(self, file: Path, kernels: Sequence[str]) -> None:
        file.write_bytes(b"a program")

    def load(self, file: Path) -> bool:
        return file.exists()


@pytest.mark.parametrize("content", ["", "[1.0]", '["fast", 1]', None])
def test_a_program_without_its_compile_time_is_compiled(
    content: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "program"
    assert compile_or_load(FakeProgram(), file).at is None
    first = compile_or_load(FakeProgram(), file)
    assert first.at is not None
    (facts,) = files(tmp_path, ".compiled")
    if content is None:
        facts.unlink()
    else:
        facts.write_text(content)
    assert compile_or_load(FakeProgram(), file).at is None
    again = compile_or_load(FakeProgram(), file)  # with new facts
    assert again.at is not None
    assert again.at >= first.at


def test_the_fixed_work_beside_steps_is_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its product and the smallest step: compiling both takes as long as most steps together."""
    operation = backend_of("jax").smallest_step("cpu")
    compiled: list[object] = []
    compile_it = type(operation).compile

    def count(self: object) -> None:
        compiled.append(self)
        compile_it(self)  # type: ignore[arg-type]

    monkeypatch.setattr(type(operation), "compile", count)
    first, _ = measured("jax", None, programs=shared(tmp_path))
    assert len(compiled) == 2
    second, _ = measured("jax", None, programs=shared(tmp_path))
    assert len(compiled) == 2
    for one in (first, second):
        assert one.timing is not None
        assert one.timing.calibration is not None
        assert min(one.timing.calibration.seconds) > 0
        assert one.timing.dispatch_seconds is not None
        assert 0 < one.timing.dispatch_seconds < min(one.timing.calibration.seconds)


def test_a_loaded_operation_computes_the_same(tmp_path: Path) -> None:
    backend, file, found = backend_of("jax"), tmp_path / "product", []
    for loads in (False, True):
        (product,) = backend.matrix_products("float32", "cpu", 32)
        assert product.load(file) is loads
        if not loads:
            product.compile()
            product.keep(file, [])
        produced = product()
        product.wait(produced)
        found.append(np.asarray(produced))
    a, b = np.random.default_rng(0).random((2, 32, 32), dtype=np.float32)
    np.testing.assert_allclose(found[0], a @ b, rtol=1e-5)
    np.testing.assert_array_equal(found[0], found[1])


def test_a_kept_program_that_cannot_be_used_is_compiled_instead(tmp_path: Path) -> None:
    programs = shared(tmp_path, is_known=True)
    measured("jax", None, programs=programs)
    programs.file(cell("R", "jax", "train", 16), None).write_bytes(b"of a full disk")
    found, _ = measured("jax", None, programs=programs)
    assert found.timing is not None
    assert found.timing.compile_seconds is not None
    assert found.timing.compiled_at is None


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_run_counts_the_same_program_once(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = shared(tmp_path, is_known=True)
    first, _ = measured(framework, baseline_of(framework), programs=programs)

    def again(*parts: object) -> NoReturn:
        raise AssertionError("this was counted by an earlier process")

    for module, name in ((cost, "predict_on_devices"), (paired, "predict")):
        monkeypatch.setattr(module, name, again)
    second, notes = measured(framework, baseline_of(framework), programs=programs)
    assert notes == []
    assert (second.flops, second.predicted_memory) == (first.flops, first.predicted_memory)
    assert first.flops is not None
    assert first.flops.traced
    with pytest.raises(AssertionError, match="earlier process"):
        measured(framework, None, mode="forward", programs=programs)


def test_counts_are_shared_only_by_cells_of_the_same_content_and_kernel(tmp_path: Path) -> None:
    numbers = iter(range(100))
    programs = shared(tmp_path, is_known=True)

    def counted(what: str, own: Cell, kernel: str = "", shared: Programs | None = programs) -> int:
        chosen = Kernel(kernel) if kernel else None
        return counted_once(shared, what, own, chosen, lambda: next(numbers))

    own = cell("R", "torch", "train", 16)
    assert counted("flops", own) == 0
    assert counted("flops", own) == 0
    assert counted("flops", own.changed(replica=1)) == 0
    assert counted("memory", own) == 1
    assert counted("flops", own, "plain") == 2
    assert counted("flops", own.changed(mode="forward")) == 3
    assert counted("flops", own.changed(seq_len=32)) == 4
    assert counted("flops", own, shared=None) == 5
    programs.file(own, None).with_suffix(".flops").write_bytes(b"of a full disk")
    assert counted("flops", own) == 6
    assert counted("flops", own) == 6


class Unpicklable:
    def __reduce__(self) -> NoReturn:
        raise TypeError("no file can hold this")


def test_a_count_that_fails_is_tried_again(tmp_path: Path) -> None:
    programs, own = shared(tmp_path, is_known=True), cell("R", "torch", "train", 16)

    def fails() -> int:
        raise RuntimeError("not now")

    with pytest.raises(RuntimeError):
        counted_once(programs, "flops", own, None, fails)
    unkept = Unpicklable()
    assert counted_once(programs, "flops", own, None, lambda: unkept) is unkept
    assert counted_once(programs, "flops", own, None, lambda: 2) == 2
    assert counted_once(programs, "flops", own, None, lambda: 3) == 2


def test_a_record_that_replaces_another_has_its_own_compile_time() -> None:
    measure = MEASURE.model_copy(update={"parity": False, "threads": 1})
    runner = CellRunner(measure, "cpu", [], Silent())
    runner.start(["jax"])
    try:
        found = [
            runner.measure_cell(cell("V", "jax", "forward", 8), number, "here")
            for number in (0, 1, 0, 1)  # round 0 again, and then round 1
        ]
    finally:
        runner.stop()
    compiled = []
    for one in found:
        assert one is not None
        assert one.measurements.timing is not None, one.reason
        compiled.append(one.measurements.timing.compile_seconds is not None)
    assert compiled == [True, False, True, False]


def test_recordings_within_each_other_end_each_by_itself() -> None:
    with recording_kernels() as outer:
        with recording_kernels():
            pass
        record_kernel("a")
    record_kernel("b")
    assert list(outer) == ["a"]


def test_the_optimizer_starts_as_optax_starts_it() -> None:
    jax = pytest.importorskip("jax")
    from synthbench.backends.jax.step import adam, initial_state

    parameters = [jax.numpy.ones((3, 2)), jax.numpy.ones(5, dtype="bfloat16")]
    own, expected = initial_state(parameters), adam().init(parameters)
    assert jax.tree.structure(own) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(own), jax.tree.leaves(expected), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert (np.asarray(one) == np.asarray(other)).all()


def test_programs_of_other_cells_and_kernels_are_kept_apart(tmp_path: Path) -> None:
    backend = backend_of("jax")
    kernel = Kernel("reference form")
    for each in (
        baseline_of("jax"), Baseline(cell("V", "jax", "train", 24), None),
        baseline_of("jax")._replace(kernel=kernel),
    ):  # fmt: skip
        step = paired.build_step(backend, each)
        paired.compile_baseline(step, each, shared(tmp_path, is_known=True))
    assert len(files(tmp_path, "")) == 3


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_whatever_is_wrong_with_the_baseline_the_cell_is_measured(
    framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no such step")

    monkeypatch.setattr(paired, "build_step", broken)
    found, (note, *others) = measured(framework, baseline_of(framework))
    assert found.timing is not None
    assert found.timing.baseline is None
    assert len(found.timing.samples) >= MEASURE.min_samples
    assert (note, others) == ("V is not timed in this process: RuntimeError('no such step')", [])
    other_form = baseline_of(framework, form="reference")
    _, (note,) = measured(framework, other_form)
    assert note.startswith("the form reference is not timed in this process: RuntimeError")


def test_a_baseline_that_does_not_fit_beside_the_cell_is_left_out() -> None:
    alone, _ = measured("torch", None)
    assert alone.memory is not None
    assert alone.memory.peak is not None
    found, (note,) = measured("torch", baseline_of("torch", batch=4096), available=10**8)
    assert found.timing is not None
    assert found.timing.baseline is None
    assert "V is not timed in this process: it would need" in note
    assert "with 100 MB available" in note


def test_a_baseline_that_takes_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "FEWEST_STEPS", 1e9)
    found, (note,) = measured("torch", baseline_of("torch"))
    assert found.timing is not None
    assert found.timing.baseline is None
    assert "max_seconds 1" in note


@pytest.mark.parametrize(
    ("steps", "taken"),
    [
        ([0.2, 0.1], 0.2),  # long: the first step is enough
        ([0.9, 0.06], 0.06),  # but not to leave it out, if it takes more than half of the time
        ([0.06, 0.05], 0.05),  # the first use alone may take tens of milliseconds
        ([0.06, 0.03, 0.04], 0.03),
        ([0.06, 0.007, 0.009, 0.006], 0.006),
        ([0.06, 0.007, 0.006, 0.009, 0.001], 0.006),  # the shortest of four
    ],
)
def test_a_step_of_the_baseline_is_timed_as_often_as_its_length_needs(
    steps: list[float], taken: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, built, build = [*steps], [], paired.build_paired
    monkeypatch.setattr(
        paired, "timed", lambda step, wait: left.pop(0) if left else timed(step, wait)
    )
    monkeypatch.setattr(cost, "build_paired", lambda *given: built.append(build(*given)))
    measured("torch", baseline_of("torch"))
    assert [each.seconds for each in built] == [taken]


def test_the_seconds_of_a_baseline_are_found_once_in_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, built, build = iter((0.011, 0.012)), list[PairedStep](), paired.build_paired
    monkeypatch.setattr(paired, "about", lambda step, first, most: next(found))
    monkeypatch.setattr(cost, "build_paired", lambda *given: keep(built, build(*given)))
    for programs in (shared(tmp_path), shared(tmp_path)):
        measured("torch", baseline_of("torch"), programs=programs)
    other = shared(tmp_path)._replace(of_run=tmp_path)  # the folder of another run
    measured("torch", baseline_of("torch"), programs=other)
    assert [each.seconds for each in built] == [0.011, 0.011, 0.012]


def keep(built: list[PairedStep], step: PairedStep) -> PairedStep:
    built.append(step)
    return step


def test_a_baseline_that_once_took_too_long_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter((9.0, 0.012))
    monkeypatch.setattr(paired, "about", lambda step, first, most: next(found))
    beside = []
    for _ in range(2):
        one, _ = measured("torch", baseline_of("torch"), programs=shared(tmp_path))
        assert one.timing is not None
        beside.append(one.timing.baseline is not None)
    assert beside == [False, True]


def test_a_baseline_beside_a_cell_is_held_to_the_kernels_of_its_own_cell() -> None:
    runner = CellRunner(Measure(), "cpu", [], Silent())
    own, other = cell("V", "torch", "train", 16), cell("R", "torch", "train", 16)

    def record(of: Cell, kernels: list[str], beside: list[str] | None = None) -> Record:
        timing: Any = None
        if beside is not None:
            timing = {
                "build_seconds": 0, "compile_seconds": 0, "first_step_seconds": 0,
                "warmup_steps": 1, "samples": [1.0], "clock": "",
                "baseline": PairedBaseline(id=own.id, kernels=beside, after=[0], seconds=[1.0]),
            }  # fmt: skip
        return Record(
            id=of.id, cell=of, outcome="ok", started="2026-01-01", wall_seconds=1,
            measurements=Measurements(kernels=kernels, timing=timing),
        )  # fmt: skip

    assert runner.with_same_kernels(record(other, ["a"], ["b"])).outcome == "ok"
    assert runner.with_same_kernels(record(own, ["b"])).outcome == "ok"
    assert runner.with_same_kernels(record(other, ["a"], ["b"])).outcome == "ok"
    refused = runner.with_same_kernels(record(other, ["a"], ["c"]))
    assert refused.outcome == "quarantined"
    assert "the baseline beside it used other kernels (c) than" in refused.reason


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_baseline_with_one_kernel_has_no_choice_though_the_cell_has(
    framework: str, tmp_path: Path
) -> None:
    """Its choice would be that of each cell, so that every second cell would be quarantined."""
    programs = shared(tmp_path)
    for _ in range(2):  # compiled, and then loaded in JAX
        reference = baseline_of(framework, form="reference")
        found, notes = measured(framework, reference, programs=programs)
        assert notes == []
        assert found.kernel_choice is not None
        assert found.timing is not None
        assert found.timing.baseline is not None
        assert found.timing.baseline.kernel_choice is None


SUITE = """
axes: {{variant: [V, R, FR], framework: [torch, jax], mode: [forward], seq_len: [16], batch: [1]}}
model: {{kind: mixer, d_model: 16, heads: 2}}
measure: {{rounds: {rounds}, min_samples: 3, min_seconds: 0.01, max_seconds: 0.5, threads: 1,
           timeout_seconds: 60, kernel_seconds: 0, paired: {paired}}}
"""


@pytest.mark.long
@pytest.mark.parametrize(("is_wanted", "rounds", "cells"), [(True, 2, 8), (False, 1, 6)])
def test_in_a_run_every_cell_but_the_baseline_has_it_beside(
    is_wanted: bool, rounds: int, cells: int, tmp_path: Path
) -> None:
    text = SUITE.format(paired=str(is_wanted).lower(), rounds=rounds)
    run_plan(make_plan(parse_suite(text, name="pairs", source="pairs"), "cpu"), tmp_path / "run")
    records = read_records(tmp_path / "run")
    assert len(records) == cells * rounds  # a single round has no A/A twins
    baselines = {r.cell.framework: r.id for r in records
                 if (r.cell.variant, r.cell.replica) == ("V", 0)}  # fmt: skip
    for record in records:
        assert (record.outcome, record.reason) == ("ok", "")
        timing = record.measurements.timing
        assert timing is not None
        compiles = record.round == 0 or record.cell.framework == "torch"
        assert (timing.compile_seconds is not None) == compiles
        beside = timing.baseline
        wants = is_wanted and record.id not in baselines.values()
        assert (beside is not None) == wants
        if beside is not None:
            assert beside.id == baselines[record.cell.framework]
            assert np.all(np.array(beside.seconds) > 0)


@pytest.mark.long
def test_in_a_run_by_form_every_other_form_has_its_reference_form_beside(tmp_path: Path) -> None:
    text = """
    axes: {variant: [V, R], framework: [torch], mode: [forward], seq_len: [16], batch: [1],
           form: [reference, fused]}
    model: {kind: mixer, d_model: 16, heads: 2}
    measure: {rounds: 1, min_samples: 3, min_seconds: 0.01, max_seconds: 0.5, threads: 1,
              timeout_seconds: 60, kernel_seconds: 0, paired: form}
    """
    run_plan(make_plan(parse_suite(text, name="pairs", source="pairs"), "cpu"), tmp_path / "run")
    records = {(r.cell.variant, r.cell.form): r for r in read_records(tmp_path / "run")}
    assert len(records) == 4
    for (variant, form), one in records.items():
        timing = one.measurements.timing
        assert (one.outcome, one.reason) == ("ok", "")
        assert timing is not None
        if form == "reference" and variant == "V":
            assert timing.baseline is None
            continue
        assert timing.baseline is not None
        beside = records["V" if form == "reference" else variant, "reference"]
        assert timing.baseline.id == beside.id
        assert timing.baseline.kernels == beside.measurements.kernels


def test_the_kernels_of_a_decoding_baseline_are_those_of_its_steps() -> None:
    """Its state is filled while it is built, by a forward pass with kernels of its own."""

    def decoding(variant: str) -> Cell:
        return cell(variant, "jax", "decode", 16, model="decoder", vocabulary=16, layers=1)

    baseline = Baseline(decoding("V"), None)
    with force_long_kernels():
        found, notes = run_cell(backend_of("jax"), decoding("R"), MEASURE, baseline=baseline)
        alone, _ = run_cell(backend_of("jax"), decoding("V"), MEASURE)
    assert notes == []
    assert found.timing is not None and found.timing.baseline is not None
    assert found.timing.baseline.kernels == alone.kernels
