"""The search of ``gpuperf mamf`` against an exhaustive one.

On tables of analytic GPUs (``tests/gemm_model.py``, where the formula is), whose best shape is
known exactly; and on this CPU, where both winners are timed again in turn and the interval of the
ratio of their rates says which verdict stands: PASS where all of it is 0.99 or more, FAIL where
none is, else AMBIGUOUS.

    python -m benchmarks.mamf             both
    python -m benchmarks.mamf --only cpu  one of them
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

from pytest_gpuperf.mamf.ranges import Shape, make_grid, values
from pytest_gpuperf.mamf.search import Effort, Search, Tried

WANTED = 0.99
SEEDS = range(10)
BLOCKS = 60
_STEP = 32


def analytic() -> bool:
    """A row for each GPU and grid; whether all shares with ordinary tiles are wanted ones."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from gemm_model import GPUS, OTHER_TILES, TILES, Table

    print("| GPU (model) | step | shapes | timed | share of the best, worst of "
          f"{len(SEEDS)} seeds | median | within 1% |")  # fmt: skip
    print("|:--|--:|--:|--:|--:|--:|--:|")
    rows = [(name, step, TILES) for name in GPUS for step in (256, 192)]
    rows += [(name, 256, OTHER_TILES) for name in GPUS]
    fine = True
    for name, step, tiles in rows:
        axis, gpu = range(step, {256: 5889, 192: 4801}[step], step), GPUS[name]
        shares, timed = [], 0
        for seed in SEEDS:
            table = Table(gpu, (axis,) * 3, seed, tiles)
            search = Search(table.time, make_grid(axis, axis, axis), units=gpu.units, seed=seed)
            best = search.run()
            assert best is not None  # noqa: S101 - every shape of a table can be run
            shares.append(table.share(best.shape))
            timed = max(timed, len(table.timed))
        near = float((table.tflops >= WANTED * table.tflops.max()).mean())
        # The search must learn other tiles first: told, and not held to the same share.
        fine &= min(shares) >= WANTED or tiles is not TILES
        size = table.tflops.size
        label = name if tiles is TILES else f"{name}, other tiles"
        cells = (label, step, f"{size:,}", f"{timed / size:.1%}", f"{min(shares):.4f}",
                 f"{statistics.median(shares):.4f}", f"{near:.2%}")  # fmt: skip
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return fine


def cpu() -> bool:
    """Both searches on this CPU, and their winners timed in turn; whether it is no FAIL."""
    import torch

    from pytest_gpuperf.mamf.timing import MatmulTimer

    # One thread: on a shared machine two wait for each other whenever one loses its core.
    torch.set_num_threads(1)
    axis = values(0, 512 + 1, _STEP)
    grid = make_grid(axis, axis, axis)
    timer = MatmulTimer(torch.device("cpu"), "fp32")
    print(f"{grid.words()}; 1 thread, torch {torch.__version__}", flush=True)
    found: dict[str, Tried] = {}
    for kind, exhaustive in (("search", False), ("exhaustive", True)):
        search = Search(timer.time, grid, effort=Effort(10, 100), exhaustive=exhaustive)
        begin = time.perf_counter()
        best = search.run()
        assert best is not None  # noqa: S101 - these shapes can be run
        found[kind] = best
        spent = time.perf_counter() - begin
        print(
            f"{kind:<11} {len(search.tried):>5} shapes timed, {spent:6.1f} s: "
            f"{best.shape} {best.rate / 1e12:.4f} TFLOPS",
            flush=True,
        )
    return judged(timer, found["search"].shape, found["exhaustive"].shape)


def judged(timer: object, ours: Shape, theirs: Shape) -> bool:
    """Print the ratio of the rates of the two, its interval and verdict; False for a FAIL."""
    if ours == theirs:
        print("the same shape: ratio 1 exactly, PASS")
        return True
    rates: dict[Shape, list[float]] = {ours: [], theirs: []}
    ratios = []
    for block in range(BLOCKS):
        for shape in (ours, theirs) if block % 2 else (theirs, ours):
            m, n, k = shape
            taken = timer.time(shape, 10)  # type: ignore[attr-defined]
            rates[shape].append(2 * m * n * k / statistics.median(taken) / 1e12)
        ratios.append(rates[ours][-1] / rates[theirs][-1])
    from gpuperf_analyzers.stats import median_interval

    low, high = median_interval(ratios) or (0.0, float("inf"))
    verdict = "PASS" if low >= WANTED else "FAIL" if high < WANTED else "AMBIGUOUS"
    spread = statistics.stdev(rates[theirs]) / statistics.mean(rates[theirs])
    mine, other = statistics.median(rates[ours]), statistics.median(rates[theirs])
    print(
        f"in turn, {BLOCKS} blocks each: {mine:.4f} and {other:.4f} TFLOPS; ratio "
        f"{statistics.median(ratios):.4f} (95% interval {low:.4f} to {high:.4f}), "
        f"blocks vary by {spread:.1%}: {verdict}"
    )
    return verdict != "FAIL"


def main() -> int:
    """Run the parts asked for: 1 where a share is too low."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("analytic", "cpu"))
    only = parser.parse_args().only
    fine = True
    if only != "cpu":
        fine &= analytic()
    if only != "analytic":
        fine &= cpu()
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
