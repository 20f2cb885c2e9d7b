"""Marks of throttled samples, by drawn timelines: times in ms, worked out by hand."""

from __future__ import annotations

from pytest_gpuperf.recording.clock_reasons import ClockReason
from pytest_gpuperf.recording.sampling import Round
from pytest_gpuperf.recording.telemetry.sampler import Watched
from pytest_gpuperf.recording.telemetry.series import Series
from pytest_gpuperf.recording.telemetry.throttled import throttled_samples

HOT, IDLE = int(ClockReason.SW_THERMAL_SLOWDOWN), int(ClockReason.GPU_IDLE)
MS = 1_000_000


def watched(*readings: tuple[int, int], opening: int = 0) -> Watched:
    series = Series()
    for at, mask in readings:
        series.add(at * MS, float(mask))
    return Watched(
        0.01, series={"reasons": series}, opening={"reasons": float(opening)}, begin_ns=0
    )


def rounds(*spans: tuple[int, int, int]) -> tuple[Round, ...]:
    return tuple(Round(begin * MS, end * MS, count) for begin, end, count in spans)


def test_a_reading_holds_until_the_next_one() -> None:
    """Ten samples of 10 ms; throttled from the reading at 25 to that at 45: samples 2, 3 and 4."""
    seen = watched((5, IDLE), (15, 0), (25, HOT), (35, HOT), (45, 0), (55, 0))
    assert throttled_samples(seen, rounds((0, 100, 10))) == (2, 3, 4)


def test_places_count_over_rounds_and_pauses_between_them_are_nobodys() -> None:
    """Two rounds of two; the pause from 20 to 60 was throttled, and the last sample."""
    seen = watched((5, 0), (15, 0), (25, HOT), (55, 0), (65, 0), (70, HOT))
    assert throttled_samples(seen, rounds((0, 20, 2), (60, 80, 2))) == (3,)


def test_what_held_before_the_window_holds_into_it() -> None:
    """Throttled until the reading at 12: the first two of three samples of 10 ms."""
    seen = watched((12, 0), (22, 0), opening=HOT)
    assert throttled_samples(seen, rounds((0, 30, 3))) == (0, 1)


def test_an_idle_reason_throttles_nothing_and_no_reading_tells_nothing() -> None:
    assert throttled_samples(watched((5, IDLE), (15, IDLE)), rounds((0, 20, 2))) == ()
    assert throttled_samples(Watched(0.01), rounds((0, 20, 2))) == ()
