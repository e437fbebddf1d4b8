"""A real Slurm on this machine, for tests: two nodes, with everything it needs in one folder.

Needs root, and Debian's packages: apt-get install slurm-wlm munge.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo")
NODES = ("n1", "n2")
CORES = min(2, os.cpu_count() or 1)  # of n2; n1 has one
ONE = "one"  # a partition with the first node alone
START_SECONDS = 60.0

CONFIGURATION = """
ClusterName=tests
SlurmctldHost={host}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
SlurmUser=root
SlurmctldPort={controller}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
TaskProlog={folder}/prolog
SchedulerParameters=batch_sched_delay=0,sched_interval=2
KillWait=5
ReturnToService=2
NodeName=n1 NodeHostname={host} Port={n1} CPUs=1 RealMemory=1500
NodeName=n2 NodeHostname={host} Port={n2} CPUs={cores} RealMemory=1500
PartitionName=short Nodes=n1,n2 Default=YES MaxTime=60 State=UP
PartitionName=one Nodes=n1 MaxTime=60 State=UP
"""


def why_not() -> str | None:
    """Why no Slurm can be started here; None if it can."""
    if os.geteuid() != 0:
        return "a Slurm for tests needs root"
    missing = [name for name in PROGRAMS if _program(name) is None]
    if missing:
        return f"no {missing[0]}: apt-get install slurm-wlm munge"
    return None


class Cluster:
    """Starts munged, slurmctld and a slurmd per node, and ends just those."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start everything, and wait until both nodes are idle."""
        host = socket.gethostname().partition(".")[0]
        ports = dict(zip(("controller", *NODES), _free_ports(3), strict=True))
        for name in ("munge", "state", *(f"spool-{node}" for node in NODES)):
            (self.folder / name).mkdir(mode=0o755)
        text = CONFIGURATION.format(folder=self.folder, host=host, cores=CORES, **ports)
        (self.folder / "slurm.conf").write_text(text)
        # Both nodes are this machine; as two machines, they do not wait for each other's locks.
        prolog = self.folder / "prolog"
        prolog.write_text(
            f"#!/bin/sh\necho export SYNTHBENCH_LOCKS={self.folder}/locks-$SLURMD_NODENAME\n"
        )
        prolog.chmod(0o755)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self._run_daemon(
            "munged", "--foreground", "--force", f"--socket={self.folder}/munge/socket",
            f"--key-file={key}", f"--pid-file={self.folder}/munge/pid",
            f"--log-file={self.folder}/munge/log", f"--seed-file={self.folder}/munge/seed",
        )  # fmt: skip
        self._wait("the socket of munged", lambda: (self.folder / "munge" / "socket").exists())
        self.start_controller()
        for node in NODES:
            self.start_node(node)
        self.until_idle()

    def until_idle(self) -> None:
        """Wait until both nodes take jobs."""
        state = ("sinfo", "--noheader", "--Node", "--partition=short", "--format=%T")
        self._wait("two idle nodes", lambda: self.ask(*state).split() == ["idle", "idle"])

    def start_controller(self) -> None:
        """Start the controller; it goes on with the state that an earlier one has saved."""
        self._run_daemon("slurmctld", "-D")
        self._wait("the controller", lambda: "is UP" in self.ask("scontrol", "ping"))

    def start_node(self, node: str, prefix: Sequence[str] = ()) -> None:
        """Start the daemon of a node, as the arguments of a command `prefix`."""
        self._run_daemon("slurmd", "-D", "-N", node, name=node, prefix=prefix)

    def kill(self, node: str) -> None:
        """Kill the daemon of a node."""
        process = self.daemons.pop(node)
        process.kill()
        process.wait()

    def stop_controller(self) -> None:
        """End the controller; it first saves what it knows of the jobs, which a kill would lose."""
        process = self.daemons.pop("slurmctld")
        process.terminate()
        process.wait(START_SECONDS)

    def ask(self, *command: str) -> str:
        """What a command of Slurm prints; empty if it fails."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else ""

    def stop(self) -> None:
        """End all jobs, then every daemon that was started."""
        self.ask("scancel", "--full", "--signal=KILL", "--state=RUNNING", "--user=root")
        self.ask("scancel", "--user=root")
        with contextlib.suppress(AssertionError):
            self._wait("the end of all jobs", lambda: not self.ask("squeue", "-h"), 20)
        for process in reversed(self.daemons.values()):
            process.send_signal(signal.SIGTERM)
        for process in self.daemons.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _run_daemon(
        self, program: str, *arguments: str, name: str | None = None, prefix: Sequence[str] = ()
    ) -> None:
        path = _program(program)
        assert path is not None
        with open(self.folder / f"{name or program}.out", "ab") as out:
            self.daemons[name or program] = subprocess.Popen(
                [*prefix, path, *arguments], env=self.environment, stdout=out, stderr=out,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def _wait(
        self, what: str, condition: Callable[[], bool], seconds: float = START_SECONDS
    ) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            ended = [name for name, process in self.daemons.items() if process.poll() is not None]
            said = "".join((self.folder / f"{name}.out").read_text()[-500:] for name in ended)
            assert not ended, f"{ended[0]} has ended: {said}"
            assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
            time.sleep(0.1)


@contextlib.contextmanager
def running_cluster() -> Iterator[Cluster]:
    """A cluster that is stopped in the end; its folder is removed."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))  # the path of a socket is short
    folder.chmod(0o755)
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("", 0))
        return [each.getsockname()[1] for each in sockets]
