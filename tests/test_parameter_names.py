"""Names of parameters that a framework's module has for something else."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import pytest

from synthbench.backends.jax.module import Declared as JaxDeclared
from synthbench.backends.torch.module import Declared as TorchDeclared
from synthbench.errors import NotationError
from synthbench.mixers.base import Parameter
from synthbench.mixers.initializers import ONES

PARAMETER = Parameter((2,), ONES)


def build(framework: str, *names: str) -> Any:
    declared = dict.fromkeys(names, PARAMETER)
    return TorchDeclared(declared) if framework == "torch" else JaxDeclared(declared, jnp.float32)


@pytest.mark.parametrize(
    ("framework", "names", "part"),
    [
        ("torch", ["type"], "type"),
        ("torch", ["a.half"], "half"),
        ("torch", ["train.a"], "train"),
        ("torch", ["a", "a.b"], "a"),
        ("jax", ["train"], "train"),
        ("jax", ["eval.a"], "eval"),
        ("jax", ["a", "a.b"], "a"),
        ("jax", ["tensors"], "tensors"),
    ],
)
def test_a_name_that_a_module_uses_is_refused(framework: str, names: list[str], part: str) -> None:
    message = rf"module cannot hold a parameter named '{names[-1]}': '{part}' is something else"
    with pytest.raises(NotationError, match=message):
        build(framework, *names)
