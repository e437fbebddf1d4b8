"""pytest plugin: --synthbench SUITE collects a suite, one test item per cell.

Every pytest session imports this file, even without --synthbench, so it must stay small and import
nothing.
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
        help="Collect this suite (a YAML file or the name of a suite): one test item per cell, "
        "measured by synthbench and passed to pytest-benchmark. Without a path, pytest collects "
        "nothing else. Repeatable.",
    )
    group.addoption(
        "--synthbench-device",
        default="cpu",
        metavar="DEVICE",
        help="auto, or a device as `synthbench list devices` names it. Default: cpu",
    )
    group.addoption(
        "--synthbench-framework",
        action="append",
        default=[],
        metavar="torch,jax",
        help="Frameworks, separated by commas. Default: those of the suite",
    )
    group.addoption(
        "--synthbench-plugin",
        action="append",
        default=[],
        metavar="MODULE",
        help="Import this module and use what it defines, such as mixers and tasks. Repeatable.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the rest of the plugin if a suite is given."""
    if config.getoption("synthbench"):
        from synthbench.pytest_plugin.collection import Suites

        config.pluginmanager.register(Suites(config), "synthbench-suites")
