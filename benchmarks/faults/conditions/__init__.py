"""Conditions that a machine or its user may cause: each check returns what is wrong."""

from __future__ import annotations

from benchmarks.faults.conditions.clock import backwards_clock
from benchmarks.faults.conditions.condition import Condition
from benchmarks.faults.conditions.disk import disk_full, file_size_limit, no_space_at_all
from benchmarks.faults.conditions.folders import (
    read_only_results,
    removed_folder,
    removed_records,
)
from benchmarks.faults.conditions.interrupts import ctrl_c_while_starting
from benchmarks.faults.conditions.kernel_files import no_clear_refs, no_status
from benchmarks.faults.conditions.streams import STREAMS
from benchmarks.faults.conditions.together import (
    both_begin_at_once,
    different_folders,
    second_while_running,
)
from benchmarks.faults.conditions.users import non_root, read_only_home, unset_home

CONDITIONS: list[Condition] = [
    Condition("disk", "disk full in the middle of a run", disk_full),
    Condition("disk", "disk full from the beginning", no_space_at_all),
    Condition("disk", "a limit of the size of files", file_size_limit),
    Condition("two runs", "a second run in the same folder", second_while_running),
    Condition("two runs", "both begin at once in the same folder", both_begin_at_once),
    Condition("two runs", "in different folders", different_folders),
    Condition("clock", "a clock that goes backwards", backwards_clock),
    Condition("user", "a user other than root", non_root),
    Condition("user", "a read-only HOME", read_only_home),
    Condition("user", "no HOME", unset_home),
    Condition("kernel", "no access to clear_refs", no_clear_refs),
    Condition("kernel", "no /proc/self/status", no_status),
    Condition("folder", "a read-only results folder", read_only_results),
    Condition("folder", "the run's folder is removed in the middle", removed_folder),
    Condition("folder", "records.jsonl is removed in the middle", removed_records),
    Condition("interrupt", "Ctrl-C while the command starts", ctrl_c_while_starting),
    *(Condition("streams", name, check) for name, check in STREAMS.items()),
]
