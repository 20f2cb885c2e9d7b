"""Collectives matched over all ranks: wait, transfer, straggler, skew, bandwidth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.matched_collectives import MatchedResult, match
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.trace.reader import read_trace
from gpuperf_analyzers.trace.sets import read_traces
from kineto import KinetoTrace


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def rank(
    number: int,
    runs: list[tuple[float, float]],
    *,
    world: int = 2,
    ahead: float = 0.0,
    name: str = "allreduce",
    elements: int = 1000,
    **metadata: Any,
) -> KinetoTrace:
    """A rank whose collectives run in `runs`, its clock `ahead` µs."""
    t = KinetoTrace(rank=number, world_size=world, device=number, base_us=1_000_000 + ahead)
    for i, span in enumerate(runs):
        facts = {
            "Collective name": name, "In msg nelems": elements, "Out msg nelems": elements,
            "Group size": world, "dtype": "Float", "Process Group Name": "0", **metadata,
        }  # fmt: skip
        t.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", span[0] - 5 + i / 100, span, **facts)
    return t


def matched(traces: list[KinetoTrace], tmp_path: Path, config: Config) -> MatchedResult:
    paths = [t.write(tmp_path / f"rank{i}.json") for i, t in enumerate(traces)]
    return match([read_trace(p) for p in paths], config)


def test_waiting_is_told_apart_from_the_transfer(tmp_path: Path, config: Config) -> None:
    early, late = rank(0, [(10, 100)]), rank(1, [(80, 100)])
    result = matched([early, late], tmp_path, config)
    (call,) = result.calls
    assert (call.time_us, call.wait_us, call.straggler, call.late_us) == (20.0, (70.0, 0.0), 1, 70)
    # 4,000 bytes in 20 µs; the factor of two ranks is 1.
    assert call.algbw_gb_s == pytest.approx(0.2)
    assert call.busbw_gb_s == pytest.approx(0.2)
    (value,) = result.metrics()
    assert value.value == pytest.approx(0.2)
    assert [(r.rank, r.wait_us, r.straggler) for r in result.ranks] == [(0, 70.0, 0), (1, 0.0, 1)]


def test_busbw_weighs_each_collective_by_its_bytes(tmp_path: Path, config: Config) -> None:
    def both(number: int) -> KinetoTrace:
        t = rank(number, [(10, 20)], elements=1000)
        t.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 25, (30, 40),
                 **{"Collective name": "allreduce", "In msg nelems": 3000, "Out msg nelems": 3000,
                    "Group size": 2, "dtype": "Float", "Process Group Name": "0"})  # fmt: skip
        return t

    result = matched([both(0), both(1)], tmp_path, config)
    (value,) = result.metrics()
    # 0.4 GB/s of 4,000 bytes and 1.2 GB/s of 12,000.
    assert value.value == pytest.approx((4000 * 0.4 + 12000 * 1.2) / 16000)
    assert value.n == 2


def test_a_clock_that_is_ahead_is_set_back_before_waits_are_told(
    tmp_path: Path, config: Config
) -> None:
    runs = [(100.0 * i + 10, 100.0 * i + 50) for i in range(7)]
    result = matched([rank(0, runs), rank(1, runs, ahead=500)], tmp_path, config)
    assert [(r.rank, r.skew_us) for r in result.ranks] == [(0, -250.0), (1, 250.0)]
    assert {c.time_us for c in result.calls} == {40.0}
    assert {w for c in result.calls for w in c.wait_us} == {0.0}


def test_ends_that_scatter_around_the_median_are_no_skew(tmp_path: Path, config: Config) -> None:
    runs = [(100.0 * i + 10, 100.0 * i + 50) for i in range(7)]
    jitter = [(a, b + (3 if i % 2 else -3)) for i, (a, b) in enumerate(runs)]
    result = matched([rank(0, runs), rank(1, jitter)], tmp_path, config)
    assert [r.skew_us for r in result.ranks] == [0.0, 0.0]


def test_a_group_with_a_rank_missing_is_not_judged_and_says_so(
    tmp_path: Path, config: Config
) -> None:
    traces = [rank(i, [(10, 50)], world=4) for i in range(3)]
    (value,) = matched(traces, tmp_path, config).metrics()
    assert value.absent_reason == "process group 0: 3 of 4 ranks are at hand"


def test_ranks_that_made_different_sequences_are_not_matched(
    tmp_path: Path, config: Config
) -> None:
    short = matched([rank(0, [(10, 50)]), rank(1, [(10, 50), (60, 70)])], tmp_path, config)
    assert short.unmatched == ("process group 0: rank 1 made 2 collectives, rank 0 1",)
    other = [rank(0, [(10, 50)]), rank(1, [(10, 50)], name="_allgather_base")]
    assert "another sequence" in matched(other, tmp_path, config).unmatched[0]


def test_two_groups_of_one_job_are_matched_apart(tmp_path: Path, config: Config) -> None:
    pairs = []
    for number in range(4):
        group = {"Group size": 2, "Process Group Name": f"{1 + number // 2}",
                 "Process Group Ranks": str([number // 2 * 2, number // 2 * 2 + 1])}  # fmt: skip
        pairs.append(rank(number, [(10 + number, 50)], world=4, **group))
    result = matched(pairs, tmp_path, config)
    assert [(c.group, c.ranks, c.wait_us) for c in result.calls] == [
        ("1", (0, 1), (1.0, 0.0)),
        ("2", (2, 3), (1.0, 0.0)),
    ]


def test_uneven_shares_of_an_all_to_all_are_told(tmp_path: Path, config: Config) -> None:
    traces = [
        rank(i, [(10, 50)], name="alltoall_base", elements=n) for i, n in enumerate((1000, 3000))
    ]
    (call,) = matched(traces, tmp_path, config).calls
    assert call.imbalance == pytest.approx(3000 / 2000)
    assert call.bytes == 12000


def test_point_to_point_calls_have_no_place_in_the_common_sequence(
    shared_traces: Path, config: Config
) -> None:
    # Ranks 0 and 1 send and receive between them; the other two do not.
    traces = read_traces(shared_traces / "local-torch214-cpu/ddp_gloo_4ranks").traces
    result = match(traces, config)
    assert result.unmatched == ()
    assert [c.kind for c in result.calls] == [
        "broadcast", "broadcast", "all_reduce", "all_reduce", "all_gather", "barrier",
        "all_reduce", "all_reduce", "all_gather", "barrier",
    ]  # fmt: skip


def test_the_eight_ranks_of_dlrm_come_out_as_by_hand(shared_traces: Path, config: Config) -> None:
    # From the kernels' start and end in the eight files, in µs: last end less last start, and the
    # start of each rank before the last one's. One host, one clock.
    result = match(read_traces(shared_traces / "param-dlrm-kineto").traces, config)
    assert [c.time_us for c in result.calls] == [11, 8, 8, 8, 87, 11, 23, 69]
    assert [c.straggler for c in result.calls] == [7, 7, 7, 7, 7, 5, 5, 4]
    assert result.calls[0].wait_us == (2135, 7624, 508, 6122, 4872, 4669, 505, 0)
    assert result.calls[4].wait_us == (159, 223, 116, 208, 9, 12, 127, 0)
    assert result.calls[7].wait_us == (885, 858, 846, 817, 0, 14, 851, 738)
    assert {r.skew_us for r in result.ranks} == {0.0}
    # Rank 1 waits for 7624 + 1017 + 162 + 124 + 223 + 534 + 583 + 858 µs.
    assert result.ranks[1].wait_us == pytest.approx(11125)
    # The first all-reduce: 394,241 floats over 87 µs, 2·7/8 of them on each link.
    first = result.calls[4]
    assert (first.kind, first.bytes) == ("all_reduce", 4 * 394241)
    assert first.busbw_gb_s == pytest.approx(4 * 394241 / 87e-6 / 1e9 * 1.75)
