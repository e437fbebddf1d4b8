"""Mixers that a benchmark must not believe: wrong outputs, work left behind, work left out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from synthbench.mixers.base import Parameter
from synthbench.mixers.initializers import ONES
from synthbench.mixers.sizes import Sizes
from tests.plugins.faulty import Faulty
from tests.plugins.known import Repeated

STOP = threading.Event()
THREADS: list[threading.Thread] = []
MOST_THREADS = 2
CALLS: list[int] = []  # one entry per call that had values
HONEST_CALLS = 2


@dataclass(frozen=True)
class Wrong(Faulty):
    """Without a reference; its output is not what a mixer gives back."""

    name: ClassVar[str] = "wrong"
    kind: str = "nothing"

    def torch(self, sizes: Sizes) -> Any:
        import torch

        def of(x: Any) -> Any:
            outputs: dict[str, Callable[[], Any]] = {
                "nothing": lambda: None,
                "text": lambda: "output",
                "nan": lambda: x * float("nan"),
                "one_nan": lambda: x.index_fill(1, torch.tensor([1]), float("nan")),
                "infinite": lambda: x - float("inf"),
                "complex": lambda: x.to(torch.complex64),
                "numpy": lambda: x.detach().numpy(),
                "wide": lambda: x.double(),
                "narrow": lambda: x.bfloat16(),
                "integer": lambda: x.to(torch.int32),
                "flat": lambda: x[:, :, 0],
                "short": lambda: x[:, :1],
                "device": lambda: x.to("meta"),
            }
            return outputs[self.kind]()

        return lambda p, x, padding_mask, causal: of(x)

    def jax(self, sizes: Sizes) -> Any:
        import jax.numpy as jnp

        def of(x: Any) -> Any:
            outputs: dict[str, Callable[[], Any]] = {
                "nothing": lambda: None,
                "text": lambda: "output",
                "nan": lambda: x * jnp.nan,
                "one_nan": lambda: x.at[:, 1].set(jnp.nan),
                "infinite": lambda: x - jnp.inf,
                "complex": lambda: x.astype(jnp.complex64),
                "numpy": lambda: np.zeros(x.shape, np.float32),
                "wide": lambda: np.zeros(x.shape, np.float64),  # jax itself has none by default
                "narrow": lambda: x.astype(jnp.bfloat16),
                "integer": lambda: x.astype(jnp.int32),
                "flat": lambda: x[:, :, 0],
                "short": lambda: x[:, :1],
            }
            return outputs[self.kind]()

        return lambda p, x, padding_mask, causal: of(x)


@dataclass(frozen=True)
class Background(Faulty):
    """Returns at once; a thread of each call computes on until STOP."""

    name: ClassVar[str] = "background"

    def deed(self) -> None:
        if len(THREADS) < MOST_THREADS:
            THREADS.append(threading.Thread(target=compute, daemon=True))
            THREADS[-1].start()


def compute() -> None:
    """Compute until STOP, mostly without holding Python's lock."""
    values = np.ones((128, 128))
    while not STOP.is_set():
        values = values @ np.eye(128)


def reset() -> None:
    """End what Background began, and forget all calls."""
    STOP.set()
    for thread in THREADS:
        thread.join()
    STOP.clear()
    THREADS.clear()
    CALLS.clear()


@dataclass(frozen=True)
class Later(Faulty):
    """Computes another, cheaper function after its first calls."""

    name: ClassVar[str] = "later"

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return {"scale": Parameter((sizes.d_model,), ONES)}

    def factor(self) -> float:
        """1 in the first calls, 2 afterwards."""
        CALLS.append(1)
        return 1.0 if len(CALLS) <= HONEST_CALLS else 2.0

    def torch(self, sizes: Sizes) -> Any:
        def forward(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            factor = 1.0 if x.is_meta else self.factor()
            return x * p["scale"] * factor

        return forward

    def jax(self, sizes: Sizes) -> Any:
        import jax

        def forward(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            factor = jax.pure_callback(
                lambda _: np.float32(self.factor()),
                jax.ShapeDtypeStruct((), np.float32),
                jax.lax.stop_gradient(x[0, 0, 0]),
            )
            return x * p["scale"] * factor

        return forward


@dataclass(frozen=True)
class Claiming(Repeated):
    """Its formula claims this many percent of the products that it computes."""

    name: ClassVar[str] = "claiming"
    percent: int = 300

    def flops(self, sizes: Sizes, *, batch: int, seq_len: int) -> int:
        return super().flops(sizes, batch=batch, seq_len=seq_len) * self.percent // 100
