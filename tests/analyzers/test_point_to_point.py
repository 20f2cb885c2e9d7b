"""Send and receive over ranks: sums and imbalance."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers import load_config, read_trace
from gpuperf_analyzers.collectives import CollectivesResult, analyze
from gpuperf_analyzers.point_to_point import Exchanges, RankExchange, exchanges
from kineto import KinetoTrace


def result(tmp_path: Path, *calls: tuple[float, float, int | None]) -> CollectivesResult:
    """Calls as (start, end, floats moved); None: no metadata."""
    t = KinetoTrace()
    t.launch("gemm", at=0, runs=(0, 20))
    for start, end, elements in calls:
        facts = {} if elements is None else {
            "Collective name": "send", "In msg nelems": elements, "Out msg nelems": elements,
            "dtype": "Float", "Group size": 2,
        }  # fmt: skip
        t.event("nccl:send 0->1", "user_annotation", start, 5)
        t.launch("ncclDevKernel_SendRecv(x)", at=start + 1, runs=(start, end), stream=9, **facts)
    return analyze(read_trace(t.write(tmp_path / "t.json")), load_config(), 0)


def test_each_rank_has_its_sums_and_the_most_stands_against_the_mean(tmp_path: Path) -> None:
    first = result(tmp_path, (10, 30, 250), (40, 50, 250))
    second = result(tmp_path, (10, 20, 1500))
    found = exchanges({1: [second], 0: [first], 2: [result(tmp_path)]})
    assert found.ranks == (
        RankExchange(0, 2, 2000, 0, 30.0, 20.0),  # 10-20 beside compute
        RankExchange(1, 1, 6000, 0, 10.0, 0.0),
    )
    assert found.byte_imbalance == 6000 / 4000
    assert found.time_imbalance == 30 / 20
    assert found.to_frame()["bytes"].tolist() == [2000, 6000]


def test_a_size_that_is_not_recorded_leaves_no_byte_imbalance(tmp_path: Path) -> None:
    found = exchanges({0: [result(tmp_path, (10, 30, None), (40, 50, 250))]})
    assert (found.ranks[0].calls, found.ranks[0].unsized, found.ranks[0].bytes) == (2, 1, 1000)
    assert found.byte_imbalance is None
    assert found.time_imbalance == 1.0


@pytest.mark.parametrize("ranks", [{}, {0: []}])
def test_ranks_without_any_are_an_empty_table(ranks: dict[int, list[CollectivesResult]]) -> None:
    found = exchanges(ranks)
    assert found == Exchanges(())
    assert found.byte_imbalance is None
    assert found.to_frame().empty


def test_what_one_gloo_rank_sends_the_other_receives(shared_traces: Path) -> None:
    folder = shared_traces / "local-torch214-cpu" / "ddp_gloo_4ranks"
    found = exchanges(
        {
            rank: [analyze(read_trace(folder / f"rank{rank}.pt.trace.json"), load_config(), "cpu")]
            for rank in range(4)
        }
    )
    # Rank 0 sends 1,000 floats to rank 1 in each of two steps.
    assert [(r.rank, r.calls, r.bytes) for r in found.ranks] == [(0, 2, 8000), (1, 2, 8000)]
    assert found.byte_imbalance == 1.0
