"""From the same start on the same batches, both frameworks train alike, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from synthbench.backends.base import Batch, Setting
from synthbench.backends.jax import backend as jax_backend
from synthbench.backends.torch import backend as torch_backend
from synthbench.measure.inputs import random_batch
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.start_values import start_values
from synthbench.models.training import cross_entropy
from tests.variants import VARIANTS

TOLERANCE = {"float32": 1e-4, "float64": 1e-8}
FORM = {"float32": "auto", "float64": "reference"}
STEPS = 20


def stack(variant: str, kind: str = "encoder", layers: int = 2) -> Model:
    sizes = Sizes.of(d_model=16, heads=4, max_len=12)
    return Model.of(kind, parse(variant), sizes, layers=layers, feed_forward=24, vocabulary=40)


def losses(model: Model, dtype: str, batches: list[Batch]) -> list[np.ndarray]:
    start = start_values(model.parameters(), seed=1)
    eager, compiled = (
        Setting(dtype=dtype, form=FORM[dtype], compile=c) for c in ("eager", "compiled")
    )
    return [
        np.asarray(torch_backend.train(model, start, eager, batches).losses),
        np.asarray(jax_backend.train(model, start, compiled, batches).losses),
    ]


def require_agreement(model: Model, dtype: str, seq_len: int) -> None:
    batches = [random_batch(model, 2, seq_len, seed) for seed in range(3)]
    torch, jax = losses(model, dtype, [batches[i % 3] for i in range(STEPS)])
    assert torch.shape == (STEPS,)
    np.testing.assert_allclose(torch, jax, rtol=0, atol=TOLERANCE[dtype])
    assert torch[-1] < torch[0] - 0.1, "the loss did not fall: nothing was trained"
    start = start_values(model.parameters(), seed=1)
    wide = {name: value.astype(np.float64) for name, value in start.items()}
    first = cross_entropy(model.reference(wide, batches[0].inputs), batches[0].targets)
    assert abs(torch[0] - first) < TOLERANCE[dtype]


@pytest.mark.long_but("*-float64")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("variant", VARIANTS)
def test_twenty_steps_agree(variant: str, dtype: str) -> None:
    require_agreement(stack(variant, layers=1), dtype, seq_len=9)


@pytest.mark.parametrize("variant", ["V", "FR", "light_conv"])
def test_twenty_steps_of_a_decoder_agree(variant: str) -> None:
    require_agreement(stack(variant, "decoder"), "float64", seq_len=12)


def test_a_constant_is_not_trained() -> None:
    """Fix trains around its logits, in both frameworks alike."""
    model = stack("Fix")
    declared = model.parameters()
    constants = [name for name, p in declared.items() if not p.trainable]
    assert constants == [f"blocks.{i}.mixer.fixed_random.logits" for i in range(2)]
    start, batch = start_values(declared), random_batch(model, 2, 9)
    setting = Setting(compile="eager")
    torch_step = torch_backend.build(model, start, setting, "train", batch)
    torch_step()
    held = dict(torch_step.module.named_buffers())
    assert list(held) == constants
    for name in constants:
        np.testing.assert_array_equal(held[name].numpy(), start[name])
    jax_step = jax_backend.build(model, start, Setting(), "train", batch)
    size = sum(declared[name].size for name in constants)
    assert jax_step.constant_count == torch_step.constant_count == size
