"""Pictures of runs: the marks they must hold, and that the same records give the same bytes."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from synthbench.cli.app import main
from synthbench.errors import ResultsError, UnknownNameError
from synthbench.record import Memory, Record
from synthbench.report.data.cell_layout import MODES
from synthbench.report.figures.label_placement import HEIGHT, LABEL_HEIGHT, MARGIN, spread, ticks
from synthbench.report.figures.length_plot import spec
from synthbench.report.figures.run_plots import FOLDER, write_plots
from synthbench.store import Run, append_record, create_run, list_runs, read_run
from tests.test_tables import cell, info, record, run_of

LENGTHS = (128, 256, 512)
ROOT = Path(__file__).parent.parent


def records(rounds: int = 2, **fields: Any) -> Iterator[Record]:
    """V and D quadratic, linformer linear; D runs out of memory at 512 in jax."""
    for number in range(rounds):
        for framework in ("torch", "jax"):
            for variant, power in (("V", 2), ("D", 2), ("linformer", 1)):
                for length in LENGTHS:
                    one = cell(variant, framework, "train", length, **fields)
                    seconds = 1e-3 * (length / 128) ** power * (1 + 0.1 * number)
                    peak = 10**6 * (length // 128) ** power * (1 + number)
                    memory = Memory(parameters=1, optimizer=1, batch=1, peak=peak, method="rss")
                    if (variant, framework, length) == ("D", "jax", 512):
                        yield record(one, outcome="oom", reason="full", round=number)
                    else:
                        yield record(one, seconds, round=number, memory=memory)


def drawn(run: Run, **options: Any) -> list[dict[str, list[dict[str, Any]]]]:
    """For each panel the values that each kind of mark shows, by the mark's field for y."""
    content = spec(run, **options)
    panels = []
    for one in content["concat"]:
        layers = {}
        for layer in one["layer"]:
            kind = layer["mark"]["type"]
            y = layer["encoding"]["y"].get("field", "heading")
            name = f"{kind} {y}" + " right" * (layer["mark"].get("align") == "right")
            layers[name] = content["datasets"][layer["data"]["name"]]
        panels.append(layers)
    return panels


def test_each_line_holds_the_known_costs() -> None:
    torch_time, jax_time, torch_memory, _ = drawn(run_of(list(records(1))))
    times = {(p["variant"], p["length"]): p["cost"] for p in torch_time["line cost"]}
    assert len(times) == 9
    assert times["V", 512] == pytest.approx(16)  # milliseconds
    assert times["linformer", 512] == pytest.approx(4)
    peaks = {(p["variant"], p["length"]): p["cost"] for p in torch_memory["line cost"]}
    assert peaks["V", 512] == pytest.approx(16)  # MB
    assert [p["text"] for p in torch_time["text heading"]] == ["PyTorch, eager"]
    assert [p["text"] for p in jax_time["text heading"]] == ["JAX, compiled"]


def test_bands_span_the_rounds_and_one_round_has_none() -> None:
    time, _, memory, _ = drawn(run_of(list(records(2))))
    bands = {(p["variant"], p["length"]): (p["low"], p["high"]) for p in time["area low"]}
    assert bands["V", 128] == pytest.approx((0.9, 1.21))  # samples are +-10% of 1 and of 1.1 ms
    spans = {(p["variant"], p["length"]): (p["low"], p["high"]) for p in memory["area low"]}
    assert spans["V", 128] == pytest.approx((1, 2))
    one = drawn(run_of(list(records(1))))
    assert all(panel["area low"] == [] for panel in one)
    assert "Bands" not in str(spec(run_of(list(records(1))))["title"])
    title = str(spec(run_of(list(records(2))))["title"])
    assert "Bands: what the 95% intervals of 2 rounds span" in title


