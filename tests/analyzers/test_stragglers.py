"""Who is late, by how much, since when and in what."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.set_analysis import SetAnalysis, analyze_set
from gpuperf_analyzers.stragglers import (
    COLLECTIVES,
    EARLIER,
    STEP_TIMES,
    StragglersResult,
    _judged,
    _over_others,
    _row,
)
from gpuperf_analyzers.thresholds import Thresholds
from gpuperf_analyzers.trace.sets import read_traces
from kineto import KinetoTrace

ALL_REDUCE = {
    "Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024,
    "dtype": "Float", "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2, 3]",
}  # fmt: skip


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def job(
    folder: Path,
    compute_us: list[list[int]],
    *,
    loading_us: dict[tuple[int, int], int] | None = None,
    collective: bool = True,
    world: int = 4,
) -> SetAnalysis:
    """A data-parallel job: ``compute_us[step][rank]`` of compute, then an all-reduce of 10 µs.

    Every rank's all-reduce starts when its compute ends, and all end 10 µs after the last start.
    `loading_us` delays a rank's step by waiting for data.
    """
    at = [0] * world
    made = [KinetoTrace(rank=r, world_size=world, device=r) for r in range(world)]
    for number, lengths in enumerate(compute_us):
        starts = []
        for rank, length in enumerate(lengths):
            wait = (loading_us or {}).get((number, rank), 0)
            t = made[rank]
            begin = at[rank] + wait
            if wait:
                name = "enumerate(DataLoader)#_Iter.__next__"
                t.event(name, "user_annotation", at[rank], wait)
            t.launch("gemm", at=begin, runs=(begin, begin + length), call_dur=1)
            starts.append(begin + length)
        last = max(starts)
        for rank, start in enumerate(starts):
            t, begin = made[rank], at[rank]
            end = last + 10 if collective else start
            if collective:
                t.launch(
                    "ncclDevKernel_AllReduce_Sum_f32", start - 1, (start, end), stream=9,
                    call_dur=1, **{**ALL_REDUCE, "Group size": world},
                )  # fmt: skip
            t.event(f"ProfilerStep#{number}", "user_annotation", begin, end - begin)
            at[rank] = end
    for rank, t in enumerate(made):
        t.write(folder / f"rank{rank}.json")
    return analyze_set(read_traces(folder))


def late(found: SetAnalysis) -> StragglersResult:
    assert found.stragglers is not None
    return found.stragglers


def test_the_slow_rank_is_named_with_its_lateness_and_its_reason(tmp_path: Path) -> None:
    found = late(job(tmp_path, [[100, 100, 130, 102]] * 4))
    assert (found.basis, found.straggler) == (COLLECTIVES, 2)
    row = found.of(2)
    assert row.by_step_us == (30.0,) * 4  # 130 less the median of 100, 100, 102
    assert (row.late_us, row.last, row.reason) == (30.0, 4, "compute")
    assert row.share == pytest.approx(30 / 140)
    assert row.grown[0][1] == pytest.approx(4 * 30)
    assert found.since == "ProfilerStep#0"
    assert found.of(0).late_us == -2.0  # 100 less the median of 100, 130, 102


def test_it_is_late_since_the_step_in_which_it_became_slow(tmp_path: Path) -> None:
    found = late(job(tmp_path, [[100] * 4] * 3 + [[100, 150, 100, 100]] * 4))
    assert (found.straggler, found.since, found.late_steps) == (1, "ProfilerStep#3", 4)


def test_a_rank_that_waits_for_data_is_late_in_data_loading(tmp_path: Path) -> None:
    waits = {(step, 3): 60 for step in range(1, 5)}
    analysis = job(tmp_path, [[100] * 4] * 5, loading_us=waits)
    found = late(analysis)
    assert (found.straggler, found.of(3).reason) == (3, "data loading")
    assert "60.0 µs" in analysis.summary.text
    assert "waiting for the DataLoader" in analysis.summary.text


def test_ranks_that_take_turns_are_not_late(tmp_path: Path) -> None:
    turns = [[150 if rank == step % 4 else 100 for rank in range(4)] for step in range(8)]
    assert late(job(tmp_path, turns)).straggler is None


def test_even_ranks_have_no_straggler(tmp_path: Path) -> None:
    found = late(job(tmp_path, [[100, 101, 99, 102], [101, 100, 102, 99]] * 3))
    assert found.straggler is None
    assert found.since == ""


def test_clocks_that_differ_make_no_straggler(tmp_path: Path) -> None:
    steps = [[100, 100, 100, 130]] * 8
    job(tmp_path, steps)
    path = tmp_path / "rank1.json"
    document = json.loads(path.read_text())
    for event in document["traceEvents"]:
        event["ts"] += 5000  # rank 1's clock is 5 ms ahead
    path.write_text(json.dumps(document))
    found = late(analyze_set(read_traces(tmp_path)))
    assert found.straggler == 3
    assert found.of(3).late_us == pytest.approx(30.0, abs=0.01)


def test_without_collectives_the_longer_step_is_the_late_one(tmp_path: Path) -> None:
    found = late(job(tmp_path, [[100, 140, 100, 100]] * 3, collective=False))
    assert (found.basis, found.straggler, found.of(1).reason) == (STEP_TIMES, 1, "compute")
    assert found.of(1).late_us == 40.0


def test_lateness_is_a_metric_of_the_set_and_absent_for_one_rank(tmp_path: Path) -> None:
    found = job(tmp_path, [[100, 100, 130, 102]] * 4)
    value = found.values["straggler_lateness"]
    assert (value.value, value.at) == (30.0, "rank 2")
    alone = analyze_set(read_traces([tmp_path / "rank0.json"]))
    assert alone.stragglers is None
    assert alone.values["straggler_lateness"].value is None


def test_the_straggler_of_the_dlrm_job_by_hand(shared_traces: Path) -> None:
    """With plain loops over the files: NCCL kernels in order of start, one a rank and position."""
    folder = shared_traces / "param-dlrm-kineto"
    starts: dict[int, list[float]] = {}
    for path in sorted(folder.glob("*.json.gz")):
        document = json.loads(gzip.decompress(path.read_bytes()))
        kernels = [
            e["ts"]
            for e in document["traceEvents"]
            if e.get("cat") == "kernel" and "nccl" in e["name"].lower()
        ]
        starts[document["distributedInfo"]["rank"]] = sorted(kernels)
    assert {len(s) for s in starts.values()} == {8}
    behind = {
        rank: sum(
            mine[i] - median(other[i] for r, other in starts.items() if r != rank) for i in range(8)
        )
        for rank, mine in starts.items()
    }
    last = {
        r: sum(s[i] == max(o[i] for o in starts.values()) for i in range(8))
        for r, s in starts.items()
    }
    found = late(analyze_set(read_traces(folder)))
    assert found.straggler == max(behind, key=lambda r: behind[r]) == 7
    for rank in starts:
        assert found.of(rank).late_us == pytest.approx(behind[rank], abs=1.5)  # µs in the files
        assert found.of(rank).last == last[rank]
    # Its first kernel came ms after the other ranks': what it did before is not in the trace.
    assert found.of(7).reason == EARLIER


def test_ranks_of_different_jobs_are_not_compared(tmp_path: Path) -> None:
    for rank, world in ((0, 2), (1, 8)):
        t = KinetoTrace(rank=rank, world_size=world, device=rank)
        with t.step(1, at=0, dur=100):
            t.launch("gemm", at=0, runs=(1, 50 + 40 * rank))
        t.write(tmp_path / f"rank{rank}.json")
    found = analyze_set(read_traces(tmp_path)).stragglers
    assert found is not None
    assert found.straggler is None
    assert "world sizes differ" in found.absent_reason


def _named(ranks: int, steps: int, noise: float, late: float, sets: int = 400) -> float:
    """Share of `sets` in which somebody is named; rank 0 comes `late` (of a step) later."""
    rng = np.random.default_rng(2)
    names = tuple(f"ProfilerStep#{i}" for i in range(steps))
    count = 0
    for _ in range(sets):
        start = rng.normal(0, noise, (ranks, steps))
        start[0] += late
        behind = np.apply_along_axis(_over_others, 0, start) * 1e3
        rows = tuple(_row(i, behind[i], 1e3, 0, {}) for i in range(ranks))
        found = _judged(COLLECTIVES, names, 1e3, steps, rows, Thresholds())
        count += found.straggler is not None
    return count / sets


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=12))
def test_a_value_is_compared_with_the_median_of_the_others(values: list[int]) -> None:
    expected = [v - median(values[:i] + values[i + 1 :]) for i, v in enumerate(values)]
    assert _over_others(np.array(values, dtype=float)).tolist() == expected


@pytest.mark.parametrize("ranks", [2, 8, 64])
@pytest.mark.parametrize("steps", [16, 40])
def test_ranks_that_take_turns_are_named_in_one_set_of_twenty_at_most(
    ranks: int, steps: int
) -> None:
    # A spread of a tenth of a step, twice what counts as late: every set has late ranks. By the
    # binomial the chance is 5% at most; some is lost where counts are whole.
    assert _named(ranks, steps, noise=0.10, late=0.0) <= 0.05


@pytest.mark.parametrize("ranks", [2, 8, 64])
def test_a_rank_that_is_late_by_more_than_the_noise_is_named(ranks: int) -> None:
    # A tenth of a step late with half of that as noise, two standard deviations, in 40 steps.
    assert _named(ranks, 40, noise=0.05, late=0.10, sets=100) >= 0.99
