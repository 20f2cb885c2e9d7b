"""Record runs of the same code for docs/trust.md: pairs of processes that take turns.

    python -m benchmarks.trust_record quiet|competing|drifting PAIRS OUT.jsonl [SECONDS]

Each line is one pair: for each side, of each workload, the median of its samples, its fastest
tenth, how many there were, and what was seen to disturb it. SECONDS ends it earlier. The two
processes are started, and take turns, as those of ``--gpuperf-against`` do.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.trust_load import disturb

HERE, THERE = "here", "there"


def run_pair(order: tuple[str, str]) -> dict[str, Any]:
    """Both sides at once, the first of `order` with the first turn; what each measured."""
    from pytest_gpuperf.recording.turns import VARIABLE

    to_second, to_first = os.pipe(), os.pipe()
    ends = ((to_first[0], to_second[1]), (to_second[0], to_first[1]))
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.trust_child"],
            env={**os.environ, VARIABLE: f"{mine[0]},{mine[1]},{int(index == 0)}"},
            pass_fds=mine, stdout=subprocess.PIPE, text=True,
        )
        for index, mine in enumerate(ends)
    ]  # fmt: skip
    for descriptor in (*to_second, *to_first):
        os.close(descriptor)
    return {
        name: json.loads(process.communicate(timeout=300)[0])
        for name, process in zip(order, running, strict=True)
    }


def main(condition: str, pairs: int, out: Path, seconds: float) -> None:
    noise = None
    if condition != "quiet":
        noise = multiprocessing.Process(target=disturb, args=(condition, 1e6))
        noise.start()
    began = time.monotonic()
    try:
        for index in range(pairs):
            if time.monotonic() - began > seconds:
                break
            order = (THERE, HERE) if index % 2 == 0 else (HERE, THERE)
            start = time.monotonic()
            found = run_pair(order)
            line = {"condition": condition, "index": index, "first": order[0],
                    "seconds": round(time.monotonic() - start, 2), **found}  # fmt: skip
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    finally:
        if noise is not None:
            noise.terminate()
            noise.join()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]),
         float(sys.argv[4]) if len(sys.argv) > 4 else 1e9)  # fmt: skip
