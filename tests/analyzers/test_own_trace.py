"""A trace of one's own: the live block stands in place of the events where it knows better."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers import analyze, read_trace
from gpuperf_analyzers.analysis import Analysis
from kineto import KinetoTrace

SAMPLES = [1000.0, 1100.0, 900.0, 1000.0, 1000.0, 1050.0, 950.0]


def _trace(path: Path, count: int, **block: Any) -> Analysis:
    """Steps of 100 µs; in step i compute runs 50 µs and communication 20, 2·i of them hidden."""
    fields = {"schema": 1, "device": "NVIDIA H100 80GB HBM3", "device_type": "cuda", **block}
    t = KinetoTrace(gpuperf=fields) if block else KinetoTrace()
    for i in range(count):
        at = 100.0 * i
        with t.step(i + 1, at=at, dur=95):
            t.launch("gemm", at=at + 1, runs=(at + 10, at + 60))
            comm = (at + 60 - 2 * i, at + 80 - 2 * i)
            t.launch("ncclDevKernel_AllReduce", at=at + 4, runs=comm, stream=9)
    return analyze(read_trace(t.write(path / "trace.json")))


def test_live_samples_stand_in_place_of_the_traces_steps(tmp_path: Path) -> None:
    foreign = _trace(tmp_path, 2).values["step_time"]
    assert "under the profiler" in foreign.source
    live = _trace(tmp_path, 2, samples_us=SAMPLES).values["step_time"]
    assert (live.value, live.interval) == (1000.0, (900.0, 1100.0))
    assert "profiler off" in live.source


def test_ratios_of_six_steps_of_ones_own_are_of_sums_with_an_interval(tmp_path: Path) -> None:
    # Of 20 µs a step, 0, 2, 4, 6, 8 and 10 are hidden: 30 of 120.
    overlap = _trace(tmp_path, 6, samples_us=SAMPLES).values["overlap"]
    assert overlap.value == pytest.approx(30 / 120)
    assert overlap.interval is not None
    low, high = overlap.interval
    assert 0 < low < 0.25 < high < 0.5


def test_ratios_of_fewer_steps_or_of_a_foreign_trace_are_of_the_window(tmp_path: Path) -> None:
    assert _trace(tmp_path, 5, samples_us=SAMPLES).values["overlap"].interval is None
    assert _trace(tmp_path, 6).values["overlap"].interval is None


def test_a_step_lost_by_the_profiler_makes_the_traces_metrics_invalid(tmp_path: Path) -> None:
    found = _trace(tmp_path, 2, samples_us=SAMPLES, steps=3)
    assert "steps-missing" in {f.code for f in found.findings}
    assert {"overlap", "kernel_launches", "idle"} <= set(found.invalid)
    # What was timed with the profiler off is right all the same.
    assert not {"step_time", "tflops", "power", "peak_memory"} & set(found.invalid)
    assert not _trace(tmp_path, 3, samples_us=SAMPLES, steps=3).invalid


@pytest.mark.parametrize("block", ["text", 7, {"schema": 99}, {"schema": 1, "samples_us": "many"}])
def test_a_block_that_is_none_of_ours_is_told_and_not_used(tmp_path: Path, block: object) -> None:
    t = KinetoTrace(gpuperf=block)
    t.launch("gemm", at=1, runs=(10, 60))
    found = analyze(read_trace(t.write(tmp_path / "trace.json")))
    assert found.block is None
    assert "bad-live-block" in {f.code for f in found.findings}
    assert found.values["window"].value == 50.0


def test_the_device_of_a_live_run_is_the_drivers_name(tmp_path: Path) -> None:
    found = _trace(tmp_path, 1, samples_us=SAMPLES)
    assert (found.device_name, found.device_type) == ("NVIDIA H100 80GB HBM3", "cuda")


def test_counted_flops_give_rate_and_share_of_the_tables_peak(tmp_path: Path) -> None:
    flops = 10**12
    block = {"samples_us": SAMPLES, "flops": flops, "flops_by_dtype": {"bf16": flops},
             "flops_source": "flop_counter"}  # fmt: skip
    values = _trace(tmp_path, 1, **block).values
    assert values["tflops"].value == pytest.approx(1000.0)
    share = values["hfu"].value
    # The dense bf16 peak of an H100 SXM is 989.4 TFLOPS (NVIDIA's datasheet, without sparsity).
    assert share == pytest.approx(1000 / 989.4, rel=1e-3)
    assert values["mfu"].value == share


@pytest.mark.parametrize(
    ("counted", "agree"), [(65536, True), (65900, True), (70000, False), (60000, False)]
)
def test_counts_more_than_one_percent_from_the_shapes_are_invalid(
    tmp_path: Path, counted: int, agree: bool
) -> None:
    # Each of two steps multiplies 64 x 32 by 32 x 16: 2 * 64 * 32 * 16 = 65,536 FLOP.
    t = KinetoTrace(gpuperf={"schema": 1, "flops_by_op": {"aten::mm": counted, "aten::odd": 9**9}})
    for at in (0, 100):
        with t.step(at + 1, at=at, dur=90):
            t.op("aten::mm", at=at + 5, dur=9, dims=[[64, 32], [32, 16]], dtypes=["float"] * 2)
            t.launch("sgemm", at=at + 6, runs=(at + 20, at + 60))
    found = analyze(read_trace(t.write(tmp_path / "trace.json")))
    assert ("flops-disagree" not in {f.code for f in found.findings}) == agree
    assert ("tflops" not in found.invalid) == agree
