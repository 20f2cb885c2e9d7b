"""``orjson.loads`` of one trace's text and nothing else, for an interpreter that has it."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def peak_mb() -> float:
    """The largest resident set of this program; ``ru_maxrss`` keeps its parent's."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def main() -> None:
    """Time the one call; reading the file is not counted."""
    import orjson

    text = Path(sys.argv[1]).read_bytes()
    start, cpu = time.perf_counter(), time.process_time()
    orjson.loads(text)
    print(
        json.dumps(
            {
                "load": time.perf_counter() - start,
                "cpu": time.process_time() - cpu,
                "peak_mb": peak_mb(),
            }
        )
    )


if __name__ == "__main__":
    main()
