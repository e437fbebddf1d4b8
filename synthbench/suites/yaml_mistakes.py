"""What is wrong with a text that is not YAML, in plain words."""

from __future__ import annotations

import yaml

# How PyYAML describes a problem -> what it is, and what to do.
MISTAKES = {
    r"found character '\t'": "a tab; indent with spaces",
    "found character": "a character that no value begins with; put quotation marks around the "
    "value",
    "expected <block end>": "this line is indented unlike the lines above that it belongs to; "
    "give the keys of one mapping the same number of spaces",
    "mapping values are not allowed": "a `:` that cannot be here: it is the second one in its "
    "line, or the line above has none; put each key on a line of its own, and quotation marks "
    "around a value with a `:`",
    "could not find expected ':'": "a key without `:`; write key: value",
    "found unexpected end of stream": "the file ends inside quotation marks; close them",
}
# The same by where it is.
IN_BRACKETS = {
    "while parsing a flow sequence": "inside [...], after a value comes `,` or `]`; quote a "
    'variant that has a comma or a bracket: ["FR(rank=[8])"]',
    "while parsing a flow mapping": "inside {...}, after a value comes `,` or `}`; quote a value "
    "that has one of them",
}


def describe(error: yaml.YAMLError) -> str:
    """What is wrong, what to do, and the place, as the end of a message."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error)
    said, mark = error.problem or "", error.problem_mark
    plain = IN_BRACKETS.get(error.context or "") or next(
        (text for start, text in MISTAKES.items() if said.startswith(start)), said
    )
    snippet = mark.get_snippet(indent=2)
    return f"line {mark.line + 1}: {plain}" + (f"\n{snippet}" if snippet else "")
