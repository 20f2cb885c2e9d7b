"""One training step: how long, how much memory, and does it wait for the host?"""

import pytest
import torch
from tinylm import TinyLM, training_step


@pytest.fixture
def tokens(gpuperf_device):
    return torch.randint(0, 512, (4, 64), device=gpuperf_device)


@pytest.fixture
def model(gpuperf_device):
    torch.manual_seed(0)
    return TinyLM().to(gpuperf_device)


@pytest.fixture
def step(model, tokens):
    return training_step(model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), tokens)


# The fixture is not asked for: the body is the workload, `model` and `tokens` are its set-up.
# A model for laptops spends its step on a GPU in launches: the share of peak there is tiny.
@pytest.mark.gpuperf(
    max_step_time={"cpu": "2s", "default": "50ms"}, min_mfu={"cpu": 0.002, "default": 0.0001}
)
def test_forward_and_backward(model, tokens):
    model(tokens).sum().backward()


@pytest.mark.gpuperf(max_host_syncs=0, max_host_to_device="64MB")
def test_step_never_waits_for_the_host(gpuperf, step):
    gpuperf(step)


# A launch is a launch call on a GPU and an op call on a CPU, so the limits differ.
@pytest.mark.gpuperf(max_kernel_launches={"NVIDIA": 1200, "cpu": 1100})
def test_step_launches_no_more_than_it_did(gpuperf, step):
    gpuperf(step)


# On a GPU the matmul library's workspace is in the allocator too.
@pytest.mark.gpuperf(max_peak_memory={"cpu": "16MiB", "default": "160MiB"})
def test_step_fits_its_memory(gpuperf, step):
    gpuperf(step)


@pytest.mark.gpuperf(min_throughput={"cpu": "50items/s", "default": "5000items/s"})
def test_tokens_per_second(gpuperf, step, tokens):
    gpuperf.run(step, tokens=tokens.numel())


# Held to what gpuperf-baselines/ says, to the last call: counts do not depend on how fast or how
# busy the machine is. `pytest --gpuperf-save` saved them; `gpuperf baseline update` accepts others.
@pytest.mark.gpuperf(exact=["kernel_launches", "host_syncs", "host_to_device", "flops"])
def test_step_does_what_it_did(gpuperf, step):
    gpuperf(step)
