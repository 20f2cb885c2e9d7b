"""Mean power by the energy counter's updates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.recording.telemetry.energy import mean_power

MS = 1_000_000


def _counter(watts: float, *, every_ms: int, read_ms: int, total_ms: int, offset_ms: int = 0):
    """Readings of a counter at `watts` that is brought up to date every `every_ms`."""
    for at in range(0, total_ms, read_ms):
        updates = (at + offset_ms) // every_ms
        yield at * MS, 5000 + updates * every_ms * watts / 1e3


def test_power_is_energy_between_updates_over_the_time_between_them() -> None:
    # Updates at 100, 200, …, 900 ms, each seen at once: 8 times 40 J in 0.8 s.
    found = mean_power(_counter(400, every_ms=100, read_ms=20, total_ms=1000))
    assert found is not None
    assert found.watts == pytest.approx(400)
    assert found.updates == 9
    # Either update may have come up to 20 ms before it was seen.
    assert found.low == pytest.approx(320 / 0.82)
    assert found.high == pytest.approx(320 / 0.78)


@given(
    watts=st.integers(10, 2000),
    every_ms=st.integers(60, 120),
    read_ms=st.integers(5, 50),
    offset_ms=st.integers(0, 119),
)
def test_the_true_power_is_within_the_bounds(
    watts: int, every_ms: int, read_ms: int, offset_ms: int
) -> None:
    found = mean_power(
        _counter(watts, every_ms=every_ms, read_ms=read_ms, total_ms=1500, offset_ms=offset_ms)
    )
    assert found is not None
    assert found.low <= watts * (1 + 1e-9)
    assert found.high >= watts * (1 - 1e-9)


def test_too_few_updates_tell_nothing() -> None:
    assert mean_power([]) is None
    assert mean_power([(at * MS, 7.0) for at in range(0, 1000, 20)]) is None
    assert mean_power(_counter(400, every_ms=100, read_ms=20, total_ms=210)) is None


def test_a_counter_that_was_set_back_tells_nothing() -> None:
    back = [(0, 100.0), (20 * MS, 110.0), (40 * MS, 120.0), (60 * MS, 3.0), (80 * MS, 4.0)]
    assert mean_power(back) is None