def test_what_did_not_fit_is_marked_where_that_happened() -> None:
    torch_time, jax_time, _, jax_memory = drawn(run_of(list(records())))
    assert torch_time["text y right"] == []
    for panel in (jax_time, jax_memory):
        (mark,) = panel["text y right"]
        assert (mark["variant"], mark["length"]) == ("D", 512)
        assert mark["text"] == "D \u00d7"
        assert max(p["length"] for p in panel["line cost"] if p["variant"] == "D") == 256
        highest = max(p["cost"] for p in panel["line cost"])
        assert mark["y"] > highest
    assert "did not fit" in str(spec(run_of(list(records())))["title"])


def test_names_stand_at_the_ends_and_do_not_overlap() -> None:
    for panel in drawn(run_of(list(records()))):
        ends = {p["variant"]: p["length"] for p in panel["line cost"]}
        labels = panel["text y"]
        assert {p["variant"]: p["length"] for p in labels} == ends
    close = [10.0, 11.0, 12.0, 100.0, HEIGHT, HEIGHT]
    places = spread(close, LABEL_HEIGHT, 0, HEIGHT)
    gaps = [after - before for before, after in pairwise(places)]
    assert min(gaps) >= LABEL_HEIGHT
    assert places[3] == 100
    assert min(places) >= 0
    assert max(places) <= HEIGHT
    assert spread([50.0], LABEL_HEIGHT, 0, HEIGHT) == [50]


def test_the_axes_are_those_of_the_run_and_say_their_units() -> None:
    content = spec(run_of(list(records(1))))
    first, _, third, _ = content["concat"]
    line = next(layer for layer in first["layer"] if layer["mark"]["type"] == "line")
    x, y = line["encoding"]["x"], line["encoding"]["y"]
    assert (x["scale"]["type"], y["scale"]["type"]) == ("log", "log")
    assert x["axis"]["values"] == list(LENGTHS)
    assert y["axis"]["title"] == "time of a train step (ms)"
    assert y["scale"]["domain"][0] < 1 < 16 < y["scale"]["domain"][1]
    line = next(layer for layer in third["layer"] if layer["mark"]["type"] == "line")
    assert line["encoding"]["x"]["axis"]["title"] == "sequence length"
    assert line["encoding"]["y"]["axis"]["title"] == "peak memory (MB)"


@pytest.mark.parametrize("value", [1, 1.4, 2.5, 2.7, 5.9, 7.0, 7.6, 9.9, 270, 0.07])
def test_an_axis_of_close_values_has_numbers(value: float) -> None:
    low, high = value / MARGIN, value * MARGIN
    found = ticks(low, high)
    assert 2 <= len(found) < 8  # more would not be read either
    assert all(low <= tick <= high for tick in found)


def test_the_ticks_of_a_long_axis_are_few() -> None:
    assert ticks(0.9, 14) == [1, 2, 5, 10]
    assert ticks(0.9, 2000) == [1, 10, 100, 1000]


def test_variants_are_chosen_in_any_notation() -> None:
    run = run_of(list(records(1)))
    panel = drawn(run, variants=["dot_product", "V"])[0]
    assert {p["variant"] for p in panel["line cost"]} == {"V"}
    with pytest.raises(UnknownNameError, match=r"'fnet' not known.*linformer"):
        spec(run, variants=["V", "fnet"])


def test_a_run_of_both_forms_shows_the_fused_one() -> None:
    found = [r for form in ("reference", "fused") for r in records(1, form=form)]
    run = run_of(found)
    assert "Setting: form=fused." in str(spec(run)["title"])
    assert "Setting: form=reference." in str(spec(run, setting="form=reference")["title"])
    assert len(drawn(run)[0]["line cost"]) == 9
    plain = [r for r in found if r.cell.form == "reference"]
    absent = record(cell("V", "torch", "train", 128, form="fused"), outcome="unsupported")
    assert "Setting: form=reference." in str(spec(run_of([*plain, absent]))["title"])
    with pytest.raises(UnknownNameError, match="form=fused, form=reference"):
        spec(run, setting="form=auto")


