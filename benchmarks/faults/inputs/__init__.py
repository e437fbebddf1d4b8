"""All wrong inputs, as data: one file per kind."""

from __future__ import annotations

from benchmarks.faults.case import Case
from benchmarks.faults.inputs.checkpoints import CHECKPOINTS
from benchmarks.faults.inputs.command_lines import COMMAND_LINES
from benchmarks.faults.inputs.environments import ENVIRONMENTS
from benchmarks.faults.inputs.exports import EXPORTS
from benchmarks.faults.inputs.notation import NOTATION
from benchmarks.faults.inputs.plugin_files import PLUGIN_FILES
from benchmarks.faults.inputs.record_files import RECORD_FILES
from benchmarks.faults.inputs.run_files import RUN_FILES
from benchmarks.faults.inputs.suite_files import SUITE_FILES
from benchmarks.faults.inputs.suite_values import SUITE_VALUES

CASES: list[Case] = [
    *COMMAND_LINES,
    *NOTATION,
    *SUITE_FILES,
    *SUITE_VALUES,
    *RUN_FILES,
    *RECORD_FILES,
    *EXPORTS,
    *CHECKPOINTS,
    *PLUGIN_FILES,
    *ENVIRONMENTS,
]
