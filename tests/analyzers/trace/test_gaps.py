"""Idle time by cause, on timelines drawn by hand. Times in µs."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers import timeline
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.metrics import BUILTIN
from gpuperf_analyzers.timeline import Timeline
from gpuperf_analyzers.trace import read_trace
from gpuperf_analyzers.trace.classify import BUILTIN_CLASSIFIERS
from kineto import KinetoTrace

CONFIG = Config({m.name: m for m in BUILTIN}, comm_classifiers=BUILTIN_CLASSIFIERS)


def analyzed(trace: KinetoTrace, folder: Path) -> Timeline:
    return timeline.analyze(read_trace(trace.write(folder / "trace.json")), CONFIG, 0)


def causes(result: Timeline) -> dict[str, float | None]:
    names = ("idle_host_bound", "idle_launch_latency", "idle_dependency", "idle_unknown")
    return {v.name.removeprefix("idle_"): v.value for v in result.metrics() if v.name in names}


@pytest.mark.parametrize(
    ("launched", "want"),
    [
        # The gap is [20, 60). Launched inside it: host until the call, latency from there on.
        (45, {"host_bound": 25, "launch_latency": 15, "dependency": 0, "unknown": 0}),
        # Launched as the gap begins: the host was in time, all of it is the launch's own.
        (20, {"host_bound": 0, "launch_latency": 40, "dependency": 0, "unknown": 0}),
        # Launched before: the device had it and waited for something else.
        (15, {"host_bound": 0, "launch_latency": 0, "dependency": 40, "unknown": 0}),
        # A clock skew puts the launch after the start: the host was late for all of it.
        (61, {"host_bound": 40, "launch_latency": 0, "dependency": 0, "unknown": 0}),
        (None, {"host_bound": 0, "launch_latency": 0, "dependency": 0, "unknown": 40}),
    ],
)
def test_a_gap_is_split_by_when_its_next_activity_was_launched(
    launched: int | None, want: dict[str, int], tmp_path: Path
) -> None:
    t = KinetoTrace()
    t.launch("first", at=0, runs=(10, 20))
    t.launch("next", at=launched or 0, runs=(60, 70), recorded=launched is not None)
    assert causes(analyzed(t, tmp_path)) == want


def test_of_two_that_start_together_the_earlier_launch_decides(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("first", at=0, runs=(10, 20))
    t.launch("late", at=50, runs=(60, 70), stream=8)
    t.launch("early", at=5, runs=(60, 65), stream=9)
    assert causes(analyzed(t, tmp_path))["dependency"] == 40


def test_an_activity_without_length_ends_no_gap(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("first", at=0, runs=(10, 20))
    t.launch("nothing", at=1, runs=(60, 60))
    t.launch("next", at=50, runs=(60, 70))
    assert causes(analyzed(t, tmp_path)) == {
        "host_bound": 30, "launch_latency": 10, "dependency": 0, "unknown": 0,
    }  # fmt: skip


def test_the_tail_of_the_last_step_is_the_hosts(tmp_path: Path) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=100):
        t.launch("only", at=1, runs=(10, 20))
    result = analyzed(t, tmp_path)
    assert result.steps[0].window_ns == 90_000
    assert causes(result)["host_bound"] == 80


def test_a_trace_without_launch_records_says_unknown_of_every_gap(tmp_path: Path) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=100):
        t.launch("a", at=1, runs=(10, 20), recorded=False)
        t.launch("b", at=1, runs=(30, 40), recorded=False)
    assert causes(analyzed(t, tmp_path)) == {
        "host_bound": 0, "launch_latency": 0, "dependency": 0, "unknown": 70,
    }  # fmt: skip


def test_the_longest_gaps_come_first_with_what_the_host_did_in_them(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("first", at=0, runs=(10, 20))
    t.launch("second", at=25, runs=(30, 40))
    t.event("enumerate(DataLoader)#_Iter.__next__", "user_annotation", 35, 40)
    t.op("aten::stack", at=60, dur=10)  # inside the annotation: its own 10, the loader's 25
    t.op("aten::cat", at=62, dur=4)  # inside stack: stack's
    t.runtime("cudaStreamSynchronize", at=80, dur=5)
    t.launch("third", at=90, runs=(100, 110))
    longest, short = analyzed(t, tmp_path).gaps
    assert (longest.start, longest.end, longest.kind) == (40_000, 100_000, "host_bound")
    assert longest.next_activity == "third"
    assert longest.cpu_ops == (
        ("enumerate(DataLoader)#_Iter.__next__", 25_000),
        ("aten::stack", 10_000),
    )
    assert longest.calls == (("cudaStreamSynchronize", 5_000), ("cudaLaunchKernel", 2_000))
    assert short.duration == 10_000


def test_only_the_ten_longest_gaps_are_kept(tmp_path: Path) -> None:
    t = KinetoTrace()
    for i in range(15):
        at = sum(range(i + 1)) + 2 * i
        t.launch("k", at=at, runs=(at, at + 2))
    gaps = analyzed(t, tmp_path).gaps
    assert [g.duration // 1000 for g in gaps] == list(range(14, 4, -1))
