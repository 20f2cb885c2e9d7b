"""Cases on the real traces that other tools get wrong, held to the right value.

Values not worked out here come from an independent exact calculation over the raw events.
"""

from __future__ import annotations

import gzip
import json
import statistics
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers import host, timeline
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.metrics import BUILTIN
from gpuperf_analyzers.trace import Category, Trace, read_trace
from gpuperf_analyzers.trace.classify import BUILTIN_CLASSIFIERS, devices
from gpuperf_analyzers.trace.links import launches, launching_ops
from gpuperf_analyzers.trace.model import GPU_ACTIVITY
from gpuperf_analyzers.trace.selection import activity
from gpuperf_analyzers.trace.steps import steps

CONFIG = Config({m.name: m for m in BUILTIN}, comm_classifiers=BUILTIN_CLASSIFIERS)
NS_RESOLUTION = "hta-ns-resolution-trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"
VLLM = "tracelens-inference-vllm-decode-full/graph_execution.json.gz"
NCCL_PARSER = "hta-nccl-parser-config/nccl_data.json.gz"
DIFF_TEST = "hta-trace-diff/test.json.gz"
B200 = "tracelens-b200/eager_trace.json.gz"
B300 = "tracelens-sglang-deepseek-r1-tp/B300.1782843274.7730265-TP-0-DECODE.trace.json.gz"
MI300 = "tracelens-mi300-ddp-resnet18-no-pool/train_resnet18.json.gz"
MI250 = "hta-amd-trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz"
ALEXNET = "hta-critical-path-alexnet/benchmark_result_2869224_1695835535_trace.json.gz"
TRITON = "hta-triton-example/triton_example.json.gz"


@cache
def loaded(path: Path) -> Trace:
    return read_trace(path)


@cache
def raw(path: Path) -> list[dict[str, Any]]:
    document: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


def window(path: Path) -> timeline.Times:
    trace = loaded(path)
    (device,) = devices(trace)
    return timeline.analyze(trace, CONFIG, device).window


@pytest.mark.parametrize(("file", "idle_us"), [(NS_RESOLUTION, 7_575), (VLLM, 25)])
def test_fractions_of_a_microsecond_are_kept(file: str, idle_us: int, shared_traces: Path) -> None:
    assert round(window(shared_traces / file).idle_ns / 1000) == idle_us


def test_overlap_with_fractional_times_is_not_rounded_inward(shared_traces: Path) -> None:
    overlap = window(shared_traces / NCCL_PARSER).overlap
    assert overlap is not None
    assert round(100 * overlap, 2) == 15.61


