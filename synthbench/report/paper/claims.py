"""The claims of the paper as data: what it says, in which column, of which variants."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib import resources
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, ValidationError

from synthbench.errors import NotationError, SynthbenchError, UnknownNameError, quote
from synthbench.mixers.notation import canonical
from synthbench.models.presets import PRESETS
from synthbench.models.spec import Size
from synthbench.report.paper import published
from synthbench.report.paper.formulas import TABLE_1
from synthbench.suites.yaml_text import read_yaml

FILE = "claims.yaml"

Quantity = Literal["speed", "parameters", "formula", "flops", "quality", "weights"]
Expected = Literal["higher", "lower", "same", "ratio", "difference", "value", "different"]
DIRECTIONS = ("higher", "lower")
RELATIVE = ("same", "ratio")
Row = Annotated[str, Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MixerSizes(_Part):
    """The heads of a mixer where they are not those of the model."""

    heads: Size
    head_dim: Size


class PaperSetting(_Part):
    """What the paper measured on; None where we do not know it."""

    model: str | None = None  # a preset
    seq_len: Size | None = None
    target_len: Size | None = None
    device: str | None = None
    mixers: dict[str, MixerSizes] = {}  # by row of the table


class PaperColumn(_Part):
    """A column of one of the paper's tables: what it measures, and on what."""

    label: str
    quantity: Quantity
    unit: PositiveFloat = 1.0  # brings a printed number to one
    tasks: dict[str, str] = {}  # of a quality or weights: task -> metric, the paper's own first
    setting: str | None = None  # a name of `settings`
    data: str | None = None
    # How `data` is called on the Hugging Face hub, with its config, and the direction of pairs.
    same_data: tuple[str, ...] = ()


class Claim(_Part):
    """A claim: `compare` has the rows of each pair, or a single row for `expect: value`.

    `expect`, of the first of a pair beside the second: "higher" or "lower", by the factor `by` at
    least; "same" or the published "ratio", to a share of `within`; the published "difference", to
    the printed digits; "different". Of a single row: the published "value", to the printed digit.
    """

    says: Annotated[str, Field(min_length=1)]
    column: str  # as table4.log_ppl
    also: str = ""  # where else the paper says so
    compare: Annotated[tuple[tuple[Row, ...], ...], Field(min_length=1)]
    expect: Expected
    within: PositiveFloat | None = None
    by: Annotated[float, Field(gt=1, allow_inf_nan=False)] | None = None

    @property
    def table(self) -> str:
        """The table or figure that it is about, as table4."""
        return self.column.partition(".")[0]

    @property
    def source(self) -> str:
        """The places where the paper says so."""
        name = self.table.replace("table", "Table ").replace("figure", "Figure ")
        return f"{name}, {self.also}" if self.also else name


class Claims(_Part):
    """A file of claims."""

    settings: dict[str, PaperSetting]
    columns: dict[str, PaperColumn]
    claims: dict[str, Claim]

    def setting(self, column: str) -> PaperSetting:
        """What the paper measured a column on."""
        name = self.columns[column].setting
        return self.settings[name] if name else PaperSetting()


@lru_cache
def read_claims() -> Claims:
    """The claims of the paper."""
    text = resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    return parse_claims(text, FILE)


def parse_claims(text: str, source: str) -> Claims:
    """Read claims from YAML; raises NotationError with the file, the key and what is wrong."""
    content = read_yaml(text, source)
    try:
        found = Claims.model_validate(content)
    except ValidationError as error:
        raise NotationError(f"{source}: {_first(error)}") from None
    for name, setting in found.settings.items():
        if setting.model is not None:
            _known("preset", setting.model, PRESETS, f"{source}: settings.{name}.model")
    for name, column in found.columns.items():
        where = f"{source}: columns.{name}"
        if column.setting is not None:
            _known("setting", column.setting, found.settings, f"{where}.setting")
        table, _, heading = name.partition(".")
        if table in published.TABLES:
            _known("column", heading, published.published(table)[0], where)
    for key, claim in found.claims.items():
        _check(claim, found, f"{source}: claims.{key}")
    return found


def _check(claim: Claim, found: Claims, where: str) -> None:
    """Raise NotationError where a claim does not fit its column, or lacks a number."""
    _known("column", claim.column, found.columns, f"{where}.column")
    known: Iterable[str] | None = TABLE_1 if claim.table == "table1" else None
    if claim.table in published.TABLES:
        known = published.rows_of(claim.table)
    rows = 1 if claim.expect == "value" else 2
    for pair in claim.compare:
        if len(pair) != rows:
            raise NotationError(
                f"{where}.compare: {quote(list(pair))} has {len(pair)} rows; expect: "
                f"{claim.expect} needs {rows}"
            )
        for row in pair:
            if known is not None:
                _known(f"row of {claim.table}", row, known, f"{where}.compare")
            try:
                canonical(published.variant_of(claim.table, row))
            except SynthbenchError as error:
                raise NotationError(f"{where}.compare: {error}") from None
    if (claim.within is None) == (claim.expect in RELATIVE):
        needs = "needs" if claim.within is None else "takes no"
        raise NotationError(f"{where}.within: expect: {claim.expect} {needs} within")
    if claim.by is not None and claim.expect not in DIRECTIONS:
        raise NotationError(f"{where}.by: expect: {claim.expect} takes no by; remove it")


def _known(kind: str, name: str, known: Iterable[str], where: str) -> None:
    if name not in [*known]:
        raise NotationError(f"{where}: {UnknownNameError(kind, name, known)}")


def _first(error: ValidationError) -> str:
    """The first mistake on one line: its key, what was given, what is allowed."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or "the top"
    message = first["msg"][0].lower() + first["msg"][1:]
    got = "" if first["type"] == "missing" else f"got {quote(first['input'])}, "
    return f"{where}: {got}{message}"
