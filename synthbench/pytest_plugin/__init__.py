"""pytest plugin: --synthbench collects a suite file, an item a cell, timed by synthbench.

Every session of pytest imports this file, also where --synthbench is not given: it must stay small,
and import nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("synthbench", "suites of synthbench")
    group.addoption(
        "--synthbench",
        action="append",
        default=[],
        metavar="SUITE",
        help="Collect this suite, a YAML file or a name that synthbench knows: an item a cell, "
        "measured by synthbench and handed to pytest-benchmark. Without a path, nothing else is "
        "collected. Repeatable.",
    )
    group.addoption(
        "--synthbench-device",
        default="cpu",
        metavar="DEVICE",
        help="auto, cpu, cuda or cuda:N. Default: cpu",
    )
    group.addoption(
        "--synthbench-framework",
        action="append",
        default=[],
        metavar="torch,jax",
        help="Frameworks, by comma. Default: those of the suite",
    )
    group.addoption(
        "--synthbench-plugin",
        action="append",
        default=[],
        metavar="MODULE",
        help="Import this module and take the mixers it defines. Repeatable.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Go on only where a suite is asked for."""
    if config.getoption("synthbench"):
        from synthbench.pytest_plugin.collection import Suites

        config.pluginmanager.register(Suites(config), "synthbench-suites")
