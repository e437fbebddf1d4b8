"""What the tasks on text share: a data source, a tokenizer, and the texts of a training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from synthbench.backends.base import Batch
from synthbench.errors import NotationError, UnsupportedError
from synthbench.models.model import Model
from synthbench.suites.cell import Cell
from synthbench.tasks.data.base import SPLITS, Rows
from synthbench.tasks.data.catalog import source_of
from synthbench.tasks.data.read import read_splits
from synthbench.tasks.learning.base import LearningTask
from synthbench.tasks.learning.examples import Examples
from synthbench.tasks.learning.sequences import padded, pair_batch, with_end
from synthbench.tasks.learning.tokenizers.base import BOS, Tokenizer
from synthbench.tasks.learning.tokenizers.choice import tokenizer_choice
from synthbench.tasks.options import TYPES


@dataclass(frozen=True)
class Corpus:
    """The texts of a training, by split, and what makes tokens of them."""

    rows: Mapping[str, Rows]
    tokenizer: Tokenizer


@dataclass(frozen=True)
class TextTask(LearningTask):
    """A learning task on texts; a subclass sets `columns` and defines `examples_of`."""

    data: str | Mapping[str, Any] = field(default="generated", metadata={TYPES: (str, dict)})
    tokenizer: str | Mapping[str, Any] = field(default="bytes", metadata={TYPES: (str, dict)})

    columns: ClassVar[tuple[str, ...]]  # of the rows; the first is what the model reads

    def __post_init__(self) -> None:
        source_of(self.data)
        tokenizer_choice(self.tokenizer)

    def check(self, cell: Cell) -> None:
        super().check(cell)
        source_of(self.data).check(self.columns)
        tokenizer_choice(self.tokenizer).check()

    def check_sizes(self, model: Model, seq_len: int) -> None:
        """Raise UnsupportedError for a vocabulary that is smaller than the tokenizer's."""
        choice = tokenizer_choice(self.tokenizer)
        self.require_vocabulary(model, choice.size, f"tokenizer {choice.name} has")

    def require_vocabulary(self, model: Model, tokens: int, why: str) -> None:
        """Raise UnsupportedError unless a model has this many tokens."""
        if (model.vocabulary or 0) < tokens:
            raise UnsupportedError(
                f"task {self.name}: {why} {tokens} tokens, and the vocabulary of the model is "
                f"{model.vocabulary}; give it at least {tokens}"
            )

    def examples(self, model: Model, seq_len: int, seed: int) -> Mapping[str, Examples]:
        """The splits `train` and `test`; raises DataError for texts that do not fit the task.

        The task keeps the texts: `scores` compares with them.
        """
        rows = read_splits(source_of(self.data), self.columns, seed)
        tokenizer = tokenizer_choice(self.tokenizer).fitted(rows["train"])
        corpus = Corpus(rows, tokenizer)
        object.__setattr__(self, "_corpus", corpus)
        return {split: self.examples_of(split, corpus, model, seq_len, seed) for split in SPLITS}

    def examples_of(
        self, split: str, corpus: Corpus, model: Model, seq_len: int, seed: int
    ) -> Examples:
        """The examples of one split; raises DataError or UnsupportedError."""
        raise NotImplementedError(f"{type(self).__name__} defines no examples_of()")

    def read(self, model: Model, seq_len: int, text: str, target: str | None) -> Batch:
        """A text of one's own as the model reads it, cut or filled up as in an example.

        Raises NotationError unless there is a target for an encoder_decoder, and for no other.
        """
        is_pair = model.kind == "encoder_decoder"
        if is_pair != (target is not None):
            raise NotationError(
                f"a model of kind {model.kind} reads {'two texts' if is_pair else 'one text'}; "
                + ("give a target beside the text" if is_pair else "leave out the target")
            )
        encode = self.corpus.tokenizer.encode
        if target is not None and model.target_len is not None:
            source, wanted = encode([text]), encode([target])
            return pair_batch(
                with_end(source, seq_len), with_end(wanted, model.target_len), seq_len,
                model.target_len,
            )  # fmt: skip
        tokens = with_end(encode([text]), seq_len)
        if model.kind == "decoder":  # which reads what stands before each token
            tokens = [np.append(BOS, one)[:-1] for one in tokens]
        inputs, mask = padded(tokens, seq_len)
        return Batch(inputs, inputs, mask)

    @property
    def corpus(self) -> Corpus:
        """The texts that `examples` read last."""
        found: Corpus = self.__dict__["_corpus"]
        return found
