"""The roofline against its own arithmetic and against a real H100 run."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers import flops, load_config, read_trace
from gpuperf_analyzers.flop_formulas.roofline import Roofline, roofline
from gpuperf_analyzers.hardware import builtin_peaks, find_peak
from gpuperf_analyzers.hookspecs import OpCall, Peak
from kineto import KinetoTrace

PEAK = Peak(
    names=("Toy",), tflops={"bf16": 100.0}, memory_gb_s=1000.0, source="made up", checked=""
)
"""100 TFLOPS over 1000 GB/s: the ridge is at 100 FLOP per byte."""


def test_above_the_ridge_the_peak_is_the_roof() -> None:
    # 2e9 FLOP over 1e7 bytes in 40 µs.
    assert roofline(2 * 10**9, 10**7, 40_000, PEAK, "bf16") == Roofline(
        200.0, 50.0, 250.0, 100.0, "compute", 0.5
    )


def test_below_the_ridge_the_memory_is_the_roof() -> None:
    # 1e9 FLOP over 1e8 bytes in 200 µs: 10 FLOP/B allow 10 TFLOPS; 500 GB/s are half of it.
    placed = roofline(10**9, 10**8, 200_000, PEAK, "bf16")
    assert placed == Roofline(10.0, 5.0, 500.0, 10.0, "memory", 0.5)


def test_at_the_ridge_both_are_reached_and_compute_is_named() -> None:
    placed = roofline(10**9, 10**7, 10_000, PEAK, "bf16")
    assert (placed.intensity, placed.attainable_tflops, placed.bound) == (100.0, 100.0, "compute")
    assert placed.share == 1.0


@pytest.mark.parametrize(
    ("moved", "peak", "dtype"),
    [
        (None, PEAK, "bf16"),
        (10**7, None, "bf16"),
        (10**7, PEAK, "fp8"),
        (10**7, Peak(("X",), {"bf16": 1.0}, None, source="", checked=""), "bf16"),
    ],
    ids=["no bytes", "unknown device", "no peak for the type", "no bandwidth"],
)
def test_what_is_not_known_is_no_roof(moved: int | None, peak: Peak | None, dtype: str) -> None:
    placed = roofline(10**9, moved, 10_000, peak, dtype)
    assert (placed.attainable_tflops, placed.bound, placed.share) == (None, "", None)
    assert placed.tflops == 100.0


def test_no_time_is_no_rate() -> None:
    placed = roofline(10**9, 10**7, 0, PEAK, "bf16")
    assert (placed.tflops, placed.gb_s, placed.share) == (None, None, None)


def test_a_matmuls_row_holds_rates_roof_and_bound_by_hand(tmp_path: Path) -> None:
    m, k, n = 4096, 4096, 4096
    t = KinetoTrace(device_name="NVIDIA H100 80GB HBM3")
    t.op("aten::mm", 0, 10, dims=[[m, k], [k, n]], dtypes=["c10::BFloat16", "c10::BFloat16"])
    t.launch("nvjet", at=1, runs=(20, 220))
    t.op("aten::mm", 30, 10, dims=[[1, k], [k, n]], dtypes=["c10::BFloat16", "c10::BFloat16"])
    t.launch("gemv", at=31, runs=(220, 240))
    trace = read_trace(t.write(tmp_path / "t.json"))
    result = flops.analyze(trace, load_config(), 0)
    large, small = result.ops
    peak = find_peak("NVIDIA H100 80GB HBM3", builtin_peaks())
    assert peak is not None
    assert peak.memory_gb_s is not None
    moved = 2 * 3 * 4096**2
    assert large.bound == "compute"
    assert large.tflops == pytest.approx(2 * 4096**3 / 200e-6 / 1e12)
    assert large.gb_s == pytest.approx(moved / 200e-6 / 1e9)
    assert large.share_of_attainable == pytest.approx((large.tflops or 0) / peak.tflops["bf16"])
    thin = 2 * (k + k * n + n)
    assert small.bound == "memory"
    assert small.gb_s == pytest.approx(thin / 20e-6 / 1e9)
    # One FLOP a byte: the share of the roof is the share of the bandwidth.
    assert small.share_of_attainable == pytest.approx((small.gb_s or 0) / peak.memory_gb_s)
    assert result.gb_s == pytest.approx((moved + thin) / 220e-6 / 1e9)


def test_no_op_of_a_real_run_is_above_its_roof(shared_traces: Path) -> None:
    # What is above the roof would be a wrong formula, wrong bytes or a wrong peak. Only traffic
    # that stays in the cache (50 MB on an H100) can pass the slope; nothing passes the peak.
    file = shared_traces / "tracelens-h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
    result = flops.analyze(read_trace(file), load_config(), 0)
    placed = [op for op in result.ops if op.share_of_attainable is not None]
    assert placed
    cache = 50 * 2**20
    for op in placed:
        in_cache = (op.moved_bytes or 0) / op.calls < cache
        assert (op.share_of_attainable or 0) < 1 or (op.bound == "memory" and in_cache)
    assert {op.bound for op in placed} <= {"compute", "memory"}


@pytest.mark.parametrize(
    ("mask", "reads_and_writes"),
    [("[True, True, False]", 2), ("[False, True, False]", 1), ("[True, False, False]", 1)],
)
def test_a_convolutions_backward_moves_each_operand_once(mask: str, reads_and_writes: int) -> None:
    call = OpCall(
        "aten::convolution_backward",
        ((8, 64, 16, 16), (8, 32, 16, 16), (64, 32, 3, 3)),
        ("c10::BFloat16",) * 3,
        ("", "", "", "[0]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", mask),
    )
    formula = load_config().flop_formulas[call.name]
    assert formula.bytes_moved is not None
    grad, x, weight = 8 * 64 * 16 * 16, 8 * 32 * 16 * 16, 64 * 32 * 3 * 3
    assert formula.bytes_moved(call) == 2 * (grad + reads_and_writes * (x + weight))


FP8 = ("c10::Float8_e4m3fn",) * 2
BF16 = ("c10::BFloat16",) * 2


@pytest.mark.parametrize(
    ("op", "dims", "dtypes", "concrete", "right"),
    [
        # c10::ScalarType 15 is bfloat16, 6 float32; without an out_dtype fp8's is not known.
        ("_scaled_mm", ((64, 32), (32, 16)), FP8, ("",) * 6 + ("15",), 2560 + 2 * 1024),
        ("_scaled_mm", ((64, 32), (32, 16)), FP8, ("",) * 6 + ("6",), 2560 + 4 * 1024),
        ("_scaled_mm", ((64, 32), (32, 16)), FP8, ("",) * 7, None),
        ("_scaled_mm_v2", ((64, 32), (32, 16)), FP8, ("",) * 9 + ("15",), 2560 + 2 * 1024),
        # Integers of a byte make int32.
        ("_int_mm", ((64, 32), (32, 16)), ("signed char",) * 2, (), 2560 + 4 * 1024),
        # Rows split among 4 experts: one result of 64 x 16.
        ("_grouped_mm", ((64, 32), (4, 32, 16), (4,)), BF16, (), 2 * (2048 + 2048 + 1024)),
        # The inner dimension split: a result of 64 x 16 for each of 4 groups.
        ("_grouped_mm", ((64, 32), (32, 16), (4,)), BF16, (), 2 * (2048 + 512 + 4 * 1024)),
        ("_grouped_mm", ((64, 32), (32, 16)), BF16, (), None),
        ("_grouped_mm", ((4, 8, 32), (4, 32, 16)), BF16, (), 2 * (1024 + 2048 + 512)),
        ("_scaled_grouped_mm", ((64, 32), (4, 32, 16)), FP8, ("",) * 7 + ("15",),
         2048 + 2048 + 2 * 1024),
    ],
)  # fmt: skip
def test_the_result_is_written_in_its_own_type(
    op: str,
    dims: tuple[tuple[int, ...], ...],
    dtypes: tuple[str, ...],
    concrete: tuple[str, ...],
    right: int | None,
) -> None:
    formula = load_config().flop_formulas[f"aten::{op}"]
    assert formula.bytes_moved is not None
    assert formula.bytes_moved(OpCall(f"aten::{op}", dims, dtypes, concrete)) == right
