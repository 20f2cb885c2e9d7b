"""Counts that all ranks share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

import pytest

from pytest_gpuperf.recording.coordination import SOLO, share_count
from pytest_gpuperf.recording.options import Options
from pytest_gpuperf.recording.regions import RegionLog
from pytest_gpuperf.recording.sampling import Samples, Sampling, Workload, warm_up

torch = pytest.importorskip("torch")

from pytest_gpuperf.recording.timers import WallTimer  # noqa: E402 - needs torch

T = TypeVar("T")


class ThreadRank:
    """A coordinator whose ranks are threads; a rank that asks more often than another hangs."""

    def __init__(self, rank: int, world: list[ThreadRank], barrier: threading.Barrier) -> None:
        self.rank, self.world, self.meet = rank, world, barrier
        self.said = False

    @property
    def world_size(self) -> int:
        return len(self.world)

    def agree(self, flag: bool, /) -> bool:
        self.said = flag
        self.meet.wait(10)
        agreed = self.world[0].said
        self.meet.wait(10)
        return agreed

    def barrier(self) -> None:
        self.meet.wait(10)


def on_ranks(size: int, run: Callable[[ThreadRank], T]) -> list[T]:
    """What `run` returns on each rank."""
    world: list[ThreadRank] = []
    barrier = threading.Barrier(size)
    world += [ThreadRank(rank, world, barrier) for rank in range(size)]
    found: dict[int, T] = {}

    def body(rank: ThreadRank) -> None:
        try:
            found[rank.rank] = run(rank)
        except BaseException:
            barrier.abort()
            raise

    threads = [threading.Thread(target=body, args=(rank,)) for rank in world]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(found) == list(range(size))
    return [found[rank] for rank in range(size)]


@pytest.mark.parametrize(
    ("wanted", "shared"),
    [(0, 0), (0.99, 0), (1, 1), (1.9, 1), (2, 2), (3, 2), (255.9, 128), (256, 256), (1e12, 2**30)],
)
def test_a_count_is_rounded_down_to_a_power_of_two(wanted: float, shared: int) -> None:
    assert share_count(SOLO, wanted) == shared


def test_every_rank_gets_the_count_of_rank_0() -> None:
    assert on_ranks(3, lambda rank: share_count(rank, [37, 5, 0][rank.rank])) == [32, 32, 32]
    assert on_ranks(2, lambda rank: share_count(rank, [0, 99][rank.rank])) == [0, 0]


@pytest.mark.parametrize("slow_rank", [0, 1])
def test_ranks_of_different_speed_make_equally_many_calls(slow_rank: int) -> None:
    options = Options(warmup_s=0.02, max_time_s=0.1)
    cpu = torch.device("cpu")

    def run(rank: ThreadRank) -> tuple[int, Samples]:
        calls = 0

        def step() -> None:
            nonlocal calls
            calls += 1
            time.sleep(0.004 if rank.rank == slow_rank else 0.0002)

        timer = WallTimer(cpu)
        workload = Workload(step)
        warmup = warm_up(workload, timer, options.warmup_s, rank)
        sampling = Sampling(workload, timer, options, rank, RegionLog(timer))
        return calls, sampling.run(warmup.call_us)

    calls, samples = zip(*on_ranks(2, run), strict=True)
    for a, b in pairwise(calls):
        assert a == b
    assert len(samples[0].us) == len(samples[1].us)
    assert samples[0].stop == samples[1].stop
    assert samples[0].calls_per_sample == samples[1].calls_per_sample


def test_only_rank_0_is_asked_whether_the_limits_are_decided() -> None:
    options = Options(warmup_s=0.0, max_time_s=0.02, interval_target=1e6)
    asked: list[int] = []

    def run(rank: ThreadRank) -> Samples:
        def decided(_: tuple[float, ...]) -> bool:
            asked.append(rank.rank)
            return True

        timer = WallTimer(torch.device("cpu"))
        workload = Workload(lambda: time.sleep(0.0005))
        return Sampling(workload, timer, options, rank, RegionLog(timer), decided).run(500.0)

    stops = {samples.stop for samples in on_ranks(2, run)}
    assert len(stops) == 1
    assert set(asked) <= {0}
