"""What mixers weigh: taken right, drawn the same each time, kept in checkpoints that read back."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from synthbench.checkpoint import read_checkpoint, write_checkpoint
from synthbench.cli.app import main
from synthbench.cli.inspected import file_name
from synthbench.errors import ResultsError, UnsupportedError
from synthbench.mixers.attention import Attention
from synthbench.mixers.base import Array, Mixer
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.reference import weights
from synthbench.models.start_values import start_values
from synthbench.record import Measurements, Record
from synthbench.report.figures.weights import (
    compared_histograms,
    head_maps,
    heat_maps,
    histogram,
    histograms,
    maps_of,
    weights_of,
)
from synthbench.run_info import RunInfo
from synthbench.store import append_record, create_run, read_run
from synthbench.suites.cell import Cell, model_of
from synthbench.tasks.training import as_learning, held_out_batch
from tests.command_line import synthbench


def cell(variant: str, framework: str = "torch", **changes: Any) -> Cell:
    content = {
        "variant": variant, "framework": framework, "mode": "train", "seq_len": 12, "batch": 2,
        "model": "encoder_decoder", "d_model": 16, "heads": 4, "max_len": 12, "layers": 2,
        "feed_forward": 24, "vocabulary": 20, "target_len": 7, "cross_heads": 4,
        "compile": "eager" if framework == "torch" else "compiled",
    }  # fmt: skip
    return Cell.from_flat(**(content | changes))


def start_of(cell: Cell) -> dict[str, Array]:
    return start_values(model_of(cell).parameters())


@pytest.mark.parametrize(
    ("variant", "shape"),
    [("V", (2, 4, 12, 12)), ("R", (1, 4, 12, 12)), ("light_conv(width=5)", (1, 4, 1, 5)),
     ("dynamic_conv(width=3)", (2, 4, 12, 3))],
)  # fmt: skip
def test_weights_of_a_position_sum_to_one(variant: str, shape: tuple[int, ...]) -> None:
    asked = as_learning(cell(variant))
    found = weights(model_of(asked), start_of(asked), held_out_batch(asked).inputs)
    assert list(found) == ["encoder 0", "encoder 1", "decoder 0", "decoder 1"]
    assert found["encoder 1"].shape == shape
    for layer in found.values():
        np.testing.assert_allclose(layer.sum(axis=-1), 1, atol=1e-6)
    if variant == "V":
        assert np.all(np.triu(found["decoder 0"][0, 0], 1) == 0)


def test_a_random_synthesizers_weights_are_the_softmax_of_its_logits() -> None:
    model = Model.of("mixer", parse("R"), Sizes.of(d_model=8, heads=2, max_len=5))
    start = start_values(model.parameters())
    found = weights(model, start, np.zeros((1, 4, 8)))["mixer"][0]
    expected = np.exp(start["mixer.random.logits"][:, :4, :4])
    np.testing.assert_allclose(found, expected / expected.sum(-1, keepdims=True), rtol=1e-6)


def test_a_histogram_of_known_weights() -> None:
    centres, shares = histogram(np.array([0.0, 1e-9, 0.1, 0.1, 0.9]))
    assert shares.sum() == pytest.approx(1)
    assert shares[0] == pytest.approx(1 / 4)  # what is less than the least; a zero is left out
    assert shares[np.abs(centres + 1).argmin()] == pytest.approx(1 / 2) or shares.max() == 0.5


def test_pictures_hold_every_layer_and_state_and_are_the_same_twice() -> None:
    asked = as_learning(cell("V"))
    start = start_of(asked)
    states, batch = {"at the start": start, "later": start}, held_out_batch(asked)
    found = maps_of(asked, states, batch)
    maps, bars = heat_maps(found, "V"), histograms(weights_of(asked, states, batch), "V")
    assert [panel["title"] for panel in maps["concat"]][:2] == [
        "encoder layer 1, at the start", "encoder layer 2, at the start",
    ]  # fmt: skip
    assert (len(maps["concat"]), len(bars["concat"])) == (8, 4)
    first = maps["datasets"][maps["concat"][0]["data"]["name"]]
    assert len(first) == 144
    shown = next(c for c in first if (c["l"], c["m"]) == (3, 5))
    assert shown["weight"] == pytest.approx(
        found["at the start"]["encoder 0"][0, 0, 3, 5], abs=1e-6
    )
    assert maps == heat_maps(maps_of(asked, states, batch), "V")
    heads = head_maps(found["later"], "V")
    assert len(heads["concat"]) == 4 * 4
    assert heads["columns"] == 4
    assert heads["concat"][5]["title"] == "encoder layer 2, head 1"
    shown = heads["datasets"][heads["concat"][5]["data"]["name"]]
    assert max(one["weight"] for one in shown) == pytest.approx(
        found["later"]["encoder 1"][0, 1].max(), abs=1e-6
    )


def test_models_are_compared_in_one_panel_per_state_and_layer() -> None:
    known = {
        variant: weights_of(
            asked := as_learning(cell(variant)), {"at the start": start_of(asked)},
            held_out_batch(asked),
        )
        for variant in ("V", "D", "R")
    }  # fmt: skip
    known["R"]["later"] = {"encoder 0": np.array([0.5, 0.5])}
    drawn = compared_histograms(known, "three")
    assert [panel["title"] for panel in drawn["concat"]][3:5] == [
        "decoder layer 2, at the start", "encoder layer 1, later",
    ]  # fmt: skip
    lines = [
        {row["line"] for row in drawn["datasets"][panel["data"]["name"]]}
        for panel in drawn["concat"]
        if panel["data"]["name"] in drawn["datasets"]
    ]
    assert lines[0] == {"V", "D", "R"}
    assert lines[4] == {"R"}
    for panel in drawn["concat"]:
        rows = drawn["datasets"][panel["data"]["name"]]
        for name in {row["line"] for row in rows}:
            assert sum(r["share"] for r in rows if r["line"] == name) == pytest.approx(1)


def test_checkpoints_read_back_and_others_are_refused(tmp_path: Path) -> None:
    asked = cell("FR+V")
    start = start_of(asked)
    write_checkpoint(tmp_path / "a.npz", asked, start)
    read, parameters = read_checkpoint(tmp_path / "a.npz")
    assert read == asked
    assert parameters.keys() == start.keys()
    assert all(np.array_equal(parameters[name], start[name]) for name in start)
    (tmp_path / "text.npz").write_text("no")
    np.savez(tmp_path / "other.npz", x=np.ones(2))
    write_checkpoint(tmp_path / "less.npz", asked, {})
    for name, told in (
        ("text", "not a checkpoint"),
        ("other", "not a checkpoint"),
        ("less", "not as declared"),
    ):
        with pytest.raises(ResultsError, match=told):
            read_checkpoint(tmp_path / f"{name}.npz")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    info = RunInfo(suite="mine", settings={}, device="cpu", started="2026-01-02")
    create_run(folder, info)
    for framework in ("torch", "jax"):
        for variant in ("V", "R"):
            asked = cell(variant, framework)
            append_record(folder, Record(
                id=asked.id, cell=asked, outcome="ok", measurements=Measurements(),
                started="2026-01-02", wall_seconds=1,
            ))  # fmt: skip
    return folder


def inspected(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["inspect", *arguments])
    return int(ended.value.code or 0)


@pytest.mark.long_but("torch*")
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_run_is_trained_and_drawn(
    run: Path, framework: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (str(run), "--variant", "R", "--framework", framework, "--steps", "3")
    assert inspected(*asked) == 0
    assert "loss" in capsys.readouterr().err
    names = {path.name for path in (run / "inspect").iterdir()}
    pictures = {
        f"R-{framework}-{p}.{s}" for p in ("histograms", "maps", "heads") for s in ("svg", "png")
    } | {f"R-{framework}-spread.csv"}
    assert names == pictures  # no checkpoint is kept unless asked
    assert inspected(*asked, "--keep") == 0
    names = {path.name for path in (run / "inspect").iterdir()}
    kept = {f"R-{framework}-{state}.npz" for state in ("at-the-start", "after-3-steps")}
    assert names == pictures | kept
    before = read_checkpoint(run / "inspect" / f"R-{framework}-at-the-start.npz")[1]
    after = read_checkpoint(run / "inspect" / f"R-{framework}-after-3-steps.npz")[1]
    assert not np.array_equal(before["encoder.blocks.0.mixer.random.logits"],
                              after["encoder.blocks.0.mixer.random.logits"])  # fmt: skip


def test_a_checkpoint_is_drawn_the_same_each_time(run: Path) -> None:
    asked = cell("V")
    write_checkpoint(run / "mine.npz", asked, start_of(asked))
    pictures = []
    for folder in ("one", "two"):
        assert inspected(str(run / "mine.npz"), "--out", str(run / folder)) == 0
        pictures.append({p.name: p.read_bytes() for p in (run / folder).iterdir()})
    assert pictures[0] == pictures[1]
    assert len(pictures[0]) == 7


@pytest.mark.long
def test_no_checkpoint_loses_its_files_to_another_of_the_same_variant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = {}
    for folder, seed, added in (("one", 0, 0.1), ("one", 1, 0.2), ("two", 0, 0.3)):
        asked = cell("V").changed(seed=seed)
        paths[added] = tmp_path / folder / f"{asked.id}.npz"
        changed = {name: array + added for name, array in start_of(asked).items()}
        write_checkpoint(paths[added], asked, changed)

    def kept(out: Path, *added: float) -> dict[str, Array]:
        given = [str(paths[one]) for one in added]
        assert inspected(*given, "--keep", "--out", str(out)) == 0
        assert len(list(out.glob("*-maps.svg"))) == len(added)
        found = {path.name: read_checkpoint(path)[1] for path in out.glob("*after-training.npz")}
        return {name: found[name]["embedding"] for name in sorted(found)}

    of_seeds = kept(tmp_path / "a", 0.1, 0.2)
    assert list(of_seeds) == [f"V-torch-seed{n}-after-training.npz" for n in (0, 1)]
    of_runs = kept(tmp_path / "b", 0.1, 0.3)
    assert list(of_runs) == [f"{n}-V-torch-after-training.npz" for n in (1, 2)]
    one, other = of_runs.values()
    assert np.allclose(other - one, 0.2)
    capsys.readouterr()
    assert inspected(str(paths[0.1]), str(paths[0.1]), "--out", str(tmp_path)) == 2
    assert "the same model is given twice" in capsys.readouterr().err


def test_what_cannot_be_inspected_is_said(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspected(str(run), "--variant", "FR") == 2
    assert "Known: R, V" in capsys.readouterr().err
    assert inspected(str(run), "--framework", "tensorflow") == 2
    capsys.readouterr()
    assert inspected(str(run), "--steps", "0", "--example", "9" * 24) == 2
    assert "Invalid value" in capsys.readouterr().err


def test_a_mixer_that_weighs_nothing_says_so() -> None:
    class Plain(Mixer):
        name = "plain"

    with pytest.raises(UnsupportedError, match="plain has no weights"):
        Plain().weights({}, np.zeros((1, 2, 3)), Sizes.of(d_model=3, heads=1, max_len=2))


@pytest.mark.long
def test_a_cell_of_a_learning_task_is_trained_on_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And where its run kept the parameters, these are drawn instead."""
    asked = cell(
        "V", model="decoder", target_len=None, task="mqar", seq_len=16, max_len=16,
        options={"steps": 4, "pairs": 2, "keep": True}, cross_heads=None,
    )  # fmt: skip
    folder = tmp_path / "run"
    create_run(folder, RunInfo(suite="mine", settings={}, device="cpu", started="2026-01-02"))
    append_record(folder, Record(
        id=asked.id, cell=asked, outcome="ok", measurements=Measurements(),
        started="2026-01-02", wall_seconds=1,
    ))  # fmt: skip
    assert inspected(str(folder)) == 0
    assert "mqar: loss" in capsys.readouterr().err
    assert "after 4 steps" in (folder / "inspect" / "V-torch-spread.csv").read_text()
    write_checkpoint(folder / "checkpoints" / f"{asked.id}.npz", asked, start_of(asked))
    assert inspected(str(folder), "--out", str(tmp_path / "kept")) == 0
    captured = capsys.readouterr()
    assert "loss" not in captured.err
    assert {path.suffix for path in (tmp_path / "kept").iterdir()} == {".svg", ".png", ".csv"}
    assert inspected(str(folder), "--task", "cost") == 2
    assert "task cost trains nothing" in capsys.readouterr().err
    assert inspected(str(folder), "--task", "listops") == 2
    assert "task listops needs a model of kind classifier" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("kept", [True, False])
