"""One process of ``benchmarks.trust_record``: four workloads, sampled in turns, as JSON on stdout.

The sampling is the product's own; what a test run has beside it (collecting, profiled steps,
analysis) is left out, so that many processes can be recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import torch

from gpuperf_analyzers.stats import median, quantile
from pytest_gpuperf.recording.busy_cpus import watch_others
from pytest_gpuperf.recording.coordination import SOLO
from pytest_gpuperf.recording.options import Options
from pytest_gpuperf.recording.quiet import garbage_collection_off
from pytest_gpuperf.recording.regions import RegionLog
from pytest_gpuperf.recording.sampling import Sampling, Workload, warm_up
from pytest_gpuperf.recording.timers import make_timer
from pytest_gpuperf.recording.turns import turns


def workloads() -> dict[str, Callable[[], object]]:
    """A training step, a matmul, a chain of short ops, memory traffic; each some milliseconds."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64))
    batch = torch.randn(16, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    a, x = torch.randn(128, 128), torch.randn(64)
    y, z = torch.randn(1 << 18), torch.randn(1 << 18)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(batch).square().mean().backward()
        optimizer.step()

    def short() -> None:
        for _ in range(200):
            x + 1.0

    return {
        "training_step": step,
        "matmul": lambda: torch.mm(a, a),
        "short_ops": short,
        "memory": lambda: torch.add(y, z, out=z),
    }


def main() -> None:
    torch.set_num_threads(1)
    mine = turns()
    timer = make_timer("wall", torch.device("cpu"))
    options = Options(warmup_s=0.15, max_time_s=0.3)
    found = {}
    for name, step in workloads().items():
        if mine is not None:
            mine.enter()
        with garbage_collection_off(freeze=True):
            warm = warm_up(Workload(step), timer, options.warmup_s, SOLO)
            seen = watch_others(siblings=True)
            taken = Sampling(Workload(step), timer, options, SOLO, RegionLog(timer)).run(
                warm.call_us
            )
        us = taken.us
        found[name] = [round(median(us), 3), round(quantile(us, 0.1), 3), len(us),
                       " ".join(seen())]  # fmt: skip
    print(json.dumps(found))


if __name__ == "__main__":
    main()
