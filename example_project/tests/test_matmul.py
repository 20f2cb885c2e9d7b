"""Is the matmul still on the fast path?"""

import pytest
import torch


@pytest.mark.gpuperf(
    min_tflops={
        "NVIDIA H100": 500,
        "NVIDIA H200": 500,
        "NVIDIA A100": 200,
        "cpu": 0.01,
    }
)
def test_projection_reaches_its_tflops(gpuperf):
    device = gpuperf.device
    dtype, n = (torch.bfloat16, 8192) if device.type == "cuda" else (torch.float32, 1024)
    a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in "ab")
    product = gpuperf(torch.mm, a, b)
    assert product.shape == (n, n)


# Too small to fill a large GPU, so the limit there only catches what went badly wrong.
@pytest.mark.gpuperf(min_mfu={"cpu": 0.02, "default": 0.03})
@pytest.mark.parametrize("n", [512, 1024])
def test_square_matmul_uses_the_machine(gpuperf, n):
    a, b = (torch.randn(n, n, device=gpuperf.device) for _ in "ab")
    gpuperf(torch.mm, a, b)


# One product of stacked batches must not be slower than one after the other.
def test_batched_products_beat_a_loop(gpuperf):
    a, b = (torch.randn(64, 32, 32, device=gpuperf.device) for _ in "ab")
    batched, looped = gpuperf.ratio(
        lambda: torch.bmm(a, b),
        lambda: torch.stack([torch.mm(x, y) for x, y in zip(a, b, strict=True)]),
        min_speedup={"cpu": 1.2, "default": 2},
    )
    torch.testing.assert_close(batched, looped, atol=1e-2, rtol=1e-2)
