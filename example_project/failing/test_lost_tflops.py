"""The same FLOPs as one large matmul, in slices too thin to keep the machine busy."""

import pytest
import torch


def thin_slices(a, b):
    return torch.cat([torch.mm(a[i : i + 1], b) for i in range(a.shape[0])])


@pytest.mark.gpuperf(min_tflops={"NVIDIA": 100, "cpu": "0.1TFLOPS"})
def test_matmul_in_thin_slices(gpuperf):
    a, b = (torch.randn(512, 512, device=gpuperf.device) for _ in "ab")
    gpuperf(thin_slices, a, b)
