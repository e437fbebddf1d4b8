"""float32 products in full float32, and the settings that PyTorch computes with."""

from __future__ import annotations

import warnings
from typing import Any

import torch


def full_precision() -> None:
    """Turn TF32 off in float32 products and convolutions; by default convolutions use it."""
    with warnings.catch_warnings():  # newer versions prefer another name of the same setting
        warnings.simplefilter("ignore")
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False


def numerics() -> dict[str, Any]:
    """Threads, matmul precision and TF32 as cells use them, and what the build supports."""
    full_precision()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tf32 = bool(torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32)
    return {
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "tf32": tf32,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "mkl": torch.backends.mkl.is_available(),
        "mkldnn": torch.backends.mkldnn.is_available(),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }
