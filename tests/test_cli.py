"""The command line: options, mistakes, lists, and what every command has in common."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.main import get_command

from synthbench import __version__
from synthbench.cli.app import app
from synthbench.cli.options import split_batches, split_lengths, split_list, split_variants
from synthbench.cli.runs import find_run, run_name
from synthbench.errors import NotationError
from synthbench.mixers.base import Mixer, Parameter
from synthbench.run.extensions import register
from synthbench.store import append_record, read_run
from tests.command_line import (
    ENVIRONMENT,
    Captured,
    made_run,
    refused,
    suite_file,
    synthbench,
)


@pytest.mark.parametrize("option", ["--variants", "--variant"])
def test_variants_are_chosen_by_the_same_option_everywhere(
    option: str, capsys: Captured, tmp_path: Path
) -> None:
    suite = suite_file(tmp_path)
    call = ("run", "--suite", suite, "--device", "cpu", "--dry-run", option, "R")
    code, out, _ = synthbench(capsys, *call)
    assert code == 0
    assert ["variants", "R"] in [line.split() for line in out.splitlines()]
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    options = {name: {o for p in one.params for o in p.opts} for name, one in commands.items()}
    taking = {name for name, known in options.items() if "--variants" in known}
    assert taking >= {"run", "tune", "tables", "plot", "history", "inspect"}
    assert [name for name in sorted(taking) if option not in options[name]] == []


def test_lists_are_split_outside_parentheses_and_quotes() -> None:
    assert split_list(["V,FD(a=2, b=4)+V", "R"]) == ["V", "FD(a=2, b=4)+V", "R"]
    assert split_list(["(R+V)(mixing=layer, bias=true),FR(rank=8)"]) == [
        "(R+V)(mixing=layer, bias=true)", "FR(rank=8)",
    ]  # fmt: skip
    assert split_list(['own(text="a,b)"),V']) == ['own(text="a,b)")', "V"]
    assert split_list(["V,FR(rank=[8, 16])+V"]) == ["V", "FR(rank=[8, 16])+V"]
    assert split_list(["FR(rank=8,V"]) == ["FR(rank=8,V"]  # left whole for notation to explain
    assert split_variants(["V,FR(rank=[8, 16])+V"]) == ["V", "FR(rank=8)+V", "FR(rank=16)+V"]
    with pytest.raises(NotationError, match="is not closed"):
        split_variants(["FR(rank=[8"])
    assert split_list([]) == []
    with pytest.raises(NotationError, match="'V,,R' has an empty entry; write variants like V,"):
        split_list(["V,,R"])
    with pytest.raises(NotationError, match=r"'' is empty; .*`synthbench list variants`"):
        split_list([""])
    assert split_lengths(["128, 256", "512"]) == [128, 256, 512]
    with pytest.raises(NotationError, match="'12x' is not an integer"):
        split_lengths(["12x"])
    with pytest.raises(NotationError, match="'' is empty; write lengths like --seq-len 128"):
        split_lengths([""])
    for text in ("-1", "1.5", "٣", "²"):
        with pytest.raises(NotationError, match="is not an integer; write lengths"):
            split_lengths([text])
    with pytest.raises(NotationError, match="too many digits for a length"):
        split_lengths(["9" * 5000])
    assert split_batches(["1,8", "3"]) == [1, 8, 3]
    with pytest.raises(NotationError, match="'x' is not an integer; write batch sizes like --bat"):
        split_batches(["1,x"])


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["show", "linfromer"], ["'linfromer' not known", "Did you mean linformer"]),
        (["show", "FR(rank=32"], ["expected ','", "at character 11"]),
        (["show", "FR(rank=big)"], ["rank='big'", "expected int"]),
        (["show", "V", "--d-model", "16", "--heads", "3"], ["16 is not divisible by heads 3"]),
        (["show", "V", "--seq-len", "9", "--max-len", "8"], ["length 9 does not fit max_len 8"]),
        (["verify", "V+linformer"], ["cannot stand in a sum"]),
        (["verify", "V", "--framework", "trch"], ["Did you mean torch"]),
        (["run", "--suite", "smok"], ["'smok' not known", "Did you mean smoke"]),
        (["run", "--suite", "smoke", "--device", "npu"], ["use auto, cpu, cuda, tpu"]),
        (["run", "--suite", "smoke", "--device", "cpu", "--framework", "jx"], ["Did you mean jax"]),
        (["run", "--suite", "smoke", "--device", "cpu", "--seq-len", "0"], ["length 0"]),
        (["run", "--suite", "smoke", "--device", "cpu", "--batch", "0"], ["batch size 0"]),
        (["run", "--suite", "smoke", "--device", "cpu", "--mode", "trian"],
         ["mode 'trian' not known", "Did you mean train"]),
        (["run", "--suite", "smoke", "--device", "cpu", "--mode", ""],
         ["'' is empty; write --mode forward,train"]),
        (["run", "--suite", "smoke", "--plugin", "no_such_module"], ["cannot be imported"]),
        (["run", "--suite", "smoke", "--device", "cpu", "--resume"], ["no unfinished run"]),
        (["tables"], ["no run found in results"]),
        (["run", "--suite", "smoke", "--device", "cpu", "--resume", "--out", "nowhere"],
         ["no run in nowhere to go on with", "leave --resume out"]),
        (["run", "--suite", "smoke", "--device", "cpu", "--framework", ""],
         ["'' is empty; write --framework torch,jax"]),
        (["run", "--suite", "smoke", "--device", "cpu", "--variants", ""],
         ["'' is empty; write variants like", "synthbench list variants"]),
        (["run", "--suite", "smoke", "--device", "cpu", "--seq-len", ""],
         ["'' is empty; write lengths like --seq-len 128,256"]),
        (["verify", "V", "--framework", ","], ["empty entry; write --framework torch,jax"]),
        (["show", "light_conv", "--d-model", "10", "--heads", "4"], ["heads in 1, 2, 5, 10\n"]),
        (["tables", "smoke/one"], ["run 'smoke/one' not found"]),
        (["tables", ""], ["run '' not found"]),
        (["tables", "."], ["'.' is not a run", "synthbench list runs"]),
        (["tables", "a" * 5000], ["File name too long", "(5009 characters)"]),
    ],
)  # fmt: skip
def test_a_mistake_is_one_clear_message(
    arguments: list[str],
    parts: list[str],
    capsys: Captured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    message = refused(capsys, *arguments)
    assert message.startswith("synthbench: ")
    for part in parts:
        assert part in message


def test_a_wrong_key_in_a_suite_is_named_with_its_file(capsys: Captured, tmp_path: Path) -> None:
    suite = suite_file(tmp_path, more="mesure: {rounds: 2}\n")
    message = refused(capsys, "run", "--suite", suite, "--device", "cpu")
    for part in (suite, "mesure: unknown key", "Did you mean measure"):
        assert part in message


def test_causal_linformer_is_refused_with_the_reason(capsys: Captured, tmp_path: Path) -> None:
    call = ["run", "--suite", suite_file(tmp_path, "decoder"), "--device", "cpu"]
    out = tmp_path / "out"
    message = refused(capsys, *call, "--variants", "linformer", "--out", str(out))
    assert "no cell of suite tiny can be run" in message
    assert "causal" in message
    assert not out.exists()


def test_version_and_help(capsys: Captured) -> None:
    assert synthbench(capsys, "--version") == (0, f"synthbench {__version__}\n", "")
    code, out, _ = synthbench(capsys, "run", "--help")
    assert code == 0
    for option in ("--suite", "--device", "--framework", "--variants", "--seq-len", "--out",
                   "--resume", "--plugin"):  # fmt: skip
        assert option in out
    code, _, err = synthbench(capsys, "rum")
    assert code == 2
    assert "No such command" in err


def test_lists(capsys: Captured, tmp_path: Path) -> None:
    code, out, _ = synthbench(capsys, "list", "suites")
    assert code == 0
    assert "smoke" in out
    assert "seq_scaling" in out
    assert "FR(rank=32)" in synthbench(capsys, "list", "variants")[1]
    made_run(tmp_path / "smoke" / "1", "oom", finished=None)
    broken = made_run(tmp_path / "smoke" / "2")
    (broken / "run.json").write_text("{")
    code, out, _ = synthbench(capsys, "list", "runs", "--results", str(tmp_path))
    assert code == 0
    lines = out.splitlines()
    assert lines[1].split()[:2] == ["smoke/1", "cpu"]
    assert "unfinished" in lines[1]
    assert "1 oom" in lines[1]
    assert "cannot be read" in " ".join(lines[2:])
    assert synthbench(capsys, "list", "runs", "--results", str(tmp_path / "no"))[1].startswith(
        "no run"
    )


def test_runs_are_listed_with_the_records_that_count(capsys: Captured, tmp_path: Path) -> None:
    """Not with attempts that a later one has replaced."""
    run = made_run(tmp_path / "smoke" / "1", "timeout")
    (record,) = read_run(run).records
    append_record(run, record.model_copy(update={"outcome": "ok", "attempt": 1}))
    out = synthbench(capsys, "list", "runs", "--results", str(tmp_path))[1]
    assert "1 ok" in out and "timeout" not in out


def test_a_suite_is_found_by_its_whole_path(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of results is a relative path unless it is given."""
    run = made_run(tmp_path / "results" / "smoke" / "1")
    monkeypatch.chdir(tmp_path)
    assert find_run(str(run.parent), Path("results")).absolute() == run
    assert run_name(run, Path("results")) == "smoke/1"


