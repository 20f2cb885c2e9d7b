"""Ranks over a Dask cluster of processes: the same results, and none lost with a worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers.trace.model import TraceError
from gpuperf_analyzers.trace.sets import map_ranks
from kineto import KinetoTrace
from rank_work import count, die_on_two, die_once, fail_on_two, where

distributed = pytest.importorskip("distributed", reason="needs the extra dask")

# Dask and what it stands on warn about themselves while workers come and go.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    dask = pytest.importorskip("dask")
    # One death is forgiven, the second is the rank's own: Dask's three take half a minute.
    forgiving = {"distributed.scheduler.allowed-failures": 1}
    with dask.config.set(forgiving), distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
        host="127.0.0.1", silence_logs=50,
    ) as running:  # fmt: skip
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for rank in range(4):
        t = KinetoTrace(rank=rank, world_size=4)
        for i in range(3 + rank):
            t.op("aten::add", at=i, dur=1)
        t.write(tmp_path / f"rank{rank}.json.gz")
    return tmp_path


def test_a_cluster_gives_what_one_process_gives(cluster: Any, folder: Path) -> None:
    found = map_ranks(folder, count, scheduler=cluster.scheduler_address)
    assert found == map_ranks(folder, count)
    assert [r.result for r in found.ranks] == [3, 4, 5, 6]


def test_the_work_is_done_by_the_workers(cluster: Any, folder: Path) -> None:
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        workers = set(client.run(os.getpid).values())
        found = map_ranks(folder, where, scheduler=client)
        # Which of the two takes how many is the scheduler's affair.
        assert {r.result[1] for r in found.ranks} <= workers
        assert os.getpid() not in workers
        assert client.status == "running"  # a client that is handed in stays open


def test_a_worker_killed_in_the_middle_loses_no_rank(cluster: Any, folder: Path) -> None:
    found = map_ranks(folder, die_once, scheduler=cluster.scheduler_address)
    assert (folder / "rank2.json.died").exists()
    assert [(r.rank, r.result) for r in found.ranks] == [(0, 3), (1, 4), (2, 5), (3, 6)]
    assert found.failed == {}


def test_a_rank_that_kills_every_worker_is_named_and_the_others_stand(
    cluster: Any, folder: Path
) -> None:
    found = map_ranks(folder, die_on_two, scheduler=cluster.scheduler_address)
    assert [(r.rank, r.result) for r in found.ranks] == [(0, 3), (1, 4), (3, 6)]
    (line,) = found.failed.values()
    assert "KilledWorker" in line
    assert "\n" not in line


def test_work_that_fails_on_one_rank_costs_that_rank(cluster: Any, folder: Path) -> None:
    found = map_ranks(folder, fail_on_two, scheduler=cluster.scheduler_address)
    assert [r.rank for r in found.ranks] == [0, 1, 3]
    assert "KeyError" in next(iter(found.failed.values()))


def test_a_scheduler_that_does_not_answer_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuperf_analyzers.trace import cluster as module

    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.5)
    with pytest.raises(TraceError, match=r"tcp://127\.0\.0\.1:9: the scheduler does not answer"):
        map_ranks(folder, count, scheduler="tcp://127.0.0.1:9")
