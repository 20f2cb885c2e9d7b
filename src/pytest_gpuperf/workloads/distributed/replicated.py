"""Any model and step under ``DistributedDataParallel``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.workloads.distributed.placement import rank_device

if TYPE_CHECKING:
    import torch
    from torch import nn

Loss = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]
Batch = Callable[[int, "torch.device"], "tuple[torch.Tensor, torch.Tensor]"]
Optimizer = Callable[["list[torch.Tensor]"], "torch.optim.Optimizer"]

BUCKET_CAP_MB = 25.0
"""torch's own default; its MB are MiB, and the first bucket is of 1 MiB at most."""


def data_parallel(
    rank: int,
    world_size: int,  # noqa: ARG001 - the signature of every make_step
    *,
    model: Callable[[], nn.Module],
    batch: Batch,
    loss: Loss | None = None,
    optimizer: Optimizer | None = None,
    bucket_cap_mb: float = BUCKET_CAP_MB,
    device: str | torch.device | None = None,
    ddp: Mapping[str, Any] | None = None,
) -> Callable[[], torch.Tensor]:
    """The training step of `model` under DDP: zero, forward, backward, optimizer; gives the loss.

    Parameters
    ----------
    rank, world_size
        Which of how many; the process group is there.
    model
        Makes the model; DDP gives every rank the parameters of rank 0.
    batch
        ``batch(rank, device)`` makes this rank's inputs and targets, once.
    loss
        Of the model's output and the targets, MSE where not given.
    optimizer
        Of the list of parameters, SGD with a rate of 0.01 where not given.
    bucket_cap_mb
        Size in MiB at which a bucket of gradients is closed and its all-reduce launched.
    device
        As :func:`rank_device` has it.
    ddp
        Further arguments of ``DistributedDataParallel``.

    Raises
    ------
    ValueError
        `bucket_cap_mb` is not above 0.
    """
    if not bucket_cap_mb > 0:
        raise ValueError(f"bucket_cap_mb is {bucket_cap_mb!r}: it must be above 0")
    from torch.nn.parallel import DistributedDataParallel

    place = rank_device(device)
    replica = DistributedDataParallel(
        model().to(place),
        device_ids=None if place.type == "cpu" else [place],
        bucket_cap_mb=bucket_cap_mb,
        **(ddp or {}),
    )
    inputs, targets = batch(rank, place)
    return training_step(replica, inputs, targets, loss, optimizer)


def training_step(
    model: nn.Module,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    loss: Loss | None,
    optimizer: Optimizer | None,
) -> Callable[[], torch.Tensor]:
    """Zero, forward, backward, optimizer step on one batch."""
    import torch

    measure = loss or torch.nn.functional.mse_loss
    parameters = list(model.parameters())
    update = optimizer(parameters) if optimizer else torch.optim.SGD(parameters, lr=0.01)

    def step() -> torch.Tensor:
        update.zero_grad()
        value = measure(model(inputs), targets)
        value.backward()
        update.step()
        return value.detach()

    return step
