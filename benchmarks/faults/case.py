"""A wrong input: files, a command line, and what the command must do with them."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Special:
    """A file that is not a regular one: `fifo`, `folder`, or a `link` to a target."""

    kind: str
    target: str = ""


FIFO, FOLDER = Special("fifo"), Special("folder")
Content = str | bytes | Special


@dataclass(frozen=True)
class Case:
    """One wrong input. The default expectation is a mistake of the user: exit code 2."""

    kind: str  # "suite file"
    name: str  # unique within its kind
    arguments: tuple[str, ...]
    files: Mapping[str, Content] = field(default_factory=dict)
    environment: Mapping[str, str | None] = field(default_factory=dict)
    codes: tuple[int, ...] = (2,)
    says: str = ""  # a part of the message
    lines: int = 4  # of the message, at most
    writes: bool = False  # whether the command may write files: the wrong part is only noted
    prints: bool = False  # whether it prints what is right to standard output

    @property
    def title(self) -> str:
        """How findings name the case."""
        return f"{self.kind}: {self.name}"


def write_files(files: Mapping[str, Content], folder: Path) -> None:
    """Write the files of a case into its folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Special):
            if content.kind == "fifo":
                os.mkfifo(path)
            elif content.kind == "folder":
                path.mkdir()
            else:
                path.symlink_to(content.target)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_bytes(content.encode("utf-8", "surrogatepass"))


def fingerprint(folder: Path) -> dict[str, str]:
    """Kind and content of everything below a folder, by path; caches of Python are left out."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if "__pycache__" in path.parts:
            continue
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            content = os.readlink(path) if stat.S_ISLNK(mode) else str(stat.S_IFMT(mode))
        found[str(path.relative_to(folder))] = content
    return found


def changed_files(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What was created, removed or changed."""
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def remove(folder: Path) -> None:
    """Remove a case's folder, also one that was made read-only."""
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
