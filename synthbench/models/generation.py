"""Greedy and beam search, the same code whichever framework gives the logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from synthbench.errors import ShapeError, quote
from synthbench.mixers.base import Array
from synthbench.mixers.input_arrays import booleans
from synthbench.mixers.validation import require_integer
from synthbench.models.model import Model
from synthbench.models.state import decoding_stack


class Decoder(Protocol):
    """A model that decodes rows of tokens, one position after another, and keeps their state."""

    def begin(self) -> Array:
        """Logits [B,V] of the first token to generate, one row per prompt."""

    def step(self, tokens: Array) -> Array:
        """Append a token to each row [R]; logits [R,V] of the next token."""

    def expand(self, times: int) -> None:
        """Repeat each row; the copies of a row follow each other."""

    def reorder(self, rows: Array) -> None:
        """Replace row i by row rows[i] of the same prompt."""


@dataclass(frozen=True)
class Search:
    """What to search for: the number of tokens, beams, and the token that ends a sequence.

    `penalty` is alpha of the length penalty of Wu et al. 2016 (arXiv 1609.08144), eq. 14: scores
    are divided by ((5 + tokens) / 6)^alpha, the end token counted; 0: no penalty.
    """

    length: int
    beams: int = 1
    end: int | None = None
    penalty: float = 0.0

    def __post_init__(self) -> None:
        for name in ("length", "beams"):
            require_integer(name, getattr(self, name))
        is_number = isinstance(self.penalty, int | float | np.number)
        if not (is_number and np.isfinite(self.penalty) and self.penalty >= 0):
            raise ShapeError(f"penalty is {quote(self.penalty)}; use a number from 0, such as 0.6")
        try:
            ((5 + self.length) / 6) ** float(self.penalty)
        except OverflowError:
            raise ShapeError(
                f"penalty {self.penalty:g} is too large for {self.length} tokens; use one such as "
                "0.6"
            ) from None

    def normalised(self, score: Array | float, tokens: int) -> Array | float:
        """A sum of log-probabilities of so many tokens, divided by the length penalty."""
        return score / ((5 + tokens) / 6) ** self.penalty


def checked_prompts(
    model: Model, prompts: Array, padding_mask: Array | None, search: Search, begin: int
) -> tuple[Array, Array | None]:
    """The prompts [B,L] and their mask as both frameworks take them: integers, and booleans.

    Raises UnsupportedError or ShapeError where a model cannot continue these prompts.
    """
    stack, sizes = decoding_stack(model), model.sizes
    model.check()
    try:
        prompts = np.asarray(prompts)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists, tensors on a GPU
        raise ShapeError(
            f"prompts ({type(prompts).__name__}) cannot be read as an array: {error}; give token "
            "ids [B,L] of one length, as an array of NumPy or as lists"
        ) from error
    if prompts.ndim != 2 or not prompts.size or not np.issubdtype(prompts.dtype, np.integer):
        raise ShapeError(
            f"prompts are {prompts.dtype} of shape {prompts.shape}; give token ids [B,L], at least "
            "one each"
        )
    assert model.vocabulary is not None
    if not 0 <= prompts.min() <= prompts.max() < model.vocabulary:
        raise ShapeError(
            f"prompts have token ids from {prompts.min()} to {prompts.max()}; the vocabulary has "
            f"ids from 0 to {model.vocabulary - 1}"
        )
    for name, token in (("begin", begin), ("end", search.end)):
        is_id = isinstance(token, int | np.integer) and 0 <= token < model.vocabulary
        is_none = name == "end" and token is None
        if not (is_id or is_none):
            raise ShapeError(
                f"{name} is token {quote(token)}; the vocabulary has ids from 0 to "
                f"{model.vocabulary - 1}"
            )
    mask = None if padding_mask is None else booleans(padding_mask, prompts.shape)
    prompts = prompts.astype(np.int64)
    if stack.cross:
        sizes.require_length(prompts.shape[1])
        sizes.require_length(search.length)
        return prompts, mask
    if mask is not None and not mask.all():
        raise ShapeError(
            "a decoder continues prompts of one length, and these are padded; generate for the "
            "prompts of each length apart"
        )
    needed = prompts.shape[1] + search.length - 1  # the last token is not read
    if needed > sizes.max_len:
        raise ShapeError(
            f"a prompt of {prompts.shape[1]} and length {search.length} need {needed} positions; "
            f"max_len is {sizes.max_len}: generate at most {sizes.max_len + 1 - prompts.shape[1]}"
        )
    return prompts, mask


def first_tokens(model: Model, prompts: Array, begin: int) -> tuple[Array | None, Array]:
    """(source or None, the first tokens that the decoder reads [B,L]): the prompts, or `begin`."""
    if not decoding_stack(model).cross:
        return None, prompts
    return prompts, np.full((len(prompts), 1), begin)


def generate(decoder: Decoder, search: Search) -> Array:
    """Token ids [B, length] after each prompt; from the end token on, all are the end token."""
    return greedy(decoder, search) if search.beams == 1 else beam_search(decoder, search)


def greedy(decoder: Decoder, search: Search) -> Array:
    """The most likely token at each position; of equal ones, the one of the lowest id."""
    logits = decoder.begin()
    tokens = np.empty((len(logits), search.length), np.int64)
    ended = np.zeros(len(logits), bool)
    for n in range(search.length):
        best = logits.argmax(axis=-1)
        if search.end is not None:
            best = np.where(ended, search.end, best)
            ended |= best == search.end
        tokens[:, n] = best
        if ended.all():
            tokens[:, n:] = best[:, None]
            break
        if n + 1 < search.length:
            logits = decoder.step(best)
    return tokens


def beam_search(decoder: Decoder, search: Search) -> Array:
    """The best sequence of a search that keeps `beams` unfinished ones per prompt at each length.

    Of all continuations of these, the best 2 `beams` are considered, of equal ones first those of
    the better beam and of the lower token id. One that ends is a result if it is among the best
    `beams`. A prompt is done with `beams` results, or when no unfinished sequence could still be
    better. At the last length, unfinished sequences are results as they are.
    """
    logits = decoder.begin()
    B, W = len(logits), search.beams
    beams = [_Beams(search) for _ in range(B)]
    for n in range(1, search.length + 1):
        scores = log_softmax(logits).reshape(B, -1, logits.shape[-1])
        rows, tokens = zip(
            *(each.advance(own, n) for each, own in zip(beams, scores, strict=True)), strict=True
        )
        if n == search.length or all(each.done for each in beams):
            break
        if n == 1:
            decoder.expand(W)
        decoder.reorder((np.arange(B)[:, None] * W + np.array(rows)).ravel())
        logits = decoder.step(np.array(tokens).ravel())
    return np.stack([each.best() for each in beams])


class _Beams:
    """The sequences of one prompt: those that can be continued, and the best result."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.tokens = np.empty((1, 0), np.int64)  # [beams, tokens so far]
        self.scores = np.zeros(1)  # [beams], sums of log-probabilities
        self.results = 0
        self.best_score = -np.inf
        self.best_tokens = self.tokens[0]
        self.done = False

    def advance(self, log_probabilities: Array, n: int) -> tuple[Array, Array]:
        """Append the nth token; [beams, V] -> which beam each new one continues, and its token."""
        W, end, V = self.search.beams, self.search.end, log_probabilities.shape[-1]
        totals = self.scores[:, None] + log_probabilities[: len(self.scores)]
        ranked = largest(totals.ravel(), 2 * W)
        rows, tokens = np.divmod(ranked, V)
        scores = totals.ravel()[ranked]
        ends = tokens == end if end is not None else np.zeros(len(tokens), bool)
        last = n == self.search.length
        if not self.done:
            for rank in np.flatnonzero((ends | last)[:W] & np.isfinite(scores[:W])):
                self._add(rows[rank], tokens[rank], scores[rank], n)
        going = np.flatnonzero(~ends)[:W]
        missing = W - len(going)  # of a vocabulary smaller than the beams
        rows, tokens = (np.append(x[going], np.zeros(missing, np.int64)) for x in (rows, tokens))
        self.scores = np.append(scores[going], np.full(missing, -np.inf))
        self.tokens = np.concatenate([self.tokens[rows], tokens[:, None]], axis=1)
        reachable = self.search.normalised(self.scores[0], self.search.length)
        self.done |= bool(last or self.results >= W or self.best_score >= reachable)
        return rows, tokens

    def _add(self, row: int, token: int, score: float, n: int) -> None:
        self.results += 1
        normalised = float(self.search.normalised(score, n))
        if normalised > self.best_score:
            self.best_score = normalised
            self.best_tokens = np.append(self.tokens[row], token)

    def best(self) -> Array:
        """The best result, filled up with the end token."""
        missing = self.search.length - len(self.best_tokens)
        return np.append(self.best_tokens, np.full(missing, self.search.end or 0, np.int64))


def largest(values: Array, count: int) -> Array:
    """The indices of the largest values, largest first; of equal ones the lower index first."""
    count = min(count, len(values))
    threshold = np.partition(values, -count)[-count]
    candidates = np.flatnonzero(values >= threshold)
    order = np.argsort(-values[candidates], kind="stable")
    found: Array = candidates[order[:count]]
    return found


def log_softmax(logits: Array) -> Array:
    """Logits [..,V] -> log-probabilities in float64; -inf where they are not numbers."""
    wide = logits.astype(np.float64)
    shifted = wide - wide.max(axis=-1, keepdims=True)
    found = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return np.where(np.isnan(found), -np.inf, found)
