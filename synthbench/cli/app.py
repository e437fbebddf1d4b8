"""All commands, and the only place where an error becomes a message and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from synthbench.cli import listing
from synthbench.cli.export import export
from synthbench.cli.init import init
from synthbench.cli.inspect import inspect
from synthbench.cli.output import complain
from synthbench.cli.plot import plot
from synthbench.cli.run import run
from synthbench.cli.show import show
from synthbench.cli.tables import tables
from synthbench.cli.verify import verify
from synthbench.errors import SynthbenchError, quote

app = typer.Typer(
    name="synthbench",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run)
app.command()(init)
app.command()(tables)
app.command()(plot)
app.command()(inspect)
app.add_typer(listing.app, name="list")
app.command()(show)
app.command()(verify)
app.command()(export)


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
    try:
        app(args=None if arguments is None else list(arguments), prog_name="synthbench")
    except SynthbenchError as error:
        complain(f"synthbench: {error}")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        _end_quietly()
    except OSError as error:  # a file that the system refuses, without a better message
        named = "" if error.filename is None else f": {quote(str(error.filename))}"
        complain(f"synthbench: {error.strerror or error}{named}")
        sys.exit(SynthbenchError.exit_code)
    except KeyboardInterrupt:
        complain("interrupted")
        sys.exit(130)


def _end_quietly() -> None:
    """Exit when the reader of our output is gone, as with `| head`."""
    # Python flushes standard output again at exit, which must not fail.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
