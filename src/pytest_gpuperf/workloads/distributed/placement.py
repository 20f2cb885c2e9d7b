"""Where a rank's tensors belong."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def rank_device(device: str | torch.device | None = None) -> torch.device:
    """The device of this rank: `device` where given, else its GPU with NCCL and the CPU with gloo.

    With ranks that share GPUs over gloo the device must be given.
    """
    import torch
    import torch.distributed as dist

    if device is not None:
        return torch.device(device)
    if dist.get_backend() == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
