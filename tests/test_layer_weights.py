"""Weights of a trained pair: the same in both frameworks, no padding, their spread recorded."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from synthbench.backends.base import BACKENDS
from synthbench.checkpoint import read_checkpoint, write_checkpoint
from synthbench.cli.app import main
from synthbench.errors import NotationError, UnsupportedError
from synthbench.measure.inputs import setting_of
from synthbench.mixers.base import Array, Mixer
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.layer_weights import maps, real_weights, require_weights, spreads
from synthbench.models.model import Model
from synthbench.models.reference import reference, weights
from synthbench.models.start_values import start_values
from synthbench.record import Measurements, Record
from synthbench.run_info import RunInfo
from synthbench.store import append_record, create_run
from synthbench.suites.cell import Cell, model_of
from synthbench.suites.measure import Measure
from synthbench.tasks.base import TaskContext
from synthbench.tasks.catalog import task_of
from synthbench.tasks.learning.evaluation import held_out_numbers
from synthbench.tasks.training import held_out_batch, held_out_example, text_example

L, T = 26, 24


def cell(variant: str, framework: str = "torch", **changes: Any) -> Cell:
    """A cell of a small translation, whose examples have padding."""
    content: dict[str, Any] = {
        "variant": variant, "framework": framework, "mode": "train", "seq_len": L, "batch": 4,
        "model": "encoder_decoder", "d_model": 16, "heads": 2, "max_len": L, "layers": 2,
        "feed_forward": 24, "vocabulary": 260, "target_len": T, "dtype": "float64",
        "compile": "eager" if framework == "torch" else "compiled", "form": "reference",
        "task": "translation",
        "options": {
            "data": {"generated": {"words": 2, "rows": 60}}, "steps": 3, "evaluations": 1,
            "held_out": 4, "keep": True, "spread": True,
        },
    }  # fmt: skip
    return Cell.from_flat(**(content | changes))


def trained(asked: Cell, checkpoints: Path) -> Measurements:
    """The measurements of a learning cell, trained in this process."""
    measured = Measurements()
    backend: Any = importlib.import_module(BACKENDS[asked.framework])
    context = TaskContext(
        backend, asked, Measure(), measured, lambda stage, m: None, checkpoints=checkpoints
    )
    task = task_of(asked)
    task.check(asked)
    task.run(context)
    return measured


@dataclass(frozen=True)
class Pair:
    """A run of V and D in both frameworks, which kept its parameters."""

    folder: Path
    records: tuple[Record, ...]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("results") / "mine" / "one"
    create_run(folder, RunInfo(suite="mine", settings={}, device="cpu", started="2026-01-02"))
    for framework in ("torch", "jax"):
        for variant in ("V", "D"):
            asked = cell(variant, framework)
            append_record(folder, Record(
                id=asked.id, cell=asked, outcome="ok", started="2026-01-02", wall_seconds=1,
                measurements=trained(asked, folder / "checkpoints"),
            ))  # fmt: skip
    from synthbench.store import read_run

    return Pair(folder, tuple(read_run(folder).records))


def kept(pair: Pair, variant: str, framework: str) -> tuple[Cell, dict[str, Array]]:
    asked = cell(variant, framework)
    return read_checkpoint(pair.folder / "checkpoints" / f"{asked.id}.npz")


@contextmanager
def watching(framework: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Array]]:
    """The weights that a framework's own attention makes, in the order of the layers."""
    module = importlib.import_module(f"synthbench.backends.{framework}.mixers.attention")
    own, seen = module.masked_softmax, list[Array]()

    def watched(*arguments: Any) -> Any:
        made = own(*arguments)
        if framework == "torch":
            seen.append(made.detach().numpy())
        else:
            jax.debug.callback(lambda values: seen.append(np.asarray(values)), made, ordered=True)
        return made

    with monkeypatch.context() as patched:
        patched.setattr(module, "masked_softmax", watched)
        yield seen
        jax.effects_barrier()


