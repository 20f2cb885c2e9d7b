"""Three linear layers with ReLU, MSE and SGD: large gradients behind a large backward pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.workloads.distributed.placement import check_room
from pytest_gpuperf.workloads.distributed.replicated import BUCKET_CAP_MB, data_parallel

if TYPE_CHECKING:
    import torch
    from torch import nn

LAYERS = 3
WIDTH = 4000
BATCH = 1000


def three_linears_flops(width: int = WIDTH, batch: int = BATCH) -> int:
    """FLOP of one step of one rank, a multiply-add as 2: 16·B·W².

    Forward 3 matmuls of 2·B·W²; backward 3 for the weights and 2 for the inputs (those of the
    first layer need no gradient). Biases, ReLU, loss and SGD are not counted.
    """
    return (2 * LAYERS + LAYERS - 1) * 2 * batch * width**2


def three_linears_gradient_bytes(width: int = WIDTH) -> int:
    """Bytes of fp32 gradients that one step all-reduces: 4·3·(W² + W)."""
    return 4 * LAYERS * (width**2 + width)


def three_linears_bytes(width: int = WIDTH, batch: int = BATCH) -> int:
    """Bytes a rank has at least: parameters and gradients, 8·3·(W² + W), and 8·B·W of batch."""
    return 2 * three_linears_gradient_bytes(width) + 8 * batch * width


def three_linears(
    rank: int,
    world_size: int,
    *,
    width: int = WIDTH,
    batch: int = BATCH,
    bucket_cap_mb: float = BUCKET_CAP_MB,
    device: str | torch.device | None = None,
    ddp: Mapping[str, Any] | None = None,
) -> Callable[[], torch.Tensor]:
    """The training step of three `width` x `width` linear layers, ReLU between, MSE, SGD.

    :func:`three_linears_flops` and :func:`three_linears_gradient_bytes` say what a step computes
    and sends. As :func:`data_parallel` otherwise.

    Raises
    ------
    ValueError
        A size is below 1, or `bucket_cap_mb` not above 0.
    ToldError
        They do not fit into memory.
    """
    check_sizes(width, batch)
    return data_parallel(
        rank,
        world_size,
        model=partial(linears, width),
        batch=partial(random_batch, width, batch),
        bucket_cap_mb=bucket_cap_mb,
        device=device,
        ddp=ddp,
    )


def check_sizes(width: int, batch: int) -> None:
    """ValueError where a size is below 1."""
    if width < 1 or batch < 1:
        raise ValueError(f"width is {width}, batch is {batch}: both must be at least 1")


def linears(width: int) -> nn.Module:
    """Three linear layers with ReLU between them, of a fixed seed, made on the CPU.

    Raises
    ------
    ToldError
        They do not fit into its memory.
    """
    import torch
    from torch import nn

    needed = three_linears_gradient_bytes(width)
    check_room(f"three {width} x {width} layers", needed, torch.device("cpu"))
    torch.manual_seed(0)
    first, second, third = (nn.Linear(width, width) for _ in range(LAYERS))
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third)


def random_batch(
    width: int, batch: int, rank: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Normal inputs and targets, another batch for each rank."""
    import torch

    generator = torch.Generator(device).manual_seed(rank)
    inputs, targets = (
        torch.randn(batch, width, device=device, generator=generator) for _ in range(2)
    )
    return inputs, targets
