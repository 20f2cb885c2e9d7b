"""Regions outside of samples; within samples see test_sampling."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pytest_gpuperf.recording.regions import RegionLog, activate, region


class Counter:
    """A timer whose marks count up by one."""

    name, primed, batch_us = "fake", False, 0.0

    def __init__(self) -> None:
        self.marks = 0

    def mark(self) -> int:
        self.marks += 1
        return self.marks

    def elapsed_us(self, start: int, end: int) -> float:
        return float(end - start)

    def synchronize(self) -> None:
        return


@pytest.fixture
def log() -> Iterator[RegionLog]:
    made = RegionLog(Counter())
    assert activate(made) is None
    yield made
    activate(None)


def test_a_region_outside_a_recording_does_nothing() -> None:
    with region("free", max_step_time="1ms"):
        pass


def test_a_region_between_samples_keeps_its_limits_and_no_time(log: RegionLog) -> None:
    with region("a", max_step_time="1ms"):
        pass
    log.flush(1)
    assert log.limits == {"a": {"max_step_time": "1ms"}}
    assert log.samples_us == {}


def test_a_region_within_itself_is_counted_once(log: RegionLog) -> None:
    log.timing = True
    with region("a"), region("b"), region("a"):
        pass
    log.flush(1)
    # Marks: a 1, b 2, b 3, a 4.
    assert log.samples_us == {"a": [3.0], "b": [1.0]}


def test_a_region_left_by_an_exception_is_closed(log: RegionLog) -> None:
    log.timing = True
    with pytest.raises(KeyError), region("a"):
        raise KeyError
    with region("a"):
        pass
    log.flush(1)
    assert log.samples_us == {"a": [2.0]}  # two passages of one sample


def test_regions_of_other_threads_are_seen(log: RegionLog) -> None:
    log.timing = True

    def work() -> None:
        with region("threaded"):
            pass

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    log.flush(1)
    assert log.samples_us == {"threaded": [1.0]}


def test_a_region_needs_a_name() -> None:
    with pytest.raises(ValueError, match="a region needs a name"):
        region("")
