"""Every mutant of a file, made by the mutation operators of mutmut.

mutmut's own runner mutates only the bodies of functions without decorators: no class attribute, no
constant, no property, and so nearly nothing that a mixer declares. Here its operators are applied
to the whole file.
"""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

from tests.mutants.rules import left_out

MODULE = "<module>"  # the scope of code outside functions


@dataclass(frozen=True)
class Mutant:
    """One change of one place of a file."""

    path: str  # as in synthbench/analysis/trend.py
    scope: str  # the function or method around it, as in Class.method; or MODULE
    line: int
    before: str  # the code of the node
    after: str
    ordinal: int  # among equal changes in the same scope
    node: cst.CSTNode = field(repr=False, compare=False)
    replacement: cst.CSTNode = field(repr=False, compare=False)
    module: cst.Module = field(repr=False, compare=False)

    @property
    def key(self) -> str:
        """A name that stays the same when lines move: path::scope:digest."""
        content = "\0".join((self.scope, self.before, self.after, str(self.ordinal)))
        return f"{self.path}::{self.scope}:{hashlib.sha256(content.encode()).hexdigest()[:8]}"

    def source(self) -> str:
        """The file with this change; raises SyntaxError if that is not Python."""
        changed = self.module.deep_replace(self.node, self.replacement)
        assert isinstance(changed, cst.Module)
        compile(changed.code, self.path, "exec")
        return changed.code

    def diff(self) -> list[str]:
        """The lines that change, with - and + before them."""
        lines = difflib.unified_diff(
            self.module.code.splitlines(), self.source().splitlines(), n=0, lineterm=""
        )
        return [line for line in list(lines)[2:] if not line.startswith("@@")]


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Every mutant of a file, in the order of the file, without those left out by rule."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    visitor = _Visitor(path, wrapper.module)
    wrapper.visit(visitor)
    return visitor.mutants


class _Visitor(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, path: str, module: cst.Module) -> None:
        super().__init__()
        self.path, self.module = path, module
        self.mutants: list[Mutant] = []
        self._parents: list[cst.CSTNode] = []
        self._seen: Counter[tuple[str, str, str]] = Counter()
        self._line = 1

    def on_visit(self, node: cst.CSTNode) -> bool:
        if left_out(node, self._parents):
            self._parents.append(node)
            return False
        position = self.get_metadata(PositionProvider, node, None)  # operators may have none
        if position is not None:
            self._line = position.start.line
        for replacement in self._replacements(node):
            before, after = self.module.code_for_node(node), self.module.code_for_node(replacement)
            scope = self._scope()
            self.mutants.append(
                Mutant(self.path, scope, self._line, before, after,
                       self._seen[scope, before, after], node, replacement, self.module)
            )  # fmt: skip
            self._seen[scope, before, after] += 1
        self._parents.append(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        self._parents.pop()

    def _replacements(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                for replacement in operator(node):
                    if not self._changes_what_is_left_out(node, replacement):
                        yield replacement

    def _changes_what_is_left_out(self, node: cst.CSTNode, replacement: cst.CSTNode) -> bool:
        """Whether an argument that a rule leaves out was removed or replaced."""
        if not (isinstance(node, cst.Call) and isinstance(replacement, cst.Call)):
            return False
        kept = {id(argument) for argument in replacement.args}
        gone = [argument for argument in node.args if id(argument) not in kept]
        return any(left_out(argument, [*self._parents, node]) for argument in gone)

    def _scope(self) -> str:
        """The outermost function or method; a function in a function belongs to it."""
        names: list[str] = []
        for parent in self._parents:
            if isinstance(parent, cst.ClassDef):
                names.append(parent.name.value)
            elif isinstance(parent, cst.FunctionDef):
                return ".".join([*names, parent.name.value])
        return MODULE
