"""The executor `slurm`: an array of jobs through submitit, one per shard."""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from synthbench.errors import PackageMissingError, SynthbenchError
from synthbench.record import Record
from synthbench.run import slurm_commands
from synthbench.run.executors.base import Executor, Work, require_kind
from synthbench.run.host_client import GRACE_SECONDS, module_folders
from synthbench.run.orders import JOBS, Order, make_orders, node_of
from synthbench.run.shard_files import Follower
from synthbench.run.slurm_commands import Job
from synthbench.run.slurm_options import of_sbatch, of_submitit, parse_options, stop_delay
from synthbench.run.slurm_reasons import cannot_start, what_to_do
from synthbench.run.slurm_task import ShardTask
from synthbench.run.spread import most_devices
from synthbench.run_files import make_folder, read_text, write_text
from synthbench.run_info import JobInfo, Machine
from synthbench.store import read_jobs

FOLDER = "slurm"  # in jobs/: submitit's files, and which job measures which shard
LARGEST_ARRAY = 1000  # tasks; Slurm's own limit is 1001 unless a cluster has another
POLL_SECONDS = 1.0
# A shared file system may show another node's files only after this long.
SETTLE_SECONDS = 5.0
MISSING = PackageMissingError(
    "--executor slurm needs submitit; install it with pip install 'synthbench[slurm]'"
)


