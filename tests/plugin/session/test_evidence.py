"""The evidence of a failure agrees with the values that are judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers import analyze, read_trace
from kineto import KinetoTrace
from pytest_gpuperf.session.evidence import evidence_of


# Compute runs 50 of each step's 100 µs, from 10 µs in. The window ends with the last kernel; the
# last step ends with its span, 35 µs later.
@pytest.mark.parametrize(
    ("steps", "idle", "compute"),
    [(2, 50 / 150, 100 / 150), (6, 285 / 585, 300 / 585)],
    ids=["few steps: the window", "six steps: their sum"],
)
def test_the_shares_are_over_what_the_judged_ratios_are_over(
    tmp_path: Path, steps: int, idle: float, compute: float
) -> None:
    block = {"schema": 1, "device": "NVIDIA H100", "device_type": "cuda", "samples_us": [100.0] * 7}
    t = KinetoTrace(gpuperf=block)
    for i in range(steps):
        with t.step(i + 1, at=100.0 * i, dur=95):
            t.launch("gemm", at=100.0 * i + 1, runs=(100.0 * i + 10, 100.0 * i + 60))
    found = analyze(read_trace(t.write(tmp_path / "trace.json")))
    evidence = evidence_of(found, [])
    assert evidence["idle"] == pytest.approx(idle)
    assert evidence["idle"] == pytest.approx(found.values["idle"].value)
    assert evidence["compute"] == pytest.approx(compute)
