"""Loads that disturb the machine while runs are recorded for docs/trust.md."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import time

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
