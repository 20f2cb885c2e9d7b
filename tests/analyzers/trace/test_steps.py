"""Steps and their windows on the device, drawn by hand. Times in µs."""

from __future__ import annotations

from pathlib import Path

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.trace import read_trace
from gpuperf_analyzers.trace.classify import BUILTIN_CLASSIFIERS
from gpuperf_analyzers.trace.steps import Step, step_of, steps
from kineto import KinetoTrace

CONFIG = Config({}, comm_classifiers=BUILTIN_CLASSIFIERS)


def found(trace: KinetoTrace, folder: Path, device=0) -> tuple[Step, ...]:
    return steps(read_trace(trace.write(folder / "trace.json")), device, CONFIG)


def windows(every: tuple[Step, ...]) -> list[tuple[int, int]]:
    return [(s.start // 1000, s.end // 1000) for s in every]


def test_a_window_runs_from_the_first_launched_in_a_step_to_the_first_of_the_next(
    tmp_path: Path,
) -> None:
    t = KinetoTrace()
    with t.step(7, at=0, dur=50):
        t.launch("a", at=5, runs=(20, 40))
        t.launch("b", at=10, runs=(60, 90))  # runs while the host is in the next step
    with t.step(8, at=50, dur=50):
        t.launch("a", at=55, runs=(100, 130))  # ends after its host span
    every = found(t, tmp_path)
    assert [s.name for s in every] == ["ProfilerStep#7", "ProfilerStep#8"]
    assert windows(every) == [(20, 100), (100, 130)]
    assert [s.launched for s in every] == [2, 1]
    assert [s.number for s in every] == [7, 8]


def test_the_last_step_lasts_until_its_host_end_where_that_is_later(tmp_path: Path) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=50):
        t.launch("a", at=5, runs=(20, 40))
    assert windows(found(t, tmp_path)) == [(20, 50)]


def test_a_step_that_launched_nothing_is_kept_and_begins_where_the_last_activity_ended(
    tmp_path: Path,
) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=50):
        t.launch("a", at=5, runs=(20, 70))
    with t.step(2, at=50, dur=50):
        pass
    with t.step(3, at=100, dur=50):
        t.launch("a", at=105, runs=(120, 140))
    every = found(t, tmp_path)
    assert windows(every) == [(20, 70), (70, 120), (120, 150)]
    assert [s.launched for s in every] == [1, 0, 1]


def test_activity_without_a_launch_record_is_assigned_by_time_and_counted(tmp_path: Path) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=50):
        t.launch("a", at=5, runs=(20, 40))
        t.launch("lost", at=0, runs=(45, 47), recorded=False)
    with t.step(2, at=50, dur=50):
        t.launch("a", at=55, runs=(60, 80))
    trace = read_trace(t.write(tmp_path / "trace.json"))
    every = steps(trace, 0, CONFIG)
    assert [(s.launched, s.by_time) for s in every] == [(1, 1), (1, 0)]
    assert step_of(trace, 0, CONFIG).tolist() == [0, 0, 1]


def test_without_any_launch_record_windows_begin_with_the_first_activity_of_the_span(
    tmp_path: Path,
) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=50):
        t.launch("a", at=0, runs=(20, 40), recorded=False)
    with t.step(2, at=50, dur=50):
        t.launch("a", at=0, runs=(60, 80), recorded=False)
    assert windows(found(t, tmp_path)) == [(20, 60), (60, 100)]


def test_the_gpu_side_annotation_and_a_second_thread_are_not_more_steps(tmp_path: Path) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=50):
        t.launch("a", at=5, runs=(20, 40))
    t.event("ProfilerStep#1", "gpu_user_annotation", 20, 20, pid=0, tid=7)
    t.event("ProfilerStep#1", "user_annotation", 1, 49, tid=300)
    every = found(t, tmp_path)
    assert len(every) == 1
    assert every[0].host_start == 0


def test_old_profilers_record_a_step_as_an_operator(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.event("ProfilerStep#4", "Operator", 0, 50)
    t.launch("a", at=5, runs=(20, 40))
    assert [s.number for s in found(t, tmp_path)] == [4]


def test_a_name_that_only_resembles_a_step_is_none(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.event("ProfilerStep#4: mine", "user_annotation", 0, 50)
    t.launch("a", at=5, runs=(20, 40))
    assert found(t, tmp_path) == ()


def test_on_the_cpu_an_op_is_its_own_launch(tmp_path: Path) -> None:
    t = KinetoTrace(device_name=None)
    with t.step(1, at=0, dur=50):
        t.op("aten::mm", at=5, dur=20)
    with t.step(2, at=50, dur=50):
        t.op("aten::mm", at=60, dur=20)
    assert windows(found(t, tmp_path, "cpu")) == [(5, 60), (60, 100)]
