"""The notation of variants, like `FR(rank=32)+V`: the only place that reads and writes it.

    variant := sum | "(" sum ")" "(" options ")"        options of the whole mixture
    sum     := term { "+" term }
    term    := name [ "(" option = value { "," option = value } ")" ]

A name is a label (V, R, Fix, FR, D, FD) or a full name (dot_product, linformer). A value is a whole
number, a decimal, true, false, or a word, bare or quoted; a bare `none` is None for an option that
may be None, and a word for any other. `mixing` and `bias` belong to the whole
mixture and may stand at any of its components. The canonical form prints labels, and options that
differ from their default, in the order of their declaration.
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

from synthbench.errors import NotationError, UnknownNameError, quote
from synthbench.mixers import catalog
from synthbench.mixers.attention import Attention
from synthbench.mixers.base import Mixer
from synthbench.mixers.catalog import FRAME_OPTIONS
from synthbench.mixers.component import Component
from synthbench.mixers.plugin_errors import attribute_plugin_errors

TOKEN = re.compile(r"\s*(?:(?P<word>[A-Za-z_][\w.-]*)"
                   r"|(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
                   r"|\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<sign>[()+,=]))")  # fmt: skip
BOOLEANS = {"true": True, "false": False}
NONES = ("none", "null")
EXCERPT = 30  # characters shown before and after a mistake in a long variant


class _Word(str):
    """A bare word, which may mean None."""


def parse(text: str) -> Mixer:
    """Read a variant; raises NotationError or UnknownNameError with what was expected."""
    return _Parser(text).variant()


def canonical(text: str) -> str:
    """The canonical notation of a variant."""
    return format_mixer(parse(text))


def format_mixer(mixer: Mixer) -> str:
    """Write a mixer in canonical notation."""
    if not isinstance(mixer, Attention):
        return _format_term(mixer)
    frame = _changed_options(mixer, FRAME_OPTIONS)
    if len(mixer.components) == 1:
        return _format_term(mixer.components[0], frame)
    terms = "+".join(_format_term(component) for component in mixer.components)
    return f"({terms})({', '.join(frame)})" if frame else terms


def _format_term(part: Mixer | Component, frame: tuple[str, ...] = ()) -> str:
    names = tuple(field.name for field in dataclasses.fields(part))
    options = (*_changed_options(part, names), *frame)
    name = part.label or part.name
    return f"{name}({', '.join(options)})" if options else name


def _changed_options(part: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    defaults = {field.name: field.default for field in dataclasses.fields(part)}
    values = {name: getattr(part, name) for name in names}
    return tuple(f"{n}={_format_value(v)}" for n, v in values.items() if v != defaults[n])


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    match = TOKEN.fullmatch(value)
    if match and match["word"] == value and value.lower() not in (*BOOLEANS, *NONES):
        return value
    for mark in ('"', "'"):
        if mark not in value:
            return f"{mark}{value}{mark}"
    raise NotationError(f"{value!r} holds both kinds of quotes; notation cannot write it")


class _Parser:
    """One pass over the tokens of one variant."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.whole = f"variant {quote(text)}"
        self.tokens: list[tuple[str, str, int]] = []  # kind, text, position
        position = 0
        end = len(text.rstrip())
        while position < end:
            match = TOKEN.match(text, position)
            if match is None:
                position += len(text[position:]) - len(text[position:].lstrip())
                opened = text[position] in "\"'"
                problem = "opens a quote that is not closed" if opened else "is unexpected"
                raise self.error(f"{text[position]!r} {problem}", position)
            kind = match.lastgroup or "sign"
            self.tokens.append((kind, match[kind], match.start(kind)))
            position = match.end()
        self.tokens.append(("end", "", end))
        self.next = 0

    def error(self, problem: str, position: int | None = None) -> NotationError:
        where = self.tokens[self.next][2] if position is None else position
        here = self.whole
        if len(self.text) > 4 * EXCERPT:
            begin, end = max(0, where - EXCERPT), where + EXCERPT
            left, right = "..." * (begin > 0), "..." * (end < len(self.text))
            here = f"variant {left}{self.text[begin:end]!r}{right} ({len(self.text)} characters)"
        return NotationError(
            f"{here}: {problem} at character {where + 1}; "
            "write it like V, FR(rank=32)+V or linformer(rank=32)"
        )

    def unexpected(self, expected: str) -> NotationError:
        """The error for a next token that is not allowed here."""
        got = self.tokens[self.next][1] or "the end"
        return self.error(f"expected {expected}, got {quote(got)}")

    def peek(self, *signs: str) -> bool:
        kind, text, _ = self.tokens[self.next]
        return kind == "sign" and text in signs

    def take(self, sign: str, *others: str) -> None:
        if not self.peek(sign):
            raise self.unexpected(" or ".join(map(repr, (sign, *others))))
        self.next += 1

    def variant(self) -> Mixer:
        if grouped := self.peek("("):
            self.take("(")
        parts: list[Mixer | Component] = []
        frame: dict[str, Any] = {}
        while True:
            part, own_frame = self.term()
            parts.append(part)
            self.merge(frame, own_frame)
            if not self.peek("+"):
                break
            self.take("+")
        if grouped:
            self.take(")", "+")
            if self.peek("("):
                self.merge(frame, self.options())
        if self.tokens[self.next][0] != "end":
            raise self.unexpected("the end" if grouped else "'+' or the end")
        return self.assemble(parts, frame)

    def merge(self, frame: dict[str, Any], more: dict[str, Any]) -> None:
        for option, value in more.items():
            if option not in FRAME_OPTIONS:
                raise NotationError(
                    f"{self.whole}: a mixture has no option {quote(option)}. "
                    f"Known: {', '.join(FRAME_OPTIONS)}"
                )
            if frame.setdefault(option, value) != value:
                raise NotationError(
                    f"{self.whole}: {option} is given as {quote(frame[option])} and "
                    f"as {quote(value)}; it belongs to the whole mixture, give it once"
                )

    def assemble(self, parts: list[Mixer | Component], frame: dict[str, Any]) -> Mixer:
        components = tuple(part for part in parts if isinstance(part, Component))
        if len(components) == len(parts):
            return Attention(components, **self.typed(Attention, frame))
        mixer = next(part for part in parts if isinstance(part, Mixer))
        if frame:
            raise NotationError(
                f"{self.whole}: {', '.join(frame)} belongs to a mixture, and {mixer.name} "
                f"is none; write its own options as {mixer.name}(...)"
            )
        if len(parts) > 1:
            addends = catalog.known_components()
            raise NotationError(
                f"{self.whole}: {mixer.name} is a whole mixer and cannot stand in a sum; "
                f"these can: {', '.join(cls.label or n for n, cls in addends.items())}"
            )
        return mixer

    def term(self) -> tuple[Mixer | Component, dict[str, Any]]:
        kind, name, _ = self.tokens[self.next]
        if kind != "word":
            raise self.unexpected("the name of a mixer")
        self.next += 1
        cls = catalog.find(name)
        options = self.options() if self.peek("(") else {}
        is_component = issubclass(cls, Component)
        frame = {o: options.pop(o) for o in FRAME_OPTIONS if is_component and o in options}
        typed = self.typed(cls, options)
        with attribute_plugin_errors(cls, "__init__"):
            return cls(**typed), frame

    def options(self) -> dict[str, Any]:
        self.take("(")
        options: dict[str, Any] = {}
        more = not self.peek(")")
        while more:
            kind, name, _ = self.tokens[self.next]
            if kind != "word":
                raise self.unexpected("an option like rank=32")
            self.next += 1
            self.take("=")
            if name in options:
                raise self.error(f"option {quote(name)} is given twice")
            options[name] = self.value()
            more = not self.peek(")")
            if more:
                self.take(",", ")")
        self.take(")")
        return options

    def value(self) -> Any:
        kind, text, _ = self.tokens[self.next]
        if kind in ("sign", "end"):
            raise self.unexpected("a value")
        value: Any = text
        if kind == "number":
            value = self.number(text)
        if kind == "word":
            word = text.lower()
            value = BOOLEANS[word] if word in BOOLEANS else _Word(text)
        self.next += 1
        return value

    def number(self, text: str) -> int | float:
        try:
            value = int(text) if re.fullmatch(r"-?\d+", text) else float(text)
        except ValueError:  # more digits than Python converts
            raise self.error(f"a number of {len(text)} digits is too long") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise self.error(f"{quote(text)} is no finite number")
        return value

    def decimal(self, option: str, value: int) -> float:
        """A whole number as the decimal that an option takes, so that it has one canonical form."""
        try:
            return float(value)
        except OverflowError:
            raise NotationError(
                f"{self.whole}: {option}={quote(value)} is too large for a decimal"
            ) from None

    def typed(self, cls: type, options: dict[str, Any]) -> dict[str, Any]:
        """Check the options against the declared ones and the types of their defaults."""
        declared = {f.name: f for f in dataclasses.fields(cls) if f.name != "components"}
        for option, value in options.items():
            if option not in declared:
                owner = getattr(cls, "label", None) or getattr(cls, "name", cls.__name__)
                of_frame = FRAME_OPTIONS if issubclass(cls, Component) else ()
                raise UnknownNameError(f"option of {owner}", option, {*declared, *of_frame})
            options[option] = value = _resolved(value, declared[option])
            default = declared[option].default
            if isinstance(default, float) and type(value) is int:
                options[option] = value = self.decimal(option, value)
            fits = default is None or value is None or type(value) is type(default)
            if not fits:
                raise NotationError(
                    f"{self.whole}: {option}={quote(value)} is of type "
                    f"{type(value).__name__}; expected {type(default).__name__}, "
                    f"like {option}={_format_value(default)}"
                )
        return options


def _resolved(value: Any, field: dataclasses.Field[Any]) -> Any:
    """The value of an option: a bare `none` is None if the option may be None."""
    if not isinstance(value, _Word):
        return value
    may_be_none = field.default is None or re.search(r"\b(None|Optional)\b", str(field.type))
    return None if may_be_none and value.lower() in NONES else str(value)
