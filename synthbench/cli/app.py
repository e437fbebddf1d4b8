"""All commands, and the only place where an error becomes a message and an exit code."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from synthbench.cli import listing, streams
from synthbench.cli.claims import claims
from synthbench.cli.compare import compare
from synthbench.cli.export import export
from synthbench.cli.history import history
from synthbench.cli.init import init
from synthbench.cli.inspect import inspect
from synthbench.cli.jobs import cancel, status
from synthbench.cli.output import complain
from synthbench.cli.pack import pack, unpack
from synthbench.cli.plot import plot
from synthbench.cli.report import report
from synthbench.cli.run import run
from synthbench.cli.show import show
from synthbench.cli.site import site
from synthbench.cli.tables import tables
from synthbench.cli.tune import tune
from synthbench.cli.verify import verify
from synthbench.errors import NotationError, SynthbenchError, quote

GONE = 1  # the exit code if nobody reads the output any more, as usual in Python

app = typer.Typer(
    name="synthbench",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run)
app.command()(status)
app.command()(cancel)
app.command()(init)
app.command()(tables)
app.command()(plot)
app.command()(compare)
app.command()(history)
app.command()(claims)
app.command()(report)
app.command()(site)
app.command()(inspect)
app.add_typer(listing.app, name="list")
app.command()(show)
app.command()(verify)
app.command()(tune)
app.command()(export)
app.command()(pack)
app.command()(unpack)


def _print_version(asked: bool) -> None:
    if asked:
        from synthbench import __version__

        typer.echo(f"synthbench {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Measure replacements of self-attention in PyTorch and JAX.

    Parameters, FLOPs, speed and memory. Results are checked for parity before they are timed.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command (of sys.argv by default) and exit."""
    streams.prepare()
    try:
        code = _exit_code(sys.argv[1:] if arguments is None else list(arguments))
    except BrokenPipeError:  # the reader of our output is gone, as with `| head`
        code = GONE
    try:
        streams.flush()
    except OSError as error:  # the reader is gone, the disk is full, or the output is closed
        gone = isinstance(error, BrokenPipeError)
        if not (code or gone):
            with contextlib.suppress(OSError):
                complain(f"synthbench: cannot write the output: {error.strerror or error}")
        code = code or (GONE if gone else SynthbenchError.exit_code)
        streams.silence()
    sys.exit(code)


def _exit_code(arguments: list[str]) -> int:
    """Run one command and report what went wrong."""
    try:
        for argument in arguments:
            if "\0" in argument:
                raise NotationError(f"{quote(argument)} has a NUL character; leave it out")
        app(args=arguments, prog_name="synthbench")
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    except SynthbenchError as error:
        return _refuse(str(error), error.exit_code)
    except BrokenPipeError:
        raise
    except OSError as error:  # a file that the system refuses, without a better message
        named = "" if error.filename is None else f": {quote(str(error.filename))}"
        return _refuse(f"{error.strerror or error}{named}")
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
    return 0


def _refuse(message: str, code: int = SynthbenchError.exit_code) -> int:
    complain(f"synthbench: {message}")
    return code
