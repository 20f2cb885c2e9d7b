"""Holistic Trace Analysis over traces of ours: an oracle where its definitions are the same.

HTA's temporal breakdown and overlap use the definitions of our timeline. Run over the columns
that the adapter hands over, they are an independent calculation of the same numbers.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers import TraceSet, load_config, read_trace, read_traces, timeline
from gpuperf_analyzers.hta_adapter import HtaMissingError, to_hta
from gpuperf_analyzers.timeline import Times
from gpuperf_analyzers.trace.classify import devices
from gpuperf_analyzers.trace.model import GPU_ACTIVITY
from kineto import KinetoTrace

needs_hta = pytest.mark.skipif(
    importlib.util.find_spec("hta") is None,
    reason="Holistic Trace Analysis is not installed (extra hta)",
)
pytestmark = pytest.mark.filterwarnings("ignore")  # HTA divides by no communication, and the like

WHOLE_MICROSECONDS = [
    "hta-call-stack/backward_thread.json",
    "hta-critical-path-alexnet/benchmark_result_2869224_1695835535_trace.json.gz",
    "hta-critical-path-cuda-event-sync-multi-stream/event_sync_trace.json.gz",
    "hta-critical-path-cuda-event-sync/event_sync_trace.json.gz",
    "hta-critical-path-simple-add/benchmark_result_493459_1694039959_trace.json.gz",
    "hta-df-index-resolver/df_index_resolver.json.gz",
    "hta-timeline-analysis/sampled_rank-0.json.gz",
    "hta-trace-diff/control.json.gz",
    "hta-trace-diff/test.json.gz",
    "hta-trace-filter/sampled_rank-1.json.gz",
    "hta-with-gpu-user-annotation/step_based_trace_2543932.json.gz",
    "kineto-gpu-metrics/gpu_metrics_input.20221020.json",
    "kineto-tb-resnet50-num-workers-0/worker0.1623143089861.pt.trace.json.gz",
]
FRACTIONS = [
    "hta-amd-trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "hta-nccl-parser-config/nccl_data.json.gz",
    "hta-ns-resolution-trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    "hta-triton-example/triton_example.json.gz",
    "tracelens-h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "tracelens-inference-vllm-decode-full/graph_execution.json.gz",
    "tracelens-mi210-gpu-only-trace/gpu_only_trace.json.gz",
    "tracelens-torch-compile-triton/trace.json.gz",
    "tracelens-unit-micro/sdpa_01_long_seq_low_eff.json",
]
READ_BY_BOTH = [
    "hta-df-index-resolver/df_index_resolver.json.gz",
    "hta-timeline-analysis/sampled_rank-0.json.gz",
    "hta-trace-diff/control.json.gz",
    "hta-trace-filter/sampled_rank-1.json.gz",
    "hta-with-gpu-user-annotation/step_based_trace_2543932.json.gz",
]
"""Whole microseconds, a launch record for every GPU row, no ``cuda_sync``."""


def window(traces: TraceSet, index: int = 0) -> Times:
    trace = traces.traces[index]
    return timeline.analyze(trace, load_config(), devices(trace)[0]).window


def numbers(analysis: Any, index: int = 0) -> tuple[float, float, float]:
    row = analysis.get_temporal_breakdown(visualize=False).iloc[index]
    return row["idle_time(us)"], row["compute_time(us)"], row["kernel_time(us)"]


def overlap(analysis: Any, index: int = 0) -> float:
    return float(analysis.get_comm_comp_overlap(visualize=False).iloc[index, 1])


@needs_hta
@pytest.mark.parametrize("file", WHOLE_MICROSECONDS)
def test_whole_microseconds_agree_exactly(file: str, shared_traces: Path) -> None:
    traces = read_traces(shared_traces / file)
    analysis, ours = to_hta(traces), window(traces)
    idle, compute, total = numbers(analysis)
    assert idle * 1000 == ours.idle_ns
    assert compute * 1000 == ours.compute_ns
    assert total * 1000 == ours.window_ns
    if ours.overlap is not None:
        assert overlap(analysis) == round(100 * ours.overlap, 2)


@needs_hta
@pytest.mark.parametrize("file", FRACTIONS)
def test_fractions_handed_over_whole_agree_to_the_nanosecond(
    file: str, shared_traces: Path
) -> None:
    # HTA rounds fractions away when it reads a file; over our columns it does not get to.
    traces = read_traces(shared_traces / file)
    analysis, ours = to_hta(traces), window(traces)
    idle, compute, total = numbers(analysis)
    assert round(idle * 1000) == ours.idle_ns
    assert round(compute * 1000) == ours.compute_ns
    assert round(total * 1000) == ours.window_ns
    if ours.overlap is not None:
        assert overlap(analysis) == round(100 * ours.overlap, 2)


@needs_hta
@pytest.mark.parametrize("file", READ_BY_BOTH)
def test_htas_own_reader_agrees_where_it_keeps_every_row(file: str, shared_traces: Path) -> None:
    from hta.trace_analysis import TraceAnalysis

    path = str(shared_traces / file)
    theirs = TraceAnalysis(trace_files={0: path}, include_last_profiler_step=True)
    ours = window(read_traces(path))
    idle, compute, total = numbers(theirs)
    assert (idle * 1000, compute * 1000, total * 1000) == (
        ours.idle_ns,
        ours.compute_ns,
        ours.window_ns,
    )
    if ours.overlap is not None:
        assert overlap(theirs) == round(100 * ours.overlap, 2)


@needs_hta
def test_eight_ranks_agree_rank_by_rank(shared_traces: Path) -> None:
    traces = read_traces(shared_traces / "param-dlrm-kineto")
    analysis = to_hta(traces)
    assert sorted(analysis.t.traces) == list(range(8))
    for rank in range(8):
        ours = window(traces, rank)
        assert ours.overlap is not None
        idle, compute, total = numbers(analysis, rank)
        assert (idle * 1000, compute * 1000) == (ours.idle_ns, ours.compute_ns)
        assert total * 1000 == ours.window_ns
        assert overlap(analysis, rank) == round(100 * ours.overlap, 2)


@needs_hta
def test_the_other_questions_of_a_notebook_have_their_columns(shared_traces: Path) -> None:
    traces = read_traces(shared_traces / "param-dlrm-kineto")
    analysis = to_hta(traces)
    kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
    assert {"COMMUNICATION", "COMPUTATION", "MEMORY"} <= set(kinds["kernel_type"])
    assert set(kernels["rank"]) == set(range(8))
    assert 7 in set(analysis.get_idle_time_breakdown(visualize=False)[0]["stream"])
    launches = analysis.get_cuda_kernel_launch_stats(visualize=False)[0]
    assert len(launches) == len(traces.traces[0].rows(*GPU_ACTIVITY))
    assert not analysis.get_queue_length_summary().empty
    assert not analysis.get_memory_bw_summary().empty
    assert analysis.get_profiler_steps() == [10]
    assert len(analysis.get_potential_stragglers()) == 2


def synthetic(path: Path, **kwargs: Any) -> KinetoTrace:
    t = KinetoTrace(**kwargs)
    with t.step(1, at=0, dur=50), t.step(2, at=50, dur=60):
        t.op("aten::mm", at=5, dur=10, dims=[[8, 4], [4, 2]], dtypes=["float", "float"])
        t.launch("gemm", at=6, runs=(20, 30))
        t.launch("ncclDevKernel_AllReduce", at=7, runs=(25, 45), stream=9)
        t.launch("gemm", at=60, runs=(70, 80))
        t.launch("lost", at=61, runs=(90, 95), recorded=False)
    t.event("Stream Sync", "cuda_sync", 96, 20, device=0, stream=7, correlation=77)
    t.write(path)
    return t


@needs_hta
def test_every_step_and_every_row_is_there_and_sync_rows_are_not(tmp_path: Path) -> None:
    synthetic(tmp_path / "rank0.json")
    analysis = to_hta(read_traces(tmp_path))
    idle, compute, total = numbers(analysis)
    # Busy: 20-45, 70-80, 90-95; compute: 20-30, 70-80, 90-95.
    assert (total, idle, compute) == (75, 35, 25)
    assert overlap(analysis) == 25.0  # 25-30 of 25-45
    assert analysis.t.get_iterations() == [1, 2]


@needs_hta
def test_rows_without_a_launch_record_are_left_out_on_request_only(tmp_path: Path) -> None:
    synthetic(tmp_path / "rank0.json")
    traces = read_traces(tmp_path)
    assert numbers(to_hta(traces, only_linked=True)) == (25, 20, 60)


@needs_hta
def test_links_shapes_and_ranks_aligned_in_time_are_handed_over(tmp_path: Path) -> None:
    synthetic(tmp_path / "rank0.json", rank=0, world_size=2)
    synthetic(tmp_path / "rank1.json", rank=1, world_size=2, base_us=1_000_500.0)
    analysis = to_hta(read_traces(tmp_path))
    first, second = (analysis.t.get_trace(rank) for rank in (0, 1))
    assert (second["ts"].to_numpy() - first["ts"].to_numpy() == 500).all()
    names = analysis.t.symbol_table.get_sym_table()
    gemm = first[(first["name"] == names.index("gemm"))].iloc[0]
    call = first.loc[gemm["index_correlation"]]
    assert names[call["name"]] == "cudaLaunchKernel"
    assert call["index_correlation"] == gemm["index"]
    op = first[first["name"] == names.index("aten::mm")].iloc[0]
    assert op["input_dims"] == [[8, 4], [4, 2]]
    lost = first[first["name"] == names.index("lost")].iloc[0]
    assert (lost["index_correlation"], lost["iteration"]) == (0, -1)


@needs_hta
def test_several_devices_are_not_merged(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 20))
    t.launch("b", at=1, runs=(10, 50), device=1)
    t.write(tmp_path / "t.json")
    traces = read_traces(tmp_path / "t.json")
    with pytest.raises(ValueError, match=r"several devices \[0, 1\]: choose one with device="):
        to_hta(traces)
    assert numbers(to_hta(traces, device=0))[2] == 10
    assert numbers(to_hta(traces, device=1))[2] == 40
    with pytest.raises(ValueError, match="no device 5"):
        to_hta(traces, device=5)


@needs_hta
def test_two_traces_of_one_rank_are_refused(tmp_path: Path) -> None:
    synthetic(tmp_path / "a.json", rank=3, world_size=4)
    trace = read_trace(tmp_path / "a.json")
    with pytest.raises(ValueError, match="both claim rank 3"):
        to_hta(TraceSet((trace, trace)))


@needs_hta
def test_an_empty_set_is_refused() -> None:
    with pytest.raises(ValueError, match="the set is empty"):
        to_hta(TraceSet(()))


def test_without_hta_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic(tmp_path / "rank0.json")
    traces = read_traces(tmp_path)
    for name in [n for n in sys.modules if n == "hta" or n.startswith("hta.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "hta", None)
    with pytest.raises(HtaMissingError, match=r'pip install "pytest-gpuperf\[hta\]"'):
        to_hta(traces)


@pytest.mark.parametrize("file", WHOLE_MICROSECONDS)
def test_the_traces_compared_exactly_do_have_whole_microseconds(
    file: str, shared_traces: Path
) -> None:
    trace = read_trace(shared_traces / file)
    rows = trace.rows(*GPU_ACTIVITY)
    assert len(rows)
    assert not (trace.events.ts[rows] % 1000).any()
    assert not (trace.events.dur[rows] % 1000).any()
