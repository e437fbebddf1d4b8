"""Kernels that forms declare: each computes the same, and a run uses the one that was chosen."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import synthbench
from synthbench.backends.base import BACKENDS, Backend
from synthbench.backends.kernel_choice import (
    Kernel,
    choose,
    is_trained,
    kernel_in_force,
    recording_offers,
    that_differ,
    tracing,
    using_kernel,
)
from synthbench.backends.kernel_record import force_long_kernels
from synthbench.measure import parity
from synthbench.measure.inputs import random_batch, setting_of
from synthbench.measure.kernel_cache import (
    cache_file,
    read_choices,
    source_digest,
    store_choices,
)
from synthbench.measure.kernel_choice import bare_cell, has_choice
from synthbench.models.start_values import start_values
from synthbench.record import KernelChoice, KernelTime, Measurements, Parity, Record
from synthbench.run.cell_runner import CellRunner
from synthbench.run.kernel_choices import (
    Series,
    groups_of,
    kernel_for,
    needed_choices,
    shared,
)
from synthbench.run.progress import Silent
from synthbench.suites.cell import Cell, model_of
from synthbench.suites.settings import Measure
from tests.variants import VARIANTS

SLOW, FAST = Kernel("slow"), Kernel("fast", products="oneDNN", queries=8, logits=2**18)
SIZES: dict[str, Any] = {"heads": 4, "max_len": 12}


def test_the_first_kernel_is_used_unless_another_is_in_force() -> None:
    assert choose([SLOW, FAST]) is SLOW
    with using_kernel(FAST.name):
        assert kernel_in_force() == FAST.name
        assert choose([SLOW, FAST]) is FAST
        assert choose([SLOW]) is SLOW  # a form that does not have it
        with using_kernel(None):
            assert choose([SLOW, FAST]) is SLOW
        assert choose([SLOW, FAST]) is FAST
    assert kernel_in_force() is None


def test_a_name_tells_kernels_apart() -> None:
    assert SLOW.name == "slow"
    assert FAST.name == "fast, at most 8 queries and 2^18 logits per block, products by oneDNN"
    kernels = [Kernel("a", p, q, n) for p in ("", "MKL") for q in (0, 8) for n in (0, 1000, 2**20)]
    assert len({kernel.name for kernel in kernels}) == len(kernels)


def test_every_offer_in_a_block_is_recorded_once() -> None:
    with recording_offers() as offers:
        choose([SLOW, FAST])
        choose([FAST, SLOW])
    choose([Kernel("later")])
    assert offers == {SLOW.name: SLOW, FAST.name: FAST}
    assert list(offers) == [SLOW.name, FAST.name]


def test_what_is_traced_is_known_only_inside() -> None:
    assert is_trained() is None
    with tracing(trained=True):
        assert is_trained() is True
        with tracing(trained=False):
            assert is_trained() is False
        assert is_trained() is True
    assert is_trained() is None


def test_sizes_that_make_the_same_blocks_are_one() -> None:
    sizes = [{"queries": 512, "logits": 2**18}, {"queries": 1024, "logits": 2**20}]
    assert that_differ(sizes, queries=4096, logits=2**24) == sizes
    assert that_differ(sizes, queries=256, logits=2**20) == sizes
    assert that_differ(sizes, queries=256, logits=2**16) == sizes[:1]
    assert that_differ(sizes[::-1], queries=256, logits=2**16) == sizes[1:]


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_kernel_in_torch_computes_the_same(variant: str) -> None:
    """With masks, at full length and below, with gradients; blocks of four queries."""
    with recording_offers() as offers, force_long_kernels():
        parity.collect("torch", variant, "float32", "fused")
    for name in offers:
        with using_kernel(name), force_long_kernels():
            found = parity.collect("torch", variant, "float32", "fused")
        for case, got in found.items():
            error = parity.relative_error(got["forward"], got["reference"])
            assert error <= 2e-5, f"{name}, {case}: off by {error}"


@pytest.mark.parametrize("variant", ["V", "R", "FR+V", "FD", "light_conv", "dynamic_conv"])
def test_every_kernel_in_jax_computes_the_same(variant: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 12, 16)).astype(np.float32)
    parameters = synthbench.initialize(variant, d_model=16, **SIZES)
    want = synthbench.apply(variant, parameters, x, framework="numpy", **SIZES)
    with recording_offers() as offers:
        synthbench.apply(variant, parameters, x, framework="jax", **SIZES)
    assert len(offers) >= 2
    for name in offers:
        with using_kernel(name), force_long_kernels():
            y = synthbench.apply(variant, parameters, x, framework="jax", **SIZES)
        np.testing.assert_allclose(y, want, atol=1e-5, err_msg=name)


def cell(**changes: Any) -> Cell:
    content = {
        "variant": "V", "framework": "torch", "mode": "forward", "seq_len": 8, "batch": 1,
        "compile": "eager", "d_model": 16, "heads": 2, "max_len": 8,
    }  # fmt: skip
    return Cell.from_flat(**content | changes)


def choice(of: Cell, chosen: str = FAST.name) -> KernelChoice:
    times = [KernelTime(name=k.name, samples=[1.0]) for k in (SLOW, FAST)]
    return KernelChoice(cell=bare_cell(of), chosen=chosen, kernels=times)


def test_cells_of_the_same_shapes_share_a_choice() -> None:
    made = [choice(cell())]
    encoder = {"model": "encoder", "vocabulary": 40, "layers": 2}
    for same in (cell(replica=1), cell(seed=3), cell(label="a"), cell(**encoder)):
        assert bare_cell(same) == bare_cell(cell())
        assert kernel_for(same, made) == FAST.name
    for other in (
        cell(seq_len=7), cell(batch=2), cell(mode="train"), cell(dtype="float64"),
        cell(variant="R"), cell(d_model=32), cell(heads=4), cell(head_dim=3),
        cell(framework="jax", compile="compiled"),
    ):  # fmt: skip
        assert kernel_for(other, made) is None
    assert kernel_for(cell(form="reference"), made) is None


def test_which_cells_have_a_choice() -> None:
    assert has_choice(cell()) and has_choice(cell(form="fused"))
    assert has_choice(cell(framework="jax", compile="compiled"))
    assert not has_choice(cell(form="reference"))
    assert not has_choice(cell(compile="compiled"))  # torch.compile chooses by itself


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_what_a_form_offers_is_known_without_computing(framework: str, mode: str) -> None:
    """The same kernels in the same order as where the step is built and run."""
    backend = cast(Backend, importlib.import_module(BACKENDS[framework]))
    how = "eager" if framework == "torch" else "compiled"
    for variant in ("V", "R", "glu", "R+V", "light_conv(width=15)", "dynamic_conv", "linformer"):
        of = cell(variant=variant, framework=framework, mode=mode, compile=how)
        model, setting, batch = model_of(of), setting_of(of), random_batch(model_of(of), 1, 8)
        with recording_offers() as offers:
            step = backend.build(model, start_values(model.parameters()), setting, mode, batch)
            step.compile()
            step.wait(step())
        assert backend.offer_kernels(model, setting, mode, batch) == list(offers), variant


def series(variant: str, *offers: str, **changes: Any) -> Series:
    cells = [cell(variant=variant, seq_len=2**n, max_len=2**n, **changes) for n in range(3)]
    return Series(tuple(map(bare_cell, cells)), tuple((offer, "other") for offer in offers))


def test_mixers_with_the_same_kernels_share_a_choice() -> None:
    alike = [series("R", "a", "b", "b"), series("V", "a", "b", "b")]
    apart = [series("D", "a", "b", "c"), series("R", "a", "b", "b", mode="train")]
    assert groups_of([*alike, *apart], each=False) == [alike, apart[:1], apart[1:]]
    assert groups_of([*alike, *apart], each=True) == [[s] for s in (*alike, *apart)]
    first, second = alike
    timed = KernelChoice(cell=first.cells[0], chosen="a")
    between = KernelChoice(cell=first.cells[1], chosen="a", like=["R at 1", "R at 4"])
    assert shared(first.cells, [timed, between]) == [timed, between]
    assert [(c.cell, c.chosen, c.like) for c in shared(second.cells, [timed, between])] == [
        (second.cells[0], "a", ["R at 1"]), (second.cells[1], "a", ["R at 1", "R at 4"]),
    ]  # fmt: skip


def record(of: Cell, kernels: list[str], outcome: Any = "ok") -> Record:
    parity = Parity(against="numpy", forward=0, gradient=0, tolerance=1, passed=True)
    return Record(
        id=of.id, cell=of, outcome=outcome, started="2026-01-01", wall_seconds=1,
        measurements=Measurements(kernels=kernels, parity=parity),
    )  # fmt: skip


def test_a_cell_that_used_other_kernels_than_before_is_quarantined() -> None:
    runner = CellRunner(Measure(), "cpu", [], Silent())
    assert runner.with_same_kernels(record(cell(), ["a", "b"])).outcome == "ok"
    assert runner.with_same_kernels(record(cell(replica=1), ["a", "b"])).outcome == "ok"
    assert runner.with_same_kernels(record(cell(mode="train"), ["c"])).outcome == "ok"
    assert runner.with_same_kernels(record(cell(), [], "crashed")).outcome == "crashed"
    refused = runner.with_same_kernels(record(cell(replica=1), ["a"]))
    assert refused.outcome == "quarantined"
    assert "other kernels (a) than the same cell earlier in this run (a, b)" in refused.reason


@pytest.mark.parametrize("folder", sorted(Path("results").glob("*/*/records.jsonl")), ids=str)
def test_in_committed_runs_cells_of_the_same_content_used_the_same_kernels(folder: Path) -> None:
    used: dict[str, Any] = {}
    for line in folder.read_text().splitlines():
        found = json.loads(line)
        if found["outcome"] == "ok":
            key = Cell.model_validate(found["cell"]).changed(replica=0).id
            kernels = found["measurements"].get("kernels")
            assert used.setdefault(key, kernels) == kernels, found["cell"]


def test_choices_are_kept_until_something_decisive_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    environment = {"cpu": "one", "cores": [0, 1], "versions": {"torch": "1"}, "load": [3.0]}
    file = cache_file(environment)
    assert file.parent == tmp_path / "synthbench" / "kernels"
    assert cache_file(environment | {"load": [0.0]}) == file
    for name, value in (("cpu", "two"), ("versions", {"torch": "2"}), ("pinned_to", [0])):
        assert cache_file(environment | {name: value}) != file
    assert read_choices(file) == []
    store_choices(file, [choice(cell()), choice(cell(batch=2))])
    store_choices(file, [choice(cell(), SLOW.name)])
    kept = {found.cell.batch: found.chosen for found in read_choices(file)}
    assert kept == {1: SLOW.name, 2: FAST.name}
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    file.write_text("[{}")
    assert read_choices(file) == []


def test_a_change_of_the_code_makes_old_choices_void(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    before = source_digest(tmp_path)
    assert source_digest(tmp_path) == before
    (tmp_path / "a.py").write_text("2")
    assert source_digest(tmp_path) != before


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store_choices(tmp_path / "file" / "choices.json", [choice(cell())])


def test_only_needed_choices_are_taken_from_the_cache() -> None:
    cached = [choice(cell()), choice(cell(batch=2)), choice(cell(batch=3))]
    wanted = [cell(replica=1), cell(batch=2)]
    taken = needed_choices(wanted, cached, [choice(cell(batch=2), SLOW.name)])
    assert [found.cell.batch for found in taken] == [1]
