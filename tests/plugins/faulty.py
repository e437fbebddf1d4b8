"""Mixers that do what a harness must survive, or whose true cost is known beforehand."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from synthbench.mixers.base import Array, Mixer, Parameter, Tensors
from synthbench.mixers.initializers import ONES
from synthbench.mixers.sizes import Sizes


@dataclass(frozen=True)
class Faulty(Mixer):
    """Returns its input after doing its deed."""

    name: ClassVar[str] = "faulty"

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return {}

    def deed(self) -> None:
        """What it does in each forward pass."""

    def torch(self, sizes: Sizes) -> Any:
        def forward(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            self.deed()
            return x * 1

        return forward

    def jax(self, sizes: Sizes) -> Any:
        import jax

        def deed(x: Any) -> Any:
            self.deed()
            return x

        def forward(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            return jax.pure_callback(deed, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

        return forward


@dataclass(frozen=True)
class Sleeper(Faulty):
    name: ClassVar[str] = "sleeper"
    seconds: float = 0.01

    def deed(self) -> None:
        time.sleep(self.seconds)

    def jax(self, sizes: Sizes) -> Any:
        import jax

        def asleep(x: Any) -> Any:
            self.deed()
            return x

        def forward(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            return jax.pure_callback(asleep, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

        return forward


@dataclass(frozen=True)
class Products(Faulty):
    """So many products in a loop; jax returns from its call long before they are done."""

    name: ClassVar[str] = "products"
    times: int = 100

    def jax(self, sizes: Sizes) -> Any:
        import jax

        def forward(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            return jax.lax.fori_loop(0, self.times, lambda n, y: y @ x, x)

        return forward


@dataclass(frozen=True)
class Allocator(Faulty):
    name: ClassVar[str] = "allocator"
    megabytes: int = 64

    def deed(self) -> None:
        np.ones(self.megabytes * 10**6, dtype=np.uint8)


@dataclass(frozen=True)
class Aborter(Faulty):
    name: ClassVar[str] = "aborter"

    def deed(self) -> None:
        print("about to abort", file=sys.stderr, flush=True)
        os.abort()


@dataclass(frozen=True)
class Looper(Faulty):
    """Also starts a process of its own, which must not outlive it."""

    name: ClassVar[str] = "looper"

    def deed(self) -> None:
        subprocess.Popen(["sleep", "300"], start_new_session=True)
        while True:
            pass


@dataclass(frozen=True)
class Printer(Faulty):
    name: ClassVar[str] = "printer"

    def deed(self) -> None:
        if not os.environ.get("PRINTED"):
            os.environ["PRINTED"] = "yes"
            for _ in range(100):
                os.write(1, b"x" * 10**6)


@dataclass(frozen=True)
class Killed(Faulty):
    name: ClassVar[str] = "killed"

    def deed(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Exiter(Faulty):
    name: ClassVar[str] = "exiter"

    def deed(self) -> None:
        os._exit(3)


@dataclass(frozen=True)
class Raiser(Faulty):
    name: ClassVar[str] = "raiser"

    def deed(self) -> None:
        raise ValueError("a mistake of its own")


@dataclass(frozen=True)
class Surrogate(Faulty):
    """Fails with a text that is not valid Unicode, as a file name may be."""

    name: ClassVar[str] = "surrogate"

    def deed(self) -> None:
        raise ValueError("no such file: caf\udce9")


@dataclass(frozen=True)
class Forger(Faulty):
    """Writes a reply of its own to every pipe it finds, and ends the process."""

    name: ClassVar[str] = "forger"

    def deed(self) -> None:
        forged = b'{"outcome": "ok", "reason": "forged", "facts": {"other_framework_loaded": 0}}\n'
        for fd in range(3, 64):
            with contextlib.suppress(OSError):
                os.write(fd, forged)
        os._exit(0)


@dataclass(frozen=True)
class Stopper(Faulty):
    """Stops the process that supervises it."""

    name: ClassVar[str] = "stopper"

    def deed(self) -> None:
        os.kill(os.getppid(), signal.SIGSTOP)


@dataclass(frozen=True)
class Counter(Faulty):
    """Its formula gives a count that is not possible."""

    name: ClassVar[str] = "counter"
    count: int = -5

    def flops(self, sizes: Sizes, *, batch: int, seq_len: int) -> int:
        return self.count


@dataclass(frozen=True)
class Liar(Faulty):
    """Its reference is another function than its forward pass."""

    name: ClassVar[str] = "liar"

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return {"scale": Parameter((sizes.d_model,), ONES)}

    def torch(self, sizes: Sizes) -> Any:
        return lambda p, x, padding_mask, causal: x * p["scale"]

    def reference(
        self,
        p: Tensors,
        x: Array,
        sizes: Sizes,
        *,
        padding_mask: Array | None = None,
        causal: bool = False,
    ) -> Array:
        return x * p["scale"] + 1


def answer(number: int) -> dict[str, Any]:
    """For a call in a child: which process did it, and with which frameworks loaded."""
    loaded = [name for name in ("torch", "jax") if name in sys.modules]
    return {"doubled": 2 * number, "pid": os.getpid(), "loaded": loaded}


def refuse() -> None:
    """A user's mistake, found in a child."""
    from synthbench.errors import ShapeError

    raise ShapeError("7 is not divisible by 2")


def doze() -> None:
    """Sleep longer than a caller waits."""
    time.sleep(60)
