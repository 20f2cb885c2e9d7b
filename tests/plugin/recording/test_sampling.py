"""Warm-up and the stop rule, on a clock that only the workload moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pytest_gpuperf.recording import sampling
from pytest_gpuperf.recording.coordination import SOLO
from pytest_gpuperf.recording.options import Options
from pytest_gpuperf.recording.regions import RegionLog, activate, region
from pytest_gpuperf.recording.sampling import Samples, Sampling, Workload, warm_up


class Clock:
    """Seconds that pass only when something takes them; its marks are those seconds."""

    name = "fake"
    primed = False
    batch_us = 100.0

    def __init__(self) -> None:
        self.now = 0.0

    def take(self, seconds: float) -> None:
        self.now += seconds

    def mark(self) -> float:
        return self.now

    def elapsed_us(self, start: float, end: float) -> float:
        return (end - start) * 1e6

    def synchronize(self) -> None:
        return


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    # The tests' heap is large and not frozen; collecting it is slow and proves nothing here.
    monkeypatch.setattr(sampling.gc, "collect", lambda: 0)
    monkeypatch.setattr(sampling, "perf_counter", lambda: made.now)
    return made


def take_samples(
    clock: Clock,
    workload: Workload,
    call_us: float,
    options: Options,
    decided: Callable[[tuple[float, ...]], bool] | None = None,
) -> Samples:
    return Sampling(workload, clock, options, SOLO, RegionLog(clock), decided).run(call_us)


def durations(clock: Clock, *seconds: float) -> Iterator[None]:
    """Calls that take these times in turn, over and over."""
    while True:
        for each in seconds:
            clock.take(each)
            yield


def test_equal_samples_stop_at_the_interval_with_the_value_of_one_call(clock: Clock) -> None:
    done = take_samples(clock, Workload(lambda: clock.take(0.001)), 1000.0, Options())
    assert done.stop == "interval"
    assert done.us == pytest.approx([1000.0] * len(done.us))
    assert len(done.us) >= 6  # fewer have no interval at 95%
    assert done.calls_per_sample == 1


def test_samples_whose_noise_still_changes_go_on_until_the_time_is_spent(clock: Clock) -> None:
    calls = 0

    def step() -> None:
        nonlocal calls
        calls += 1
        # One call of 64 takes four times as long as the last such one: the spread keeps growing.
        slow = 0.01 * 4.0 ** (calls // 64) if calls % 64 == 0 else 0.0
        clock.take((0.001 if calls % 2 else 0.003) + slow)

    done = take_samples(clock, Workload(step), 1000.0, Options(max_time_s=1.0))
    assert done.stop == "max_time"
    assert sum(done.us) == pytest.approx(clock.now * 1e6)


def test_noise_that_has_settled_ends_sampling_where_more_time_would_not_do(clock: Clock) -> None:
    calls = durations(clock, 0.001, 0.003)
    done = take_samples(clock, Workload(lambda: next(calls)), 1000.0, Options(max_time_s=1.0))
    # The median's interval of a 1 ms / 3 ms workload spans both values: never within 2%.
    assert done.stop == "noise"
    assert 0.5 <= clock.now <= 0.7  # half of the time, and the round under way
    assert sum(done.us) == pytest.approx(clock.now * 1e6)


def test_settled_noise_does_not_end_sampling_while_a_limit_is_open(clock: Clock) -> None:
    calls = durations(clock, 0.001, 0.003)
    done = take_samples(
        clock, Workload(lambda: next(calls)), 1000.0, Options(max_time_s=1.0), lambda _: False
    )
    assert done.stop == "max_time"
    assert clock.now == pytest.approx(1.0, abs=0.004)


def test_undecided_limits_keep_sampling_and_decided_ones_do_not_end_it(clock: Clock) -> None:
    step = Workload(lambda: clock.take(0.001))
    never = take_samples(clock, step, 1000.0, Options(max_time_s=0.2), lambda _: False)
    assert never.stop == "max_time"
    calls = durations(clock, 0.001, 0.003)
    wide = Workload(lambda: next(calls))
    # Too little time for 64 samples, below which the noise is not said to have settled.
    always = take_samples(clock, wide, 1000.0, Options(max_time_s=0.1), lambda _: True)
    assert always.stop == "max_time"


def test_limits_that_become_decided_end_sampling_with_those_samples(clock: Clock) -> None:
    seen: list[int] = []

    def decided(samples: tuple[float, ...]) -> bool:
        seen.append(len(samples))
        return len(samples) >= 50

    done = take_samples(clock, Workload(lambda: clock.take(0.001)), 1000.0, Options(), decided)
    assert done.stop == "interval"
    assert len(done.us) == seen[-1] >= 50
    assert all(n < 50 for n in seen[:-1])


def test_a_call_longer_than_the_time_is_sampled_three_times(clock: Clock) -> None:
    options = Options(max_time_s=2.0)
    done = take_samples(clock, Workload(lambda: clock.take(3.0)), 3e6, options)
    assert done.us == pytest.approx([3e6] * 3)
    assert done.stop == "max_time"


def test_a_call_that_becomes_slow_does_not_overrun_the_time(clock: Clock) -> None:
    calls = 0

    def step() -> None:
        nonlocal calls
        calls += 1
        clock.take(0.001 if calls < 20 else 0.5)

    options = Options(max_time_s=1.0)
    done = take_samples(clock, Workload(step), 1000.0, options, lambda _: False)
    assert done.stop == "max_time"
    assert clock.now <= 1.0 + 0.5


def test_samples_end_at_their_greatest_number(clock: Clock) -> None:
    calls = durations(clock, 0.001, 0.003)
    done = take_samples(
        clock, Workload(lambda: next(calls)), 1000.0, Options(max_time_s=1e9, max_samples=100)
    )
    assert done.stop == "samples"
    assert len(done.us) == 100


def test_short_calls_are_timed_together_and_a_sample_is_their_mean(clock: Clock) -> None:
    done = take_samples(clock, Workload(lambda: clock.take(1e-6)), 1.0, Options())
    assert done.calls_per_sample == 64  # the power of two below 100 µs / 1 µs
    assert done.us == pytest.approx([1.0] * len(done.us))


def test_setup_and_teardown_are_outside_the_time_and_prevent_batches(clock: Clock) -> None:
    order: list[str] = []

    def part(name: str, seconds: float) -> Callable[[], None]:
        def run() -> None:
            order.append(name)
            clock.take(seconds)

        return run

    workload = Workload(part("step", 1e-6), part("setup", 0.01), part("teardown", 0.02))
    done = take_samples(clock, workload, 1.0, Options(max_time_s=0.5))
    assert done.calls_per_sample == 1
    assert done.us == pytest.approx([1.0] * len(done.us))
    assert order == ["setup", "step", "teardown"] * len(done.us)


def test_a_primed_round_begins_with_a_call_that_is_no_sample(clock: Clock) -> None:
    clock.primed = True
    calls = 0

    def step() -> None:
        nonlocal calls
        calls += 1
        clock.take(0.001)

    options = Options(min_samples=1, max_samples=1, max_time_s=10)
    done = take_samples(clock, Workload(step), 1000.0, options)
    assert (len(done.us), calls) == (1, 2)


@pytest.mark.parametrize(("device_s", "bound"), [(0.0, True), (0.001, False)])
def test_a_queue_that_is_empty_when_the_host_is_done_is_host_bound(
    clock: Clock, device_s: float, bound: bool
) -> None:
    queued = 0.0

    def step() -> None:
        nonlocal queued
        clock.take(0.001)  # the host's launch
        queued += device_s  # what the device has still to do then

    def synchronize() -> None:
        nonlocal queued
        clock.take(queued)
        queued = 0.0

    clock.primed = True
    clock.synchronize = synchronize  # type: ignore[method-assign]
    assert take_samples(clock, Workload(step), 1000.0, Options()).host_bound is bound
    clock.primed = False  # the host's own clock waits at each mark: there is no queue to tell of
    assert not take_samples(clock, Workload(step), 1000.0, Options()).host_bound


def test_warm_up_spends_its_time_and_learns_what_a_call_takes(clock: Clock) -> None:
    spent = warm_up(Workload(lambda: clock.take(0.001)), clock, 1.0, SOLO)
    assert spent.elapsed_us == pytest.approx(1e6, rel=0.2)
    assert spent.calls == pytest.approx(spent.elapsed_us / 1000.0)
    assert spent.call_us == pytest.approx(1000.0)
    assert spent.steady


def test_warm_up_of_a_long_call_is_one_call(clock: Clock) -> None:
    spent = warm_up(Workload(lambda: clock.take(3.0)), clock, 1.0, SOLO)
    assert (spent.calls, spent.elapsed_us) == (1, pytest.approx(3e6))


def test_warm_up_goes_on_while_calls_get_faster_and_gives_up_at_twice_the_time(
    clock: Clock,
) -> None:
    cost = 0.05

    def faster() -> None:
        nonlocal cost
        clock.take(cost)
        cost *= 0.9

    spent = warm_up(Workload(faster), clock, 0.2, SOLO)
    assert not spent.steady
    assert 0.2e6 < spent.elapsed_us <= 0.5e6


def test_passages_through_a_region_add_up_to_one_sample_a_step(clock: Clock) -> None:
    def step() -> None:
        for _ in range(2):
            with region("half"):
                clock.take(0.0004)
            clock.take(0.0001)

    log = RegionLog(clock)
    activate(log)
    try:
        done = Sampling(Workload(step), clock, Options(), SOLO, log).run(1000.0)
    finally:
        activate(None)
    assert done.us == pytest.approx([1000.0] * len(done.us))
    assert log.samples_us == {"half": pytest.approx([800.0] * len(done.us))}


def test_a_regions_sample_of_batched_calls_is_their_mean(clock: Clock) -> None:
    def step() -> None:
        with region("all"):
            clock.take(1e-6)

    log = RegionLog(clock)
    activate(log)
    try:
        done = Sampling(Workload(step), clock, Options(), SOLO, log).run(1.0)
    finally:
        activate(None)
    assert done.calls_per_sample > 1
    assert log.samples_us["all"] == pytest.approx([1.0] * len(done.us))
