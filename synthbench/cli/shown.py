"""What `synthbench tables` prints of a run: the screen, or tables; all rows or some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from synthbench.cli.completion import (
    complete_frameworks,
    complete_modes,
    complete_table,
    complete_variants,
)
from synthbench.cli.options import (
    FRAMEWORKS_ADVICE,
    MODES_ADVICE,
    VARIANTS_NAMES,
    split_lengths,
    split_list,
    split_variants,
)
from synthbench.cli.output import complain, console, write
from synthbench.errors import NotationError, UnknownNameError

if TYPE_CHECKING:
    from synthbench.report.data.prepared import Prepared
    from synthbench.report.data.selection import Selection
    from synthbench.report.data.table import Table
    from synthbench.store import Run

TABLES_ADVICE = "write --table ratios"

TableOption = Annotated[
    list[str],
    typer.Option(
        "--table",
        metavar="NAME",
        help="Print this table instead of the screen. Repeatable.",
        show_default=False,
        autocompletion=complete_table,
    ),
]
AllOption = Annotated[bool, typer.Option("--all", help="Print every table instead of the screen.")]
ShownVariants = Annotated[
    list[str],
    typer.Option(
        *VARIANTS_NAMES,
        metavar='"V,FR(rank=32)+V"',
        help="Print only these variants, by comma. Repeatable.",
        show_default=False,
        autocompletion=complete_variants,
    ),
]
ShownFrameworks = Annotated[
    list[str],
    typer.Option(
        "--framework",
        metavar="torch,jax",
        help="Print only these frameworks.",
        show_default=False,
        autocompletion=complete_frameworks,
    ),
]
ShownModes = Annotated[
    list[str],
    typer.Option(
        "--mode",
        metavar="forward,train,decode",
        help="Print only these modes.",
        show_default=False,
        autocompletion=complete_modes,
    ),
]
ShownLengths = Annotated[
    list[str],
    typer.Option(
        "--seq-len",
        metavar="128,256",
        help="Print only these lengths, by comma. Repeatable.",
        show_default=False,
    ),
]
SortOption = Annotated[
    str | None,
    typer.Option(
        "--sort",
        metavar="COLUMN",
        help="Order the rows of --table or --all by this column, the best first. Its full heading, "
        "like 'L=512 MB'.",
        show_default=False,
    ),
]


class Format(StrEnum):
    """How tables can be printed."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    CSV = "csv"
    LATEX = "latex"


@dataclass(frozen=True)
class Shown:
    """What to print of a run; by default the screen, in other formats every table."""

    tables: tuple[str, ...] = ()
    every_table: bool = False
    variants: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()
    sort: str | None = None

    @classmethod
    def of(
        cls,
        tables: Sequence[str],
        every_table: bool,
        variants: Sequence[str],
        frameworks: Sequence[str],
        modes: Sequence[str],
        lengths: Sequence[str],
        sort: str | None,
    ) -> Shown:
        """The options as given; raises NotationError for one that cannot be read."""
        return cls(
            tuple(split_list(tables, TABLES_ADVICE)),
            every_table,
            tuple(split_variants(variants)),
            tuple(split_list(frameworks, FRAMEWORKS_ADVICE)),
            tuple(split_list(modes, MODES_ADVICE)),
            tuple(split_lengths(lengths)),
            sort,
        )

    def print_run(self, run: Run, format: Format, footer: int) -> bool:
        """Print a run, and whether that was the screen, below which `footer` lines will follow.

        Raises UnknownNameError or NotationError for what the run does not have.
        """
        from synthbench.report.data.prepared import prepare

        return self.print_prepared(prepare(run), format, footer)

    def print_prepared(self, prepared: Prepared, format: Format, footer: int) -> bool:
        """`print_run` for a run that is laid out already."""
        from synthbench.report.data.selection import Selection
        from synthbench.report.screen.screen import HEIGHT, screen_lines, screen_of
        from synthbench.report.tables.catalog import tables_from
        from synthbench.report.text.terminal import print_screen

        selection = Selection.of(
            prepared.grid,
            variants=self.variants,
            frameworks=self.frameworks,
            modes=self.modes,
            lengths=self.lengths,
        )
        if self.tables or self.every_table or format is not Format.TERMINAL:
            print_as(self._of(tables_from(prepared), selection), format)
            return False
        if self.sort is not None:
            raise NotationError("--sort orders the rows of tables; add --table NAME or --all")
        output = console()
        lines = screen_lines(screen_of(prepared, selection), output.width, HEIGHT - footer)
        print_screen(output, lines)
        return True

    def _of(self, made: list[Table], selection: Selection) -> list[Table]:
        from synthbench.report.data.selection import sorted_tables

        by_name = {table.name: table for table in made}
        for name in self.tables:
            if name not in by_name:
                raise UnknownNameError("table of this run", name, by_name)
        if self.tables and not self.every_table:
            made = [by_name[name] for name in dict.fromkeys(self.tables)]
        ignored: dict[str, list[str]] = {}
        for table in made:
            for kind in selection.ignored_by(table):
                ignored.setdefault(kind, []).append(table.name)
        for kind, names in ignored.items():
            complain(f"without a {kind}, so shown whole: {', '.join(names)}")
        made = [selection.of_table(table) for table in made]
        return made if self.sort is None else sorted_tables(made, self.sort)


def print_as(made: Sequence[Table], format: Format) -> None:
    """Print tables in a format."""
    from synthbench.report.text.formats import FORMATS
    from synthbench.report.text.terminal import print_tables

    if format is Format.TERMINAL:
        print_tables(console(), made)
    else:
        _, text_of = FORMATS[format]
        write("\n".join(map(text_of, made)))
