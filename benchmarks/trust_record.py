"""Record runs of the same code for docs/trust.md: pairs of processes, as an A/B comparison runs.

    python -m benchmarks.trust_record quiet|competing|drifting PAIRS OUT.jsonl [SECONDS]

Each line is one pair: for each side, of each test, the median of its samples, its fastest tenth,
and what was known to disturb it. SECONDS ends it earlier.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.trust_project import disturb, make_project


def main(condition: str, pairs: int, out: Path, seconds: float) -> None:
    from pytest_gpuperf.baselines.against.processes import run_pair
    from pytest_gpuperf.baselines.against.sides import HERE, THERE, Side

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        project = make_project(root / "project")
        arguments = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly")
        sides = {n: Side(n, n, sys.executable, project, arguments, ()) for n in (HERE, THERE)}
        noise = None
        if condition != "quiet":
            noise = multiprocessing.Process(target=disturb, args=(condition, 1e6), daemon=False)
            noise.start()
        try:
            for index in range(pairs):
                if time.monotonic() - began > seconds:
                    break
                place = root / str(index)
                place.mkdir()
                order = (THERE, HERE) if index % 2 == 0 else (HERE, THERE)
                start = time.monotonic()
                told = run_pair(
                    [sides[n] for n in order], TESTS, place,
                    roots=(project, project), details=False, timeout_s=300,
                )  # fmt: skip
                line: dict[str, Any] = {"condition": condition, "index": index, "first": order[0],
                                        "seconds": round(time.monotonic() - start, 2)}  # fmt: skip
                for n in (HERE, THERE):
                    if told[n].problem:
                        print(told[n].problem, flush=True)
                    line[n] = {
                        test.rpartition("::")[2]: values(result)
                        for test, result in told[n].report.get("tests", {}).items()
                    }
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
        finally:
            if noise is not None:
                noise.terminate()
                noise.join()


TESTS = [f"tests/test_trust.py::test_{name}"
         for name in ("training_step", "matmul", "short_ops", "memory")]  # fmt: skip


def values(result: Any) -> list[Any] | None:
    """Median µs, fastest tenth µs, samples, what disturbed it; None where nothing was measured."""
    if not result["observations"]:
        return None
    observation = result["observations"][0]
    median, tenth, count = observation["sampled"]["step_time"]
    return [round(median, 3), round(tenth, 3), count, observation["disturbed"]]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]),
         float(sys.argv[4]) if len(sys.argv) > 4 else 1e9)  # fmt: skip
