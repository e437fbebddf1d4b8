"""Plug-in files that cannot be imported, or whose classes do not fulfil the protocol."""

from __future__ import annotations

from benchmarks.faults.case import FOLDER, Case, Content

HEAD = """\
from dataclasses import dataclass
from typing import ClassVar
import synthbench
"""
MIXER = (
    HEAD
    + """
@dataclass(frozen=True)
class Own(synthbench.Mixer):
    name: ClassVar[str] = {name}
    {field}
    def parameters(self, sizes):
        return {parameters}
    def torch(self, sizes):
        return lambda p, x, padding_mask, causal: x
"""
)


def mixer(name: str = '"own"', field: str = "", parameters: str = "{}") -> str:
    """A mixer with this name, this further line, and these parameters, each as code."""
    return MIXER.format(name=name, field=field, parameters=parameters)


IMPORT: dict[str, Content] = {
    "empty": "",
    "a syntax error": "def f(:\n",
    "a NUL": "x = 1\0",
    "not UTF-8": b"x = '\xe9'\n",
    "an encoding that does not exist": "# -*- coding: nonsense -*-\n",
    "a missing module": "import no_such_module\n",
    "a missing name": "from synthbench import no_such_name\n",
    "an exception": "raise ValueError('a mistake of its own')\n",
    "an exception without a text": "raise RuntimeError\n",
    "an exception of several lines": "raise ValueError('one\\ntwo\\nthree')\n",
    "an exception with a lone surrogate": "raise ValueError('caf\\udce9')\n",
    "an exception that cannot be printed":
        "class E(Exception):\n    def __str__(self): raise KeyError\nraise E\n",
    "an assertion": "assert False\n",
    "sys.exit": "import sys\nsys.exit(0)\n",
    "sys.exit with a text": "import sys\nsys.exit('bye')\n",
    "deep recursion": "def f(): f()\nf()\n",
    "StopIteration": "raise StopIteration\n",
    "a name error": "undefined\n",
    "out of memory": "raise MemoryError\n",
    "only functions": "def f(): pass\n",
    "a class of its own": "class Own: pass\n",
    "deep brackets": "x = " + "(" * 3000 + ")" * 3000 + "\n",
}  # fmt: skip

CLASSES: dict[str, Content] = {
    "a mixer without a name": mixer('""'),
    "a name that is a number": mixer("3"),
    "a name with a space": mixer('"a b"'),
    "a name with a sign": mixer('"a+b"'),
    "a name that is taken": mixer('"linformer"'),
    "a label that is taken": mixer(field='label: ClassVar[str] = "V"'),
    "a mixer without methods":
        HEAD + "@dataclass(frozen=True)\nclass Own(synthbench.Mixer):\n"
        "    name: ClassVar[str] = 'own'\n",
    "a mixer without torch and jax":
        HEAD + "@dataclass(frozen=True)\nclass Own(synthbench.Mixer):\n"
        "    name: ClassVar[str] = 'own'\n    def parameters(self, sizes): return {}\n",
    "an option without a default": mixer(field="width: int"),
    "two classes of one name": mixer() + mixer().removeprefix(HEAD).replace("Own", "Other"),
}  # fmt: skip

# Mixers that are accepted but whose own code fails when `show` asks for their cost.
CODE: dict[str, Content] = {
    "parameters that are None": mixer(parameters="None"),
    "parameters that are a list": mixer(parameters="[1]"),
    "parameters that are numbers": mixer(parameters='{"w": 3}'),
    "parameters with a number as their name": mixer(parameters="{3: None}"),
    "parameters that raise": mixer(parameters="1 / 0"),
    "parameters that exit": mixer(parameters="exit(0)"),
    "parameters that recur": mixer(parameters="self.parameters(sizes)"),
    "parameters of negative shape":
        mixer(parameters='{"w": synthbench.Parameter((-1,), synthbench.ONES)}'),
}  # fmt: skip

FORMS: dict[str, dict[str, Content]] = {
    "a folder": {"own.py": FOLDER},
    "a package without code": {"own": FOLDER},
    "a package that fails": {"own/__init__.py": "from . import missing\n"},
}

PLUGIN_FILES: list[Case] = [
    *(
        Case("plug-in", f"{name} ({command[0]})", (*command, "--plugin", "own"),
             {"own.py": content}, says="own")
        for name, content in IMPORT.items()
        for command in (("list", "variants"), ("verify", "V"))
    ),
    *(
        Case("plug-in", name, ("list", "variants", "--plugin", "own"), {"own.py": content})
        for name, content in CLASSES.items()
    ),
    *(
        Case("plug-in", name, ("show", "own", "--plugin", "own"), {"own.py": content}, prints=True)
        for name, content in CODE.items()
    ),
    *(
        Case("plug-in", name, ("list", "variants", "--plugin", "own"), files)
        for name, files in FORMS.items()
    ),
]  # fmt: skip
