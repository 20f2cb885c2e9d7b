"""The project that the figures of docs/trust.md are measured on, and loads to disturb it with."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import time
from pathlib import Path

TESTS = '''\
"""Four small workloads: training step, matmul, chain of short ops, memory traffic."""

import os

import pytest
import torch

torch.set_num_threads(1)
SLOWER = float(os.environ.get("TRUST_SLOWER", "0")) if os.environ.get("TRUST_SIDE") else 0.0
pytestmark = pytest.mark.gpuperf(max_regression="3%", warmup="0.5s", max_time="1.2s", steps=3)
TIMES = 20


def repeated(call, plain):
    """`call` several times, and more of it where a slowdown is to be injected."""
    def run():
        for _ in range(plain + round(plain * SLOWER)):
            call()
    return run


def test_training_step(gpuperf):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64)
    )
    batch = torch.randn(16, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(batch).square().mean().backward()
        optimizer.step()

    gpuperf(repeated(step, TIMES // 2))


def test_matmul(gpuperf):
    a = torch.randn(128, 128)
    gpuperf(repeated(lambda: torch.mm(a, a), TIMES))


def test_short_ops(gpuperf):
    x = torch.randn(64)
    gpuperf(repeated(lambda: x + 1.0, 10 * TIMES))


def test_memory(gpuperf):
    x, y = torch.randn(1 << 18), torch.randn(1 << 18)
    gpuperf(repeated(lambda: torch.add(x, y, out=y), TIMES))
'''


def make_project(folder: Path) -> Path:
    """A git repository with one commit of the tests above; `folder` is made."""
    (folder / "tests").mkdir(parents=True)
    (folder / "tests" / "test_trust.py").write_text(TESTS, encoding="utf-8")
    (folder / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], cwd=folder, check=True)
    return folder


BURN = """
import sys, time
import numpy as np
a = np.random.default_rng(0).random(1 << 21)
end = time.perf_counter() + float(sys.argv[1])
while time.perf_counter() < end:
    a *= 1.0000001
    sum(i * i for i in range(2000))
"""


def burn(seconds: float) -> subprocess.Popen[bytes]:
    """A process that computes and moves memory for `seconds`."""
    return subprocess.Popen([sys.executable, "-c", BURN, str(seconds)])


def disturb(kind: str, seconds: float, seed: int = 1) -> None:
    """Disturb the machine: ``competing`` comes and goes, ``drifting`` rises and falls slowly.

    Competing: each of two processes computes for 1 to 8 s, then rests for 1 to 8 s. Drifting: two
    processes compute for a share of each half second that goes from 0 to 1 and back in 4 minutes.
    """
    rng = random.Random(seed)
    end = time.monotonic() + seconds
    if kind == "drifting":
        begin = time.monotonic()
        while (now := time.monotonic()) < end:
            share = (1 - math.cos(2 * math.pi * (now - begin) / 240)) / 2
            running = [burn(0.5 * share) for _ in range(2)] if share > 0.05 else []
            time.sleep(0.5)
            for process in running:
                process.wait()
        return
    waking: list[tuple[float, subprocess.Popen[bytes] | None]] = [(0.0, None), (0.0, None)]
    while (now := time.monotonic()) < end:
        for i, (until, process) in enumerate(waking):
            if now < until:
                continue
            if process is None:
                length = rng.uniform(1, 8)
                waking[i] = (now + length, burn(length))
            else:
                process.wait()
                waking[i] = (now + rng.uniform(1, 8), None)
        time.sleep(0.05)
    for _, process in waking:
        if process is not None:
            process.wait()
