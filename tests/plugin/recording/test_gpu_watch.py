"""The loop that counters are watched over."""

from __future__ import annotations

import time

import pytest

from pytest_gpuperf.recording.coordination import _EXPONENT_BITS, SOLO
from pytest_gpuperf.recording.gpu_watch import looped
from pytest_gpuperf.recording.sampling import Workload


class Clock:
    name, batch_us, primed = "wall", 100.0, False

    def __init__(self) -> None:
        self.waits = 0

    def mark(self) -> int:
        return time.perf_counter_ns()

    def elapsed_us(self, start: int, end: int) -> float:
        return (end - start) / 1e3

    def synchronize(self) -> None:
        self.waits += 1


class Follower:
    """Rank 1: what rank 0 decides is handed over in `decisions`."""

    rank, world_size = 1, 2

    def __init__(self, decisions: list[bool]) -> None:
        self._decisions = iter(decisions)

    def agree(self, flag: bool, /) -> bool:
        return next(self._decisions)

    def any(self, flag: bool, /) -> bool:
        return flag

    def barrier(self) -> None:
        return


@pytest.mark.parametrize("call_us", [1000.0, 100_000.0, 500.0])
def test_the_workload_is_called_for_at_least_the_time_however_long_a_call_was_thought(
    call_us: float,
) -> None:
    calls = []

    def step() -> None:
        time.sleep(0.001)
        calls.append(1)

    clock = Clock()
    begin = time.perf_counter()
    assert looped(Workload(step), clock, 0.1, call_us, SOLO) == len(calls)
    assert time.perf_counter() - begin >= 0.1
    # The device is waited for once a round, and not after each call.
    assert 1 <= clock.waits <= len(calls)


def test_every_rank_calls_it_as_often_as_rank_0_says() -> None:
    # A size of 1 or more, its exponent 3 (least bit first), one more round, then none.
    bits = [bool(3 >> bit & 1) for bit in range(_EXPONENT_BITS)]
    calls: list[int] = []
    follower = Follower([True, *bits, True, False])
    done = looped(Workload(lambda: calls.append(1)), Clock(), 1e9, 1.0, follower)
    assert done == len(calls) == 16


def test_setup_and_teardown_belong_to_a_call() -> None:
    order: list[str] = []
    workload = Workload(
        lambda: order.append("step"), lambda: order.append("setup"), lambda: order.append("down")
    )
    calls = looped(workload, Clock(), 0.0, 1e9, SOLO)
    assert calls == 1
    assert order == ["setup", "step", "down"]
