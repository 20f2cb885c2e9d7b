"""A share of the peak that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers import analyze, read_trace
from gpuperf_analyzers.above_peak import above_peak
from gpuperf_analyzers.live_block import LiveBlock
from gpuperf_analyzers.metrics import Value, absent
from kineto import KinetoTrace


@pytest.mark.parametrize(
    ("share", "invalidated"),
    [(0.5, []), (1.0, []), (1.001, [set()]), (1.05, [set()]), (1.051, [{"hfu"}])],
)
def test_above_100_percent_is_told_and_above_105_not_judged(
    share: float, invalidated: list[set[str]]
) -> None:
    findings = list(above_peak({"hfu": Value("hfu", share), "mfu": absent("mfu", "unknown")}))
    assert [f.invalidates for f in findings] == invalidated


def test_what_is_told_names_the_peak_that_is_too_low() -> None:
    cpu = "op shapes over the measured peak, timed with the profiler off"
    values = {
        "mfu": Value("mfu", 1.04, source=cpu),
        "hfu": Value("hfu", 1.04, source=cpu),
        "mamf_share": Value("mamf_share", 1.02),
    }
    of_peak, of_maximum = above_peak(values)
    assert of_peak.message.startswith(
        "above 100% (mfu 104.0%, hfu 104.0%): the CPU's peak was measured too low"
    )
    assert of_maximum.message.startswith(
        "above 100% (mamf_share 102.0%): the maximum was measured too low"
    )
    (of_a_gpu,) = above_peak({"hfu": Value("hfu", 1.01, source="over the dense peak")})
    assert "the clock is above the one that the dense peak is for" in of_a_gpu.message


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
