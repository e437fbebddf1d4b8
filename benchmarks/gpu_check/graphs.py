"""Steps of PyTorch as CUDA graphs: the same losses as eager steps, and in which time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.gpu_check.finding import Finding, Found, Settings, tried

VARIANTS = ("V", "FD", "R+V", "light_conv")
SEQ_LEN = 512  # short, where a device waits for Python
STEPS = 20
TOLERANCE = 2e-2  # of losses in bfloat16, relative; some gradients are summed in any order


def run(settings: Settings) -> Iterator[Finding]:
    """A train step of some variants, eager and captured."""
    if not settings.is_cuda or "torch" not in settings.frameworks:
        yield Finding("graphs", "torch", "absent", reason="CUDA graphs need a CUDA device")
        return
    for variant in VARIANTS:
        yield tried("graphs", f"torch {variant} L {SEQ_LEN}", partial(compare, settings, variant))


def compare(settings: Settings, variant: str) -> Found:
    """Whether both give the same first losses; milliseconds of each."""
    from synthbench.api import backend_of
    from synthbench.backends.base import Setting
    from synthbench.measure.inputs import random_batch
    from synthbench.measure.timing import timed
    from synthbench.mixers.notation import parse
    from synthbench.mixers.sizes import Sizes
    from synthbench.models.model import Model
    from synthbench.models.start_values import start_values

    model = Model.of("mixer", parse(variant), Sizes.of(d_model=512, heads=8, max_len=SEQ_LEN))
    start, batch = start_values(model.parameters()), random_batch(model, 4, SEQ_LEN)
    seconds, losses = {}, {}
    for how in ("eager", "cuda_graph"):
        setting = Setting(dtype="bfloat16", device=settings.device, compile=how)
        step = backend_of("torch").build(model, start, setting, "train", batch)
        step.compile()
        seconds[how] = sorted(timed(step, step.wait) for _ in range(STEPS))[STEPS // 2]
        losses[how] = step.first_losses
    pairs = zip(losses["eager"], losses["cuda_graph"], strict=True)
    error = max(abs(one - other) / abs(one) for one, other in pairs)
    eager, graph = (1e3 * seconds[how] for how in ("eager", "cuda_graph"))
    return (
        error < TOLERANCE,
        f"eager {eager:.4g} ms, graph {graph:.4g} ms, losses {error:.1e} apart",
    )
