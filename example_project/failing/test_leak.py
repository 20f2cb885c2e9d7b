"""Every step's activations are kept: a list of losses that were never detached."""

import pytest
import torch
from torch import nn


@pytest.mark.gpuperf(max_peak_memory="8MiB")
def test_losses_kept_with_their_graphs(gpuperf):
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).to(gpuperf.device)
    batch = torch.randn(1024, 256, device=gpuperf.device)
    losses = []
    gpuperf.run(lambda: losses.append(model(batch).square().mean()), max_time="200ms")
