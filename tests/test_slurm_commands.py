"""Options and answers of Slurm, and what is said where there is none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from synthbench.cli import main
from synthbench.errors import NotationError, SynthbenchError
from synthbench.run import slurm_commands
from synthbench.run.slurm_commands import Job, first_error, minutes_of, queued, time_limit
from synthbench.run.slurm_options import of_sbatch, parse_options
from synthbench.run.slurm_reasons import cannot_start, is_held, what_to_do
from synthbench.run_info import RunInfo
from synthbench.store import create_run

Captured = pytest.CaptureFixture[str]
RUN = ["run", "--suite", "smoke", "--variants", "V", "--framework", "torch"]


def test_options_are_those_of_sbatch() -> None:
    found = parse_options(
        ["partition=a100,gres=gpu:1", "time=1-02:00:00,exclusive,cpus_per_task=4"]
    )
    assert found == {"partition": "a100", "gres": "gpu:1", "time": "1-02:00:00", "exclusive": "",
                     "cpus-per-task": "4"}  # fmt: skip
    assert parse_options(["array_parallelism=8"]) == {"array_parallelism": "8"}
    for wrong in ("", "partition=a,,b=c", "=3"):
        with pytest.raises(NotationError, match="is not a list of options"):
            parse_options([wrong])


def test_an_option_that_is_given_several_times_has_all_its_values() -> None:
    found = parse_options(["exclude=n1,exclusive", "exclude=n2,exclusive=user"])
    assert found == {"exclude": "n1,n2", "exclusive": "user"}
    assert parse_options(["partition=a,partition=b"]) == {"partition": "a,b"}
    assert parse_options(["cpus_per_task=4", "cpus-per-task=8"]) == {"cpus-per-task": "4,8"}


def test_time_limits_are_those_of_slurm() -> None:
    minutes = {"90": 90, "90:00": 90, "1:30:00": 90, "02:00:00": 120, "1-12": 2160,
               "1-12:30": 2190, "1-12:30:00": 2190, "0:30": 1}  # fmt: skip
    assert {text: minutes_of(text) for text in minutes} == minutes
    assert minutes_of("infinite") == minutes_of("UNLIMITED") > 500_000
    for wrong in ("2h", "", "1:2:3:4", "x"):
        with pytest.raises(SynthbenchError, match="is not a time limit; write minutes"):
            minutes_of(wrong)


def test_a_partition_gives_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "fast|30:00|1:00:00\nslow*|n/a|2-00:00:00\n"
    monkeypatch.setattr(slurm_commands, "_answer", lambda command: answer)
    assert (time_limit(None), time_limit("fast"), time_limit("slow")) == (
        "2-00:00:00", "30:00", "2-00:00:00",
    )  # fmt: skip
    with pytest.raises(SynthbenchError, match=r"partition 'fats' not known. Did you mean fast\?"):
        time_limit("fats")


def test_a_queue_that_is_not_known_is_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "12_0|RUNNING|n1|59:00|None\n12_1|PENDING||1:00:00|Resources\n"
    monkeypatch.setattr(slurm_commands, "_answer", lambda command: line)
    running, waiting = queued(["12"]) or []
    assert (running.node, waiting.reason, waiting.has_ended) == ("n1", "Resources", False)

    def fail(message: str) -> Any:
        def answer(command: object) -> str:
            raise SynthbenchError(message)

        return answer

    monkeypatch.setattr(slurm_commands, "_answer", fail("Unable to contact slurm controller"))
    assert queued(["12"]) is None
    monkeypatch.setattr(slurm_commands, "_answer", fail("Invalid job id specified"))
    assert queued(["12"]) == []
    assert queued([]) == []


def test_what_slurm_says_is_one_line() -> None:
    said = "sbatch: error: invalid partition specified: x\nsbatch: error: Batch job failed\n"
    assert first_error(said) == "invalid partition specified: x; Batch job failed"


def refused(capsys: Captured, *options: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([*RUN, *options])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_mistakes_are_one_line(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    slurm = ["--device", "cpu", "--executor", "slurm"]
    assert "--executor slurm needs --device" in refused(capsys, "--executor", "slurm")
    assert "--slurm is an option of the executor slurm" in refused(capsys, "--slurm", "time=1")
    assert "--detach is an option of the executor slurm" in refused(capsys, "--detach")
    monkeypatch.setitem(sys.modules, "submitit", None)
    assert "pip install 'synthbench[slurm]'" in refused(capsys, *slurm)
    monkeypatch.setitem(sys.modules, "submitit", sys)
    assert "the command sbatch is not found" in refused(capsys, *slurm)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("executor", ["slurm", "ray"])
@pytest.mark.parametrize("device", ["cuda:1", "cuda:0,cuda:1", "cuda:all"])
def test_a_cluster_chooses_the_devices(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, executor: str, device: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(capsys, "--executor", executor, "--device", device) == (
        f"synthbench: --device {device}: the executor {executor} gives each job devices of its "
        "own; name only their kind: --device cuda"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_job_has_as_many_devices_as_its_cells_share() -> None:
    assert of_sbatch({"time": "5"}, "cuda", 1) == {
        "requeue": True, "gpus-per-node": 1, "time": "5",
    }  # fmt: skip
    assert of_sbatch({}, "cuda", 4)["gpus-per-node"] == 4
    node = {"requeue": True, "exclusive": True, "mem": 0}
    assert of_sbatch({}, "cpu", 1) == node
    assert of_sbatch({}, "cpu", 4) == node | {"mincpus": 4}
    assert "mincpus" not in of_sbatch({"cpus-per-task": "8"}, "cpu", 4)
    assert of_sbatch({"signal_delay_s": "9", "exclusive": ""}, "cpu", 1) == node
    for given in ({"gres": "gpu:a100:4"}, {"gpus": "4"}, {"gpus-per-node": "a100:4"},
                  {"tres-per-node": "gres:gpu:4"}, {"gres": "gpu:8"},
                  {"gres": "gpu:4,nvme:1"}, {"gpus": "a100:2,h100:2"},
                  {"partition": "gpu", "gres": "gpu:4"}):  # fmt: skip
        assert of_sbatch(given, "cuda", 4) == {"requeue": True, **given}
    for given in ({"gres": "nvme:1"}, {"partition": "gpu"}, {"constraint": "gpu"}):
        assert of_sbatch(given, "cuda", 4) == {"requeue": True, "gpus-per-node": 4, **given}
    for name, text, count in (("gres", "gpu:1", "1 device"), ("gres", "gpu", "1 device"),
                              ("gres", "nvme:4,gpu:2", "2 devices"),
                              ("gpus-per-node", "a100:2", "2 devices")):  # fmt: skip
        message = rf"^--slurm {name}={text} gives each job {count}, but .* share 4 \(axis devices\)"
        with pytest.raises(NotationError, match=message):
            of_sbatch({name: text}, "cuda", 4)


@pytest.mark.parametrize(
    ("answer", "takes_jobs"),
    [("idle", True), ("idle~", True), ("mixed-", True), ("allocated", True), ("planned", True),
     ("reserved", True), ("idle*", False), ("down", False), ("down~", False), ("drained", False)],
)  # fmt: skip
def test_a_node_that_sleeps_or_is_planned_still_takes_jobs(
    answer: str, takes_jobs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_commands, "_answer", lambda command: f"{answer}\n")
    assert slurm_commands.can_run("n1") == takes_jobs


def waiting(reason: str, state: str = "PENDING", number: int = 0) -> Job:
    return Job(f"12_{number}", state, "", "1:00:00", reason)


@pytest.mark.parametrize(
    "reason",
    ["JobHeldUser", "JobHeldAdmin", "launch failed requeued held", "JobHoldMaxRequeue",
     "DependencyNeverSatisfied", "BadConstraints", "PartitionTimeLimit", "QOSMinGRES",
     "AssocMaxWallDurationPerJobLimit", "QOSMaxCpuPerNode", "QOSMinCpuNotSatisfied"],
)  # fmt: skip
def test_a_job_that_never_starts_is_known(reason: str) -> None:
    assert cannot_start(waiting(reason))
    assert not cannot_start(waiting(reason, "RUNNING"))
    assert not cannot_start(waiting(reason, "CANCELLED"))


@pytest.mark.parametrize(
    "reason",
    ["QOSUsageThreshold",
     "None", "", "Priority", "Resources", "BeginTime", "Dependency", "JobArrayTaskLimit",
     "AssocGrpCpuLimit", "AssocGrpCPUMinutesLimit", "QOSMaxJobsPerUserLimit", "PartitionNodeLimit",
     "QOSMaxCpuPerUserLimit", "ReqNodeNotAvail, UnavailableNodes:n1"],
)  # fmt: skip
def test_a_job_that_may_start_is_waited_for(reason: str) -> None:
    assert not cannot_start(waiting(reason))
    assert cannot_start(waiting(reason, "SPECIAL_EXIT"))  # held by scontrol requeuehold


def test_what_to_do_about_jobs_that_never_start() -> None:
    folder = Path("out")
    assert what_to_do([waiting("Priority"), waiting("None", "RUNNING")], folder) == ""
    held = [waiting("JobHeldUser", number=number) for number in (0, 1)]
    assert [is_held(job) for job in held] == [True, True]
    assert what_to_do(held, folder) == (
        "2 jobs can never start (JobHeldUser): release them with scontrol release 12, "
        "or end them with synthbench cancel out and change --slurm; then go on with synthbench run "
        "--resume"
    )
    assert what_to_do([waiting("BadConstraints"), waiting("Resources")], folder) == (
        "1 job can never start (BadConstraints): end it with synthbench cancel out and "
        "change --slurm; then go on with synthbench run --resume"
    )
    spaced = what_to_do([waiting("BadConstraints")], Path("my runs"))
    assert "end it with synthbench cancel 'my runs' and" in spaced


def begun(folder: Path, executor: str) -> str:
    """A run without jobs."""
    info = RunInfo(suite="a", settings={}, device="cpu", executor=executor, started="2026")
    create_run(folder, info)
    return str(folder)


def printed(capsys: Captured, *command: str) -> str:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(command)
    return capsys.readouterr().out


def test_a_run_without_jobs_has_none_to_end(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no Slurm, too."""
    monkeypatch.setenv("PATH", str(tmp_path))
    run = begun(tmp_path / "run", "local")
    assert printed(capsys, "cancel", run) == f"{run} has no jobs to end\n"


def test_the_status_of_a_run_without_orders_says_why(tmp_path: Path, capsys: Captured) -> None:
    """Its folder jobs/ may be removed when it is finished."""
    run = begun(tmp_path / "local", "local")
    assert printed(capsys, "status", run) == (
        f"{run}: unfinished\nNo jobs of it are known: its executor is local.\n"
    )
    shown = printed(capsys, "status", begun(tmp_path / "slurm", "slurm"))
    assert shown.endswith("known: none were ordered yet, or its folder jobs/ was removed.\n")
