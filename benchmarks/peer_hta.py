"""Holistic Trace Analysis on one trace, for an interpreter that has it: seconds and memory as JSON.

Run by its own interpreter, which need not have this project.
"""

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
    """Load, then the four breakdowns that answer what our timeline and kernel tables answer."""
    path = Path(sys.argv[1])
    from hta.trace_analysis import TraceAnalysis

    start, cpu = time.perf_counter(), time.process_time()
    analysis = TraceAnalysis(trace_files={0: str(path)}, trace_dir=str(path.parent))
    loaded = time.perf_counter()
    analysis.get_temporal_breakdown(visualize=False)
    analysis.get_comm_comp_overlap(visualize=False)
    analysis.get_gpu_kernel_breakdown(visualize=False)
    analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
    done = time.perf_counter()
    print(
        json.dumps(
            {
                "load": loaded - start,
                "analyses": done - loaded,
                "cpu": time.process_time() - cpu,
                "peak_mb": peak_mb(),
            }
        )
    )


if __name__ == "__main__":
    main()
