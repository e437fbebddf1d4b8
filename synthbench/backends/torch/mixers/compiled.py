"""Single functions under torch.compile, as kernels inside of an eager form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from synthbench.backends.torch.private_api import is_fake, many_compilations

COMPILATIONS = 64  # of a function in a process: shapes, types, masks, with and without gradients


def can_compile(x: Tensor) -> bool:
    """Whether a function of tensors like x may be compiled by itself.

    Only on CUDA, where eager PyTorch launches one kernel per operation; not while torch.compile
    traces the module around it.
    """
    return x.device.type == "cuda" and not torch.compiler.is_compiling()


def has_values(x: Tensor) -> bool:
    """Whether a tensor has values, and not only a shape."""
    return not (x.is_meta or is_fake(x))


def run_compiled(
    function: Callable[..., Tensor],
    *arguments: Any,
    shape: Sequence[int],
    kept: Sequence[int] = (),
    added: Any = (),
) -> Tensor:
    """function(*arguments), compiled for exactly these shapes; the first argument is a tensor.

    Nothing is compiled for tensors without values. For them, `shape` is that of the result, `kept`
    that of a float32 tensor that the backward pass needs beside the arguments and the result
    (none if empty), and `added` has the tensors whose gradients are summed in float32.
    """
    first: Tensor = arguments[0]
    if not has_values(first):
        summed = {id(t) for t in tensors_in(added)}
        tensors = list(tensors_in(arguments))
        wide = tuple(id(t) in summed for t in tensors)
        made: Tensor = _Empty.apply(tuple(shape), tuple(kept), wide, *tensors)  # type: ignore[no-untyped-call]
        return made
    with many_compilations(COMPILATIONS):
        return compiled(function)(*arguments)


def tensors_in(values: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, tuple):
        for each in values:
            yield from tensors_in(each)


@cache
def compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function under torch.compile; made on the first use, which imports the compiler."""
    made: Callable[..., Tensor] = torch.compile(function, dynamic=False, fullgraph=True)
    return made


class _Empty(torch.autograd.Function):
    """What a compiled function allocates: its result, what it keeps, its gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        shape: tuple[int, ...],
        kept: tuple[int, ...],
        wide: tuple[bool, ...],
        *tensors: Tensor,
    ) -> Tensor:
        out = tensors[0].new_empty(shape)
        own = [tensors[0].new_empty(kept, dtype=torch.float32)] if kept else []
        ctx.wide = wide
        ctx.save_for_backward(*tensors, out, *own)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors[: len(ctx.wide)]
        made = [
            torch.empty_like(t, dtype=torch.float32 if wide else None) if need else None
            for t, wide, need in zip(tensors, ctx.wide, ctx.needs_input_grad[3:], strict=True)
        ]
        typed = zip(made, tensors, strict=True)
        return None, None, None, *(m if m is None else m.to(t.dtype) for m, t in typed)
