"""A layer norm written out by hand: four times the ops of the fused one."""

import pytest
import torch


@pytest.mark.gpuperf(max_kernel_launches={"NVIDIA": 1, "cpu": 4})
def test_layer_norm_written_out(gpuperf):
    x = torch.randn(1024, 256, device=gpuperf.device)

    def layer_norm(x):
        mean = x.mean(-1, keepdim=True)
        return (x - mean) / ((x - mean).square().mean(-1, keepdim=True) + 1e-5).sqrt()

    gpuperf(layer_norm, x)
