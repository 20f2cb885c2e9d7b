"""Whether float32 matmuls and convolutions run as TF32: shapes and dtypes do not tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import import_torch

if TYPE_CHECKING:
    import torch

_AMPERE = (8, 0)


@dataclass(frozen=True, slots=True)
class Tf32:
    """What a float32 op of each kind runs as, on the device asked about."""

    matmul: bool = False
    convolution: bool = False


def tf32_policy(device: torch.device) -> Tf32:
    """Settings of torch for `device`; all False on a CPU and on GPUs without TF32.

    The two kinds are set apart in torch: convolutions use TF32 unless told otherwise, matmuls
    only if told to.
    """
    torch = import_torch()
    if device.type != "cuda" or getattr(torch.version, "hip", None):
        return Tf32()
    if torch.cuda.get_device_capability(device) < _AMPERE:
        return Tf32()
    backends = torch.backends
    return Tf32(
        matmul=_allowed(backends.cuda.matmul, backends.cuda.matmul),
        convolution=_allowed(getattr(backends.cudnn, "conv", None), backends.cudnn),
    )


def _allowed(current: Any, legacy: Any) -> bool:
    """The setting by its current name, or by its old one where torch has only that.

    The old name raises once a program has used the current one.
    """
    precision = getattr(current, "fp32_precision", None)
    return precision == "tf32" if precision is not None else bool(legacy.allow_tf32)
