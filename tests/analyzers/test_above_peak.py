"""A share of the peak that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers import analyze, read_trace
from gpuperf_analyzers.above_peak import above_peak
from gpuperf_analyzers.live_block import LiveBlock
from gpuperf_analyzers.metrics import Value, absent
from kineto import KinetoTrace


@pytest.mark.parametrize(("share", "refused"), [(0.5, False), (1.05, False), (1.051, True)])
def test_more_than_105_percent_of_a_peak_is_not_judged(share: float, *, refused: bool) -> None:
    findings = list(above_peak({"hfu": Value("hfu", share), "mfu": absent("mfu", "unknown")}))
    assert [f.invalidates for f in findings] == ([frozenset({"hfu"})] if refused else [])


def test_declared_flops_beyond_the_peak_make_the_mfu_invalid(tmp_path: Path) -> None:
    # 2e9 FLOP in 1 ms are 2 TFLOPS, ten times the peak of 0.2.
    block = LiveBlock(
        samples_us=(1000.0,) * 8, steps=1, flops=2_000_000_000, model_flops=2_000_000_000,
        flops_by_dtype={"fp32": 2_000_000_000}, flops_source="declared",
        peak_tflops={"fp32": 0.2},
    )  # fmt: skip
    trace = KinetoTrace(device_name=None, gpuperf=block.to_json())
    with trace.step(1, at=0, dur=100):
        trace.op("aten::mm", at=10, dur=50)
    analysis = analyze(read_trace(trace.write(tmp_path / "t.json")))
    assert analysis.values["mfu"].value == pytest.approx(10)
    assert "mfu is 1000% of the peak" in analysis.invalid["mfu"]
    assert "step_time" not in analysis.invalid
