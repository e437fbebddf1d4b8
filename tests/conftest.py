"""What every test shares."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import settings

from tests.plugin_isolation import isolated_plugins

# Most of the suite's time is XLA compiling hundreds of tiny programs, each run once or twice. The
# check before each cell of a real run compares what XLA makes at its full optimization. The second
# flag more than halves what is left: MLIR's emitters for fused operations compile slowly. jax 0.11
# does not know it, and XLA ends the process at a flag that it does not know.
XLA_FLAGS = ["--xla_backend_optimization_level=0"]
if metadata.version("jaxlib").startswith("0.10."):
    XLA_FLAGS.append("--xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("XLA_FLAGS", " ".join(XLA_FLAGS))

# Two workers share the cores: threads that spin while they wait take the other worker's time.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Choices of kernels that this machine has cached, or caches, are not for tests to use or to change.
CACHE = tempfile.TemporaryDirectory(prefix="synthbench-cache-")  # removed when the process ends
os.environ["XDG_CACHE_HOME"] = CACHE.name

# Tests run side by side on one processor: each process of them has its own locks of devices.
LOCKS = tempfile.TemporaryDirectory(prefix="synthbench-locks-")
os.environ["SYNTHBENCH_LOCKS"] = LOCKS.name

# Of the hundred runs in tests, each would multiply large matrices for seconds, on all cores.
os.environ.setdefault("SYNTHBENCH_CEILING_SECONDS", "0.01")

# A shell starts jobs in the background with Ctrl-C ignored, and tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# By default Python looks for garbage after some hundred new objects; the records of a run are
# millions.
gc.set_threshold(50_000, 20, 50)

settings.register_profile("synthbench", deadline=None)  # CI's cores are shared: no timed assertions
settings.load_profile("synthbench")

# Tests, and patterns of their marks `long_but` that match no case: all cases would be long.
MATCH_NOTHING = pytest.StashKey[list[tuple[str, str]]]()


@pytest.hookimpl(tryfirst=True)  # before -m chooses by mark
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test marked `long_but`, the cases whose id matches no pattern are `long`."""
    matched: dict[tuple[str, str], bool] = {}
    for item in items:
        mark = item.get_closest_marker("long_but")
        if mark is None or not isinstance(item, pytest.Function):
            continue
        fits = [fnmatchcase(item.callspec.id, pattern) for pattern in mark.args]
        if not any(fits):
            item.add_marker("long")
        for pattern, fit in zip(mark.args, fits, strict=True):
            test = item.nodeid.split("[")[0], pattern
            matched[test] = matched.get(test, False) or fit
    config.stash[MATCH_NOTHING] = [test for test, fit in matched.items() if not fit]


@pytest.fixture(autouse=True, scope="module")
def _only_own_garbage() -> None:
    """Look for garbage only among what the tests of this file make, not in all that is imported.

    Measuring collects garbage often; with both frameworks each time would take 0.2 s or more.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _nothing_checked_before() -> None:
    """What an earlier test found to pass is checked again: no test depends on their order."""
    shutil.rmtree(Path(CACHE.name) / "synthbench" / "parity", ignore_errors=True)


@pytest.fixture
def registry() -> Iterator[None]:
    """Registries without plug-ins, and as they were before when the test is over."""
    with isolated_plugins():
        yield
