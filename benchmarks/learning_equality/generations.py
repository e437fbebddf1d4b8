"""Greedy and beam search with the same parameters in both frameworks: are the tokens the same?"""

from __future__ import annotations

import importlib
from typing import cast

import numpy as np

from benchmarks.learning_equality.finding import Finding
from benchmarks.learning_equality.settings import FRAMEWORKS, Place, cell_of, why_not
from synthbench.backends.base import BACKENDS, Backend, Setting
from synthbench.measure.parity_inputs import random_parameters
from synthbench.mixers.base import Array
from synthbench.models.model import Model
from synthbench.suites.cell import model_of

PLACES = (Place("copying", "encoder_decoder"), Place("copying", "decoder"))
SEARCHES = {"greedy": 1, "beam": 3}
PROMPTS, PROMPT = 3, 4
BEGIN, END = 2, 0
PENALTY = 0.6


def lively_parameters(model: Model) -> dict[str, Array]:
    """Parameters under which a model does not repeat one token."""
    noise = np.random.default_rng(9)
    moved = {
        name: value if "norm" in name else value + noise.normal(scale=0.7, size=value.shape)
        for name, value in random_parameters(model).items()
    }
    # tied to the logits: it would make each token be followed by itself
    return moved | {"embedding": 0.4 * moved["embedding"]}


def written(place: Place, variant: str, framework: str, beams: int) -> Array:
    """Tokens [B,T] that a framework writes after random prompts."""
    model = model_of(cell_of(place, variant, framework, "float64"))
    backend = cast(Backend, importlib.import_module(BACKENDS[framework]))
    setting = Setting(dtype="float64", compile=FRAMEWORKS[framework], quick=True)
    prompts = np.random.default_rng(3).integers(model.classes, size=(PROMPTS, PROMPT))
    mask, length = None, model.sizes.max_len + 1 - PROMPT
    if place.kind == "encoder_decoder":
        mask = np.arange(PROMPT) < np.array([[4], [2], [3]])
    return backend.generate(
        model, lively_parameters(model), setting, prompts, length=length, beams=beams,
        begin=BEGIN, end=END, penalty=PENALTY, padding_mask=mask,
    )  # fmt: skip


def compare_generations(place: Place, variant: str) -> Finding:
    """How many tokens differ by greedy and by beam search; an error is part of the finding."""
    found = Finding(place, variant, "float64", tolerance=0, searched=True)
    found.skipped = why_not(place, variant) or ""
    if found.skipped:
        return found
    try:
        for name, beams in SEARCHES.items():
            torch, jax = (written(place, variant, each, beams) for each in FRAMEWORKS)
            found.errors[name] = float((torch != jax).sum())
            found.notes[f"distinct tokens by {name}"] = float(len(np.unique(torch)))
    except Exception as error:  # whatever it is, the others are tried too
        found.problem = f"{type(error).__name__}: {error}"
    return found
