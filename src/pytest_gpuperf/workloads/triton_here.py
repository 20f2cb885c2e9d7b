"""Whether Triton can run here: compiled on a GPU, or interpreted where one asks for it."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pytest_gpuperf.workloads.workload import UnavailableError

if TYPE_CHECKING:
    import torch

INTERPRETED = (
    "Triton's interpreter ran it (TRITON_INTERPRET=1): whether it is right can be told, how fast "
    "it is takes a GPU"
)


def require_triton(device: torch.device) -> str:
    """Why times of Triton kernels on `device` would be worthless; "" where they are compiled.

    Raises
    ------
    UnavailableError
        Triton is not installed, or there is no GPU and no interpreter was asked for.
    """
    if find_spec("triton") is None:
        raise UnavailableError(
            "gpuperf: Triton is not installed: pip install pytest-gpuperf[triton]"
        )
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if device.type != "cuda" and not interpreted:
        raise UnavailableError(
            "gpuperf: Triton compiles for GPUs: on a CPU set TRITON_INTERPRET=1 before Triton is "
            "imported, to check results"
        )
    return INTERPRETED if interpreted else ""
