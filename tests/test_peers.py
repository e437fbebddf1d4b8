"""The benchmark against peers: both sides compute the same, and its tables are the samples'."""

from __future__ import annotations

import importlib.metadata
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from benchmarks.peers import __main__ as command_line
from benchmarks.peers import measure, samples, textbook_torch
from benchmarks.peers.pairs import (
    AIMS,
    BATCHES,
    NEEDS,
    NOTES,
    OPTION_SEQ_LENS,
    PAIRS,
    REFERENCE,
    SEQ_LENS,
    Pair,
    cells_of,
    choose_pairs,
    parts,
)
from benchmarks.peers.samples import Sample, Side
from benchmarks.peers.table import render, summary, time_ratio, write_tables
from synthbench.analysis.intervals import ratio_interval
from synthbench.errors import PackageMissingError, ResultsError, UnknownNameError
from synthbench.mixers.notation import canonical

RECORDED = Path(__file__).parent / "data" / "peers"
PROJECT = Path(__file__).parents[1]
COMMITTED = PROJECT / "results" / "peers" / "cpu-reference"
FILES = ("peers.md", "peers.csv")
SIZES: dict[str, Any] = {
    "seq_len": 12, "batch": 2, "d_model": 16, "heads": 2, "dtype": "float32", "device": "cpu",
}  # fmt: skip
BUDGET = {"pairs": 1, "seconds": 0.0, "limit": 0.0}


@pytest.fixture(autouse=True)
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """No warm-up: these tests take no times."""
    monkeypatch.setattr(measure, "WARM_SECONDS", 0.0)


def measured(pair: Pair, mode: str = "train") -> Sample:
    """A pair at a small size, in this process."""
    sizes = SIZES | {"budget": BUDGET, "head_dim": pair.head_dim}
    found = measure.measure(pair.framework, pair.variant, pair.peer, mode, **sizes)
    return Sample.model_validate(found)


TORCH = [pair for pair in PAIRS if pair.framework == "torch"]
JAX = [pair for pair in PAIRS if pair.framework == "jax" and pair.peer != REFERENCE]


@pytest.mark.long_but("torch V *", "torch ?+? *", "torch *conv *")
@pytest.mark.parametrize("pair", [*TORCH, *choose_pairs("jax FR / textbook")], ids=str)
def test_both_sides_train_alike(pair: Pair) -> None:
    """The losses agree, and one update lowers them alike: so do the gradients."""
    if pair.peer in NEEDS:
        pytest.importorskip(NEEDS[pair.peer])
    one = measured(pair)
    assert one.outcome == "ok", one.reason
    assert one.compared == "losses"
    assert one.difference is not None and one.difference < 1e-6
    assert one.ours is not None and one.theirs is not None
    for side in (one.ours, one.theirs):
        assert len(side.samples) == 1
        assert side.peak_bytes is not None and side.peak_bytes > 0


@pytest.mark.long_but("torch*", "jax ?+? *", "jax R *")
@pytest.mark.parametrize("pair", [*JAX, *choose_pairs("torch dynamic_conv")], ids=str)
def test_both_sides_give_the_same_outputs(pair: Pair) -> None:
    one = measured(pair, "forward")
    assert (one.outcome, one.compared) == ("ok", "outputs"), one.reason
    assert one.difference is not None and one.difference < 1e-5
    assert one.fall_difference is None


def test_a_peer_that_computes_something_else_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Doubled(textbook_torch.FactorizedRandom):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    class Detached(textbook_torch.FactorizedRandom):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).detach()

    for wrong, reason in (
        (Doubled, "losses differ by"),
        (Detached, "one update lowers the losses"),
    ):
        made: Any = lambda p, heads, wrong=wrong: textbook_torch.Synthesizer((wrong,), p, heads)  # noqa: E731
        monkeypatch.setitem(textbook_torch.BY_VARIANT, "FR", made)
        one = measured(Pair("torch", "FR", "textbook"))
        assert one.outcome == "differs"
        assert reason in one.reason
        assert one.ours is None


def test_every_pair_can_be_read_and_is_explained() -> None:
    assert len(set(map(str, PAIRS))) == len(PAIRS)
    for pair in PAIRS:
        assert canonical(pair.variant) == pair.variant
        assert pair.peer in NOTES
    assert choose_pairs("jax D+V / textbook") == [Pair("jax", "D+V", "textbook")]
    with pytest.raises(UnknownNameError, match="'fnet' not known"):
        choose_pairs("fnet")