class SlurmExecutor(Executor):
    """A job per shard; each takes a whole device, or on a processor a whole node.

    `slurm`: options of sbatch by their long names, as in partition=a100,time=60. `detach`: return
    when the jobs are submitted. Jobs of an earlier call that are still in the queue are waited for,
    not doubled.
    """

    name: ClassVar[str] = "slurm"
    description: ClassVar[str] = "a Slurm cluster, one job per shard"
    options: ClassVar[tuple[str, ...]] = ("slurm", "detach")
    stores_records: ClassVar[bool] = True
    chooses_devices: ClassVar[bool] = True

    def __init__(self, slurm: Sequence[str] = (), detach: bool = False) -> None:
        self.sbatch, self.detach = parse_options(slurm), detach
        self._missing: dict[str, str] = {}
        self._said = ""

    def start(self, work: Work) -> Mapping[str, str]:
        require_kind(self.name, work.plan.device)
        try:
            import submitit  # noqa: F401
        except ModuleNotFoundError as error:
            raise MISSING from error
        slurm_commands.require_slurm()
        limit = slurm_commands.time_limit(self.sbatch.get("partition"))
        slurm_commands.minutes_of(self.sbatch.setdefault("time", limit))
        of_submitit(self.sbatch)
        devices = most_devices(work.plan.cells)
        options = of_sbatch(self.sbatch, work.plan.device, devices)
        slurm_commands.require_accepted(options, devices)
        return {}

    def measure(self, work: Work) -> Iterator[Machine | Record]:
        assert work.run_dir is not None
        run_dir, follower = work.run_dir, Follower(work.run_dir)
        orders = {order.shard.name: order for order in make_orders(work)}
        expected = dict(work.attempts)
        given: set[str] = set()  # shards with a job of this call
        quiet_since: float | None = None  # since when nothing goes on by itself
        while True:
            jobs = queue(run_dir)
            facts = read_jobs(run_dir)
            for record in follower.new_records():
                if record.attempt >= expected.get((record.id, record.round), 0):
                    yield record
            self._note_missing(work, facts)
            finished = {job.order for job in facts.values() if job.finished}
            alive = {name for name, job in (jobs or {}).items() if not job.has_ended}
            left = {
                name: order
                for name, order in orders.items()
                if order.id not in finished
                # A job of an earlier call has another order.
                and (jobs is None or name in alive or order.places.keys() - work.done)
            }
            fresh = [orders[name] for name in left if name not in alive | given]
            if not left:
                break
            if jobs is None:  # nothing is known now but that jobs have not finished
                time.sleep(POLL_SECONDS)
                continue
            if fresh:
                self._submit(run_dir, fresh, facts)
                given |= {order.shard.name for order in fresh}
                continue
            if self.detach:
                self.detached = True
                return
            waited_for = [jobs[name] for name in left if name in alive]
            self._tell(work, waited_for)
            if not all(cannot_start(job) for job in waited_for):
                quiet_since = None
            else:
                quiet_since = quiet_since or time.monotonic()
                if time.monotonic() - quiet_since > SETTLE_SECONDS:
                    break
            time.sleep(POLL_SECONDS)
        self._tell_overhead(work, facts, {order.id for order in orders.values()})
        if left:
            raise SynthbenchError(_why_not(run_dir, left, jobs or {}, facts))

    def wait_for_quiet(self) -> bool:
        return True  # each job waits on the machine that it gets

    def missing(self) -> Mapping[str, str]:
        return self._missing

    def _note_missing(self, work: Work, facts: Mapping[str, JobInfo]) -> None:
        """Report frameworks that nodes do not have."""
        for info in facts.values():
            for framework, reason in info.missing.items():
                if framework not in self._missing:
                    work.observer.note(reason)
                self._missing[framework] = reason

    def _submit(self, run_dir: Path, orders: Sequence[Order], facts: Mapping[str, JobInfo]) -> None:
        """Give orders, those that go on with a shard to the node that began it."""
        groups: dict[tuple[str | None, int], list[Order]] = {}
        for order in orders:
            order.write(run_dir)
            node = _node_before(run_dir, order.shard.name, facts)
            groups.setdefault((node, most_devices(order.plan.cells)), []).append(order)
        for (node, _), group in groups.items():
            for begin in range(0, len(group), LARGEST_ARRAY):
                self._submit_array(run_dir, group[begin : begin + LARGEST_ARRAY], node)

    def _submit_array(self, run_dir: Path, orders: Sequence[Order], node: str | None) -> None:
        import submitit
        from submitit.core.utils import FailedJobError

        folder = run_dir.resolve() / JOBS / FOLDER
        make_folder(folder)
        executor = submitit.SlurmExecutor(
            folder, max_num_timeout=10**6, python=f"{shlex.quote(sys.executable)} -P"
        )
        executor.update_parameters(**self._parameters(orders[0], node))
        names = [order.shard.name for order in orders]
        arguments = [str(run_dir.resolve())] * len(names)
        try:
            jobs = executor.map_array(ShardTask(), arguments, names)
        except (subprocess.SubprocessError, FailedJobError) as error:
            raise SynthbenchError(
                f"Slurm did not take the jobs, see above; --resume tries it again: {error}"
            ) from error
        own = {job.job_id: name for job, name in zip(jobs, names, strict=True)}
        array = jobs[0].job_id.partition("_")[0]
        write_text(run_dir / JOBS / FOLDER / f"{array}.shards", json.dumps(own))

    def _parameters(self, order: Order, node: str | None) -> dict[str, Any]:
        """What submitit is asked for."""
        measure = order.plan.settings.measure
        options = of_sbatch(self.sbatch, order.plan.device, most_devices(order.plan.cells))
        if node is not None and not {"nodelist", "exclude"} & options.keys():
            options["nodelist"] = node
        package = str(Path(__file__).resolve().parents[3])
        path = os.pathsep.join([package, *module_folders()])
        return {
            "job_name": "synthbench",
            "signal_delay_s": stop_delay(self.sbatch, measure.timeout_seconds + GRACE_SECONDS),
            "time": slurm_commands.minutes_of(self.sbatch["time"]),
            "stderr_to_stdout": True,
            "setup": [f"export PYTHONPATH={shlex.quote(path)}"],
            "additional_parameters": options,
        } | of_submitit(self.sbatch)

    def _tell(self, work: Work, jobs: Sequence[Job]) -> None:
        """Report how many jobs run and wait, when that has changed."""
        waiting = [job for job in jobs if job.is_waiting]
        reasons = ", ".join(sorted({job.reason for job in waiting} - {"None"}))
        why = f" ({reasons})" if reasons else ""
        said = f"slurm: {len(jobs) - len(waiting)} jobs running, {len(waiting)} waiting{why}"
        if jobs and said != self._said:
            work.observer.stage(said)
        self._said = said

    def _tell_overhead(self, work: Work, facts: Mapping[str, JobInfo], orders: set[str]) -> None:
        """Report what the jobs of orders needed beside their cells and the time in the queue."""
        found = [
            job.overhead_seconds
            for job in facts.values()
            if job.order in orders and job.overhead_seconds is not None
        ]
        if found:
            work.observer.note(
                f"slurm: {len(found)} shards, {statistics.median(found):.1f} s per shard beside "
                "its cells (median)"
            )


