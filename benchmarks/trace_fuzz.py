"""Thousands of damaged traces through reader and analyzers: no traceback, no hang, bounded memory.

``python -m benchmarks.trace_fuzz [--rounds 10000] [--traces FOLDER]``. Each seed makes the same
damage every time; what goes wrong is told with its seed.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from gpuperf_analyzers.analysis import analyze  # noqa: E402  # the tests' own builders come first
from gpuperf_analyzers.registry import load_config  # noqa: E402
from gpuperf_analyzers.trace.model import TraceError  # noqa: E402
from gpuperf_analyzers.trace.reader import read_trace  # noqa: E402
from kineto import KinetoTrace  # noqa: E402
from mutations import mutated  # noqa: E402

SECONDS = 20
"""CPU seconds that one file under 1 MB may take."""
MEMORY_MB = 400
"""How far the peak may rise over all rounds."""


class TookTooLongError(Exception):
    """The watchdog barked."""


def sources(folder: Path | None) -> list[bytes]:
    """Whole traces of under 1 MB of text: a synthetic one, and those in `folder`."""
    t = KinetoTrace(rank=0, world_size=2)
    for n in range(3):
        with t.step(n, at=1000 * n, dur=1000):
            for i in range(20):
                at = 1000 * n + 40 * i
                t.op("aten::mm", at=at, dur=30, dims=[[8, 8], [8, 8]], dtypes=["float", "float"])
                t.launch("gemm", at=at + 2, runs=(at + 5, at + 20))
                t.launch("ncclDevKernel_AllReduce", at=at + 9, runs=(at + 15, at + 38), stream=20)
    with tempfile.TemporaryDirectory() as made:
        found = [t.write(Path(made) / "trace.json").read_bytes()]
    if folder:
        skipped = {"index.json", "expected.json"}
        paths = [p for p in sorted(folder.rglob("*.json*")) if p.name not in skipped]
        texts = [_text(p.read_bytes()) for p in paths]
        found += [text for text in texts if len(text) < 1_000_000]
    return found


def _text(data: bytes) -> bytes:
    with contextlib.suppress(EOFError, zlib.error):
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return data


def ending(path: Path, config: Any) -> str:
    """``read``, ``refused``, or the last line of what went wrong."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        analyze(read_trace(path), config)
    except TraceError as error:
        return "refused" if "\n" not in str(error) else f"several lines: {error}"
    except Exception as error:  # noqa: BLE001  # what is looked for
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "read"


def main() -> None:
    """Run the rounds; exit 1 where one ended badly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--traces", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("error")

    def bark(*_: object) -> None:
        raise TookTooLongError(f"no answer in {SECONDS} s of CPU")

    signal.signal(signal.SIGPROF, bark)
    config, whole = load_config(), sources(options.traces)
    seen: Counter[str] = Counter()
    slowest = (0.0, -1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutated.json"
        for seed in range(options.first, options.first + options.rounds):
            rng = random.Random(seed)
            path.write_bytes(mutated(rng.choice(whole), rng))
            start = time.process_time()
            end = ending(path, config)
            slowest = max(slowest, (time.process_time() - start, seed))
            if end not in {"read", "refused"}:
                print(f"seed {seed}: {end}", flush=True)
                end = "wrong"
            seen[end] += 1
            if seed % 1000 == 999:
                print(f"  {seed + 1}: {dict(seen)}", file=sys.stderr, flush=True)
    rise = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / 1e6
    print(
        f"{options.rounds} damaged files from {len(whole)} whole ones: {dict(seen)}; the slowest "
        f"took {slowest[0]:.1f} s (seed {slowest[1]}); the peak of memory rose by {rise:.0f} MB"
    )
    if seen["wrong"] or rise > MEMORY_MB:
        sys.exit(1)


if __name__ == "__main__":
    main()
