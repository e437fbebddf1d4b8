"""What people do wrong on a real Slurm, and jobs that never start: one line each."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from synthbench.run.orders import node_of
from synthbench.store import read_jobs, read_run
from tests.slurm_caller import ROOT, SUITE, Caller, caller, cluster
from tests.slurm_cluster import CORES, Cluster

__all__ = ["caller", "cluster"]  # fixtures
OWN_MOUNTS = ("unshare", "--mount", "sh", "-c")


@pytest.fixture
def mounts() -> None:
    """Skip where a process may not have mounts of its own."""
    if shutil.which("unshare") is None or subprocess.run([*OWN_MOUNTS, "true"]).returncode != 0:
        pytest.skip("this machine does not let a process have mounts of its own")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("partition=shrot", "partition 'shrot' not known. Did you mean short? Known: one, short"),
        ("gres=gpu:1", "Slurm does not take these jobs: sbatch failed: Invalid generic resource"),
        ("nonsense=3", "unrecognized option '--nonsense=3'"),
    ],
)
def test_what_slurm_refuses_is_one_line(caller: Caller, options: str, message: str) -> None:
    printed = caller.call(*caller.run("--slurm", options), code=2)
    assert message in printed and printed.count("\n") == 1
    assert not (caller.folder / "out").exists()


@pytest.mark.long
@pytest.mark.usefixtures("mounts")
def test_a_folder_that_the_nodes_do_not_see_is_named(caller: Caller) -> None:
    (caller.folder / "hidden").mkdir()
    command = [sys.executable, "-P", "-m", "synthbench", *caller.run("--out", "hidden/out")]
    script = f"mount -t tmpfs none hidden && {shlex.join(command)}"
    done = subprocess.run([*OWN_MOUNTS, script], cwd=caller.folder, env=caller.environment,
                          text=True, capture_output=True, timeout=600)  # fmt: skip
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert "without writing anything to" in last and "hidden/out; give an --out" in last
    assert "Traceback" not in done.stderr


def shorten(caller: Caller) -> None:
    """Let the suite have one short round."""
    text = SUITE.replace("rounds: 3", "rounds: 1").replace("seconds: 1", "seconds: 0.01")
    (caller.folder / "mine.yaml").write_text(text)


SHARED = """
axes: {variant: [V], framework: [torch], task: [mqar], mode: [train], seq_len: [32], batch: [4],
       devices: [2]}
model: {kind: decoder, d_model: 8, heads: 2, layers: 1, vocabulary: 32}
tasks: {mqar: {steps: 4, evaluations: 1, held_out: 4}}
measure: {rounds: 1, aa: false, ceiling: false, kernel_seconds: 0, retries: 0, parity: false}
baseline: V
"""


@pytest.mark.long
def test_a_training_on_two_devices_needs_a_node_that_has_them(caller: Caller) -> None:
    (caller.folder / "mine.yaml").write_text(SHARED)
    printed = caller.call(*caller.run("--slurm", "partition=one"), code=2)
    assert "Slurm does not take these jobs: sbatch failed: " in printed
    assert printed.endswith("check --slurm, and whether a node has 2 devices (axis devices)\n")
    assert printed.count("\n") == 1
    assert not (caller.folder / "out").exists()
    if CORES < 2:
        pytest.skip("no node of two cores on a machine that has one")
    caller.call(*caller.run())
    caller.require_complete(1)
    (name,) = read_jobs(caller.folder / "out")
    assert node_of(caller.folder / "out", name) == "n2"


@pytest.mark.long
def test_jobs_that_are_held_are_not_waited_for(caller: Caller) -> None:
    shorten(caller)
    options = ["--slurm", "hold", "--variants", "V"]
    *_, last = caller.call(*caller.run(*options), code=2).splitlines()
    advice = re.fullmatch(
        r"synthbench: (2 jobs can never start \(JobHeldUser\): release them with "
        r"(scontrol release [0-9,]+), or end them with (synthbench cancel out) .*--resume)",
        last,
    )
    assert advice is not None, last
    shown = caller.call("status", "out")
    assert advice[1] in shown and shown.count("pending (JobHeldUser)") == 2
    # On the advice of the line, with other options than before.
    caller.cluster.ask(*advice[2].split())
    caller.call(*caller.run("--variants", "V", "--resume"))
    caller.require_complete(2)


@pytest.fixture
def other_node(
    cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest, mounts: None
) -> Iterator[None]:
    """A second node that sees another text in a file."""
    path, before, after = request.param
    text = path.read_text()
    assert before in text
    (tmp_path / "other").write_text(text.replace(before, after, 1))
    cluster.kill("n2")
    mount = f"mount --bind {shlex.quote(str(tmp_path / 'other'))} {shlex.quote(str(path))}"
    cluster.start_node("n2", prefix=[*OWN_MOUNTS, f'{mount} && exec "$@"', "sh"])
    cluster.until_idle()
    yield
    cluster.kill("n2")
    cluster.start_node("n2")
    cluster.until_idle()


NUMPY = Path(str(metadata.distribution("numpy").locate_file("numpy"))).parent / (
    f"numpy-{metadata.version('numpy')}.dist-info/METADATA"
)


@pytest.mark.long_but("code")
@pytest.mark.parametrize(
    ("other_node", "message"),
    [
        (
            (NUMPY, f"\nVersion: {metadata.version('numpy')}\n", "\nVersion: 1.0\n"),
            r"node n[12] and node n[12] differ: numpy [0-9.]+ and [0-9.]+; a run needs the same "
            r"versions everywhere: make both equal, or leave one out \(--slurm exclude=n[12]\)",
        ),
        (
            (ROOT / "synthbench" / "errors.py", "\n", "\n\n"),
            r"node n2 has another code of synthbench \(commit .*\) than the machine that the run "
            r"was started from; install the same on both",
        ),
    ],
    indirect=["other_node"],
    ids=["versions", "code"],
)
@pytest.mark.usefixtures("other_node")
def test_a_node_that_differs_is_one_line(caller: Caller, message: str) -> None:
    shorten(caller)
    *_, last = caller.call(*caller.run("--variants", "V"), code=2).splitlines()
    assert re.fullmatch(f"synthbench: {message}", last), last
    # What one node has measured stays, and it can measure the rest: which was first, the line says.
    named = re.search(r"exclude=(n[12])", last)
    exclude = named[1] if named else "n2"
    caller.call(*caller.run("--variants", "V", "--resume", "--slurm", f"exclude={exclude}"))
    run = read_run(caller.folder / "out")
    assert run.info.finished is not None and {r.outcome for r in run.records} == {"ok"}