def test_no_step_is_left_out_and_every_linked_row_of_a_step_is_counted(
    shared_traces: Path,
) -> None:
    trace = loaded(shared_traces / DIFF_TEST)
    (device,) = devices(trace)
    every = steps(trace, device, CONFIG)
    assert [s.number for s in every] == list(range(1009, 1015))
    events = raw(shared_traces / DIFF_TEST)
    spans = [
        (e["ts"], e["ts"] + e["dur"])
        for e in events
        if e.get("cat") == "user_annotation" and e["name"].startswith("ProfilerStep#")
    ]
    begun = {
        e["args"]["correlation"]: e["ts"]
        for e in events
        if e.get("cat") == "cuda_runtime" and e.get("args", {}).get("correlation")
    }
    gpu = [
        e["args"]["correlation"]
        for e in events
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    by_hand = [sum(a <= begun.get(c, -1) < b for c in gpu) for a, b in sorted(spans)]
    assert [s.launched for s in every] == by_hand


def test_kernels_without_a_launch_record_are_counted_not_dropped(shared_traces: Path) -> None:
    trace = loaded(shared_traces / DIFF_TEST)
    rows = trace.rows(*GPU_ACTIVITY)
    assert len(rows) == 15_632
    assert int((launches(trace)[rows] < 0).sum()) == 614
    (device,) = devices(trace)
    result = timeline.analyze(trace, CONFIG, device)
    assert sum(result.by_time) > 0
    assert result.window.unknown_ns is not None
    assert result.window.unknown_ns > 0


def test_a_triton_cpu_op_with_a_stream_is_not_a_kernel(shared_traces: Path) -> None:
    assert window(shared_traces / TRITON).busy_ns == 1_760


def test_sync_rows_do_not_stretch_the_window(shared_traces: Path) -> None:
    assert round(window(shared_traces / ALEXNET).window_ns / 1000) == 12_920_244


def test_overlapping_kernels_on_one_stream_leave_no_negative_gap(shared_traces: Path) -> None:
    trace = loaded(shared_traces / B300)
    (device,) = devices(trace)
    found = activity(trace, device, CONFIG)
    times = window(shared_traces / B300)
    assert int(trace.events.dur[found.rows].sum()) > times.busy_ns  # they do overlap
    assert 0 <= times.idle_ns < times.window_ns
    assert all(g.duration > 0 for g in timeline.analyze(trace, CONFIG, device).gaps)


def test_custom_all_reduce_kernels_are_communication(shared_traces: Path) -> None:
    assert int(window(shared_traces / B200).comm_ns / 1000) == 2_141


@pytest.mark.parametrize("file", [MI300, MI250, VLLM])
def test_hip_kernels_are_not_communication_for_their_prefix(file: str, shared_traces: Path) -> None:
    assert window(shared_traces / file).comm_ns == 0


def test_every_launch_call_of_the_b200_trace_is_found(shared_traces: Path) -> None:
    trace = loaded(shared_traces / B200)
    rows = trace.rows(*GPU_ACTIVITY)
    assert len(rows) == 929
    assert int((launches(trace)[rows] >= 0).sum()) == 929
    got = {v.name: v for v in host.analyze(trace, CONFIG, 0).metrics()}
    names = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx")
    by_hand = sum(e.get("name") in names for e in raw(shared_traces / B200))
    assert got["kernel_launches"].value == by_hand == 768


def test_hip_launch_calls_are_found(shared_traces: Path) -> None:
    trace = loaded(shared_traces / MI300)
    got = {v.name: v for v in host.analyze(trace, CONFIG, 2).metrics()}
    names = ("hipLaunchKernel", "hipExtModuleLaunchKernel", "hipModuleLaunchKernel")
    by_hand = sum(e.get("name") in names for e in raw(shared_traces / MI300))
    assert got["kernel_launches"].value == by_hand == 2_360


def test_stream_zero_of_rocm_is_attributed_like_any_other(shared_traces: Path) -> None:
    trace = loaded(shared_traces / MI250)
    kernels = trace.rows(Category.KERNEL)
    assert set(trace.events.stream[kernels].tolist()) == {0}
    assert (launching_ops(trace)[kernels] >= 0).all()


def test_the_bandwidth_of_copies_is_bytes_over_time(shared_traces: Path) -> None:
    trace = loaded(shared_traces / DIFF_TEST)
    (device,) = devices(trace)
    found = host.analyze(trace, CONFIG, device)
    (copies,) = [c for c in found.copies if c.direction == "DtoD"]
    events = [
        e
        for e in raw(shared_traces / DIFF_TEST)
        if e.get("cat") == "gpu_memcpy" and "DtoD" in e["name"]
    ]
    moved, us = sum(e["args"]["bytes"] for e in events), sum(e["dur"] for e in events)
    assert copies.gb_s == pytest.approx(moved / us / 1000)
    assert copies.gb_s > 100  # of an A100 or V100's memory, not the step function's 0.0014
    assert statistics.median(e["args"]["bytes"] / e["dur"] / 1000 for e in events if e["dur"]) > 1


@pytest.mark.parametrize(
    ("file", "device"),
    [
        ("hta-large-integer-trace/rank-70.Mar_25_20_48_12.2861.pt.trace.json.gz", 0),
        (VLLM, 2),
        (MI250, 2),
    ],
)
def test_small_and_large_correlation_ids_join(file: str, device: int, shared_traces: Path) -> None:
    trace = loaded(shared_traces / file)
    ids = trace.events.correlation[trace.rows(*GPU_ACTIVITY)]
    calls = trace.events.correlation[trace.rows(Category.RUNTIME, Category.DRIVER)]
    linked = launches(trace)[trace.rows(*GPU_ACTIVITY)] >= 0
    assert linked.tolist() == [c > 0 and c in set(calls.tolist()) for c in ids.tolist()]
    assert activity(trace, device, CONFIG).rows.tolist() == trace.rows(*GPU_ACTIVITY).tolist()


def test_an_item_in_a_real_training_step_is_one_sync_with_its_op(shared_traces: Path) -> None:
    trace = loaded(shared_traces / DIFF_TEST)
    (device,) = devices(trace)
    found = host.analyze(trace, CONFIG, device)
    by_op = {(s.op, s.inner_op): s.count for s in found.syncs}
    events = raw(shared_traces / DIFF_TEST)
    spans = [
        (e["ts"], e["ts"] + e["dur"])
        for e in events
        if e.get("cat") == "user_annotation" and e["name"].startswith("ProfilerStep#")
    ]
    items = [e["ts"] for e in events if e.get("name") == "aten::item" and e.get("cat") == "cpu_op"]
    calls = [
        e["ts"]
        for e in events
        if "Synchronize" in e.get("name", "") and e.get("cat") == "cuda_runtime"
    ]
    inside = sum(any(a <= at < b for a, b in spans) for at in calls)
    assert sum(by_op.values()) == inside
    assert 0 < by_op["aten::item", "aten::_local_scalar_dense"] <= len(items)
    assert all(op for op, _ in by_op)
