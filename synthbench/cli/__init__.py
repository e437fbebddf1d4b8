"""The command line: parse, call, print. The rest of the package never exits."""

from synthbench.cli.app import main

__all__ = ["main"]
