"""JAX's programs take their arrays as arguments.

XLA evaluates what depends on captured arrays alone while it compiles: the softmax of Fix's table at
a length of 2048 took it half a minute.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
import pytest

from synthbench.backends.base import Setting
from synthbench.backends.jax import backend
from synthbench.measure.inputs import random_batch
from synthbench.measure.parity_inputs import random_parameters, small_model
from synthbench.models.model import Model

LENGTH = 32
LARGE = 4 * LENGTH**2  # bytes; less than one head's table of logits has


@pytest.fixture(autouse=True)
def _refuse_captured_arrays() -> Iterator[None]:
    """JAX warns of a program that captures large arrays, and warnings are errors."""
    name = "jax_captured_constants_warn_bytes"
    before = getattr(jax.config, name)
    jax.config.update(name, LARGE - 1)
    yield
    jax.config.update(name, before)


@pytest.fixture(params=["V", "R", "Fix", "Fix+V"])
def model(request: pytest.FixtureRequest) -> Model:
    """A mixer, also with a table that is trained, or is not."""
    return small_model(request.param, max_len=LENGTH)


@pytest.mark.parametrize("form", ["auto", "reference"])
def test_no_program_of_a_model_captures_arrays(model: Model, form: str) -> None:
    start, setting = random_parameters(model), Setting(form=form)
    batch = random_batch(model, 2, LENGTH)
    assert batch.inputs.nbytes >= LARGE
    outputs = backend.outputs(model, start, setting, batch)
    gradients = backend.gradients(model, start, setting, batch)
    np.testing.assert_allclose(outputs, gradients.outputs, rtol=1e-4, atol=1e-5)
    trained = backend.train(model, start, setting, [batch])
    assert trained.losses == pytest.approx([gradients.loss], rel=1e-4)


def test_a_program_that_captures_a_table_is_refused() -> None:
    table = jax.numpy.zeros((LENGTH, LENGTH))
    with pytest.raises(UserWarning, match="constants were captured"):
        jax.jit(lambda x: x + table)(0.0)
