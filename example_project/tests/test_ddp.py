"""Data parallel on two processes: does the all-reduce still hide behind the backward pass?"""

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def make_step(rank, world_size):  # noqa: ARG001 - every make_step takes both
    """One rank's training step: layers large enough that there is something to hide behind."""
    torch.manual_seed(0)
    device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    layers = [nn.Sequential(nn.Linear(512, 512), nn.ReLU()) for _ in range(8)]
    model = DistributedDataParallel(nn.Sequential(*layers).to(device), bucket_cap_mb=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(256, 512, device=device)

    def step():
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


@pytest.mark.gpuperf(min_overlap={"cpu": 0.2, "default": 0.1}, steps=12, max_collectives=20)
def test_gradients_travel_behind_the_backward_pass(gpuperf):
    gpuperf.ddp(make_step, world_size=2)
