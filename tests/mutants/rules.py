"""What is not mutated, by rule, and why: no test could, or should, notice such a mutant."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import libcst as cst
import libcst.matchers as m

Parents = Sequence[cst.CSTNode]  # from the module down to the node
Rule = Callable[[cst.CSTNode, Parents], bool]

DESCRIPTIONS = ("equation", "source")  # class attributes of mixers: text for people


def _type_alias(node: cst.CSTNode, parents: Parents) -> bool:
    if isinstance(node, cst.Subscript):
        return m.matches(node, m.Subscript(value=m.Name("Literal")))
    if isinstance(node, cst.Call):
        return m.matches(node, m.Call(func=m.Name("TypeVar") | m.Name("NewType")))
    alias = m.Assign(
        targets=[m.AssignTarget(m.Name(m.MatchIfTrue(_is_type_name)))],
        value=m.Subscript() | m.BinaryOperation(operator=m.BitOr()) | m.Name() | m.Attribute(),
    )
    at_top = len(parents) == 2  # module, line
    return at_top and isinstance(node, cst.Assign) and m.matches(node, alias)


def _is_type_name(name: str) -> bool:
    return re.fullmatch(r"_?[A-Z][a-z]\w*", name) is not None


def _cast(node: cst.CSTNode, parents: Parents) -> bool:
    if not (isinstance(node, cst.Arg) and isinstance(call := parents[-1], cst.Call)):
        return False
    return m.matches(call.func, m.Name("cast")) and node is call.args[0]


def _docstring(node: cst.CSTNode, parents: Parents) -> bool:
    text = (cst.SimpleString, cst.ConcatenatedString)
    return isinstance(node, cst.Expr) and isinstance(node.value, text)


def _exports(node: cst.CSTNode, parents: Parents) -> bool:
    return isinstance(node, cst.Assign) and m.matches(node.targets[0].target, m.Name("__all__"))


def _description(node: cst.CSTNode, parents: Parents) -> bool:
    target = node.target if isinstance(node, cst.AnnAssign) else None
    return isinstance(target, cst.Name) and target.value in DESCRIPTIONS


def _type_checking(node: cst.CSTNode, parents: Parents) -> bool:
    return isinstance(node, cst.If) and m.matches(node.test, m.Name("TYPE_CHECKING"))


def _protocol(node: cst.CSTNode, parents: Parents) -> bool:
    base = m.Name("Protocol") | m.Subscript(value=m.Name("Protocol"))
    return isinstance(node, cst.ClassDef) and any(m.matches(b.value, base) for b in node.bases)


def _strict_zip(node: cst.CSTNode, parents: Parents) -> bool:
    if not (isinstance(node, cst.Arg) and isinstance(call := parents[-1], cst.Call)):
        return False
    return m.matches(node, m.Arg(keyword=m.Name("strict"))) and m.matches(call.func, m.Name("zip"))


def _is_a(*kinds: type[cst.CSTNode]) -> Rule:
    return lambda node, parents: isinstance(node, kinds)


def _infinity(node: cst.CSTNode, parents: Parents) -> bool:
    return isinstance(node, cst.SimpleString) and node.value.strip("\"'-") in ("inf", "nan")


def _certain_error(node: cst.CSTNode, parents: Parents) -> bool:
    called = node.func if isinstance(node, cst.Call) else None
    return isinstance(called, cst.Name) and called.value in ("len", "isinstance")


# A node for which a rule holds is not mutated, and nothing inside it.
RULES: dict[str, Rule] = {
    "an annotation: not evaluated": _is_a(cst.Annotation),
    "a type alias or type variable: used in annotations only": _type_alias,
    "the type that cast() names: not looked at": _cast,
    "a docstring": _docstring,
    "__all__: read by import * and by tools only": _exports,
    "a description for people (equation and source of a mixer)": _description,
    "imported by type checkers only": _type_checking,
    "a protocol: never instantiated": _protocol,
    "an import: nothing to mutate but names": _is_a(cst.Import, cst.ImportFrom),
    "the text of an error message": _is_a(cst.Raise),
    "an assertion: it tells the type checker what is known": _is_a(cst.Assert),
    "strict of zip(): an assertion that lengths are equal": _strict_zip,
    "the text in float('inf'): its case does not matter": _infinity,
    "a decorator: applied at import, as the tool's own runner has it": _is_a(cst.Decorator),
    "the arguments of len() and isinstance(): every mutant of them is an error": _certain_error,
}


def left_out(node: cst.CSTNode, parents: Sequence[cst.CSTNode]) -> str | None:
    """The reason why a node, child of the last of `parents`, is not mutated; None if it is."""
    return next((reason for reason, rule in RULES.items() if rule(node, parents)), None)