def test_a_heading_is_about_the_setting_that_is_drawn() -> None:
    found = [
        record(cell("V", "torch", mode, n, compile=how))
        for n in LENGTHS
        for mode, how in (("train", "eager"), ("train", "compiled"), ("forward", "eager"))
    ]
    for how in ("eager", "compiled"):
        time, _ = drawn(run_of(found), setting=f"compile={how}")
        assert [one["text"] for one in time["text heading"]] == [f"PyTorch, {how}"]


def test_a_run_without_such_cells_says_so() -> None:
    forward = run_of([record(cell("V", "torch", "forward", n), 0.01) for n in LENGTHS])
    with pytest.raises(ResultsError, match=r"no cells of mode train.*forward"):
        spec(forward)
    assert len(drawn(forward, mode="forward")) == 2
    with pytest.raises(ResultsError, match="no cells of mode train"):
        spec(run_of([]))


def test_one_length_and_nothing_but_failures_can_be_drawn(tmp_path: Path) -> None:
    only = record(cell("V", "torch", "train", 128), outcome="oom", reason="full")
    files = write_plots(run_of([only]), tmp_path)
    assert [path.name for path in files] == ["train.svg", "train.png"]
    assert "V \u00d7" in files[0].read_text()


def made_run(folder: Path) -> Path:
    create_run(folder, info())
    for one in records():
        append_record(folder, one)
    return folder


def test_the_command_writes_the_same_bytes_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = made_run(tmp_path / "results" / "made_up" / "one")
    written = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        with pytest.raises(SystemExit) as ended:
            main(["plot", str(run_dir), "--out", str(folder), "--variants", "V,linformer"])
        assert not ended.value.code
        written.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert written[0] == written[1]
    assert written[0].keys() == {"train.svg", "train.png"}
    assert written[0]["train.png"].startswith(b"\x89PNG")
    assert b"linformer" in written[0]["train.svg"]
    assert str(tmp_path / "second" / "train.svg") in capsys.readouterr().out

    with pytest.raises(SystemExit) as ended:
        main(["plot", "--results", str(tmp_path / "results"), "--variants", "nope"])
    assert ended.value.code == 2
    assert "'nope' not known" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["plot", "--results", str(tmp_path / "empty")])
    assert ended.value.code == 2
    assert "create one with `synthbench run" in capsys.readouterr().err


def rounded(picture: Path) -> str:
    """An SVG with its numbers to three decimals: the sums of Python 3.12 round in another way."""
    number = re.compile(r"-?[0-9]+\.[0-9]+")
    return number.sub(lambda found: f"{float(found[0]):.3f}", picture.read_text())


def drawn_by() -> dict[str, bool]:
    """Each package that draws -> whether it has the version of requirements.lock."""
    lock = (ROOT / "requirements.lock").read_text().splitlines()
    packages = ("altair", "vl-convert-python")
    return {name: f"{name}=={importlib.metadata.version(name)}" in lock for name in packages}


@pytest.mark.skipif(not all(drawn_by().values()), reason="other versions draw in another way")
def test_the_costs_beside_another_task_are_drawn_as_if_alone(tmp_path: Path) -> None:
    """A task of a plug-in that trains nothing: its cells are no setting of the costs."""
    beside = [record(cell("V", "torch", "train", length, task="others")) for length in LENGTHS]
    (alone, _), (found, _) = (
        write_plots(run_of([*records(), *more]), tmp_path / str(len(more))) for more in ([], beside)
    )
    assert rounded(found) == rounded(alone)


@pytest.mark.long
def test_committed_pictures_are_what_the_records_give(tmp_path: Path) -> None:
    committed = {
        folder: pictures
        for folder in list_runs(ROOT / "results")
        if (pictures := list((folder / FOLDER).glob("*.svg")))
    }
    assert committed
    for folder, pictures in committed.items():
        # All of a run's pictures are drawn in one go, but for those of the modes of a step.
        for mode in {picture.stem for picture in pictures}.intersection(MODES) or {"train"}:
            write_plots(read_run(folder), tmp_path, mode=mode)
        for picture in pictures:
            assert rounded(tmp_path / picture.name) == rounded(picture), picture
