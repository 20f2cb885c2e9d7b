"""Collectives of one rank: kind, bytes, group, exposure; bandwidth as a lower bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers.collective_kinds import bus_factor, element_bytes, kernel_hint, kind_of
from gpuperf_analyzers.collectives import CollectivesResult, analyze
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.metrics import Value
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.trace.reader import read_trace
from kineto import KinetoTrace

RING = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def analyzed(
    trace: KinetoTrace, tmp_path: Path, config: Config, device: Any = 0
) -> tuple[CollectivesResult, dict[str, Value]]:
    result = analyze(read_trace(trace.write(tmp_path / "t.json")), config, device)
    return result, {v.name: v for v in result.metrics()}


@pytest.mark.parametrize(
    ("kind", "ranks", "factor"),
    [
        # nccl-tests, doc/PERFORMANCE.md: 2(n-1)/n, (n-1)/n and 1.
        ("all_reduce", 2, 1.0),
        ("all_reduce", 8, 1.75),
        ("all_gather", 4, 0.75),
        ("reduce_scatter", 4, 0.75),
        ("all_to_all", 8, 0.875),
        ("gather", 2, 0.5),
        ("scatter", 2, 0.5),
        ("broadcast", 8, 1.0),
        ("reduce", 8, 1.0),
        ("send_recv", 2, 1.0),
        ("barrier", 8, None),
        ("unknown", 8, None),
        ("all_reduce", 1, None),
    ],
)
def test_bus_factors_are_those_of_nccl_tests(kind: str, ranks: int, factor: float | None) -> None:
    assert bus_factor(kind, ranks) == factor


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("allreduce", "all_reduce"),
        ("nccl:all_reduce", "all_reduce"),
        ("c10d::allreduce_", "all_reduce"),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16>", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("nccl:_all_gather_base", "all_gather"),
        ("all_gather_into_tensor_coalesced", "all_gather"),
        ("c10d::_reduce_scatter_base_", "reduce_scatter"),
        ("c10d::alltoall_base_", "all_to_all"),
        ("all_to_allv", "all_to_all"),
        ("gloo:broadcast", "broadcast"),
        ("nccl:reduce", "reduce"),
        ("gloo:gather", "gather"),
        ("gloo:scatter", "scatter"),
        ("gloo:send", "send_recv"),
        ("gloo:recv", "send_recv"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", "send_recv"),
        ("gloo:barrier", "barrier"),
        ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", "unknown"),
    ],
)
def test_every_name_in_use_means_its_kind(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_element_sizes_and_hints_come_from_nccls_and_the_profilers_names() -> None:
    sizes = {"Float": 4, "BFloat16": 2, "c10::Half": 2, "Long": 8, "long int": 8, "Byte": 1,
             "signed char": 1, "Float8_e4m3fn": 1, "c10::Float8_e5m2": 1}  # fmt: skip
    assert {name: element_bytes(name) for name in sizes} == sizes
    assert element_bytes("SomethingElse") is None
    assert kernel_hint(RING) == ("ring", "ll")
    assert kernel_hint("ncclKernel_AllReduce_TREE_LL128_Sum_half") == ("tree", "ll128")
    assert kernel_hint("ncclDevKernel_Generic_1(x)") == ("", "")


def test_metadata_on_the_kernel_decides_and_the_larger_side_is_the_size(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace(rank=0, world_size=8)
    t.launch("gemm", 0, (10, 40))
    t.launch(
        "ncclDevKernel_AllGather_RING_LL(x)", 2, (30, 80), stream=9,
        **{"Collective name": "_allgather_base", "In msg nelems": 1000, "Out msg nelems": 4000,
           "Group size": 4, "dtype": "BFloat16", "Process Group Name": "3",
           "Process Group Ranks": "[0, 1, 2, 3]"},
    )  # fmt: skip
    result, values = analyzed(t, tmp_path, config)
    (call,) = result.calls
    assert (call.kind, call.kind_source, call.bytes, call.dtype) == (
        "all_gather", "metadata", 8000, "BFloat16",
    )  # fmt: skip
    assert (call.group, call.group_size, call.group_size_source) == ("3", 4, "metadata")
    assert (call.duration_us, call.exposed_us) == (50.0, 40.0)
    # 8,000 bytes in 50 µs are 0.16 GB/s; three quarters of it cross a link.
    assert call.algbw_gb_s == pytest.approx(0.16)
    assert call.busbw_gb_s == pytest.approx(0.12)
    assert values["collectives"].value == 1
    assert values["collective_bytes"].value == 8000


def test_a_lone_ranks_bandwidth_is_shown_and_never_judged(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace(rank=0, world_size=2)
    t.launch(RING, 0, (10, 60), **{"Collective name": "allreduce", "In msg nelems": 100,
             "Out msg nelems": 100, "Group size": 2, "dtype": "Float"})  # fmt: skip
    result, values = analyzed(t, tmp_path, config)
    assert result.calls[0].busbw_gb_s == pytest.approx(400 / 50e-6 / 1e9)
    assert values["busbw"].value is None
    assert "all ranks" in str(values["busbw"].absent_reason)


def test_old_traces_tell_kind_and_bytes_by_the_op_around_the_launch(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace(rank=0, world_size=8)
    t.op("c10d::alltoall_base_", 0, 20, dims=[[3392], [6144], [], []],
         dtypes=["int", "int", "", ""])  # fmt: skip
    t.event("nccl:all_to_all", "user_annotation", 2, 10,
            **{"Input Dims": [[6144]], "Input type": ["int"]})  # fmt: skip
    t.launch("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", 4, (30, 40))
    result, _ = analyzed(t, tmp_path, config)
    (call,) = result.calls
    assert (call.kind, call.kind_source, call.bytes) == ("all_to_all", "op shapes", 4 * 6144)
    assert (call.group_size, call.group_size_source) == (8, "world size")


def test_an_annotation_alone_holds_one_ranks_share_of_an_all_gather(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace(rank=0, world_size=4)
    t.event("nccl:_all_gather_base", "user_annotation", 0, 10,
            **{"Input Dims": [[100]], "Input type": ["c10::Half"]})  # fmt: skip
    t.launch("ncclKernel_AllGather_RING_LL(x)", 2, (20, 30))
    result, _ = analyzed(t, tmp_path, config)
    assert result.calls[0].bytes == 4 * 100 * 2


def test_a_generic_kernel_without_metadata_is_unknown_and_unsized(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    t.launch("ncclDevKernel_Generic_1(x)", 0, (10, 30))
    result, values = analyzed(t, tmp_path, config)
    assert (result.calls[0].kind, result.calls[0].bytes) == ("unknown", None)
    assert values["collectives"].value == 1
    assert values["collective_bytes"].absent_reason == "1 of 1 collectives have no recorded size"


def test_counts_and_bytes_are_the_worst_steps(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace(rank=0, world_size=2)
    for i, calls in enumerate((1, 3)):
        with t.step(i, 100.0 * i, 100):
            for j in range(calls):
                at = 100.0 * i + 10 * j
                t.launch(RING, at + 1, (at + 30, at + 35),
                         **{"Collective name": "allreduce", "In msg nelems": 10,
                            "Out msg nelems": 10, "Group size": 2, "dtype": "Half"})  # fmt: skip
    _, values = analyzed(t, tmp_path, config)
    assert (values["collectives"].value, values["collectives"].at) == (3, "ProfilerStep#1")
    assert (values["collective_bytes"].value, values["collective_bytes"].at) == (
        60,
        "ProfilerStep#1",
    )


def test_no_communication_is_a_count_of_zero_and_no_bandwidth(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    t.launch("gemm", 0, (10, 20))
    _, values = analyzed(t, tmp_path, config)
    assert values["collectives"].value == 0
    assert values["busbw"].absent_reason == "no communication"


def test_gloo_spans_are_the_collectives_of_a_cpu(shared_traces: Path, config: Config) -> None:
    file = shared_traces / "local-torch214-cpu/ddp_gloo_4ranks/rank0.pt.trace.json"
    result = analyze(read_trace(file), config, "cpu")
    # Bucket of 16,576 floats; sent, gathered and reduced tensors of 1,000.
    of_step = [c for c in result.calls if c.step == "ProfilerStep#1"]
    assert [(c.kind, c.bytes) for c in of_step] == [
        ("broadcast", 20), ("broadcast", 4), ("all_reduce", 66304), ("all_reduce", 4000),
        ("send_recv", 4000), ("all_gather", 16000), ("barrier", 0),
    ]  # fmt: skip


def test_custom_all_reduces_of_a_b200_are_found_and_sized(
    shared_traces: Path, config: Config
) -> None:
    result = analyze(read_trace(shared_traces / "tracelens-b200/eager_trace.json.gz"), config, 0)
    multimem = [c for c in result.calls if c.kind == "all_reduce"]
    gathers = [c for c in result.calls if c.kind == "all_gather"]
    assert len(multimem) == 73
    # 888 tokens of hidden 2,880 in bf16.
    assert multimem[0].bytes == 888 * 2880 * 2
    assert [(g.bytes, g.group_size, g.group) for g in gathers] == [(201088 * 2, 8, "3")]
