"""NCCL's own log against the hints of kernel names; payloads and size buckets."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gpuperf_analyzers import load_config, read_trace
from gpuperf_analyzers.collective_kinds import payload_share, size_bucket
from gpuperf_analyzers.collectives import CollectivesResult, analyze
from gpuperf_analyzers.nccl_log import Choice, read_nccl_log, with_choices
from kineto import KinetoTrace

LL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def log(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"host:1:1 [0] NCCL INFO {line}\n" for line in lines))
    return path


def collective(t: KinetoTrace, name: str, elements: int, at: float, ranks: int = 8) -> None:
    t.launch(
        LL, at=at, runs=(at + 10, at + 20), stream=9,
        **{"Collective name": name, "In msg nelems": elements // ranks, "Out msg nelems": elements,
           "dtype": "Float", "Group size": ranks},
    )  # fmt: skip


def result_of(t: KinetoTrace, tmp_path: Path) -> CollectivesResult:
    return analyze(read_trace(t.write(tmp_path / "t.json")), load_config(), 0)


def test_names_of_newer_versions_are_read(tmp_path: Path) -> None:
    path = log(
        tmp_path / "nccl.log",
        "AllReduce: opCount 0 sendbuff 0x7f recvbuff 0x7f count 1024 datatype 7 op 0",
        "AllReduce: 4096 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}",
        "AllReduce: 4096 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}",
        "AllGather: 16777216 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..15}",
    )
    assert read_nccl_log(path) == (
        Choice("all_gather", 16777216, "nvls_tree", "simple", 1),
        Choice("all_reduce", 4096, "tree", "ll", 2),
    )


def test_numbers_of_older_versions_are_read_with_and_without_the_function(tmp_path: Path) -> None:
    first = log(tmp_path / "a.log", "8 Bytes -> Algo 0 proto 0 time 25.200924")
    second = log(tmp_path / "b.log", "ReduceScatter: 1024 Bytes -> Algo 1 proto 1 time 31.0")
    third = log(tmp_path / "c.log", "AllReduce: 1024 Bytes -> Algo 9 proto 2 time 31.0")
    assert read_nccl_log(first, second, third) == (
        Choice("", 8, "tree", "ll", 1),
        Choice("all_reduce", 1024, "unknown (9)", "simple", 1),
        Choice("reduce_scatter", 1024, "ring", "ll128", 1),
    )


def test_a_log_without_choices_says_how_to_have_them(tmp_path: Path) -> None:
    path = log(tmp_path / "nccl.log", "NET/IB : Using [0]mlx5_0:1/RoCE")
    with pytest.raises(ValueError, match="set NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=TUNING"):
        read_nccl_log(path)


def test_the_log_stands_in_place_of_the_kernels_name(tmp_path: Path) -> None:
    t = KinetoTrace()
    collective(t, "allreduce", 1024, at=0)
    collective(t, "allreduce", 2048, at=50)
    before = result_of(t, tmp_path)
    assert {(c.algorithm, c.protocol, c.choice_source) for c in before.calls} == {
        ("ring", "ll", "kernel name")
    }
    after = with_choices(before, [Choice("all_reduce", 4096, "tree", "simple", 3)])
    assert [(c.algorithm, c.protocol, c.choice_source) for c in after.calls] == [
        ("tree", "simple", "NCCL log"),
        ("ring", "ll", "kernel name"),
    ]
    assert [c.wire_bytes for c in after.calls] == [4096.0, 16384.0]


@pytest.mark.parametrize("logged", [4 * 1024, 4 * 1024 // 8])
def test_an_all_gather_is_logged_whole_or_by_one_ranks_share(logged: int, tmp_path: Path) -> None:
    t = KinetoTrace()
    collective(t, "all_gather_into_tensor", 1024, at=0)
    (call,) = with_choices(
        result_of(t, tmp_path), [Choice("all_gather", logged, "nvls", "simple", 1)]
    ).calls
    assert (call.algorithm, call.choice_source) == ("nvls", "NCCL log")


def test_a_size_with_two_choices_keeps_the_hint(tmp_path: Path) -> None:
    t = KinetoTrace()
    collective(t, "allreduce", 1024, at=0)
    choices = [Choice("all_reduce", 4096, a, "simple", 1) for a in ("tree", "ring")]
    (call,) = with_choices(result_of(t, tmp_path), choices).calls
    assert call.choice_source == "kernel name"


def test_an_unnamed_choice_counts_where_no_named_one_is(tmp_path: Path) -> None:
    t = KinetoTrace()
    collective(t, "allreduce", 1024, at=0)
    choices = [Choice("", 4096, "ring", "ll128", 1), Choice("broadcast", 4096, "tree", "ll", 1)]
    (call,) = with_choices(result_of(t, tmp_path), choices).calls
    assert (call.algorithm, call.protocol) == ("ring", "ll128")


@pytest.mark.parametrize(
    ("protocol", "share"),
    [("ll", 0.5), ("ll128", 0.9375), ("simple", 1.0), ("", None), ("other", None)],
)
def test_the_payload_of_a_protocol_is_what_is_no_flag(protocol: str, share: float | None) -> None:
    assert payload_share(protocol) == share


def test_sizes_fall_into_buckets_by_their_upper_bound() -> None:
    assert [size_bucket(s) for s in (None, 0, 1024, 1025, 2**30, 2**30 + 1)] == [
        1024, 1024, 1024, 2**15, 2**30, math.inf,
    ]  # fmt: skip


def test_a_rank_has_its_collectives_by_size(tmp_path: Path) -> None:
    t = KinetoTrace()
    collective(t, "allreduce", 100, at=0)
    collective(t, "allreduce", 200, at=50)
    collective(t, "allreduce", 10_000, at=100)
    table = result_of(t, tmp_path).by_size()
    assert table[["kind", "up_to_bytes", "count", "bytes", "duration_us"]].to_numpy().tolist() == [
        ["all_reduce", 1024.0, 2, 1200, 20.0],
        ["all_reduce", 2.0**20, 1, 40_000, 10.0],
    ]
