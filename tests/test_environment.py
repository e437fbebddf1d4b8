"""What run.json says of the machine and the software."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from synthbench.measure.environment import (
    framework_numerics,
    git_state,
    lock_hash,
    read_environment,
    usable_cores,
)


def test_the_environment_is_complete_and_can_be_stored() -> None:
    found = read_environment(threads=1)
    json.dumps(found)
    assert found["pinned_to"] == usable_cores()[:1]
    assert found["cpu_count"] >= len(found["cores"]) >= 1
    assert 0 < found["memory_available_bytes"] <= found["memory_bytes"]
    assert len(found["load"]) == 3
    for name in ("numpy", "torch", "jax", "jaxlib", "ml_dtypes"):
        assert found["versions"][name], name
    for name in ("governor", "megahertz_max", "smt", "virtual", "cpu_quota", "nvidia", "git",
                 "variables", "lock_sha256"):  # fmt: skip
        assert name in found


def test_all_cores_are_used_unless_said_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    found = read_environment()
    assert found["pinned_to"] == found["cores"]
    assert found["variables"]["XLA_FLAGS"] == os.environ["XLA_FLAGS"]


def test_the_lock_is_known_by_its_hash(tmp_path: Path) -> None:
    assert lock_hash(tmp_path) is None
    (tmp_path / "requirements.lock").write_bytes(b"numpy==2.0\n")
    assert lock_hash(tmp_path) == hashlib.sha256(b"numpy==2.0\n").hexdigest()


def test_the_commit_is_that_of_the_checkout_alone(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(tmp_path), *own, *arguments], check=True)

    git("init", "-q")
    (tmp_path / "other.py").write_text("")
    git("add", ".")
    git("commit", "-q", "-m", "Something else")
    assert git_state(tmp_path) is None  # a repository, but synthbench is not in it
    (tmp_path / "synthbench").mkdir()
    (tmp_path / "synthbench" / "__init__.py").write_text("")
    git("add", ".")
    git("commit", "-q", "-m", "Add it")
    state = git_state(tmp_path)
    assert state is not None
    assert len(state["commit"]) == 40
    assert state["dirty"] is False
    (tmp_path / "other.py").write_text("changed")
    assert git_state(tmp_path) == state | {"dirty": True}


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_products_are_in_full_precision(framework: str) -> None:
    found = framework_numerics(framework)
    json.dumps(found)
    assert found["float32_matmul_precision"] == "highest"
    assert found["tf32"] is False
    assert found["threads"] >= 1
