"""What `gpuperf analyze` prints of where kernels came from, of buckets and of the queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from kineto import KinetoTrace
from pytest_gpuperf.cli import main

ENGINE = 200
HOOK = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


def printed(t: KinetoTrace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["analyze", str(t.write(tmp_path / "trace.json"))]) == 0
    return capsys.readouterr().out


def line_of(text: str, start: str) -> str:
    (line,) = [line for line in text.splitlines() if line.startswith(start)]
    return " ".join(line.split())


def table(text: str, title: str) -> str:
    return text.partition(f"\n{title} ")[2].partition("\n\n")[0]


def test_annotations_and_modules_are_shown_with_their_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    t = KinetoTrace()
    t.event("decode", "user_annotation", 0, 100)
    t.event("nn.Module: Net_0", "python_function", 0, 90)
    t.event("nn.Module: Linear_0", "python_function", 5, 30)
    t.op("aten::linear", at=6, dur=20)
    t.launch("gemm", at=7, runs=(40, 60))
    text = printed(t, tmp_path, capsys)
    assert line_of(table(text, "annotation"), "decode") == "decode 1 1 20.00 µs"
    assert line_of(table(text, "module"), "Net_0/Linear_0") == (
        "Net_0/Linear_0 1 20.00 µs - 20.00 µs"
    )


def test_graphs_and_triton_kernels_are_shown_where_they_were_launched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    t = KinetoTrace()
    t.op("CompiledFunction", at=0, dur=10)
    t.launch("triton_poi_fused_add_0", at=2, runs=(20, 60), call="cudaGraphLaunch", call_dur=3)
    text = printed(t, tmp_path, capsys)
    assert line_of(table(text, "graphs launched from"), "CompiledFunction") == (
        "CompiledFunction 1 1 3.000 µs 40.00 µs"
    )
    assert line_of(table(text, "Triton kernel"), "triton_poi") == (
        "triton_poi_fused_add_0 CompiledFunction 1 40.00 µs"
    )
    assert "launch-bound op" not in text


def test_launch_bound_ops_and_short_sequences_say_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    t = KinetoTrace()
    for i in range(3):
        at = 100 * i
        t.op("aten::gelu", at=at, dur=40)
        t.launch("mul", at=at + 5, runs=(at + 50, at + 52))
        t.launch("tanh", at=at + 20, runs=(at + 54, at + 57))
    text = printed(t, tmp_path, capsys)
    assert line_of(table(text, "launch-bound op"), "aten::gelu") == (
        "aten::gelu 3 3 120.0 µs 15.00 µs"
    )
    assert "100.0% of kernel time is in calls that take the host longer" in text
    assert line_of(table(text, "short kernels in a row, under"), "aten::gelu") == (
        "aten::gelu 3 2 15.00 µs 21.00 µs"
    )
    assert "the first: mul → tanh" in text


def test_buckets_say_what_keeps_them_exposed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    t = KinetoTrace(world_size=2, rank=0)
    with t.step(1, at=0, dur=200):
        t.op("autograd::engine::evaluate_function: AddmmBackward0", at=10, dur=5, tid=ENGINE)
        t.launch("gemm", at=11, runs=(20, 40), tid=ENGINE)
        t.op(HOOK, at=20, dur=5, tid=ENGINE)
        t.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at=21, runs=(45, 60), stream=9,
                 tid=ENGINE)  # fmt: skip
    text = printed(t, tmp_path, capsys)
    assert line_of(table(text, "gradient bucket"), "#0") == "#0 - 1 15.00 µs 100.0% ready last"
    assert "ready last: ready when the backward pass is over: make the last bucket smaller" in text
    assert "1 of 1 kinds are told by the kernel's name only" in text
    assert "1 of 1 have no recorded size: no bandwidth" in text
    assert "algorithm and protocol are in the kernel's name: a hint" in text


def test_the_queue_and_the_longest_time_without_a_launch_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 20))
    t.launch("b", at=5, runs=(20, 30))
    t.op("aten::slow", at=10, dur=80)
    t.launch("c", at=100, runs=(105, 110))
    text = printed(t, tmp_path, capsys)
    # 10-110: b waits until 20, c from 100 to 105.
    assert "launch queue: empty 85.0% of the window, at most 2 launches" in text
    assert (
        line_of(table(text, "no launch for"), "     93.00 µs") == "93.00 µs 1 aten::slow 80.00 µs"
    )


def test_what_bounds_an_op_and_its_bandwidth_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    t = KinetoTrace(device_name="NVIDIA H100 80GB HBM3")
    t.op("aten::mm", 0, 10, dims=[[1, 4096], [4096, 4096]], dtypes=["c10::BFloat16"] * 2)
    t.launch("gemv", at=1, runs=(20, 40))
    row = line_of(table(printed(t, tmp_path, capsys), "FLOPs by op"), "aten::mm")
    # 2·4096² FLOP in 20 µs over 33,570,816 B: one FLOP a byte, so 3,350 GB/s allow 3.35 TFLOPS.
    assert row.endswith("bf16 33.55 MFLOP 1.68 3.35 memory 1,679")