def test_a_training_that_ended_early_is_drawn_as_the_run_left_it(
    kept: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own batch and number of steps, whether its parameters were kept or it is done again."""
    text = """
    axes: {variant: [V], framework: [torch], task: [mqar], mode: [train], seq_len: [16], batch: [2]}
    model: {kind: decoder, d_model: 16, heads: 2, vocabulary: 20, max_len: null}
    tasks: {mqar: {steps: 8, evaluations: 4, held_out: 2, pairs: 2, patience: 1, keep: true}}
    """
    suite, folder = tmp_path / "own.yaml", tmp_path / "run"
    suite.write_text(text)
    synthbench(capsys, "run", "--suite", str(suite), "--device", "cpu", "--out", str(folder))
    (record,) = read_run(folder).records
    assert record.measurements.training is not None
    stopped = record.measurements.training.evaluations[-1].step
    assert 0 < stopped < 8
    file = folder / "checkpoints" / f"{record.id}.npz"
    _, expected = read_checkpoint(file)
    if not kept:
        file.unlink()
    assert inspected(str(folder), "--keep", "--out", str(tmp_path / "out")) == 0
    assert ("mqar: loss" in capsys.readouterr().err) == (not kept)
    state = "training" if kept else f"{stopped}-steps"
    cell, found = read_checkpoint(tmp_path / "out" / f"V-torch-after-{state}.npz")
    assert cell.id == record.id
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("more", [(), ("--task", "mqar")])
@pytest.mark.parametrize("timed_first", [True, False])
def test_what_a_run_kept_is_drawn_also_beside_its_timings(
    tmp_path: Path, more: tuple[str, ...], timed_first: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes: dict[str, Any] = {
        "model": "decoder", "target_len": None, "cross_heads": None, "max_len": 32,
    }  # fmt: skip
    timed = cell("V", seq_len=32, **sizes)
    asked = cell(
        "V", task="mqar", seq_len=16, options={"steps": 4, "pairs": 2, "keep": True}, **sizes
    )
    folder = tmp_path / "run"
    create_run(folder, RunInfo(suite="mine", settings={}, device="cpu", started="2026-01-02"))
    for one in (timed, asked) if timed_first else (asked, timed):
        append_record(folder, Record(
            id=one.id, cell=one, outcome="ok", measurements=Measurements(),
            started="2026-01-02", wall_seconds=1,
        ))  # fmt: skip
    write_checkpoint(folder / "checkpoints" / f"{asked.id}.npz", asked, start_of(asked))
    assert inspected(str(folder), *more, "--out", str(tmp_path / "out")) == 0
    assert "loss" not in capsys.readouterr().err  # nothing was trained
    assert ",mqar,0,after training," in (tmp_path / "out" / "V-torch-spread.csv").read_text()


@pytest.mark.parametrize(("mistake", "told"), [
    (("--head", "9"), "head 9 does not exist"),
    (("--text", "hello"), "does not learn from texts"),
    (("--text", "hell\udcff"), "is not valid UTF-8; give a text"),
    (("--out", __file__), "cannot write figures to"),
])  # fmt: skip
def test_a_mistake_is_told_before_anything_is_trained(
    run: Path, mistake: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inspected(str(run), "--variant", "R", "--steps", "3", *mistake) == 2
    err = capsys.readouterr().err
    assert told in err
    assert "loss" not in err


@pytest.mark.parametrize(
    ("has_reference", "lacks"), [(True, "no weights()"), (False, "no weights() and no reference()")]
)
def test_a_mixer_without_weights_is_told_before_anything_is_trained(
    run: Path,
    has_reference: bool,
    lacks: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Attention, "weights", Mixer.weights)
    monkeypatch.setattr(Attention, "has_reference", has_reference)
    assert inspected(str(run), "--variant", "R", "--steps", "3") == 2
    err = capsys.readouterr().err
    assert (
        f"R has no weights over positions in NumPy (its class has {lacks}); choose other variants"
        in err
    )
    assert "loss" not in err


def test_files_are_called_alike_whatever_a_model_is_called() -> None:
    assert file_name(cell("light_conv(width=5)", label="base")) == "base-light_conv_width_5-torch"
    assert file_name(cell("V", label="../base/large")) == "base_large-V-torch"


@pytest.mark.long
def test_figures_of_many_models_have_a_name_that_fits(tmp_path: Path) -> None:
    paths = []
    for number in range(8):
        asked = cell("V").changed(seed=number)
        paths.append(tmp_path / f"{number}-{'long' * 10}.npz")
        write_checkpoint(paths[-1], asked, start_of(asked))
    assert inspected(*map(str, paths), "--out", str(tmp_path / "out")) == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"8-models-histograms.svg", "8-models-spread.csv"} <= names


@pytest.mark.parametrize(("stem", "shown"), [("caf\udce9", r"caf\udce9"), ("=1+1", "'=1+1")])
def test_the_csv_has_any_name_of_a_checkpoint_as_text(
    tmp_path: Path, stem: str, shown: str
) -> None:
    asked = cell("V")
    changed = {name: array + 0.1 for name, array in start_of(asked).items()}
    write_checkpoint(tmp_path / f"{stem}.npz", asked, changed)
    assert inspected(str(tmp_path / f"{stem}.npz"), "--out", str(tmp_path / "out")) == 0
    (spread,) = (tmp_path / "out").glob("*-spread.csv")
    with spread.open(encoding="utf-8", newline="") as file:
        states = {row["state"] for row in csv.DictReader(file)}
    assert states == {"at the start", shown}
