"""Named spans inside the steps, on timelines drawn and worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers import load_config, read_trace
from gpuperf_analyzers.metrics import Value
from gpuperf_analyzers.spans import SpanValues, analyze_span
from kineto import KinetoTrace

NAME = "attention"


def draw(path: Path, count: int = 2) -> Path:
    """Steps of 200 µs that pass the span twice.

    In the first passage (host 10 to 30) two kernels are launched, which run 40 to 60 and 70 to
    80; communication launched before it runs 50 to 75. The host waits 5 µs. In the second (host
    100 to 120) a matmul of 64 x 32 by 32 x 16 runs 110 to 130.
    """
    t = KinetoTrace()
    for i in range(count):
        at = 200.0 * i
        with t.step(i + 1, at=at, dur=190):
            t.launch("ncclDevKernel_AllReduce", at=at + 2, runs=(at + 50, at + 75), stream=9)
            t.event(NAME, "user_annotation", at + 10, 20)
            # The device's shadow of the annotation is not another span.
            t.event(NAME, "gpu_user_annotation", at + 40, 40, pid=0, tid=7)
            t.launch("gemm", at=at + 12, runs=(at + 40, at + 60))
            t.launch("relu", at=at + 15, runs=(at + 70, at + 80))
            t.runtime("cudaStreamSynchronize", at=at + 20, dur=5)
            t.event(NAME, "user_annotation", at + 100, 20)
            # One inside itself is part of the outer one.
            t.event(NAME, "user_annotation", at + 101, 10)
            t.op("aten::mm", at=at + 104, dur=6, dims=[[64, 32], [32, 16]], dtypes=["float"] * 2)
            t.launch("sgemm", at=at + 106, runs=(at + 110, at + 130))
            t.launch("outside", at=at + 150, runs=(at + 160, at + 180))
    return t.write(path / "trace.json")


def spans_of(path: Path, *, per_step: bool = False) -> SpanValues:
    (found,) = analyze_span(read_trace(path), load_config(), NAME, per_step=per_step)
    return found


def number(found: SpanValues, name: str) -> float | None:
    return found.values[name].value


def test_a_passage_lasts_from_its_first_activity_to_the_end_of_its_last(tmp_path: Path) -> None:
    found = spans_of(draw(tmp_path))
    windows = [(p.start / 1e3 % 200, p.end / 1e3 % 200) for p in found.passages]
    base = windows[0][0] - 40
    assert [(a - base, b - base) for a, b in windows] == [(40, 80), (110, 130)] * 2


def test_times_of_passages_are_medians_and_counts_the_worst(tmp_path: Path) -> None:
    found = spans_of(draw(tmp_path))
    # Lengths 40, 20, 40, 20: the median is their middle. Compute 30 and 20; communication 25
    # (10 of it beside the gemm, 5 beside relu) and none.
    assert number(found, "step_time") == 30.0
    assert number(found, "compute_time") == 25.0
    assert number(found, "comm_time") == 12.5
    assert number(found, "exposed_comm") == 5.0
    assert found.values["overlap"].value == pytest.approx(15 / 25)
    assert number(found, "idle") == 0.0
    assert (number(found, "kernel_launches"), number(found, "host_syncs")) == (2.0, 1.0)
    assert found.values["kernel_launches"].at == f"{NAME}#1"
    assert number(found, "flops") == 2 * 64 * 32 * 16


def test_passages_of_one_step_add_up(tmp_path: Path) -> None:
    found = spans_of(draw(tmp_path), per_step=True)
    assert number(found, "step_time") == 60.0
    assert number(found, "compute_time") == 50.0
    assert number(found, "exposed_comm") == 10.0
    assert number(found, "kernel_launches") == 3.0
    assert found.values["kernel_launches"].at == "ProfilerStep#1"
    assert found.values["flops"].samples == (2.0 * 64 * 32 * 16,) * 2


def test_ratios_of_six_steps_have_an_interval(tmp_path: Path) -> None:
    assert spans_of(draw(tmp_path, 5), per_step=True).values["overlap"].interval is None
    overlap = spans_of(draw(tmp_path, 6), per_step=True).values["overlap"]
    assert overlap.interval == pytest.approx((0.6, 0.6))  # every step is the same


def test_what_is_known_of_the_whole_trace_only_is_absent(tmp_path: Path) -> None:
    found = spans_of(draw(tmp_path)).values
    for name in ("window", "peak_memory", "launch_latency", "est_occupancy", "critical_compute"):
        assert isinstance(found[name], Value)
        assert found[name].absent_reason == "known of steps and of the whole trace, not of a span"


def test_a_passage_that_launched_nothing_has_no_length(tmp_path: Path) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=100):
        t.event(NAME, "user_annotation", 10, 20)
        t.launch("gemm", at=40, runs=(50, 60))
    (found,) = analyze_span(read_trace(t.write(tmp_path / "t.json")), load_config(), NAME)
    assert [p.step_time for p in found.passages] == [0]
    assert number(found, "kernel_launches") == 0.0
    assert found.values["idle"].absent_reason == "nothing was launched in the spans"
    assert "not counted" in (found.values["flops"].absent_reason or "")


def test_on_a_cpu_a_passage_is_the_span_itself(tmp_path: Path) -> None:
    t = KinetoTrace(device_name=None)
    t.op("aten::relu", at=0, dur=5)
    t.event(NAME, "user_annotation", 10, 30)
    t.op("aten::mm", at=15, dur=10)
    t.op("aten::add", at=50, dur=10)
    (found,) = analyze_span(read_trace(t.write(tmp_path / "t.json")), load_config(), NAME)
    assert (number(found, "step_time"), number(found, "compute_time")) == (30.0, 10.0)
    assert found.values["idle"].value == pytest.approx(20 / 30)
    assert number(found, "kernel_launches") == 1.0  # ops, on a CPU


def test_the_steps_of_the_trace_stay_what_they_are(tmp_path: Path) -> None:
    from gpuperf_analyzers import analyze

    trace = read_trace(draw(tmp_path))
    before = analyze(trace).to_json()
    analyze_span(trace, load_config(), NAME)
    assert analyze(trace).to_json() == before


def test_a_name_that_is_not_there_gives_nothing(tmp_path: Path) -> None:
    assert analyze_span(read_trace(draw(tmp_path)), load_config(), "nowhere") == ()


def test_a_star_stands_for_the_batch_in_the_names_of_decode_steps(tmp_path: Path) -> None:
    t = KinetoTrace()
    for i, (batch, length) in enumerate(((16, 10), (16, 20), (32, 60))):
        t.event(f"step[DECODE bs={batch}]", "user_annotation", 100.0 * i, 90)
        t.launch("decode", at=100.0 * i + 5, runs=(100.0 * i + 10, 100.0 * i + 10 + length))
    t.event("step[EXTEND bs=1]", "user_annotation", 300.0, 90)
    t.launch("prefill", at=305.0, runs=(310.0, 390.0))
    trace = read_trace(t.write(tmp_path / "t.json"))
    (found,) = analyze_span(trace, load_config(), "step[DECODE*")
    assert len(found.passages) == 3
    assert number(found, "step_time") == 20
    (one,) = analyze_span(trace, load_config(), "step[DECODE bs=32]")
    assert number(one, "step_time") == 60
    assert analyze_span(trace, load_config(), "nowhere*") == ()
