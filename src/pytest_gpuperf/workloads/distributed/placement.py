"""Where a rank's tensors belong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.ranks import ToldError

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


def check_room(what: str, needed: int, device: torch.device) -> None:
    """Refuse what takes more memory than this rank could get on `device`, before it is allocated.

    Ranks that share a device each ask for themselves: what one has taken is gone for the next.

    Raises
    ------
    ToldError
        It does; the line has the bytes needed and those that are there.
    """
    from pytest_gpuperf.recording.capacity import available_bytes

    there = available_bytes(device)
    if there is not None and needed > there:
        raise ToldError(
            f"{what} takes at least {needed:,} bytes on {device}, and {there:,} bytes are there: "
            "take smaller sizes"
        )
