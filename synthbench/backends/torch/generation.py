"""Generation in PyTorch: a model that the search of models/generation.py asks for logits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from synthbench.backends.base import Setting
from synthbench.backends.torch.decoding import Decoding, map_state
from synthbench.backends.torch.model import build_model
from synthbench.backends.torch.module import DTYPES, from_array, load, to_numpy
from synthbench.backends.torch.placement import find_device
from synthbench.backends.torch.precision import full_precision
from synthbench.mixers.base import Array
from synthbench.models import generation
from synthbench.models.generation import Search, checked_prompts, first_tokens
from synthbench.models.model import Model


def generate(
    model: Model,
    parameters: Mapping[str, Array],
    setting: Setting,
    prompts: Array,
    *,
    length: int,
    beams: int = 1,
    end: int | None = None,
    penalty: float = 0.0,
    begin: int = 0,
    padding_mask: Array | None = None,
) -> Array:
    """Token ids [B, length] that follow each prompt; see `Backend.generate`."""
    search = Search(length, beams, end, penalty)
    prompts, padding_mask = checked_prompts(model, prompts, padding_mask, search, begin)
    full_precision()
    with torch.no_grad():
        decoder = TorchDecoder(model, parameters, setting, prompts, padding_mask, search, begin)
        return generation.generate(decoder, search)


class TorchDecoder:
    """A model with the state of every row that it decodes; see models/generation.py."""

    def __init__(
        self,
        model: Model,
        parameters: Mapping[str, Array],
        setting: Setting,
        prompts: Array,
        padding_mask: Array | None,
        search: Search,
        begin: int,
    ) -> None:
        self.device = find_device(setting.device)
        module = build_model(model, setting.form, dtype=DTYPES[setting.dtype], device=self.device)
        load(module, model.parameters(), parameters)
        self.decoding = Decoding(module, model)
        source, tokens = first_tokens(model, prompts, begin)
        self.first, self.position = self._put(tokens), tokens.shape[1]
        positions = self.position + search.length - 1  # the last token is not read
        mask = None if padding_mask is None else self._put(padding_mask)
        if source is None:
            self.state = self.decoding.begin(len(tokens), positions)
        else:
            self.state = self.decoding.begin(len(tokens), positions, self._put(source), mask)

    def begin(self) -> Array:
        """Read the prompts at once."""
        logits, self.state = self.decoding.prefill(self.state, self.first)
        return to_numpy(logits)

    def step(self, tokens: Array) -> Array:
        """Append a token to each row [R]; logits [R,V]."""
        logits, self.state = self.decoding.decode(self.state, self._put(tokens), self.position)
        self.position += 1
        return to_numpy(logits)

    def expand(self, times: int) -> None:
        """Repeat each row."""
        self.state = map_state(self.state, lambda x: x.repeat_interleave(times, 0), True)

    def reorder(self, rows: Array) -> None:
        """Replace row i by row rows[i] of the same prompt, which has the same source."""
        index = self._put(rows)
        self.state = map_state(self.state, lambda x: x.index_select(0, index), False)

    def _put(self, array: Array) -> torch.Tensor:
        return from_array(np.asarray(array)).to(self.device)
