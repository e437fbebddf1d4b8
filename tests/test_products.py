"""Matrix products by oneDNN have the values and gradients of PyTorch's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
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
        assert cpu_matmul.ONEDNN_PRODUCTS in kernels
        torch.testing.assert_close(made, left @ right)
        d_made = torch.randn_like(made)
        found = torch.autograd.grad(made, factors, d_made)
        torch.testing.assert_close(
            found, torch.autograd.grad(factors[0] @ factors[1], factors, d_made)
        )


@pytest.mark.parametrize(
    ("makers", "intel"),
    [(["GenuineIntel"] * 2, True), (["AuthenticAMD"], False), ([], True), (None, True)],
)
def test_without_a_measurement_the_maker_of_the_processor_decides(
    makers: list[str] | None, intel: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "cpuinfo"
    if makers is not None:
        info.write_text("".join(f"processor\t: 0\nvendor_id\t: {name}\n\n" for name in makers))
    monkeypatch.setattr(cpu_matmul, "CPU_INFO", info)
    assert cpu_matmul.made_by_intel.__wrapped__() == intel


@pytest.mark.parametrize("intel", [True, False])
def test_which_libraries_there_are(intel: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_matmul, "made_by_intel", lambda: intel)
    both = ("MKL", "oneDNN") if intel else ("oneDNN", "MKL")
    assert cpu_matmul.libraries(torch.ones(2, 2)) == both
    assert cpu_matmul.libraries(torch.ones(2, 2, device="meta")) == both  # the same memory
    assert cpu_matmul.libraries(torch.ones(2, 2, dtype=torch.float64)) == ("",)
    monkeypatch.setattr(cpu_matmul, "has_onednn", lambda: False)
    assert cpu_matmul.libraries(torch.ones(2, 2)) == ("",)


def test_onednn_is_tried_on_tensors_with_values() -> None:
    """Not on fake tensors, even if a fake product comes first."""
    with FakeTensorMode(), FlopCounterMode(display=False) as counter:
        assert cpu_matmul.has_onednn.__wrapped__() == cpu_matmul.has_onednn()
    assert counter.get_total_flops() == 0
