"""Generation in JAX: a model that the search of models/generation.py asks for logits."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np

from synthbench.backends.base import Setting
from synthbench.backends.jax.decoding_programs import programs
from synthbench.backends.jax.model import build_model
from synthbench.backends.jax.module import DTYPES, load, split, to_numpy
from synthbench.backends.jax.placement import find_device
from synthbench.backends.jax.precision import full_precision
from synthbench.backends.kernel_choice import tracing
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
    device = jax.default_device(find_device(setting.device))
    with full_precision(setting.dtype), device, tracing(trained=False):
        decoder = JaxDecoder(model, parameters, setting, prompts, padding_mask, search, begin)
        return generation.generate(decoder, search)


class JaxDecoder:
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
        self.device, dtype = find_device(setting.device), DTYPES[setting.dtype]
        module = build_model(model, setting.form, dtype)
        load(module, model.parameters(), parameters, dtype, self.device)
        _, *states = split(module)
        self.values = [jax.tree.leaves(state) for state in states]
        self.programs = programs(model, setting)
        source, tokens = first_tokens(model, prompts, begin)
        self.first, self.position = self._put(tokens), tokens.shape[1]
        positions = self.position + search.length - 1  # the last token is not read
        mask = None if padding_mask is None else self._put(padding_mask)
        own = None if source is None else self._put(source)
        self.state = self.programs.begin(*self.values, own, mask, len(tokens), positions)

    def begin(self) -> Array:
        """Read the prompts at once."""
        logits, self.state = self.programs.prefill(*self.values, self.state, self.first)
        return to_numpy(logits)

    def step(self, tokens: Array) -> Array:
        """Append a token to each row [R]; logits [R,V]."""
        every, *others = self.state
        arguments = self._put(tokens), self.position
        logits, every, last = self.programs.decode(*self.values, every, others, *arguments)
        self.state = self.state._replace(every=every, last=last)
        self.position += 1
        return to_numpy(logits)

    def expand(self, times: int) -> None:
        """Repeat each row."""
        self.state = self.programs.expand(self.state, times)

    def reorder(self, rows: Array) -> None:
        """Replace row i by row rows[i] of the same prompt, which has the same source."""
        self.state = self.programs.reorder(self.state, self._put(rows))

    def _put(self, array: Array) -> jax.Array:
        array = np.asarray(array)
        return jax.device_put(array if array.dtype == bool else array.astype(np.int32), self.device)