@pytest.mark.parametrize("variant", ["V", "D"])
def test_both_frameworks_weigh_alike_with_the_same_checkpoint(
    pair: Pair, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of them trained it, and as NumPy does."""
    trained_in, parameters = kept(pair, variant, "torch")
    other = kept(pair, variant, "jax")[1]
    for name, values in parameters.items():
        np.testing.assert_allclose(other[name], values, atol=1e-9)
    batch, model = held_out_batch(trained_in), model_of(trained_in)
    assert batch.padding_mask is not None and not batch.padding_mask.all()
    expected = weights(model, parameters, batch.inputs, batch.padding_mask)
    for framework in ("torch", "jax"):
        backend: Any = importlib.import_module(BACKENDS[framework])
        setting = setting_of(cell(variant, framework))
        with watching(framework, monkeypatch) as seen:
            backend.outputs(model, parameters, setting, batch)
        assert len(expected) == 4 and len(seen) in (4, 8)  # one pass, or a first one beside it
        for found, (layer, values) in zip(seen[-4:], expected.items(), strict=True):
            np.testing.assert_allclose(found, values, atol=1e-10, err_msg=f"{framework} {layer}")


def test_a_training_records_the_spread_of_each_layer(pair: Pair) -> None:
    by_framework = {}
    for record in pair.records:
        training = record.measurements.training
        assert training is not None
        first, last = training.evaluations
        assert record.measurements.values == last.metrics
        own, parameters = kept(pair, record.cell.variant, record.cell.framework)
        model = model_of(own)
        examples = task_of(own).examples(model, L, 0)["test"]  # type: ignore[attr-defined]
        batch = examples.batch(held_out_numbers(examples, 4))
        for found, state in (
            (first.metrics, start_values(model.parameters(), own.seed)),
            (last.metrics, parameters),
        ):
            by_layer = spreads(model, state, batch.inputs, batch.padding_mask)
            for stack in ("encoder", "decoder"):
                layers = [by_layer[f"{stack} {number}"] for number in range(2)]
                assert [found[f"{stack}_spread_{n}"] for n in (1, 2)] == pytest.approx(layers)
                assert found[f"{stack}_spread"] == pytest.approx(sum(layers) / 2)
        assert first.metrics["encoder_spread_1"] != last.metrics["encoder_spread_1"]
        by_framework[record.cell.variant, record.cell.framework] = last.metrics
    for variant in ("V", "D"):
        one, other = (by_framework[variant, framework] for framework in ("torch", "jax"))
        assert one == pytest.approx(other, abs=1e-9)


def test_the_spread_of_known_weights() -> None:
    """Logits of 0 weigh all alike; one large logit per query weighs 1 and L - 1 times 0."""
    asked = cell("R", model="encoder", target_len=None, options={}, task="walks", layers=1)
    model = model_of(asked)
    p = start_values(model.parameters(), 0)
    tokens = np.zeros((1, L), dtype=np.int64)
    name = "blocks.0.mixer.random.logits"
    assert spreads(model, p | {name: np.zeros((2, L, L))}, tokens) == pytest.approx({"0": 0})
    peaks = p | {name: np.log(1000) * np.eye(L)[None].repeat(2, axis=0)}
    least, most = (np.array([1, 1000]) / (L - 1 + 1000)).tolist()
    expected = np.std([most] + [least] * (L - 1))
    assert spreads(model, peaks, tokens)["0"] == pytest.approx(expected)


def test_padding_is_no_weight() -> None:
    """A padded example has the weights of the same example without its padding."""
    asked = cell("D")
    model, short = model_of(asked), model_of(asked).changed(target_len=4)
    p = start_values(model.parameters(), 0)
    draw = np.random.default_rng(0)
    source, target = draw.integers(3, 260, (1, 7)), draw.integers(3, 260, (1, 4))
    mask = np.concatenate([np.arange(L) < 7, np.arange(T) < 4])[None]
    filled = np.concatenate(
        [np.pad(source, ((0, 0), (0, L - 7))), np.pad(target, ((0, 0), (0, T - 4)))], axis=1
    )
    both = np.concatenate([source, target], axis=1)
    whole, cut = real_weights(short, p, both), real_weights(model, p, filled, mask)
    for layer, values in whole.items():
        np.testing.assert_allclose(np.sort(cut[layer]), np.sort(values), rtol=1e-6)
    assert whole["encoder 0"].size == 2 * 7 * 7
    assert whole["decoder 0"].size == 2 * (1 + 2 + 3 + 4)
    drawn = maps(model, p, filled, mask)
    assert drawn["encoder 1"].shape == (1, 2, 7, 7)
    assert drawn["decoder 1"].shape == (1, 2, 4, 4)


@pytest.mark.parametrize(
    ("variant", "things"),
    [("V", 4), ("linformer(rank=6)", 6), ("light_conv(width=6)", 6), ("linformer(rank=5)", 5)],
)
def test_only_positions_are_cut_with_the_padding(variant: str, things: int) -> None:
    """Not compressed positions or the taps of a kernel, though there may be as many."""
    sizes = Sizes.of(d_model=8, heads=2, max_len=6)
    model = Model.of("encoder", parse(variant), sizes, vocabulary=9)
    p = {n: value.astype(np.float64) for n, value in start_values(model.parameters(), 0).items()}
    tokens, mask = np.arange(6)[None], np.arange(6)[None] < 4
    (drawn,) = maps(model, p, tokens, mask).values()
    assert drawn.shape[3] == things
    np.testing.assert_allclose(drawn.sum(axis=-1), 1)


def test_weights_need_no_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest product of a model is left out."""
    asked = cell("V")
    model = model_of(asked)
    p = dict(start_values(model.parameters(), 0))
    inputs = held_out_batch(asked).inputs
    assert reference(model, p, inputs, None).shape == (4, T, 260)

    class Unread(np.ndarray[Any, Any]):
        @property
        def T(self) -> Any:  # noqa: N802
            pytest.fail("the logits were computed")

    p["embedding"] = p["embedding"].view(Unread)
    assert len(weights(model, p, inputs)) == 4


def test_a_mixer_without_weights_cannot_be_asked_for_their_spread() -> None:
    class Plain(Mixer):
        name = "plain"

    with pytest.raises(UnsupportedError, match="plain has no weights"):
        require_weights(Plain(), "leave it out")
    require_weights(model_of(cell("FR+V")).mixer, "")


def test_examples_and_texts_are_what_the_model_reads() -> None:
    asked = cell("V")
    one = held_out_example(asked, 2)
    assert one.inputs.shape == (1, L + T)
    with pytest.raises(NotationError, match="example 1000 does not exist; choose one from 0 to"):
        held_out_example(asked, 1000)
    read = text_example(asked, "ab", "c")
    assert read.inputs[0, :3].tolist() == [3 + ord("a"), 3 + ord("b"), 2]
    assert read.inputs[0, L : L + 2].tolist() == [1, 3 + ord("c")]
    assert read.padding_mask is not None and read.padding_mask.sum() == 3 + 2
    with pytest.raises(NotationError, match="give a target"):
        text_example(asked, "ab", None)
    decoder = cell(
        "V", model="decoder", target_len=None, task="language_model",
        options={"data": {"generated": {"rows": 60}}},
    )  # fmt: skip
    assert text_example(decoder, "ab", None).inputs[0, :3].tolist() == [1, 3 + 97, 3 + 98]
    with pytest.raises(NotationError, match="leave out the target"):
        text_example(decoder, "ab", "c")
    with pytest.raises(UnsupportedError, match="task walks does not learn from texts"):
        text_example(cell("V", task="walks", options={}), "ab", "c")


def inspected(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["inspect", *arguments])
    return int(ended.value.code or 0)


@pytest.mark.long
def test_a_pair_is_drawn_side_by_side(
    pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inspected(str(pair.folder), "--variants", "V,D", "--out", str(tmp_path)) == 0
    assert "loss" not in capsys.readouterr().err  # what the run kept, not a new training
    stems = {f"{v}-torch-{what}" for v in "VD" for what in ("histograms", "maps", "heads")}
    stems |= {"V-torch-D-torch-histograms", "V-torch-D-torch-spread"}
    assert {path.stem for path in tmp_path.iterdir()} == stems
    drawn = (tmp_path / "V-torch-D-torch-histograms.svg").read_text()
    assert "encoder layer 2, at the start" in drawn and "decoder layer 1, after training" in drawn
    with open(tmp_path / "V-torch-D-torch-spread.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 4
    recorded = {
        record.cell.variant: record.measurements.values
        for record in pair.records
        if record.cell.framework == "torch"
    }
    for row in rows:
        if (row["state"], row["layer"]) == ("after training", "encoder layer 2"):
            held_out = recorded[row["variant"]]["encoder_spread_2"]
            assert held_out is not None
            assert float(row["spread"]) == pytest.approx(held_out, rel=0.2)


def test_checkpoints_of_a_run_are_drawn_beside_each_other(pair: Pair, tmp_path: Path) -> None:
    paths = [pair.folder / "checkpoints" / f"{cell('V', f).id}.npz" for f in ("torch", "jax")]
    asked = [*map(str, paths), "--out", str(tmp_path), "--text", "ab", "--target", "ba"]
    assert inspected(*asked) == 0
    drawn = (tmp_path / "V-torch-V-jax-histograms.svg").read_text()
    assert "V in torch" in drawn and "V in jax" in drawn
    assert "after training" in (tmp_path / "V-jax-maps.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--seed", "7"], "seed of this run"),
        (["--variants", "V,,D"], "has an empty entry"),
        (["--target", "ab"], "--target stands beside --text"),
        (["--text", "ab"], "give a target"),
        (["--example", "999"], "example 999 does not exist"),
        (["--head", "9"], "head 9 does not exist"),
    ],
)
def test_what_cannot_be_drawn_is_said(
    pair: Pair, arguments: list[str], told: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert inspected(str(pair.folder), "--out", str(tmp_path), *arguments) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_several_runs_are_refused(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspected(str(pair.folder), str(pair.folder)) == 2
    assert "several sources have to be files of checkpoints" in capsys.readouterr().err


def test_one_checkpoint_given_twice_is_refused(
    pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = cell("V")
    write_checkpoint(tmp_path / "a.npz", asked, start_values(model_of(asked).parameters(), 0))
    assert inspected(*2 * [str(tmp_path / "a.npz")]) == 2
    assert "the same model is given twice" in capsys.readouterr().err
