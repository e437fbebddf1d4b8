"""What the compile test for an H100 objects to, from programs made up; none is compiled here."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cuda_compile.__main__ import judge, parse_options


def program(seq_len: int = 2048, peak: float = 1e8, **changes: Any) -> dict[str, Any]:
    found = {
        "name": f"V, L {seq_len}", "seq_len": seq_len, "how": ["bfloat16", "train", ""],
        "seconds": 5.0, "peak": peak, "temporary": 1, "trips": [4], "calls": [], "kernels": [],
    }  # fmt: skip
    return found | changes


def test_sound_programs_give_no_problem() -> None:
    assert judge("V", [program(512), program(2048), program(8192, 4.9e8)]) == []


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ([program(seconds=20.5)], "V, L 2048: 20 s to compile"),
        ([program(8192, trips=[2, 256])], "V, L 8192: loops of [2, 256] iterations"),
        ([program(), program(8192, 5.1e8)], "V, L 8192: memory grows with the length to the 1.18"),
        ([{"name": "V", "error": "the process ended with code -11"}],
         "V: the process ended with code -11"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_program(found: list[dict[str, Any]], problem: str) -> None:
    assert judge("V", found) == [problem]


@pytest.mark.parametrize("variant", ["R", "R+V", "Fix", "conv"])
def test_what_holds_a_table_may_grow_with_the_square(variant: str) -> None:
    assert judge(variant, [program(), program(8192, 1.6e9)]) == []


def test_memory_is_compared_between_programs_of_the_same_kind() -> None:
    other = program(8192, 1.6e9, how=["float32", "train", ""])
    assert judge("FR", [program(), other]) == []


def test_the_options() -> None:
    options = parse_options(["--variants", "V,R+V", "--seq-len", "512,8192", "--mode", "train"])
    assert (options.variants, options.seq_len, options.mode) == (
        ["V", "R+V"],
        [512, 8192],
        ["train"],
    )
    everything = parse_options([])
    assert len(everything.variants) > 15
    assert everything.seq_len == [512, 2048, 8192]
