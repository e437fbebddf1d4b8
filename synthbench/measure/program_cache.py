"""Programs that were compiled before on this machine, with these versions, in the user's cache."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from synthbench.measure.user_cache import machine_file, user_cache

KIND = "programs"
# Of the code and versions that were used last: those of one suite take tens of megabytes.
FOLDERS = 3


def program_folder(environment: dict[str, Any]) -> Path:
    """The folder for a machine and its software, as `read_environment` describes them.

    Any change of the package's code leads to another folder.
    """
    return machine_file(KIND, environment, environment["code_sha256"]).with_suffix("")


def use_program_folder(environment: dict[str, Any]) -> Path | None:
    """`program_folder`, which exists afterwards; None where the cache cannot be written.

    Of the others only those stay that were used last, so that FOLDERS remain.
    """
    folder = program_folder(environment)
    try:
        # For this user alone: what is loaded from there can hold any code.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(folder)
        used = {each: each.stat().st_mtime for each in user_cache(KIND).iterdir() if each != folder}
    except OSError:
        return None
    for each in sorted(used, key=used.__getitem__, reverse=True)[FOLDERS - 1 :]:
        with suppress(OSError):
            shutil.rmtree(each)
    return folder
