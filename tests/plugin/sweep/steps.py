"""Steps for sweeps: tiny ones that work, and one for each way to fail."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import torch


def double(size: int, fail: str = "no", log: str = "", hold: str = ""):
    """Doubles a vector of `size` floats, or fails in its first call.

    The size that stands in the file `hold` waits until the file is gone.
    """
    x = torch.zeros(size)
    if log:  # a line for each time that the point is begun
        with Path(log).open("a") as file:
            file.write(f"{size}\n")
    while hold and Path(hold).exists() and Path(hold).read_text() == str(size):
        time.sleep(0.02)

    def step():
        if fail == "hang":
            time.sleep(1000)
        elif fail == "raise":
            raise RuntimeError("wrong on purpose\nand a second line")
        elif fail == "segv":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif fail == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fail == "oom":
            return torch.empty(2**36, dtype=torch.uint8)
        return x + x

    return step


def reduce(rank: int, world_size: int, size: int):
    """An all-reduce of `size` ones, whose sum is checked."""
    import torch.distributed as dist

    def step():
        x = torch.ones(size)
        dist.all_reduce(x)
        assert x[0].item() == world_size == dist.get_world_size()
        assert rank == dist.get_rank()
        return x

    return step


def no_step(size: int):
    return size
