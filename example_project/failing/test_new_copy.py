"""Somebody widens the activations in every step: the baseline remembers a step that did not."""

import os

import pytest
import torch
from torch import nn


# The baseline was saved with TINYLM_GOOD=1: 128 x 256 doubles are 256 KiB more to copy.
@pytest.mark.gpuperf(exact=["kernel_launches", "host_to_device"])
def test_activations_keep_their_dtype(gpuperf):
    model = nn.Linear(256, 256).to(gpuperf.device)
    batch = torch.randn(128, 256, device=gpuperf.device)

    def step():
        activations = model(batch)
        if not os.environ.get("TINYLM_GOOD"):
            activations = activations.double()
        return activations.square().mean()

    gpuperf(step)
