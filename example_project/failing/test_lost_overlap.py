"""One bucket for all gradients: the all-reduce starts when the backward pass has ended."""

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def make_step(rank, world_size):  # noqa: ARG001 - every make_step takes both
    torch.manual_seed(0)
    device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    layers = [nn.Sequential(nn.Linear(512, 512), nn.ReLU()) for _ in range(8)]
    model = DistributedDataParallel(nn.Sequential(*layers).to(device), bucket_cap_mb=1000)
    batch = torch.randn(256, 512, device=device)

    def step():
        model.zero_grad()
        model(batch).square().mean().backward()

    return step


@pytest.mark.gpuperf(min_overlap=0.5, steps=12)
def test_one_bucket_for_the_whole_model(gpuperf):
    gpuperf.ddp(make_step, world_size=2)
