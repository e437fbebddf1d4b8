"""The command line: parse, call, print. Nothing else in the package exits."""

from synthbench.cli.app import main

__all__ = ["main"]
