"""Where suites are: the built-in ones by name, as package data; the user's own by path."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from synthbench.errors import NotationError, UnknownNameError, quote

ENDINGS = (".yaml", ".yml")


def list_suites() -> dict[str, Traversable]:
    """The built-in suites, name -> file."""
    folder = resources.files("synthbench.suites") / "files"
    files = (file for file in folder.iterdir() if file.name.endswith(".yaml"))
    return {file.name.removesuffix(".yaml"): file for file in sorted(files, key=lambda f: f.name)}


def find_suite(name_or_path: str | Path) -> Traversable:
    """The file of a built-in suite, or the file at a path.

    The name of a built-in suite always means that suite, whatever the working directory contains.
    Raises UnknownNameError or NotationError where there is no such suite or file.
    """
    text = str(name_or_path)
    suites = list_suites()
    if text in suites:
        return suites[text]
    path = Path(name_or_path)
    try:
        if path.is_file():
            return path
        own = _file_of_that_name(text)
        is_folder, exists = path.is_dir(), path.exists() and bool(path.parts)
    except OSError as error:  # the name is too long, or a folder may not be read
        raise NotationError(f"suite file {quote(text)}: {error.strerror or error}") from error
    if own is not None:
        raise NotationError(
            f"suite {quote(text)} is not built in, but there is a file {own}; "
            f"give its path: --suite ./{own}"
        )
    if not (exists or path.suffix in ENDINGS or len(path.parts) > 1):
        raise UnknownNameError("suite", text, suites)
    problem = f"does not exist (working directory: {Path.cwd()})"
    if exists:
        problem = "is a folder, not a file" if is_folder else "is not a regular file"
    raise NotationError(
        f"suite file {quote(text)} {problem}; give a YAML file, or the name of a built-in suite: "
        f"{', '.join(suites)}"
    )


def _file_of_that_name(name: str) -> Path | None:
    """A suite file of this bare name in the working directory or in its folder suites/."""
    if not name or len(Path(name).parts) != 1:
        return None
    names = [name + ending for ending in ("", *ENDINGS)]
    files = (Path(folder, name) for folder in (".", "suites") for name in names)
    return next((file for file in files if file.is_file()), None)
