"""Standard streams that are closed, full or ASCII, and odd characters in arguments."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from synthbench.cli import main, streams
from tests.command_line import ENVIRONMENT, Captured, made_run, refused


def stream(**options: Any) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), **options)


def content(written: Any) -> bytes:
    written.flush()
    found: bytes = written.buffer.getvalue()
    return found


def code_of(*arguments: str) -> Any:
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    return exit.value.code


def use_ascii_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, stream(encoding="ascii", errors="strict"))


def test_a_stream_that_cannot_encode_a_character_gets_an_escape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made_run(tmp_path / "smoke" / "1", "crashed", device="\u2615")
    use_ascii_streams(monkeypatch)
    assert code_of("tables", str(run)) == 0
    assert rb"smoke on \u2615: " in content(sys.stdout)
    assert code_of("tables", str(run / "\u2615")) == 2
    assert content(sys.stderr).startswith(b"synthbench: run ")


def test_files_on_an_ascii_stream_are_utf_8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made_run(tmp_path / "caf\u00e9" / "1", "crashed", device="\u2615")
    use_ascii_streams(monkeypatch)
    assert code_of("tables", str(run), "--format", "markdown") == 0
    assert "Device \u2615" in content(sys.stdout).decode()


class Full(io.RawIOBase):
    """A disk without space."""

    space = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if not self.space:
            raise OSError(28, "No space left on device")
        return len(data)


def test_output_that_cannot_be_written_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    err = stream(encoding="utf-8")
    disks = Full(), Full()
    first, second = (io.TextIOWrapper(io.BufferedWriter(disk)) for disk in disks)
    monkeypatch.setattr(sys, "stdout", first)
    monkeypatch.setattr(sys, "stderr", err)
    assert code_of("--version") == 2
    assert content(err) == b"synthbench: No space left on device\n"
    err.seek(err.truncate(0))
    monkeypatch.setattr(sys, "stdout", second)
    monkeypatch.setattr("synthbench.cli.app.app", lambda **_: sys.stdout.write("lost at the end"))
    assert code_of("--version") == 2
    assert b"cannot write the output: No space left on device\n" in content(err)
    for disk in disks:
        disk.space = True  # for what is flushed when the stream is deleted


CLOSED = """
import os, sys
from synthbench.cli import streams
streams.prepare()
print("lost")
sys.stderr.write("lost")
streams.flush()
opened = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(opened, str(opened > 2).encode())
"""


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_replaced(closed: str, tmp_path: Path) -> None:
    """A file that is opened later never has the number of a standard stream."""
    call = f'exec "$@" {closed}'
    done = subprocess.run(
        ["sh", "-c", call, "sh", sys.executable, "-S", "-c", CLOSED, str(tmp_path / "file")],
        env=ENVIRONMENT, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert (tmp_path / "file").read_bytes() == b"True"
    assert b"Traceback" not in done.stdout + done.stderr


def test_commands_print_into_nothing_if_the_streams_are_closed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    no_descriptors = SimpleNamespace(
        open=lambda *_: 3, close=lambda _: None, devnull=os.devnull, O_RDWR=os.O_RDWR
    )
    monkeypatch.setattr(streams, "os", no_descriptors)
    run = made_run(tmp_path / "smoke" / "1")
    for arguments, code in (
        (["tables", str(run)], 0), (["tables", "nowhere"], 2), (["list", "suites"], 0),
        (["tables", "--nope"], 2),
    ):  # fmt: skip
        monkeypatch.setattr(sys, "stdout", None)
        monkeypatch.setattr(sys, "stderr", None)
        assert code_of(*arguments) == code
        sys.stdout.close()
        sys.stderr.close()


MARKUP = "[red]x[/nope] :smile: \x1b[2J"


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--suite", MARKUP], ["run", "--suite", "smoke", "--device", MARKUP],
        ["run", "--suite", "smoke", "--device", "cpu", "--executor", MARKUP],
        ["run", "--suite", "smoke", "--device", "cpu", "--variants", MARKUP],
        ["run", "--suite", "smoke", "--device", "cpu", "--framework", MARKUP],
        ["run", "--suite", "smoke", "--plugin", MARKUP], ["show", MARKUP],
        ["show", "V", "--batch", MARKUP], ["tables", MARKUP], ["tables", "--format", MARKUP],
        ["tables", "--results", MARKUP], [MARKUP], ["show", "V", f"--{MARKUP}"],
        ["export", "--format", MARKUP], ["init", MARKUP], ["plot", MARKUP], ["inspect", MARKUP],
    ],
    ids=lambda arguments: arguments[-2] if len(arguments) > 1 else "command",
)  # fmt: skip
def test_an_argument_is_only_text(
    arguments: list[str], capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    message = refused(capsys, *arguments)
    assert "\x1b" not in message
    assert "\N{SMILING FACE WITH OPEN MOUTH AND SMILING EYES}" not in message
    if arguments[-2:-1] not in (["--results"], ["--batch"]):  # which do not quote it
        assert ":smile:" in message


def test_an_argument_with_nul_is_refused(capsys: Captured) -> None:
    message = refused(capsys, "tables", "a\0b")
    assert message == "synthbench: 'a\\x00b' has a NUL character; leave it out\n"


class Interrupting(MetaPathFinder):
    """Ctrl-C while a module is being imported."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "synthbench.cli.app":
            raise KeyboardInterrupt


def test_ctrl_c_during_the_imports_is_one_word(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "synthbench.cli.app")
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    assert code_of("list", "suites") == 130
    assert capsys.readouterr() == ("", "interrupted\n")


def test_the_module_is_the_command() -> None:
    """With the same protection against Ctrl-C during the imports."""
    import synthbench.__main__ as module

    assert vars(module)["main"] is main
