"""``orjson.loads`` of one trace's text and nothing else, for an interpreter that has it."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path


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
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
            }
        )
    )


if __name__ == "__main__":
    main()
