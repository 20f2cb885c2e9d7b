"""Element types by the names of the marker, random values of them, and what rounding allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.workloads.workload import UnavailableError, one_of

if TYPE_CHECKING:
    import torch

SIZES = {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
"""Bytes of an element."""
_TORCH = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
}  # fmt: skip
_ROUNDING = {"fp64": 1e-12, "fp32": 2e-5, "fp16": 4e-3, "bf16": 3e-2, "fp8": 3e-2}
"""Allowed error of a sum of random products, over the spread of such sums; fp8 sums into bf16."""
_TF32 = 4e-3
_FIRST_FP8 = (8, 9)
"""CUDA compute capability of the first GPUs that multiply fp8 (Ada)."""


def torch_dtype(dtype: str) -> Any:
    """Torch's own type of that name.

    Raises
    ------
    ValueError
        There is none.
    """
    one_of("dtype", dtype, tuple(SIZES))
    return getattr(import_torch(), _TORCH[dtype])


def rounding(dtype: str, device: torch.device) -> float:
    """Allowed error of a sum of products, over the spread of such sums."""
    if dtype == "fp32" and device.type == "cuda" and import_torch().backends.cuda.matmul.allow_tf32:
        return _TF32
    return _ROUNDING[dtype]


def values(
    shape: Sequence[int], device: torch.device, dtype: str = "fp32", *, seed: int = 0
) -> torch.Tensor:
    """Normally distributed values, the same ones each time; torch's own generator is left alone."""
    library = import_torch()
    generator = library.Generator(device=device).manual_seed(seed)
    made = library.randn(*shape, device=device, generator=generator)
    found: torch.Tensor = made.to(torch_dtype(dtype))
    return found


def require_fp8(device: torch.device) -> None:
    """Refuse a GPU that cannot multiply fp8; a CPU emulates it.

    Raises
    ------
    UnavailableError
        The GPU is older than Ada.
    """
    if device.type != "cuda":
        return
    capability = import_torch().cuda.get_device_capability(device)
    if tuple(capability) < _FIRST_FP8:
        here = ".".join(map(str, capability))
        raise UnavailableError(
            f"gpuperf: fp8 products need compute capability 8.9 or newer, this GPU has {here}"
        )
