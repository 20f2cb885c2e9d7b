"""y = 7·w·x on every rank, whose averaged gradient is known: the first thing to try with DDP."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_gpuperf.ranks import ToldError
from pytest_gpuperf.workloads.distributed.placement import rank_device
from pytest_gpuperf.workloads.distributed.replicated import BUCKET_CAP_MB

if TYPE_CHECKING:
    import torch

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
    if size < 1:
        raise ValueError(f"size is {size}: at least one element is needed")
    import torch
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    class Product(nn.Module):  # type: ignore[misc]  # torch is Any here
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(size))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return SCALE * self.w * x

    place = rank_device(device)
    module = Product().to(place)
    model = DistributedDataParallel(
        module, device_ids=None if place.type == "cpu" else [place], bucket_cap_mb=bucket_cap_mb
    )
    x = torch.full((size,), float(rank + 1), device=place)

    def step() -> torch.Tensor:
        model.zero_grad()
        model(x).sum().backward()
        return module.w.grad

    expected = torch.full((size,), scaled_product_gradient(world_size), device=place)
    found = step()
    if not torch.allclose(found, expected, rtol=1e-6, atol=0.0):
        off = int((found - expected).abs().argmax())
        raise ToldError(
            f"the averaged gradient of y = 7·w·x is {float(found[off]):g}, not "
            f"{float(expected[off]):g} = 7·(n + 1)/2 on {world_size} ranks"
        )
    return step
