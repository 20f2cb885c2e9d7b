"""Somebody logs the loss of every step."""

import pytest
import torch
from torch import nn


@pytest.mark.gpuperf(max_host_syncs=0)
def test_loss_logged_in_the_loop(gpuperf):
    model = nn.Linear(256, 256).to(gpuperf.device)
    batch = torch.randn(64, 256, device=gpuperf.device)
    history = []

    def step():
        loss = model(batch).square().mean()
        loss.backward()
        history.append(loss.item())

    gpuperf(step)
