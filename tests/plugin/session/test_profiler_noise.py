"""The profiler's own lines are not shown as a test's output."""

from __future__ import annotations

from pytest_gpuperf.session.profiler_noise import without_profiler_noise

START = "USDT:2026-01-02 03:04:05 77:77 SyncActivityProfilerHandler.cpp:52] profiler_start\n"
STOP = "USDT:2026-01-02 03:04:05 77:77 SyncActivityProfilerHandler.cpp:59] profiler_stop\n"


def test_a_section_of_nothing_else_is_gone() -> None:
    assert without_profiler_noise([("Captured stderr call", START + STOP)]) == []


def test_what_the_workload_wrote_stays_as_it_was_between_them() -> None:
    said = "USDT: prices fell\n  indented, without an end"
    sections = [("Captured stderr call", START + said), ("Captured stdout call", said)]
    assert without_profiler_noise(sections) == [
        ("Captured stderr call", said),
        ("Captured stdout call", said),
    ]


def test_an_empty_section_is_left_alone() -> None:
    assert without_profiler_noise([("Captured log call", "")]) == [("Captured log call", "")]
