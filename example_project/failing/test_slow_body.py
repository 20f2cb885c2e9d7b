"""The body is the workload; somebody left a sleep in it."""

import time

import pytest
import torch


@pytest.mark.gpuperf(max_step_time="10ms")
def test_step_with_a_sleep():
    torch.ones(64, 64).sum()
    time.sleep(0.02)
