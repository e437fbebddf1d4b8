"""Matrix products by oneDNN have the values and gradients of PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from synthbench.backends.kernel_record import recording_kernels
from synthbench.backends.torch import cpu_matmul
from tests.onednn import by_onednn


def pairs() -> list[tuple[Tensor, Tensor]]:
    """Matrices and batches of them: dense, transposed, with gaps, one right matrix for a batch."""
    torch.manual_seed(0)
    wide = torch.randn(6, 5, 8)
    return [
        (torch.randn(4, 6), torch.randn(6, 3)),
        (wide[:, 2], torch.randn(8, 3)),
        (wide[:, 2].mT, torch.randn(6, 3)),
        (torch.randn(4, 6), wide[:, 1]),
        (wide.transpose(0, 1), torch.randn(5, 8, 2)),
        (wide, torch.randn(8, 3)),
        (torch.randn(2, 3, 4, 5), torch.randn(2, 3, 5, 6).mT.contiguous().mT),
    ]


def test_values_and_gradients_equal_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    by_onednn(monkeypatch, True)
    for left, right in pairs():
        factors = [each.detach().requires_grad_() for each in (left, right)]
        with recording_kernels() as kernels:
            made = cpu_matmul.product(*factors)
        assert cpu_matmul.ONEDNN in kernels
        torch.testing.assert_close(made, left @ right)
        d_made = torch.randn_like(made)
        found = torch.autograd.grad(made, factors, d_made)
        torch.testing.assert_close(
            found, torch.autograd.grad(factors[0] @ factors[1], factors, d_made)
        )


@pytest.mark.parametrize(("times", "faster"), [((1.0, 0.5), True), ((1.0, 0.9), False)])
def test_which_library_is_faster_is_measured_on_real_tensors(
    times: tuple[float, float], faster: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not on fake tensors, even if a fake product comes first."""
    made: list[Tensor] = []
    left = list(times)

    def best(make: Callable[[], Tensor]) -> float:
        made.append(make())
        return left.pop(0)

    monkeypatch.setattr(cpu_matmul, "_best", best)
    with FakeTensorMode(), FlopCounterMode(display=False) as counter:
        assert cpu_matmul.onednn_is_faster.__wrapped__() == faster
    assert counter.get_total_flops() == 0
    assert len(made) == 2 and not any(isinstance(each, FakeTensor) for each in made)
