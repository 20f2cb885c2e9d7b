"""The rows of docs/compared.md: how each number is got with this project and with HTA.

A row is known by its trace and number, as the page writes them. ``OURS`` runs this project,
``THEIRS`` runs Holistic Trace Analysis with all steps included where the row does not say else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpuperf_analyzers import Analysis, analyze, load_config, read_trace, read_traces
from gpuperf_analyzers.critical_path import PathClass
from gpuperf_analyzers.trace.links import launches
from gpuperf_analyzers.trace.model import GPU_ACTIVITY
from gpuperf_analyzers.trace.steps import step_of
from kineto import KinetoTrace

FILES = {
    "ns_resolution": "hta-ns-resolution-trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    "vLLM decode": "tracelens-inference-vllm-decode-full/graph_execution.json.gz",
    "nccl_parser_config": "hta-nccl-parser-config/nccl_data.json.gz",
    "triton_example": "hta-triton-example/triton_example.json.gz",
    "alexnet": "hta-critical-path-alexnet/benchmark_result_2869224_1695835535_trace.json.gz",
    "trace_diff/test": "hta-trace-diff/test.json.gz",
    "df_index_resolver": "hta-df-index-resolver/df_index_resolver.json.gz",
    "B200 eager": "tracelens-b200/eager_trace.json.gz",
    "MI300 ResNet-18": "tracelens-mi300-ddp-resnet18-no-pool/train_resnet18.json.gz",
    "torch.compile": "tracelens-torch-compile-triton/trace.json.gz",
    "long attention": "tracelens-unit-micro/sdpa_01_long_seq_low_eff.json",
    "bert-small H100": "tracelens-h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "Qwen H100": "tracelens-h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "gloo rank 34": "hta-cpu-only/full.rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "empty_events": "derived-broken/empty_events.json",
    "bare_list": "derived-broken/bare_list.json",
    "invalid_utf8": "derived-broken/invalid_utf8.json",
    "DLRM rank 3": "param-dlrm-kineto/worker3_step_12.1694128201557.pt.trace.json.gz",
}


@dataclass(frozen=True)
class Place:
    """Where the traces are, and where a row may write its own."""

    traces: Path
    scratch: Path

    def file(self, trace: str) -> Path:
        return self.traces / FILES[trace] if trace in FILES else self.made(trace)

    def made(self, trace: str) -> Path:
        path = self.scratch / f"{trace.replace(' ', '_')}.json"
        if not path.exists():
            MADE[trace](path)
        return path


@cache
def analyzed(path: Path) -> Analysis:
    return analyze(read_trace(path))


def us(value: float) -> str:
    """Whole ones without decimals, as HTA has them."""
    return f"{value:,.0f} µs" if float(value).is_integer() else f"{value:,.3f} µs"


# --- traces of our own ------------------------------------------------------------------------


def _compact(path: Path, rank: int) -> None:
    t = KinetoTrace(rank=rank, world_size=2)
    t.launch("gemm", at=0, runs=(10, 20))
    path.write_text(json.dumps(t.to_json(), separators=(",", ":")))


def two_compact_files(path: Path) -> None:
    path.mkdir()
    _compact(path / "first.json", 0)
    _compact(path / "second.json", 1)


def endless_event(path: Path) -> None:
    t = KinetoTrace()
    t.launch("gemm", at=0, runs=(10, 15))
    t.event("bad", "kernel", 20, 9e15, pid=0, tid=7, device=0, stream=7, correlation=9)
    t.write(path)


def slower_later_steps(path: Path, slowdown: int = 3) -> None:
    t = KinetoTrace(rank=0)
    for number in range(3):
        at = 1000 * number
        with t.step(number, at=at, dur=1000):
            t.op("aten::mm", at=at + 10, dur=20)
            length = 100 * slowdown if number else 100
            t.launch("gemm", at=at + 12, runs=(at + 100, at + 100 + length))
    t.write(path)


def same_when_shortened(path: Path) -> None:
    t = KinetoTrace()
    for i, kind in enumerate(("float", "double")):
        name = f"void elementwise_kernel<4, CUDAFunctor_add<{kind}> >(int, {kind})"
        t.launch(name, at=10 * i, runs=(100 * i + 20, 100 * i + 50))
    t.write(path)


def rocm_stream_zero(path: Path) -> None:
    t = KinetoTrace(device_name="AMD Instinct MI300X")
    for number in range(2):
        at = 1000 * number
        with t.step(number, at=at, dur=1000):
            t.op("aten::mm", at=at + 10, dur=20)
            t.launch("Cijk", at=at + 12, runs=(at + 50, at + 90), stream=0, call="hipLaunchKernel")
    t.write(path)


MADE: dict[str, Callable[[Path], None]] = {
    "two compact files": two_compact_files,
    "an event of 9e15 µs": endless_event,
    "later steps 3x slower": slower_later_steps,
    "names that differ in their arguments": same_when_shortened,
    "ROCm, stream 0": rocm_stream_zero,
}

# --- ours -------------------------------------------------------------------------------------


def time_of(field: str) -> Callable[[Place, str], str]:
    def ours(place: Place, trace: str) -> str:
        window = analyzed(place.file(trace)).devices[0].timeline.window
        return us(getattr(window, field) / 1e3)

    return ours


def _overlap(place: Place, trace: str) -> str:
    overlap = analyzed(place.file(trace)).devices[0].timeline.window.overlap
    return f"{100 * (overlap or 0):.2f}%"


def _gpu_rows(place: Place, trace: str) -> str:
    return f"{len(read_trace(place.file(trace)).rows(*GPU_ACTIVITY)):,}"


def _linked(place: Place, trace: str) -> str:
    read = read_trace(place.file(trace))
    return f"{int((launches(read)[read.rows(*GPU_ACTIVITY)] >= 0).sum()):,}"


def _in_steps(place: Place, trace: str) -> str:
    read = read_trace(place.file(trace))
    device = analyzed(place.file(trace)).devices[0].device
    return f"{int((step_of(read, device, load_config()) >= 0).sum()):,}"


def _sgemm(place: Place, trace: str) -> str:
    table = analyzed(place.file(trace)).devices[0].results["kernels"].by_kernel
    row = next(k for k in table if k.name == "volta_sgemm_128x128_tn")
    return f"mean {row.mean_us:,.2f} µs, max {row.max_us:,.0f} µs, std {row.std_us:,.2f} µs"


def _copies(place: Place, trace: str) -> str:
    copies = analyzed(place.file(trace)).devices[0].results["host"].copies
    return f"{next(c for c in copies if c.direction == 'DtoD').gb_s:,.1f} GB/s"


def _device(place: Place, trace: str) -> str:
    found = analyzed(place.file(trace))
    return f"{found.device_type}, window {us(found.values['window'].value or 0)}"


def _reason(place: Place, trace: str) -> str:
    found = analyzed(place.file(trace))
    return found.values["window"].absent_reason or ""


def _invalid(place: Place, trace: str) -> str:
    return "INVALID: " + analyzed(place.file(trace)).invalid["compute_time"]


def _ranks(place: Place, trace: str) -> str:
    return ", ".join(str(t.rank) for t in read_traces(place.file(trace)).traces)


def _steps(place: Place, trace: str) -> str:
    found = analyzed(place.file(trace)).devices[0].timeline.steps
    return ", ".join(us(step.busy_ns / 1e3) for step in found)


def _critical(place: Place, trace: str) -> str:
    steps = analyzed(place.file(trace)).devices[0].results["critical_path"].steps
    path = next(s for s in steps if s.name == "ProfilerStep#1010")
    reached = us((path.end_ns - path.reached_ns) / 1e3)
    return f"{reached}, {100 * path.share(PathClass.COMPUTE):.0f}% of it compute"


def _names(place: Place, trace: str) -> str:
    return f"{len(analyzed(place.file(trace)).devices[0].results['kernels'].by_kernel)}"


OURS: dict[tuple[str, str], Callable[[Place, str], str]] = {
    ("ns_resolution", "idle"): time_of("idle_ns"),
    ("vLLM decode", "idle"): time_of("idle_ns"),
    ("bert-small H100", "compute"): time_of("compute_ns"),
    ("Qwen H100", "idle"): time_of("idle_ns"),
    ("nccl_parser_config", "overlap"): _overlap,
    ("triton_example", "busy"): time_of("busy_ns"),
    ("alexnet", "window"): time_of("window_ns"),
    ("trace_diff/test", "GPU rows, by default"): _gpu_rows,
    ("nccl_parser_config", "GPU rows, by default"): _gpu_rows,
    ("trace_diff/test", "GPU rows"): _gpu_rows,
    ("trace_diff/test", "idle"): time_of("idle_ns"),
    ("df_index_resolver", "`volta_sgemm_128x128_tn`"): _sgemm,
    ("B200 eager", "communication"): time_of("comm_ns"),
    ("B200 eager", "GPU rows with a launch call"): _linked,
    ("MI300 ResNet-18", "GPU rows with a launch call"): _linked,
    ("ROCm, stream 0", "GPU rows in a step"): _in_steps,
    ("trace_diff/test", "bandwidth of DtoD copies"): _copies,
    ("trace_diff/test", "critical path of step 1010"): _critical,
    ("torch.compile", "idle"): time_of("idle_ns"),
    ("long attention", "idle"): time_of("idle_ns"),
    ("gloo rank 34", "device"): _device,
    ("empty_events", "window"): _reason,
    ("bare_list", "idle"): time_of("idle_ns"),
    ("invalid_utf8", "idle"): time_of("idle_ns"),
    ("DLRM rank 3", "idle"): time_of("idle_ns"),
    ("two compact files", "ranks"): _ranks,
    ("an event of 9e15 µs", "compute"): _invalid,
    ("later steps 3x slower", "busy, by step"): _steps,
    ("names that differ in their arguments", "kernels"): _names,
}

# --- theirs -----------------------------------------------------------------------------------


def _hta(path: Path, *, last: bool = True, rank: int = 0) -> Any:
    from hta.trace_analysis import TraceAnalysis

    return TraceAnalysis(trace_files={rank: str(path)}, include_last_profiler_step=last)


def breakdown(column: str) -> Callable[[Place, str], str]:
    def theirs(place: Place, trace: str) -> str:
        table = _hta(place.file(trace)).get_temporal_breakdown(visualize=False).iloc[0]
        total, idle = table["kernel_time(us)"], table["idle_time(us)"]
        return us(total - idle if column == "busy" else table[f"{column}_time(us)"])

    return theirs


def _hta_overlap(place: Place, trace: str) -> str:
    table = _hta(place.file(trace)).get_comm_comp_overlap(visualize=False)
    return f"{table.iloc[0, 1]:.2f}%"


def hta_rows(*, last: bool) -> Callable[[Place, str], str]:
    def theirs(place: Place, trace: str) -> str:
        return f"{int((_hta(place.file(trace), last=last).t.get_trace(0).stream >= 0).sum()):,}"

    return theirs


def _hta_sgemm(place: Place, trace: str) -> str:
    _, table = _hta(place.file(trace)).get_gpu_kernel_breakdown(visualize=False)
    row = table[table["name"] == "volta_sgemm_128x128_tn"].iloc[0]
    mean, largest, std = row["mean (us)"], row["max (us)"], row["stddev"]
    return f"mean {mean:,.0f} µs, max {largest:,.0f} µs, std {std:,.0f} µs"


def _hta_comm(place: Place, trace: str) -> str:
    table, _ = _hta(place.file(trace)).get_gpu_kernel_breakdown(visualize=False)
    return us(table[table["kernel_type"] == "COMMUNICATION"]["sum"].sum())


def _hta_launches(place: Place, trace: str) -> str:
    return f"{len(_hta(place.file(trace)).get_cuda_kernel_launch_stats(visualize=False)[0]):,}"


def _hta_in_steps(place: Place, trace: str) -> str:
    table = _hta(place.file(trace)).t.get_trace(0)
    return f"{int((table[table.stream >= 0].iteration >= 0).sum()):,}"


def _hta_copies(place: Place, trace: str) -> str:
    table = _hta(place.file(trace)).get_memory_bw_summary().loc[(0, "Memcpy DtoD")]
    return f"median {table['memory_bw_gbps', '50%']:.2f} GB/s"


def _hta_critical(place: Place, trace: str) -> str:
    analysis = _hta(place.file(trace))
    graph, done = analysis.critical_path_analysis(0, "ProfilerStep", 1)
    assert done
    table = graph.get_critical_path_breakdown()
    by_bound = table.groupby("bound_by")["duration"].sum()
    total = int(table["duration"].sum())
    return f"{us(total)}, {100 * by_bound['cpu_bound'] / total:.0f}% of it CPU"


def _hta_ranks(place: Place, trace: str) -> str:
    from hta.trace_analysis import TraceAnalysis

    return ", ".join(map(str, TraceAnalysis(trace_dir=str(place.file(trace))).t.traces))


def _hta_rank_3(place: Place, trace: str) -> str:
    _hta(place.file(trace), rank=3).get_idle_time_breakdown(visualize=False)
    return "a table"


def _hta_endless(place: Place, trace: str) -> str:
    table = _hta(place.file(trace)).get_temporal_breakdown(visualize=False).iloc[0]
    return f"{table['compute_time_pctg']:.0f}%"


def _hta_difference(place: Place, trace: str) -> str:
    from hta.common.trace import Trace
    from hta.trace_diff import TraceDiff

    before = place.scratch / "before.json"
    slower_later_steps(before, slowdown=1)
    sides = []
    for path in (before, place.file(trace)):
        side = Trace({0: str(path)})
        side.load_traces(include_last_profiler_step=True)
        side.decode_symbol_ids()
        sides.append(side)
    table = TraceDiff.compare_traces(*sides)
    return f"difference {table.loc['gemm', 'diff_duration']} µs"


def _hta_names(place: Place, trace: str) -> str:
    side = _hta(place.file(trace)).t
    side.decode_symbol_ids()
    table = side.get_trace(0)
    return f"{table[table.stream >= 0]['s_name'].nunique()}"


THEIRS: dict[tuple[str, str], Callable[[Place, str], str]] = {
    ("ns_resolution", "idle"): breakdown("idle"),
    ("vLLM decode", "idle"): breakdown("idle"),
    ("bert-small H100", "compute"): breakdown("compute"),
    ("Qwen H100", "idle"): breakdown("idle"),
    ("nccl_parser_config", "overlap"): _hta_overlap,
    ("triton_example", "busy"): breakdown("busy"),
    ("alexnet", "window"): breakdown("kernel"),
    ("trace_diff/test", "GPU rows, by default"): hta_rows(last=False),
    ("nccl_parser_config", "GPU rows, by default"): hta_rows(last=False),
    ("trace_diff/test", "GPU rows"): hta_rows(last=True),
    ("trace_diff/test", "idle"): breakdown("idle"),
    ("df_index_resolver", "`volta_sgemm_128x128_tn`"): _hta_sgemm,
    ("B200 eager", "communication"): _hta_comm,
    ("B200 eager", "GPU rows with a launch call"): _hta_launches,
    ("MI300 ResNet-18", "GPU rows with a launch call"): _hta_launches,
    ("ROCm, stream 0", "GPU rows in a step"): _hta_in_steps,
    ("trace_diff/test", "bandwidth of DtoD copies"): _hta_copies,
    ("trace_diff/test", "critical path of step 1010"): _hta_critical,
    ("torch.compile", "idle"): breakdown("idle"),
    ("long attention", "idle"): breakdown("idle"),
    ("gloo rank 34", "device"): breakdown("idle"),
    ("empty_events", "window"): breakdown("kernel"),
    ("bare_list", "idle"): breakdown("idle"),
    ("invalid_utf8", "idle"): breakdown("idle"),
    ("DLRM rank 3", "idle"): _hta_rank_3,
    ("two compact files", "ranks"): _hta_ranks,
    ("an event of 9e15 µs", "compute"): _hta_endless,
    ("later steps 3x slower", "busy, by step"): _hta_difference,
    ("names that differ in their arguments", "kernels"): _hta_names,
}


def theirs(place: Place, key: tuple[str, str]) -> str:
    """HTA's number, or the name of what it raised."""
    try:
        return THEIRS[key](place, key[0])
    except Exception as error:  # noqa: BLE001  # what it raises is what is compared
        return f"`{type(error).__name__}`"