def test_cells_cover_every_length_and_the_aims_stand_at_theirs() -> None:
    cells = cells_of(list(PAIRS), None, None)
    for pair in PAIRS:
        own = {(c.mode, c.seq_len, c.batch) for c in cells if c.pair == pair}
        if pair.peer == REFERENCE:
            assert own == {("train", 2048, 4)}
        else:
            assert own == {
                (mode, n, BATCHES[n])
                for n in (SEQ_LENS if own & {("forward", 4096, 1)} else OPTION_SEQ_LENS)
                for mode in ("forward", "train")
                if (mode, n) != ("train", 8192)
            }
    asked = cells_of([Pair("torch", "D(bias=true)", "textbook")], (77, 8192), 3)
    assert [(c.mode, c.seq_len, c.batch) for c in asked] == [
        ("forward", 77, 3), ("train", 77, 3), ("forward", 8192, 3),
    ]  # fmt: skip
    assert {c.pair.variant for c in cells if c.pair.peer == REFERENCE} == AIMS.keys()


def test_every_option_that_changes_the_arithmetic_is_compared() -> None:
    compared = {pair.variant for pair in PAIRS if pair.peer == "textbook"}
    assert len([pair for pair in PAIRS if pair.head_dim is not None]) == 2 * 7
    for option in ("sharing=heads", "sharing=full", "sharing=kv", "hidden=separate", "bias=true",
                   "tie_query=true", "mixing=layer", "mixing=sum", "layout=mesh", "rank=128",
                   "width=3", "width=63"):  # fmt: skip
        assert any(option in variant for variant in compared), option
    table_8 = {"conv", "conv_relu_conv", "bottleneck", "bottleneck_conv", "glu"}
    assert {name for variant in compared for name in parts(variant)} >= table_8


@pytest.mark.parametrize(
    ("variant", "names"),
    [("V", ["V"]), ("D(sharing=full)", ["D"]), ("FR(rank=32)+V", ["FR", "V"]),
     ("(FR(rank=4)+V)(mixing=sum)", ["FR", "V"]), ("D(tie_query=true)+V", ["D", "V"])],
)  # fmt: skip
def test_the_names_in_a_variant(variant: str, names: list[str]) -> None:
    assert parts(variant) == names


def test_the_ratio_of_medians_has_the_known_interval() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for seed in range(200):
        shared = np.exp(0.3 * rng.standard_normal(15))  # what slows both sides of a turn
        ours = shared * np.exp(0.05 * rng.standard_normal(15))
        theirs = 2 * shared * np.exp(0.05 * rng.standard_normal(15))
        found = ratio_interval(list(theirs), list(ours), seed=seed)
        covered += found.low <= 2 <= found.high
        assert found.low <= found.value <= found.high
    assert covered >= 184  # 95% of 200 less what chance allows
    assert ratio_interval([3.0], [2.0]) == (1.5, 1.5, 1.5)
    for above, below in (([], []), ([1.0], [1.0, 2.0])):
        with pytest.raises(ValueError, match="not equal-length paired samples"):
            ratio_interval(above, below)


def test_the_tables_are_what_the_recorded_samples_give(tmp_path: Path) -> None:
    expected = {name: (RECORDED / name).read_text() for name in FILES}
    found = samples.read(RECORDED)
    assert render(found, samples.read_environment(RECORDED)) == expected
    assert render(found[::-1], samples.read_environment(RECORDED)) == expected
    shutil.copytree(RECORDED, tmp_path / "copy")
    for name in FILES:
        (tmp_path / "copy" / name).unlink()
    assert {path.name for path in write_tables(tmp_path / "copy")} == set(FILES)
    assert {name: (tmp_path / "copy" / name).read_text() for name in FILES} == expected
    with pytest.raises(ResultsError, match=r"has no samples\.jsonl"):
        write_tables(tmp_path)


