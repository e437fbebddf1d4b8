"""The executor slurm on a folder as NFS shows it: each node sees it late, without common locks.

The machine that submits and both nodes have a mount of the folder each (bindfs, in a mount
namespace of their own). Sizes, names and names that are missing are remembered for SECONDS_LATE
seconds, also where NFS would ask again, and no lock of one mount is seen in another. Needs what
tests/test_slurm.py needs, and Debian's bindfs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from synthbench.store import read_jobs, read_run
from tests.slurm_caller import PLACES, SUITE, Caller, cluster
from tests.slurm_cluster import NODES, Cluster
from tests.test_slurm_mistakes import OWN_MOUNTS, mounts

__all__ = ["cluster", "mounts"]  # fixtures
SECONDS_LATE = 3
LATE = [f"{name}_timeout={SECONDS_LATE}" for name in ("attr", "entry", "negative")]

if shutil.which("bindfs") is None:
    pytest.skip("no bindfs: apt-get install bindfs", allow_module_level=True)


@pytest.fixture
def shared(cluster: Cluster, tmp_path: Path, mounts: None) -> Iterator[Path]:
    """A folder that every node, and who submits, sees through a mount of its own.

    The folder itself, in which everything is to be seen at once, is beside it: `server`.
    """
    server, folder = tmp_path / "server", tmp_path / "shared"
    for path in (server, folder):
        path.mkdir()
    mount = ["bindfs", "-o", ",".join(LATE), str(server), str(folder)]
    subprocess.run(mount, check=True)
    try:
        for node in NODES:
            cluster.kill(node)
            script = f'umount {shlex.quote(str(folder))} && {shlex.join(mount)} && exec "$@"'
            cluster.start_node(node, prefix=[*OWN_MOUNTS, script, "sh"])
        cluster.until_idle()
        yield folder
    finally:
        for node in NODES:
            cluster.kill(node)
            cluster.start_node(node)
        cluster.until_idle()
        for process in psutil.process_iter(["cmdline"]):
            if process.info["cmdline"] == mount:
                process.terminate()
        with contextlib.suppress(OSError):
            subprocess.run(["umount", "--lazy", str(folder)], capture_output=True)


def test_the_mounts_are_late_and_have_no_common_locks(shared: Path, tmp_path: Path) -> None:
    """That this is what the other tests need: a second mount does not see what the first does."""
    other = tmp_path / "other"
    other.mkdir()
    server = str(tmp_path / "server")
    subprocess.run(["bindfs", "-o", ",".join(LATE), server, str(other)], check=True)
    try:
        (shared / "file").write_text("one")
        assert (other / "file").stat().st_size == 3
        assert not (other / "later").exists()
        with open(shared / "file", "a") as file:
            file.write(" two")
        (shared / "later").touch()
        assert (other / "file").stat().st_size == 3
        assert not (other / "later").exists()
        time.sleep(SECONDS_LATE + 1)
        assert (other / "file").read_text() == "one two"
        assert (other / "later").exists()
        locks = [os.open(folder, os.O_RDONLY) for folder in (shared, other)]
        for lock in locks:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for lock in locks:
            os.close(lock)
    finally:
        subprocess.run(["umount", str(other)], check=True)


@pytest.mark.long
def test_nothing_is_lost_or_doubled(cluster: Cluster, shared: Path, tmp_path: Path) -> None:
    """A run whose jobs are ended once, one by Slurm and one by the kernel, and that goes on."""
    (shared / "mine.yaml").write_text(SUITE)
    caller, server = Caller(cluster, shared), Caller(cluster, tmp_path / "server")
    caller.call(*caller.run("--detach"))
    caller.until(lambda: server.measured >= 2)
    caller.until(lambda: len(caller.workers()) == 2)
    requeued, killed = caller.jobs()
    (worker,) = [p for p in caller.workers() if caller.jobs()[killed] in p.cmdline()]
    worker.kill()
    caller.until(lambda: caller.state(killed) == "FAILED")
    if caller.state(requeued) == "RUNNING":
        caller.requeue(requeued)
    assert server.measured < PLACES
    printed = caller.call(*caller.run("--resume"))
    assert "Tables:" in printed
    server.require_complete()
    # Who submits sees the same once its mount does.
    time.sleep(SECONDS_LATE + 1)
    assert read_run(shared / "out").records == read_run(server.folder / "out").records
    assert set(read_jobs(shared / "out")) == set(read_jobs(server.folder / "out"))
