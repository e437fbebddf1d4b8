"""What is wrong with a mixer's option, in one line that names it and what is allowed."""

from __future__ import annotations

import pytest

from synthbench.errors import NotationError
from synthbench.mixers.attention import Attention
from synthbench.mixers.dense import Dense
from synthbench.mixers.dot_product import DotProduct
from synthbench.mixers.notation import parse
from synthbench.mixers.validation import require_positive

WRONG = {
    "(FR+V)(mixing=all)": "attention: mixing is 'all'; use one of softmax, layer, sum",
    "D(sharing=all)": "dense: sharing is 'all'; use one of per_head, heads, full",
    "FD(hidden=own)": "factorized_dense: hidden is 'own'; use one of shared, separate",
    "R(init=uniform)": "random: init is 'uniform'; use one of normal, mesh",
    "linformer(sharing=q)": "linformer: sharing is 'q'; use one of none, kv",
    "light_conv(layout=wide)": "light_conv: layout is 'wide'; use one of paper, mesh",
    "dynamic_conv(layout=wide)": "dynamic_conv: layout is 'wide'; use one of paper, mesh",
    "FR(rank=0)": "factorized_random: rank is 0; use an integer of at least 1",
    "linformer(rank=0)": "linformer: rank is 0; use an integer of at least 1",
    "conv(width=0)": "conv: width is 0; use an integer of at least 1",
    "conv_relu_conv(second=0)": "conv_relu_conv: second is 0; use an integer of at least 1",
    "bottleneck(width=0)": "bottleneck: width is 0; use an integer of at least 1",
    "bottleneck_conv(first=0)": "bottleneck_conv: first is 0; use an integer of at least 1",
    "light_conv(width=0)": "light_conv: width is 0; use an integer of at least 1",
    "FD(a=0)": "factorized_dense: a is 0; use an integer of at least 1",
}


@pytest.mark.parametrize("variant", WRONG)
def test_a_wrong_option_is_named_with_what_is_allowed(variant: str) -> None:
    with pytest.raises(NotationError) as raised:
        parse(variant)
    assert WRONG[variant] in str(raised.value)


@pytest.mark.parametrize("value", [True, False, 2.0, "3", 0, -1])
def test_only_a_positive_integer_is_one(value: object) -> None:
    with pytest.raises(NotationError, match=r"own: rank is .*; use an integer of at least 1"):
        require_positive("own", rank=value)  # type: ignore[arg-type]
    require_positive("own", rank=None, width=1)


def test_options_of_a_mixture_made_in_python() -> None:
    with pytest.raises(NotationError, match=r"^attention: bias is 'yes'; use one of True, False"):
        Attention((DotProduct(),), bias="yes")  # type: ignore[arg-type]
    with pytest.raises(NotationError, match=r"^dense: sharing is 3; use one of per_head, heads,"):
        Dense(sharing=3)  # type: ignore[arg-type]
