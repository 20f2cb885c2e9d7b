"""y = 7·w·x on every rank, whose averaged gradient is known: the first thing to try with DDP."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_gpuperf.ranks import ToldError
from pytest_gpuperf.workloads.distributed.placement import check_room, rank_device
from pytest_gpuperf.workloads.distributed.replicated import BUCKET_CAP_MB

if TYPE_CHECKING:
    import torch
    from torch import nn

SCALE = 7.0


def scaled_product_gradient(world_size: int) -> float:
    """dy/dw averaged over ranks whose x is rank + 1: 7·(n + 1)/2, 10.5 on two ranks."""
    return SCALE * (world_size + 1) / 2


def scaled_product(
    rank: int,
    world_size: int,
    *,
    size: int = 1,
    bucket_cap_mb: float = BUCKET_CAP_MB,
    device: str | torch.device | None = None,
) -> Callable[[], torch.Tensor]:
    """The step y = sum(7·w·x), backward; it gives w's gradient as DDP averaged it.

    w has `size` elements, all 1; x of rank r is r + 1. Per step and rank: 3·size FLOP forward
    (two products and the sum, of which the counter knows none), and 4·size bytes of gradient in
    the all-reduce.

    Raises
    ------
    ToldError
        The averaged gradient is not 7·(n + 1)/2: checked on one step before any is measured.
    ValueError
        `size` is below 1.
    """
    module = _product(size)
    place = rank_device(device)
    module.to(place)
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(
        module,
        device_ids=None if place.type == "cpu" else [place],
        bucket_cap_mb=bucket_cap_mb,
    )
    step = _step(model, module, rank, size)
    _check(step(), world_size)
    return step


def sharded_product(
    rank: int,
    world_size: int,
    *,
    size: int = 2,
    device: str | torch.device | None = None,
) -> Callable[[], torch.Tensor]:
    """The step of :func:`scaled_product` under FSDP2, each rank with its share of w.

    It gives the gradient of that share, as the reduce-scatter averaged it; per step 2·4·size
    bytes are all-gathered and 4·size reduce-scattered.

    Raises
    ------
    ToldError, ValueError
        As for :func:`scaled_product`.
    """
    module = _product(size)
    place = rank_device(device)
    module.to(place)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    fully_shard(
        module,
        mesh=init_device_mesh(place.type, (world_size,)),
        reshard_after_forward=True,  # torch keeps a root module's parameters by default
    )
    whole = _step(module, module, rank, size)

    def step() -> torch.Tensor:
        return whole().to_local()

    _check(whole().full_tensor(), world_size)
    return step


def _product(size: int) -> nn.Module:
    """The module 7·w·x.

    Raises
    ------
    ValueError
        `size` is below 1.
    ToldError
        It does not fit into memory.
    """
    if size < 1:
        raise ValueError(f"size is {size}: at least one element is needed")
    import torch
    from torch import nn

    check_room(f"w of {size} elements", 4 * size, torch.device("cpu"))

    class Product(nn.Module):  # type: ignore[misc]  # torch is Any here
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(size))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return SCALE * self.w * x

    return Product()


def _step(model: nn.Module, module: nn.Module, rank: int, size: int) -> Callable[[], torch.Tensor]:
    """Zero, forward, sum, backward; the gradient of w."""
    import torch

    x = torch.full((size,), float(rank + 1), device=module.w.device)

    def step() -> torch.Tensor:
        model.zero_grad()
        model(x).sum().backward()
        return module.w.grad

    return step


def _check(found: torch.Tensor, world_size: int) -> None:
    """ToldError where some element of the averaged gradient is not what it must be."""
    import torch

    expected = torch.full_like(found, scaled_product_gradient(world_size))
    if not torch.allclose(found, expected, rtol=1e-6, atol=0.0):
        off = int((found - expected).abs().argmax())
        raise ToldError(
            f"the averaged gradient of y = 7·w·x is {float(found[off]):g}, not "
            f"{float(expected[off]):g} = 7·(n + 1)/2 on {world_size} ranks"
        )