def shards_of_jobs(run_dir: Path) -> dict[str, str]:
    """The jobs that were submitted for a run: id -> name of the shard; later ones come last."""
    found: dict[str, str] = {}
    files = (run_dir / JOBS / FOLDER).glob("*.shards")
    for path in sorted(files, key=lambda path: int(path.stem)):
        found |= json.loads(read_text(path))
    return found


def queue(run_dir: Path) -> dict[str, Job] | None:
    """Name of a shard -> its last job, if Slurm still knows it; None where it does not answer."""
    shards = shards_of_jobs(run_dir)
    jobs = slurm_commands.queued({job.partition("_")[0] for job in shards})
    if jobs is None:
        return None
    known = {job.id: job for job in jobs}
    return {name: known[id] for id, name in shards.items() if id in known}


def cancel(run_dir: Path) -> int:
    """End the jobs of a run that have not ended; how many. Raises SynthbenchError if that fails."""
    if not shards_of_jobs(run_dir):  # as of a run on this machine, which may have no Slurm
        return 0
    slurm_commands.require_slurm()
    jobs = queue(run_dir)
    if jobs is None:
        raise SynthbenchError("the controller of Slurm does not answer; try again later")
    ids = [job.id for job in jobs.values() if not job.has_ended]
    slurm_commands.cancel(ids)
    return len(ids)


def _node_before(run_dir: Path, shard: str, facts: Mapping[str, JobInfo]) -> str | None:
    """The node that measured a shard last; None for a new one, or if that node is down."""
    own = [name for name, job in facts.items() if name.startswith(f"{shard}.") and job.machine]
    node = node_of(run_dir, max(own)) if own else None
    return node if node is not None and slurm_commands.can_run(node) else None


def _why_not(
    run_dir: Path,
    left: Mapping[str, Order],
    jobs: Mapping[str, Job],
    facts: Mapping[str, JobInfo],
) -> str:
    """Why jobs have ended before their shards were complete, or cannot begin; and what to do."""
    orders = {order.id for order in left.values()}
    own = {name: job for name, job in facts.items() if job.order in orders}
    refused = next((job.refused for job in own.values() if job.refused), "")
    if refused:
        return refused
    if stuck := what_to_do([jobs[name] for name in left if name in jobs], run_dir):
        return stuck
    ids = {name: id for id, name in shards_of_jobs(run_dir).items()}
    name = next(iter(left))
    state = f" ({jobs[name].state.lower()})" if name in jobs else ""
    ended = f"{len(left)} of the run's shards are not complete, and their jobs have ended: "
    ended += f"job {ids.get(name)}{state}"
    if not any(each.startswith(f"{name}.") for each in own):
        return (
            f"{ended}, without writing anything to {run_dir.resolve()}; give an --out, and start "
            "from a Python, that all nodes see"
        )
    log = run_dir / JOBS / FOLDER / f"{ids.get(name)}_0_log.out"
    return f"{ended}; what it said is in {log}; go on with synthbench run --resume"
