"""Timeline numbers of the real traces against the exact values computed independently.

`expected.json` gives µs with three decimals; both sides are compared as whole nanoseconds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers import timeline
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.metrics import BUILTIN
from gpuperf_analyzers.trace import read_trace
from gpuperf_analyzers.trace.classify import BUILTIN_CLASSIFIERS, device_findings, devices
from gpuperf_analyzers.trace.selection import activity
from gpuperf_analyzers.trace.steps import host_steps

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "traces"
EXPECTED: dict[str, Any] = (
    json.loads((FOLDER / "expected.json").read_text())
    if (FOLDER / "expected.json").is_file()
    else {}
)
CONFIG = Config({m.name: m for m in BUILTIN}, comm_classifiers=BUILTIN_CLASSIFIERS)
READABLE = [f for f, e in EXPECTED.items() if "error" not in e]


def _ns(us: float) -> int:
    return round(us * 1000)


@pytest.mark.parametrize("file", READABLE or ["expected.json"])
def test_the_timeline_of_a_real_trace_is_exact_to_the_nanosecond(
    file: str, shared_traces: Path
) -> None:
    trace = read_trace(shared_traces / file)
    want = EXPECTED[file]
    assert {str(d) for d in devices(trace)} == set(want["devices"])
    why = {f.code for f in device_findings(trace)} - {"old-memory-category"}
    assert bool(why) == (not want["devices"])
    assert [trace.name_of(r) for r in host_steps(trace)] == want["steps"]
    for device in devices(trace):
        expected = want["devices"][str(device)]
        found = activity(trace, device, CONFIG)
        times = timeline.analyze(trace, CONFIG, device).window
        got = {
            "window_us": times.window_ns,
            "busy_us": times.busy_ns,
            "idle_us": times.idle_ns,
            "compute_us": times.compute_ns,
            "comm_us": times.comm_ns,
            "memory_us": times.memory_ns,
            "exposed_comm_us": times.exposed_comm_ns,
            "overlapped_comm_us": times.overlapped_comm_ns,
            "exposed_memory_us": times.exposed_memory_ns,
        }
        checked = {k: v for k, v in got.items() if k in expected}
        assert len(checked) >= 6
        assert checked == {k: _ns(expected[k]) for k in checked}
        if expected["overlap_pct"] is None:
            assert times.overlap is None
        else:
            assert times.overlap == pytest.approx(expected["overlap_pct"] / 100, abs=1e-12)
        counts = {
            "kernels": len(found.compute_rows) + len(found.comm_rows),
            "comm_kernels": len(found.comm_rows),
            "memcpy_memset": len(found.memory_rows),
            "comm_spans": len(found.comm_rows),
        }
        assert {k: v for k, v in counts.items() if k in expected} == {
            k: expected[k] for k in counts if k in expected
        }
