"""The critical path on real traces: it reaches across, is no longer than the time, and agrees."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuperf_analyzers import critical_path, timeline
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.critical_path import CriticalPaths, PathClass
from gpuperf_analyzers.critical_path import Path as FoundPath
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.trace import read_trace
from gpuperf_analyzers.trace.classify import devices
from gpuperf_analyzers.trace.links import launches
from gpuperf_analyzers.trace.model import Category, Trace

ON_DEVICE = (PathClass.COMPUTE, PathClass.COMM, PathClass.MEMORY)
FORWARD = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"
ALEXNET = "hta-critical-path-alexnet/benchmark_result_2869224_1695835535_trace.json.gz"
ADD = "hta-critical-path-simple-add/benchmark_result_493459_1694039959_trace.json.gz"
EVENT_SYNC = "hta-critical-path-cuda-event-sync/event_sync_trace.json.gz"
MULTI_STREAM = "hta-critical-path-cuda-event-sync-multi-stream/event_sync_trace.json.gz"
REAL = (
    "hta-trace-diff/test.json.gz",
    "hta-trace-diff/control.json.gz",
    "hta-nccl-parser-config/nccl_data.json.gz",
    "hta-timeline-analysis/sampled_rank-0.json.gz",
    "param-dlrm-kineto/worker3_step_12.1694128201557.pt.trace.json.gz",
    "tracelens-h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "tracelens-b300-moe-micro/moe_05_large_capacity.json.gz",
    "tracelens-sglang-deepseek-r1-tp/B300.1782843274.7730265-TP-0-DECODE.trace.json.gz",
    "tracelens-inference-sglang-decode/sglang_Qwen3-8B_decode.json.gz",
    "tracelens-mi210-gpu-only-trace/gpu_only_trace.json.gz",
    "local-torch214-cpu/ddp_gloo_4ranks/rank2.pt.trace.json",
    "local-torch214-cpu/fsdp2_gloo_2ranks/rank0.pt.trace.json.gz",
    ALEXNET,
    MULTI_STREAM,
)  # fmt: skip


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def analyzed(path: Path, config: Config) -> tuple[Trace, CriticalPaths]:
    trace = read_trace(path)
    return trace, critical_path.analyze(trace, config, devices(trace)[0])


def touches(path: FoundPath) -> bool:
    s = path.segments
    return bool(
        (s.start[1:] == s.end[:-1]).all()
        and s.start[0] == path.reached_ns
        and sum(path.by_class) == path.end_ns - path.reached_ns
    )


def test_the_path_reaches_across_every_step_without_cuda_sync_events(
    shared_traces: Path, config: Config
) -> None:
    trace, result = analyzed(shared_traces / "hta-trace-diff/test.json.gz", config)
    assert not len(trace.sync_args.row)
    assert len(result.steps) == 6
    for path in (result.window, *result.steps):
        assert path.reached_ns == path.start_ns, path.name
        assert path.coverage == 1, path.name
        assert path.reason == ""
        assert touches(path)
    # It says what it rests on: nobody recorded which events were waited for.
    assert "wait-call" in {a.code for a in result.assumptions}
    (coverage,) = (v for v in result.metrics() if v.name == "critical_coverage")
    assert (coverage.value, coverage.n) == (1, 6)


@pytest.mark.parametrize("name", REAL)
def test_the_path_is_on_the_device_only_while_the_device_is_busy(
    name: str, shared_traces: Path, config: Config
) -> None:
    trace = read_trace(shared_traces / name)
    for device in devices(trace):
        paths = critical_path.analyze(trace, config, device)
        times = timeline.analyze(trace, config, device)
        assert [p.name for p in paths.steps] == [t.name for t in times.steps]
        for path, time_ in zip(
            (paths.window, *paths.steps), (times.window, *times.steps), strict=True
        ):
            assert not path.length_ns or touches(path)
            assert path.length_ns == time_.window_ns
            assert sum(path.by_class[kind] for kind in ON_DEVICE) <= time_.busy_ns
            assert path.by_class[PathClass.COMM] <= time_.comm_ns
            assert path.by_class[PathClass.COMPUTE] <= time_.compute_ns
            assert 0 <= path.coverage <= 1
            assert (path.reason == "") == (path.coverage >= 0.95)


def test_a_wait_that_nothing_explains_is_no_launch_and_no_path(
    shared_traces: Path, config: Config
) -> None:
    """A kernel starts 463 ms after its launch call returned, on an idle device."""
    _, result = analyzed(
        shared_traces / "tracelens-inference-sglang-decode/sglang_Qwen3-8B_decode.json.gz", config
    )
    assert result.window.by_class[PathClass.UNKNOWN] > 460e6
    assert "nothing in the trace explains 97.8%" in result.window.reason


def test_recorded_waits_need_no_assumption(shared_traces: Path, config: Config) -> None:
    trace, result = analyzed(shared_traces / ALEXNET, config)
    waits = trace.sync_args.wait_stream >= 0
    # By hand from the file: 20 "Stream Wait Event", each with its stream and its record's call.
    assert waits.sum() == 20
    assert (trace.sync_args.wait_record[waits] > 0).all()
    assert set(np.unique(trace.sync_args.wait_stream[waits]).tolist()) <= {7, *range(20, 28)}
    assert result.assumptions == ()
    assert result.window.coverage == 1


def test_a_hundred_thousand_events_take_well_under_a_few_seconds(
    shared_traces: Path, config: Config
) -> None:
    trace = read_trace(shared_traces / "hta-df-index-resolver/df_index_resolver.json.gz")
    assert len(trace.events) > 100_000
    begin = time.process_time()
    critical_path.analyze(trace, config, devices(trace)[0])
    assert time.process_time() - begin < 3


# ------------------------------------------------------------------ beside HTA's
def hta_breakdown(path: Path, annotation: str, instance: int) -> dict[str, float]:
    """µs by what bounds them on the path that HTA finds."""
    trace_analysis = pytest.importorskip(
        "hta.trace_analysis", reason="HTA (pip: traceinsight) is not installed"
    )
    found: Any = trace_analysis.TraceAnalysis(
        trace_files={0: str(path)}, trace_dir=str(path.parent)
    )
    graph, success = found.critical_path_analysis(
        rank=0, annotation=annotation, instance_id=instance
    )
    assert success
    parts = graph.get_critical_path_breakdown().groupby("bound_by")["duration"].sum()
    return {str(k): float(v) for k, v in parts.items()}


def hta_on_device(path: Path, annotation: str, instance: int) -> float:
    """µs of kernels, copies and fills on the path that HTA finds."""
    return hta_breakdown(path, annotation, instance)["gpu_compute_bound"]


def on_device(path: FoundPath) -> float:
    return sum(path.by_class[kind] for kind in ON_DEVICE) / 1e3


@pytest.mark.filterwarnings("ignore")  # of HTA and its dependencies
@pytest.mark.parametrize("name", [ALEXNET, ADD])
def test_of_an_annotation_the_device_time_on_the_path_is_the_one_that_hta_finds(
    name: str, shared_traces: Path, config: Config
) -> None:
    expected = hta_on_device(shared_traces / name, FORWARD, 1)
    trace = read_trace(shared_traces / name)
    row = np.flatnonzero(trace.names_matching([FORWARD]))[1]
    begin = int(trace.events.ts[row])
    end = begin + int(trace.events.dur[row])
    path = critical_path.path_of_span(trace, config, 0, begin, end)
    assert on_device(path) == expected
    assert path.coverage == 1


@pytest.mark.filterwarnings("ignore")
def test_across_streams_the_kernel_time_on_the_path_is_the_one_that_hta_finds(
    shared_traces: Path, config: Config
) -> None:
    """HTA's goes through a fill of 1 µs that ended as the kernel's launch call began.

    The kernel could not have started before that call, however short the fill.
    """
    expected = hta_on_device(shared_traces / MULTI_STREAM, "", 0)
    trace, result = analyzed(shared_traces / MULTI_STREAM, config)
    assert result.window.by_class[PathClass.COMPUTE] / 1e3 == expected - 1
    (kernel,) = (i for i in result.window.items if i.path_class is PathClass.COMPUTE)
    row = int(trace.rows(Category.KERNEL)[-1])
    call = int(launches(trace)[row])
    fill = int(trace.rows(Category.MEMSET)[-1])
    assert kernel.name == trace.name_of(row)
    assert trace.events.ts[call] >= trace.events.end[fill]


@pytest.mark.filterwarnings("ignore")
def test_of_a_step_the_kernel_time_on_the_path_is_the_one_that_hta_finds(
    shared_traces: Path, config: Config
) -> None:
    """Ours has the 2 µs of the copy that ``.item()`` waits for too; HTA's leads past it."""
    expected = hta_on_device(shared_traces / EVENT_SYNC, "ProfilerStep", 0)
    _, result = analyzed(shared_traces / EVENT_SYNC, config)
    (step,) = result.steps
    assert step.by_class[PathClass.COMPUTE] / 1e3 == expected
    assert step.by_class[PathClass.MEMORY] / 1e3 == 2


@pytest.mark.filterwarnings("ignore")
def test_where_hta_covers_half_of_a_step_and_blames_the_cpu_the_path_reaches_across(
    shared_traces: Path, config: Config
) -> None:
    path = shared_traces / "hta-trace-diff/test.json.gz"
    theirs = {k: v for k, v in hta_breakdown(path, "ProfilerStep", 0).items() if v}
    _, result = analyzed(path, config)
    step = result.steps[0]
    assert sum(theirs.values()) < 0.6 * step.length_ns / 1e3
    assert set(theirs) == {"cpu_bound"}
    assert (step.coverage, step.bound) == (1, PathClass.COMPUTE)
