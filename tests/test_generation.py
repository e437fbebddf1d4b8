"""Greedy and beam search: against full passes, against brute force, and between frameworks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.learning_equality.generations import lively_parameters
from synthbench.errors import ShapeError, UnsupportedError
from synthbench.measure.parity_inputs import random_parameters
from synthbench.mixers.base import Array
from synthbench.models.generation import Search, beam_search, greedy, largest, log_softmax
from synthbench.models.model import Model
from tests.decoders import (
    FRAMEWORKS,
    PLUGINS,
    SIZES,
    VOCABULARY,
    decoder_model,
    generate,
    wide,
)

BATCH, PROMPT = 3, 4


class Table:
    """A decoder whose logits are a random function of the tokens before; V of them."""

    def __init__(self, seed: int, batch: int, V: int) -> None:
        self.seed, self.V = seed, V
        self.rows: list[tuple[int, ...]] = [(row,) for row in range(batch)]

    def logits(self, prefix: tuple[int, ...]) -> Array:
        return np.random.default_rng([self.seed, *prefix]).normal(scale=2, size=self.V)

    def begin(self) -> Array:
        return np.stack([self.logits(row) for row in self.rows])

    def step(self, tokens: Array) -> Array:
        pairs = zip(self.rows, tokens.tolist(), strict=True)
        self.rows = [(*row, token) for row, token in pairs]
        return self.begin()

    def expand(self, times: int) -> None:
        self.rows = [row for row in self.rows for _ in range(times)]

    def reorder(self, rows: Array) -> None:
        before = self.rows
        self.rows = [before[row] for row in rows]
        assert [row[0] for row in self.rows] == [row[0] for row in before]  # of the same prompt

    def sequences(self, row: int, search: Search) -> Iterator[tuple[float, list[int]]]:
        """Every sequence that a search may give for one prompt, and its score."""
        for n in range(1, search.length + 1):
            for tokens in product(range(self.V), repeat=n):
                ends = tokens[-1] == search.end
                if search.end in tokens[:-1] or not (ends or n == search.length):
                    continue
                score = sum(
                    log_softmax(self.logits((row, *tokens[:at])))[token]
                    for at, token in enumerate(tokens)
                )
                filled = [*tokens, *[search.end or 0] * (search.length - n)]
                yield float(search.normalised(score, n)), filled


def test_enough_beams_find_the_best_sequence() -> None:
    for seed, end, penalty in product(range(5), (None, 0, 2), (0.0, 0.6, 3.0)):
        search = Search(length=4, beams=3**4, end=end, penalty=penalty)
        found = beam_search(Table(seed, 2, 3), search)
        for row in range(2):
            _, best = max(Table(seed, 2, 3).sequences(row, search), key=lambda each: each[0])
            assert found[row].tolist() == best


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 5), st.booleans())
def test_one_beam_is_greedy(seed: int, length: int, V: int, ends: bool) -> None:
    search = Search(length, beams=1, end=V - 1 if ends else None)
    found = beam_search(Table(seed, 3, V), search)
    np.testing.assert_array_equal(found, greedy(Table(seed, 3, V), search))


@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 4), st.sampled_from([None, 1]))
def test_a_beam_search_gives_one_of_the_sequences(
    seed: int, length: int, beams: int, end: int | None
) -> None:
    search = Search(length, beams, end)
    found = beam_search(Table(seed, 2, 3), search)
    for row in range(2):
        possible = [tokens for _, tokens in Table(seed, 2, 3).sequences(row, search)]
        assert found[row].tolist() in possible


def test_more_beams_find_a_better_sequence_than_greedy() -> None:
    """A likely first token that leads nowhere, and an unlikely one that leads to certainty."""

    class Trap(Table):
        def logits(self, prefix: tuple[int, ...]) -> Array:
            at = {(): [0.6, 0.4], (0,): [0.5, 0.5], (1,): [1 - 1e-9, 1e-9]}
            return np.log(at[prefix[1:]])

    assert greedy(Trap(0, 1, 2), Search(2)).tolist() == [[0, 0]]
    assert beam_search(Trap(0, 1, 2), Search(2, beams=2)).tolist() == [[1, 0]]


def test_a_length_penalty_prefers_longer_sequences() -> None:
    class Stop(Table):
        def logits(self, prefix: tuple[int, ...]) -> Array:
            return np.log([0.5, 0.5] if len(prefix) == 1 else [0.95, 0.05])

    assert beam_search(Stop(0, 1, 2), Search(3, beams=3, end=1)).tolist() == [[1, 1, 1]]
    found = beam_search(Stop(0, 1, 2), Search(3, beams=3, end=1, penalty=1.0))
    assert found.tolist() == [[0, 0, 0]]
    assert Search(3, penalty=0.6).normalised(-2.0, 7) == -2.0 / 2**0.6  # ((5 + 7) / 6)^0.6


def test_of_equal_scores_the_first_token_wins() -> None:
    class Equal(Table):
        def logits(self, prefix: tuple[int, ...]) -> Array:
            return np.zeros(self.V)

    for beams in (1, 2, 5):
        assert beam_search(Equal(0, 1, 3), Search(3, beams)).tolist() == [[0, 0, 0]]


def test_logits_that_are_not_numbers_end_in_no_error() -> None:
    class Broken(Table):
        def logits(self, prefix: tuple[int, ...]) -> Array:
            return np.full(self.V, np.nan)

    for beams in (1, 2):
        search = Search(3, beams, end=2)
        with np.errstate(invalid="ignore"):
            assert beam_search(Broken(0, 1, 4), search).shape == (1, 3)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30), st.integers(1, 8))
def test_the_largest_are_sorted_and_equal_ones_in_order(values: list[int], count: int) -> None:
    found = largest(np.array(values, float), count).tolist()
    ranked = sorted(range(len(values)), key=lambda at: (-values[at], at))
    assert found == ranked[:count]


def full_passes(model: Model, start: dict[str, Array], tokens: Array, length: int) -> Array:
    """Greedy generation of a decoder by one whole forward pass per token, in NumPy."""
    for _ in range(length):
        logits = model.reference(wide(start), tokens)[:, -1]
        tokens = np.concatenate([tokens, logits.argmax(-1)[:, None]], axis=1)
    return tokens[:, -length:]


def prompts_of(model: Model, seed: int = 3) -> Array:
    return np.random.default_rng(seed).integers(VOCABULARY, size=(BATCH, PROMPT))


@pytest.mark.parametrize("mixer", ["V", "FR+V", "dynamic_conv", *PLUGINS])
def test_greedy_is_repeated_full_passes_in_both_frameworks(mixer: str) -> None:
    model = decoder_model(PLUGINS.get(mixer, mixer), layers=2)
    start, length = lively_parameters(model), SIZES.max_len + 1 - PROMPT
    prompts = prompts_of(model)
    want = full_passes(model, start, prompts, length)
    assert all(len(np.unique(row)) > 1 for row in want) and len(np.unique(want, axis=0)) > 1
    for framework in FRAMEWORKS:
        np.testing.assert_array_equal(
            generate(framework, model, start, prompts, length=length), want
        )


def test_an_encoder_decoder_generates_from_its_source_in_both_frameworks() -> None:
    T = 6
    model = decoder_model("D+V", "encoder_decoder", target_len=T, positions="sinusoidal")
    start, source = lively_parameters(model), prompts_of(model)
    mask = np.ones(source.shape, bool)
    mask[1, 2:] = False
    target = np.full((BATCH, T), 5)  # of which what is not generated yet does not matter
    whole = np.concatenate([mask, np.ones_like(target, bool)], axis=1)
    for n in range(T - 1):
        logits = model.reference(wide(start), np.concatenate([source, target], axis=1), whole)
        target[:, n + 1] = logits[:, n].argmax(-1)
    for framework in FRAMEWORKS:
        found = generate(framework, model, start, source, length=T - 1, begin=5, padding_mask=mask)
        np.testing.assert_array_equal(found, target[:, 1:])


@pytest.mark.parametrize(
    ("mixer", "kind"), [("V", "decoder"), ("light_conv", "encoder_decoder"), ("mixer", "decoder")]
)
def test_beam_search_finds_the_same_tokens_in_both_frameworks(mixer: str, kind: str) -> None:
    """The best of all sequences of a tiny model, by their full passes in NumPy."""
    more: dict[str, Any] = {"target_len": 3} if kind == "encoder_decoder" else {}
    V, length = 3, 3
    model = decoder_model(PLUGINS.get(mixer, mixer), kind, vocabulary=V, **more)
    start = lively_parameters(model)
    prompts = np.array([[0, 1, 2], [2, 2, 0]])
    end, begin = 1, 2
    best = []
    for prompt in prompts:
        scored = []
        for tokens in product(range(V), repeat=length):
            if kind == "decoder":
                inputs = [*prompt, *tokens[:-1]]
                logits = model.reference(wide(start), np.array([inputs]))[0, len(prompt) - 1 :]
            else:
                inputs = [*prompt, begin, *tokens[:-1]]
                logits = model.reference(wide(start), np.array([inputs]))[0]
            n = tokens.index(end) + 1 if end in tokens else length
            score = log_softmax(logits)[range(n), tokens[:n]].sum()
            scored.append((score / ((5 + n) / 6) ** 0.8, [*tokens[:n], *[end] * (length - n)]))
        best.append(max(scored)[1])
    for framework in FRAMEWORKS:
        found = generate(
            framework, model, start, prompts, length=length, beams=V**length, end=end,
            penalty=0.8, begin=begin,
        )  # fmt: skip
        assert found.tolist() == best


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_any_integers_are_prompts_and_a_mask_may_be_numbers(framework: str) -> None:
    model = decoder_model("V", "encoder_decoder", target_len=3)
    start, prompts = lively_parameters(model), prompts_of(model)
    mask = np.ones(prompts.shape, bool)
    mask[1, 2:] = False
    expected = generate(framework, model, start, prompts, length=4, padding_mask=mask)
    for kind in (np.uint8, np.int32, np.uint64):
        found = generate(
            framework, model, start, prompts.astype(kind), length=4, padding_mask=mask.astype(kind)
        )
        assert found.tolist() == expected.tolist()
    found = generate(framework, model, start, prompts.tolist(), length=4, padding_mask=1.0 * mask)
    assert found.tolist() == expected.tolist()


def test_generation_stops_at_the_end_token() -> None:
    model = decoder_model("V")
    start, prompts = lively_parameters(model), prompts_of(model)
    free = generate("torch", model, start, prompts, length=8)
    end = int(free[0, 3])
    found = generate("torch", model, start, prompts, length=8, end=end)
    for row, whole in zip(found, free, strict=True):
        at = whole.tolist().index(end) if end in whole else 8
        assert row.tolist() == [*whole[:at], *[end] * (8 - at)]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_wrong_requests_say_what_to_do(framework: str) -> None:
    model = decoder_model("V")
    start, prompts = random_parameters(model), prompts_of(model)

    def refused(match: str, model: Model = model, prompts: Any = prompts, **options: Any) -> None:
        with pytest.raises((ShapeError, UnsupportedError), match=match):
            generate(framework, model, start, prompts, **{"length": 2} | options)

    refused("generate at most 9", length=10)
    refused("length is 0", length=0)
    refused("beams is 0", beams=0)
    refused("penalty is -1", penalty=-1)
    refused("end is token 13; the vocabulary has ids from 0 to 12", end=13)
    refused("begin is token -1", begin=-1)
    refused("begin is token None", begin=None)
    refused("ids from 0 to 12", prompts=prompts + 10)
    refused("give token ids", prompts=prompts[0])
    refused("give token ids", prompts=prompts[:, :0])
    refused("give token ids", prompts=prompts.astype(float))
    refused("cannot be read as an array.*of one length", prompts=[[3, 1, 4], [2, 7]])
    refused("prompts of one length", padding_mask=np.arange(PROMPT) < prompts[:, :1])
    refused(r"padding_mask has shape \(1, 1\)", padding_mask=np.ones((1, 1), bool))
    refused("neither 0 nor 1, like 0.5", padding_mask=np.full(prompts.shape, 0.5))
    refused("penalty is 'x'", penalty="x")
    refused(r"penalty 1e\+06 is too large for 2 tokens", penalty=1e6)
    refused("end is token 1.5", end=1.5)
    refused("use model decoder or encoder_decoder", model=decoder_model("V", "encoder"))
    refused(
        "use model decoder or encoder_decoder", model=decoder_model("V", "classifier", labels=2)
    )
    refused("length 13 does not fit max_len 12",
            model=decoder_model("V", "encoder_decoder", target_len=3), length=13)  # fmt: skip