def test_the_committed_run_is_what_its_samples_say_and_so_is_the_page() -> None:
    found = samples.read(COMMITTED)
    expected = {name: (COMMITTED / name).read_text() for name in FILES}
    assert render(found, samples.read_environment(COMMITTED)) == expected
    ratios = [time_ratio(one).value for one in found if one.outcome == "ok"]
    fast = sum(ratio >= 0.95 for ratio in ratios)
    page = " ".join((PROJECT / "docs" / "measuring.md").read_text().split())
    assert f"Of its {len(ratios)} cells {fast} reach 0.95" in page
    assert f"and {sum(bool(one.warnings) for one in found)} cells are marked as disturbed" in page


def test_the_tables_hold_the_known_ratios() -> None:
    csv = (RECORDED / "peers.csv").read_text().splitlines()
    row = dict(zip(csv[0].split(","), csv[1].split(","), strict=True))
    assert (row["variant"], row["against"]) == ("R", "own reference form")
    assert float(row["time ratio"]) == pytest.approx(3)
    assert float(row["memory ratio"]) == pytest.approx(4)
    assert float(row["MB ours"]) == pytest.approx(200)
    text = summary(samples.read(RECORDED))
    assert "3 of 4 cells" in text
    assert "aim of 2.5 times reached: torch R" in text
    assert "aim of 2.0 times not reached: torch FR" in text
    assert "slower: torch V against nn.MultiheadAttention, forward L=512 B=2: 0.900" in text
    assert "differs: torch D against textbook" in text
    assert "failed: jax V against nnx.MultiHeadAttention" in text


def test_a_line_cut_short_is_left_out_and_a_later_one_counts(tmp_path: Path) -> None:
    one = Sample(framework="jax", variant="V", peer="textbook", mode="train", seq_len=8, batch=1)
    samples.append(tmp_path, one.model_copy(update={"outcome": "failed", "reason": "busy"}))
    side = Side(samples=[1.0], peak_bytes=None)
    samples.append(tmp_path, one.model_copy(update={"ours": side, "theirs": side}))
    with open(tmp_path / samples.SAMPLES, "ab") as file:
        file.write(b'{"framework": "to')
    (found,) = samples.read(tmp_path)
    assert found.outcome == "ok"
    assert "not measured" in render([found], {})["peers.md"]


@pytest.mark.long
def test_the_command_measures_stores_and_goes_on(tmp_path: Path) -> None:
    import typer

    app = typer.Typer()
    app.command()(command_line.main)
    command = [
        "--pairs",
        "torch R / textbook",
        "--seq-len",
        "16",
        "--d-model",
        "16",
        "--heads",
        "2",
    ]
    command += ["--threads", "1", "--seconds", "0.001", "--out", str(tmp_path / "run")]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    assert "[2/2] torch R against textbook, train L=16 B=1" in first.output
    found = samples.read(tmp_path / "run")
    assert [one.outcome for one in found] == ["ok", "ok"]
    assert all(one.kernel_choice is not None for one in found)  # R has one per library
    versions = samples.read_environment(tmp_path / "run")["versions"]
    assert versions["torch"] == importlib.metadata.version("torch")
    before = (tmp_path / "run" / samples.SAMPLES).read_bytes()
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0
    assert "[2/2]" not in again.output
    assert (tmp_path / "run" / samples.SAMPLES).read_bytes() == before
    assert "resumed" not in samples.read_environment(tmp_path / "run")
    (tmp_path / "run" / samples.SAMPLES).write_bytes(before.splitlines(keepends=True)[0])
    assert CliRunner().invoke(app, command).exit_code == 0
    assert len(samples.read(tmp_path / "run")) == 2
    (resumed,) = samples.read_environment(tmp_path / "run")["resumed"]
    code = (resumed["git"] or {}).get("commit", "unknown code")[:8]
    text = (tmp_path / "run" / "peers.md").read_text()
    assert f", resumed {resumed['taken']} ({code}).  \n" in text
    for option in (["--d-model", "32"], ["--dtype", "bfloat16"], ["--device", "cuda"]):
        other = CliRunner().invoke(app, [*command, *option])
        assert isinstance(other.exception, ResultsError)
        assert "give another --out" in str(other.exception)


def test_a_peer_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_line, "version", lambda package: None)
    with pytest.raises(PackageMissingError, match=r"linformer: not installed.*make peers"):
        command_line.require_packages(choose_pairs("torch linformer"))
    command_line.require_packages(choose_pairs("jax"))