@pytest.mark.usefixtures("registry")
def test_an_option_of_a_plug_in_may_be_called_components(capsys: Captured) -> None:
    """Only mixtures have components of their own; this ended with a traceback."""

    @dataclass(frozen=True)
    class Composed(Mixer):
        """x itself."""

        name: ClassVar[str] = "composed"
        components: int = 3

        def parameters(self, sizes: Any) -> dict[str, Parameter]:
            return {}

        def torch(self, sizes: Any) -> Any:
            return lambda p, x, padding_mask, causal: x

    register(Composed)
    sizes = ["--batch", "2", "--seq-len", "8", "--d-model", "16", "--heads", "4", "--max-len", "12"]
    code, out, err = synthbench(capsys, "show", "composed", *sizes)
    assert (code, err) == (0, "")
    assert "composed: " in out


def test_show_prints_the_definition_and_the_cost(capsys: Captured) -> None:
    sizes = ["--batch", "2", "--seq-len", "8", "--d-model", "16", "--heads", "4", "--max-len", "12"]
    code, out, _ = synthbench(capsys, "show", "factorized_random( rank = 3 ) + Fix", *sizes)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "FR(rank=3)+Fix"
    rows = {line.split()[0]: line for line in lines if line.strip()}
    assert "[4, 12, 3]" in rows["factorized_random.left"]
    assert "trained" in rows["factorized_random.left"]
    assert "constant" in rows["fixed_random.logits"]
    assert "N(0, 1^2)" in rows["fixed_random.logits"]
    assert rows["parameters"].split()[1] == str(2 * 4 * 12 * 3 + 2 * 16 * 16 + 2 * 4)
    assert rows["constants"].split()[1] == str(4 * 12 * 12)
    # value and output projections, left right^T once, weights times value: 2 a multiply-accumulate
    flops = 2 * (2 * 2 * 8 * 16 * 16) + 2 * 4 * 8 * 8 * 3 + 2 * 2 * 4 * 8 * 8 * 4
    assert rows["FLOPs"].split()[1] == f"{flops:,}"
    assert "arXiv 2005.00743" in out
    assert "rank=3 (default 8)" in out


def test_reading_and_asking_needs_neither_framework(tmp_path: Path) -> None:
    made_run(tmp_path / "results" / "smoke" / "1")
    script = textwrap.dedent("""
        import importlib.abc, sys

        class Blocker(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("torch", "jax", "jaxlib", "flax", "optax", "fvcore"):
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Blocker())
        import synthbench.cli
        assert "pandas" not in sys.modules, "the command line must start without pandas"
        for call in (["--help"], ["list", "variants"], ["show", "V"], ["list", "suites"],
                     ["list", "runs"], ["tables", "smoke"], ["tables", "--check"]):
            try:
                synthbench.cli.main(call)
            except SystemExit as exit:
                assert not exit.code, call
    """)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=tmp_path, env=ENVIRONMENT, text=True,
        capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "S = (X query) (X key)^T" in done.stdout
    assert "the tables of 1 run match the records" in done.stdout


def test_a_closed_pipe_ends_it_quietly(tmp_path: Path) -> None:
    """As `synthbench list variants | head -0` does: the reader is gone before anything is said."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "synthbench", "list", "variants"], cwd=tmp_path,
            env=ENVIRONMENT, stdout=closed, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
