"""Records of results as a session makes them, for the renderers' tests."""

from __future__ import annotations

from typing import Any


def value(number: float | None, unit: str, interval: list[float] | None = None) -> dict[str, Any]:
    """One entry of a record's values."""
    reason = None if number is not None else "not measured"
    return {
        "value": number, "interval": interval, "n": 7, "source": "", "absent_reason": reason,
        "at": "", "unit": unit,
    }  # fmt: skip


def judgement(**changes: Any) -> dict[str, Any]:
    """A failed overlap limit."""
    return {
        "text": "min_overlap=0.6", "metric": "overlap", "direction": "min", "limit": 0.6,
        "verdict": "FAIL", "value": 0.41, "interval": [0.38, 0.44], "reason": "", "at": "rank 1",
        "unit": "fraction", **changes,
    }  # fmt: skip


def record(**changes: Any) -> dict[str, Any]:
    """A DDP step whose overlap fell short."""
    return {
        "test": "tests/perf/test_ddp.py::test_step[gloo]", "name": "", "verdict": "FAIL",
        "device": "cpu", "device_type": "cpu", "world_size": 2, "limits": [judgement()],
        "values": {
            "step_time": value(97577.0, "us", [91000.0, 99000.0]),
            "tflops": value(0.93, "TFLOPS"),
            "mfu": value(0.412, "fraction"),
            "comm_time": value(20000.0, "us"),
            "overlap": value(0.41, "fraction", [0.38, 0.44]),
            "exposed_comm": value(12345.0, "us"),
            "idle": value(0.19, "fraction"),
            "peak_memory": value(None, "bytes"),
        },
        "evidence": {"compute": 0.61, "exposed_comm": 0.2, "idle": 0.19, "top_ops": []},
        "traces": [".gpuperf/a/rank0.json.gz"], "timer": "wall", "samples_us": [1.0, 2.0],
        "stop": "interval", "warmup_us": 1e6, "first_call_us": 2e6, "notes": [], "findings": [],
        "extra_info": {}, "failure": None, **changes,
    }  # fmt: skip
