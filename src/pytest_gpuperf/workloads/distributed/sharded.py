"""Any model and step under FSDP2's ``fully_shard``, on GPUs and on gloo."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.workloads.distributed.linear_layers import (
    BATCH,
    WIDTH,
    check_sizes,
    linears,
    random_batch,
)
from pytest_gpuperf.workloads.distributed.placement import rank_device
from pytest_gpuperf.workloads.distributed.replicated import (
    Batch,
    Loss,
    Optimizer,
    training_step,
)

if TYPE_CHECKING:
    import torch
    from torch import nn


def fully_sharded(
    rank: int,
    world_size: int,
    *,
    model: Callable[[], nn.Module],
    batch: Batch,
    units: Callable[[nn.Module], Iterable[nn.Module]] | None = None,
    loss: Loss | None = None,
    optimizer: Optimizer | None = None,
    reshard_after_forward: bool = True,
    device: str | torch.device | None = None,
    fsdp: Mapping[str, Any] | None = None,
) -> Callable[[], torch.Tensor]:
    """The training step of `model` under FSDP2: zero, forward, backward, optimizer; the loss.

    Each unit's parameters are all-gathered before its forward pass, and again before its backward
    pass where they were resharded in between; its gradients are reduce-scattered. So of P bytes
    of parameters a step gathers 2·P (P without resharding) and scatters P.

    Parameters
    ----------
    rank, world_size
        Which of how many; the process group is there.
    model
        Makes the model; it must give every rank the same parameters (a fixed seed).
    batch
        ``batch(rank, device)`` makes this rank's inputs and targets, once.
    units
        The parts of the model that are sharded each for itself, its direct children with
        parameters where not given; the model itself takes what is left.
    loss, optimizer
        As for :func:`data_parallel`.
    reshard_after_forward
        Whether a unit gives its gathered parameters up after the forward pass.
    device
        As :func:`rank_device` has it.
    fsdp
        Further arguments of ``fully_shard``.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    place = rank_device(device)
    whole = model().to(place)
    mesh = init_device_mesh(place.type, (world_size,))
    shard = partial(
        fully_shard, mesh=mesh, reshard_after_forward=reshard_after_forward, **(fsdp or {})
    )
    for unit in (units or _children)(whole):
        shard(unit)
    shard(whole)
    inputs, targets = batch(rank, place)
    return training_step(whole, inputs, targets, loss, optimizer)


def _children(model: nn.Module) -> list[nn.Module]:
    """The direct children that have parameters."""
    return [child for child in model.children() if any(True for _ in child.parameters())]


def sharded_linears(
    rank: int,
    world_size: int,
    *,
    width: int = WIDTH,
    batch: int = BATCH,
    reshard_after_forward: bool = True,
    device: str | torch.device | None = None,
    fsdp: Mapping[str, Any] | None = None,
) -> Callable[[], torch.Tensor]:
    """The step of :func:`three_linears` under FSDP2, each layer a unit.

    FLOP as :func:`three_linears_flops`; with P = :func:`three_linears_gradient_bytes` it gathers
    2·P bytes (P without resharding) and scatters P.

    Raises
    ------
    ValueError
        A size is below 1.
    """
    check_sizes(width, batch)
    return fully_sharded(
        rank,
        world_size,
        model=partial(linears, width),
        batch=partial(random_batch, width, batch),
        reshard_after_forward=reshard_after_forward,
        device=device,
        fsdp=fsdp,
    )
