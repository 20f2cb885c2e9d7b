"""The critical path on timelines drawn by hand, whose path is known. Times in µs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuperf_analyzers import critical_path
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.critical_path import CriticalPaths, PathClass
from gpuperf_analyzers.critical_path import Path as FoundPath
from gpuperf_analyzers.metrics import BUILTIN, Value
from gpuperf_analyzers.trace import read_trace
from gpuperf_analyzers.trace.classify import BUILTIN_CLASSIFIERS
from kineto import KinetoTrace

CONFIG = Config({m.name: m for m in BUILTIN}, comm_classifiers=BUILTIN_CLASSIFIERS)
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def analyzed(trace: KinetoTrace, folder: Path, device: Any = 0) -> CriticalPaths:
    return critical_path.analyze(read_trace(trace.write(folder / "trace.json")), CONFIG, device)


def classes(path: FoundPath) -> dict[str, float]:
    """µs by class, those without time left out."""
    return {
        kind.name.lower(): path.by_class[kind] / 1e3 for kind in PathClass if path.by_class[kind]
    }


def times(path: FoundPath) -> dict[str, float]:
    """µs by name of what is on the path, its start-up not counted."""
    return {i.name: i.time_ns / 1e3 for i in path.items if i.path_class is not PathClass.LAUNCH}


def values(result: CriticalPaths) -> dict[str, Value]:
    return {v.name: v for v in result.metrics()}


def codes(result: CriticalPaths) -> dict[str, int]:
    return {a.code: a.count for a in result.assumptions}


def wait_event(
    t: KinetoTrace, at: float, stream: int, *, waits_for: int | None, record: int = -1
) -> None:
    """cudaStreamWaitEvent on `stream`, with its cuda_sync event where `waits_for` is a stream."""
    t.runtime("cudaStreamWaitEvent", at, 0.5)
    if waits_for is not None:
        correlation = t.events[-1]["args"]["correlation"]
        t.event("Stream Wait Event", "cuda_sync", at, 0.1, pid=0, tid=stream, device=0,
                stream=stream, correlation=correlation, wait_on_stream=waits_for,
                wait_on_cuda_event_record_corr_id=record)  # fmt: skip


def record_event(t: KinetoTrace, at: float) -> int:
    """cudaEventRecord; its correlation."""
    t.runtime("cudaEventRecord", at, 0.5)
    correlation: int = t.events[-1]["args"]["correlation"]
    return correlation


# ------------------------------------------------------------------ streams and launches
def test_kernels_one_after_the_other_on_a_stream_are_the_path(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 50))
    t.launch("b", at=3, runs=(52, 90))
    path = analyzed(t, tmp_path).window
    assert classes(path) == {"compute": 78, "launch": 2}  # 2 µs from a's end to b's start
    assert times(path) == {"a": 40, "b": 38}
    assert (path.coverage, path.bound, path.reason) == (1, PathClass.COMPUTE, "")


def test_a_host_bound_step_goes_through_the_op_that_kept_the_device_waiting(
    tmp_path: Path,
) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=100):
        t.launch("first", at=60, runs=(70, 75))
        t.op("aten::slow", at=64, dur=36)
    with t.step(2, at=100, dur=50):
        t.launch("next", at=110, runs=(120, 125))
    result = analyzed(t, tmp_path)
    step = result.steps[0]  # its window: [70, 120)
    assert step.bound is PathClass.CPU
    # From 70 the host is in the op until 100, then in nothing until it launches at 110.
    assert times(step) == {"aten::slow": 30, "between ops": 10}
    assert classes(step) == {"cpu": 40, "launch": 10}
    assert values(result)["critical_cpu"].samples[0] == 40


def test_launch_calls_on_the_host_are_launch_and_not_cpu(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("first", at=0, runs=(15, 16))
    for i in range(4):  # each starts 15 µs after its call, 9 µs after the one before has ended
        t.launch("tiny", at=10 + 10 * i, runs=(25 + 10 * i, 26 + 10 * i), call_dur=10)
    path = analyzed(t, tmp_path).window  # [15, 56)
    # The host is in calls from 15 to 40, then the last launch takes from 40 to 55.
    assert classes(path) == {"launch": 25 + 15, "compute": 1}


def test_a_kernel_that_was_queued_in_time_waited_for_its_predecessor(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 40))  # a launch takes 10 µs
    t.launch("queued", at=28, runs=(43, 60))  # could have started at 38, but for a
    t.launch("under way", at=55, runs=(65, 70))  # would start at 65 whatever came before
    path = analyzed(t, tmp_path).window
    # Back from 70: 5, launched from 55 to 65, the host from 55 back to 10 (calls 28-30, 0-2).
    assert classes(path) == {"compute": 5, "launch": 10 + 2, "cpu": 43}
    t.launch("behind", at=57, runs=(72, 80))  # could have started at 67, the one before ended at 70
    assert times(analyzed(t, tmp_path).window)["under way"] == 5


def test_a_start_long_after_the_launch_has_no_known_cause_and_is_no_path(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 20))
    t.launch("late", at=30, runs=(530, 540))  # 498 µs after its call returned, device idle
    result = analyzed(t, tmp_path)
    assert result.window.by_class[PathClass.UNKNOWN] == 500_000
    assert result.window.coverage == pytest.approx(30 / 530)
    assert result.window.bound is None
    assert result.window.share(PathClass.COMPUTE) is None
    assert "nothing in the trace explains 94.3% of the time" in result.window.reason
    got = values(result)
    assert got["critical_compute"].value is None
    assert "94.3%" in (got["critical_compute"].absent_reason or "")
    assert got["critical_coverage"].value == pytest.approx(30 / 530)


def test_without_launch_records_only_the_order_of_a_stream_is_known(tmp_path: Path) -> None:
    t = KinetoTrace()
    for i in range(20):  # back to back, but for one gap
        begin = 50 * i + (5 if i >= 10 else 0)
        t.launch("k", at=0, runs=(begin, begin + 50), recorded=False)
    path = analyzed(t, tmp_path).window
    assert classes(path) == {"compute": 1000, "launch": 5}
    assert path.reason == ""


@pytest.mark.parametrize(("gap", "unknown"), [(20, 0), (21, 21)])
def test_a_gap_between_queued_kernels_is_start_up_to_20_us_and_unknown_beyond(
    gap: float, unknown: float, tmp_path: Path
) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 500))
    t.launch("b", at=3, runs=(500 + gap, 1000))  # queued all the time, the device idle before it
    path = analyzed(t, tmp_path).window
    assert path.by_class[PathClass.UNKNOWN] / 1e3 == unknown
    assert path.by_class[PathClass.LAUNCH] / 1e3 == gap - unknown
    assert path.reason == ""  # 97.9% of the time is explained


def test_a_kernel_that_starts_before_its_predecessor_ends_follows_it_once(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 50))
    t.launch("b", at=3, runs=(40, 90))  # programmatic dependent launch
    result = analyzed(t, tmp_path)
    assert classes(result.window) == {"compute": 80}
    assert times(result.window) == {"a": 30, "b": 50}
    assert codes(result) == {"overlap": 1}


# ------------------------------------------------------------------ events between streams
def two_streams(*, recorded: bool) -> KinetoTrace:
    """b on stream 20 waits for a on stream 7; decoy on stream 30 ends between the two."""
    t = KinetoTrace()
    t.launch("decoy", at=0, runs=(10, 53), stream=30)
    t.launch("a", at=3, runs=(11, 50))
    record = record_event(t, at=6)
    wait_event(t, at=7, stream=20, waits_for=7 if recorded else None, record=record)
    t.launch("after the record", at=8, runs=(50, 52))
    t.launch("b", at=11, runs=(54, 100), stream=20)
    return t


def test_a_recorded_event_leads_to_the_work_before_its_record(tmp_path: Path) -> None:
    result = analyzed(two_streams(recorded=True), tmp_path)
    # The path ends at 100 and begins at 10: b 46, the way from 50 to 54, a 39, a's launch.
    assert times(result.window) == {"b": 46, "a": 39}
    assert classes(result.window) == {"compute": 85, "launch": 5}
    assert codes(result) == {}


def test_an_event_that_is_not_recorded_is_taken_to_be_what_ended_last(tmp_path: Path) -> None:
    result = analyzed(two_streams(recorded=False), tmp_path)
    assert times(result.window) == {"b": 46, "decoy": 43}
    assert codes(result) == {"wait-call": 1}
    assert "unnamed event" in result.assumptions[0].message


def test_what_was_launched_after_the_wait_cannot_have_been_waited_for(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 50))
    wait_event(t, at=3, stream=20, waits_for=None)
    t.launch("b", at=4, runs=(54, 100), stream=20)
    t.launch("later", at=7, runs=(12, 53), stream=30)
    assert times(analyzed(t, tmp_path).window) == {"b": 46, "a": 40}


def test_without_wait_calls_only_a_late_start_looks_for_another_stream(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 50))
    t.launch("b", at=4, runs=(54, 100), stream=20)  # 50 µs after its launch
    result = analyzed(t, tmp_path)
    assert times(result.window) == {"b": 46, "a": 40}
    assert codes(result) == {"by-time": 1}


def test_work_that_starts_late_beside_a_busy_stream_waited_for_room(tmp_path: Path) -> None:
    t = KinetoTrace()
    wait_event(t, at=0, stream=9, waits_for=None)
    t.launch("first", at=1, runs=(10, 12), stream=20)
    t.launch("large", at=2, runs=(12, 100))
    t.launch("small", at=20, runs=(80, 120), stream=20)
    result = analyzed(t, tmp_path)
    assert times(result.window) == {"small": 40, "large": 68}
    assert codes(result)["shared"] == 1


def exposed(nccl: tuple[float, float], after: float) -> KinetoTrace:
    """Backward on stream 7, an all-reduce on stream 20 that waits for it, then the optimizer."""
    t = KinetoTrace()
    with t.step(1, at=0, dur=30):
        t.launch("backward 1", at=0, runs=(10, 50))
        t.launch("backward 2", at=3, runs=(50, 70))
        record = record_event(t, at=6) - 2  # made after the first of the two
        t.events[-1]["args"]["correlation"] = record
        wait_event(t, at=7, stream=20, waits_for=None)
        t.launch(NCCL, at=8, runs=nccl, stream=20)
        wait_event(t, at=12, stream=7, waits_for=None)
        t.launch("optimizer", at=13, runs=(after, after + 20))
    return t


def test_an_exposed_all_reduce_is_on_the_path_with_all_of_its_exposed_time(tmp_path: Path) -> None:
    t = exposed(nccl=(70, 100), after=100)
    path = analyzed(t, tmp_path).steps[0]
    assert classes(path) == {"compute": 80, "comm": 30}
    result = values(analyzed(t, tmp_path))
    assert (result["critical_comm"].value, result["critical_compute"].value) == (30, 80)


def test_an_all_reduce_that_hides_behind_compute_is_not_on_the_path(tmp_path: Path) -> None:
    path = analyzed(exposed(nccl=(12, 60), after=70), tmp_path).steps[0]
    assert classes(path) == {"compute": 80}


def test_a_graph_follows_its_longest_branch(tmp_path: Path) -> None:
    t = KinetoTrace()
    correlation = t.launch("fork", at=0, runs=(10, 20), call="cudaGraphLaunch")
    for name, stream, begin, end in (("short", 7, 20, 30), ("long", 8, 20, 60),
                                     ("join", 7, 60, 70)):  # fmt: skip
        t.event(name, "kernel", begin, end - begin, pid=0, tid=stream, device=0, stream=stream,
                correlation=correlation)  # fmt: skip
    result = analyzed(t, tmp_path)
    assert times(result.window) == {"fork": 10, "long": 40, "join": 10}
    assert classes(result.window) == {"compute": 60}
    assert codes(result) == {"graph": 2}


# ------------------------------------------------------------------ the host
def sync(recorded_stream: int | None) -> KinetoTrace:
    """The host waits for stream 7, works, and launches; stream 30 ends inside the wait too."""
    t = KinetoTrace()
    t.launch("other", at=-5, runs=(10, 103), stream=30)
    t.launch("a", at=0, runs=(10, 100))
    t.runtime("cudaStreamSynchronize", at=5, dur=100)
    if recorded_stream is not None:
        correlation = t.events[-1]["args"]["correlation"]
        t.event("Stream Sync", "cuda_sync", 5, 100, pid=0, tid=7, device=0,
                stream=recorded_stream, correlation=correlation)  # fmt: skip
    t.op("aten::after", at=105, dur=15)
    t.launch("b", at=121, runs=(130, 140))
    return t


def test_a_blocking_call_leads_to_the_stream_it_waited_for(tmp_path: Path) -> None:
    result = analyzed(sync(recorded_stream=7), tmp_path)
    # b 10, launch 9, one µs between, the op 15, the call 5 after a's end, a 90.
    assert times(result.window) == {
        "a": 90, "b": 10, "aten::after": 15, "between ops": 1, "cudaStreamSynchronize": 5
    }  # fmt: skip
    assert classes(result.window) == {"compute": 100, "launch": 9, "cpu": 16, "sync": 5}
    assert codes(result) == {}


def test_a_blocking_call_without_a_record_waited_for_what_ended_last_in_it(tmp_path: Path) -> None:
    result = analyzed(sync(recorded_stream=None), tmp_path)
    assert times(result.window)["other"] == 93
    assert classes(result.window)["sync"] == 2
    assert codes(result) == {"sync-call": 1}


def test_a_blocking_call_that_had_nothing_to_wait_for_stays_on_the_host(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 20))
    t.runtime("cudaStreamSynchronize", at=30, dur=5)
    t.launch("b", at=40, runs=(50, 60))
    # [10, 60): host from 10 to 40 with the call in it, launch 10, b 10.
    assert classes(analyzed(t, tmp_path).window) == {
        "cpu": 25, "sync": 5, "launch": 10, "compute": 10
    }  # fmt: skip


def test_an_item_call_puts_its_copy_and_what_it_waited_for_on_the_path(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 100))
    t.op("aten::item", at=5, dur=102)
    t.launch("Memcpy DtoH (Device -> Pageable)", 8, (101, 103), cat="gpu_memcpy",
             call="cudaMemcpyAsync")  # fmt: skip
    t.runtime("cudaStreamSynchronize", at=12, dur=93)
    t.launch("b", at=110, runs=(120, 130))
    assert classes(analyzed(t, tmp_path).window) == {
        "compute": 90 + 10,
        "launch": 1 + 10,  # from a's end to the copy, and b's launch
        "memory": 2,
        "sync": 2,  # from the copy's end at 103 to 105
        "cpu": 5,  # 105 to 110: the rest of the op, and 3 µs without one
    }


def test_the_backward_thread_is_on_the_path_while_the_main_thread_waits(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("forward", at=0, runs=(5, 6))
    t.op("aten::loss", at=2, dur=18)
    t.op("autograd::engine::evaluate_function: MmBackward0", at=25, dur=50, tid=200)
    t.op("aten::step", at=80, dur=10)
    t.launch("optimizer", at=90, runs=(100, 101))
    result = analyzed(t, tmp_path)
    # [5, 101): loss until 20, 5 µs to the other thread, its op, 5 µs back, step, launch.
    assert times(result.window) == {
        "aten::loss": 15, "autograd::engine::evaluate_function: MmBackward0": 50,
        "between ops": 10, "aten::step": 10, "optimizer": 1,
    }  # fmt: skip
    assert codes(result) == {"thread": 2}


def test_what_another_thread_had_begun_before_is_not_what_a_thread_waited_for(
    tmp_path: Path,
) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(5, 6))
    t.op("aten::busy", at=2, dur=18)
    t.op("aten::of its own", at=10, dur=15, tid=200)  # ends while the main thread is in nothing
    t.launch("b", at=30, runs=(40, 41))
    result = analyzed(t, tmp_path)
    assert codes(result) == {}
    assert times(result.window) == {"aten::busy": 15, "between ops": 10, "b": 1}


def test_a_thread_that_polls_is_not_what_the_others_wait_for(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(5, 6))
    for at in range(10, 80, 10):
        t.runtime("cudaEventQuery", at=at, dur=2, tid=300)
    t.launch("b", at=90, runs=(100, 101))
    result = analyzed(t, tmp_path)
    assert codes(result) == {}
    assert "cudaEventQuery" not in times(result.window)


def test_waiting_for_data_is_named_by_its_annotation(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(5, 6))
    t.event("enumerate(DataLoader)#_Iter.__next__", "user_annotation", 10, 60)
    t.launch("b", at=80, runs=(90, 91))
    assert times(analyzed(t, tmp_path).window)["enumerate(DataLoader)#_Iter.__next__"] == 60


def test_a_recording_that_begins_after_the_step_does_not_reach_across_it(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("early", at=0, runs=(0, 10), recorded=False)
    t.op("aten::first", at=60, dur=10)
    t.launch("b", at=80, runs=(90, 100))
    result = analyzed(t, tmp_path)
    path = result.window
    assert (path.reached_ns - path.start_ns, path.coverage) == (60_000, 0.4)
    assert "first event" in path.reason
    assert "60.0% of the time is not reached" in path.reason
    assert values(result)["critical_comm"].value is None


def test_a_step_that_launches_nothing_ends_on_the_host(tmp_path: Path) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=50):
        t.launch("a", at=5, runs=(10, 20))
    with t.step(2, at=50, dur=50):
        t.op("aten::nothing", at=60, dur=30)
    result = analyzed(t, tmp_path)
    assert [p.coverage for p in result.steps] == [1, 1]
    assert times(result.steps[1])["aten::nothing"] == 30


def test_a_step_without_length_has_nothing_to_explain(tmp_path: Path) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=50):
        t.launch("a", at=5, runs=(100, 120))
    with t.step(2, at=50, dur=10):
        pass
    with t.step(3, at=60, dur=10):
        t.launch("b", at=62, runs=(120, 130))
    result = analyzed(t, tmp_path)
    lengths = [p.length_ns for p in result.steps]
    assert 0 in lengths
    empty = result.steps[lengths.index(0)]
    assert (empty.coverage, empty.bound, empty.share(PathClass.CPU)) == (1, None, None)
    assert values(result)["critical_compute"].value is not None


def test_another_devices_work_is_on_the_path_where_the_host_waited_for_it(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("here", at=-4, runs=(0, 10))
    t.launch("there", at=0, runs=(10, 80), device=1)
    t.runtime("cudaDeviceSynchronize", at=5, dur=80)
    t.launch("here again", at=90, runs=(100, 110))
    window = analyzed(t, tmp_path, device=0).window
    assert (times(window)["there"], times(window)["here again"]) == (70, 10)


# ------------------------------------------------------------------ a CPU run
def test_on_a_cpu_the_path_goes_through_ops_and_the_gloo_span_that_was_waited_for(
    tmp_path: Path,
) -> None:
    t = KinetoTrace(device_name=None)
    t.op("aten::mm", at=0, dur=30)
    t.op("c10d::allreduce_", at=30, dur=10)
    t.event("gloo:all_reduce", "user_annotation", 35, 65, tid=400)
    t.op("aten::mul", at=40, dur=20)  # overlaps, and ends long before
    t.op("aten::add", at=105, dur=15)
    result = analyzed(t, tmp_path, "cpu")
    # [0, 120): mm 30, dispatch 5, gloo 65, back to the thread 5, add 15.
    assert classes(result.window) == {"compute": 45, "comm": 65, "cpu": 10}
    got = values(result)
    assert got["critical_comm"].value == 65
    assert got["critical_launch"].absent_reason == "nothing is launched on the CPU"
    assert got["critical_memory"].absent_reason == "a CPU run has no device copies"


def test_on_a_cpu_a_gloo_span_that_ended_before_the_wait_is_not_on_the_path(
    tmp_path: Path,
) -> None:
    t = KinetoTrace(device_name=None)
    t.op("c10d::allreduce_", at=0, dur=10)
    t.event("gloo:all_reduce", "user_annotation", 5, 40, tid=400)
    t.op("aten::mm", at=10, dur=60)
    t.op("aten::add", at=75, dur=5)
    assert classes(analyzed(t, tmp_path, "cpu").window) == {"compute": 65, "cpu": 15}


def test_on_a_cpu_an_op_that_waits_for_a_collective_leads_to_it(tmp_path: Path) -> None:
    t = KinetoTrace(device_name=None)
    t.op("c10d::allreduce_", at=0, dur=10)
    t.event("gloo:all_reduce", "user_annotation", 8, 62, tid=400)
    t.op("_c10d_functional::wait_tensor", at=20, dur=54)
    t.op("aten::add", at=74, dur=6)
    assert classes(analyzed(t, tmp_path, "cpu").window) == {
        "cpu": 8, "comm": 62, "sync": 4, "compute": 6
    }  # fmt: skip


# ------------------------------------------------------------------ what holds of every path
times_ = st.integers(0, 400)
kernels = st.tuples(times_, st.integers(0, 60), st.integers(0, 3), st.booleans(), st.booleans())
ops = st.tuples(times_, st.integers(1, 80), st.integers(1, 3))


@settings(max_examples=80, deadline=None)
@given(
    work=st.lists(kernels, min_size=1, max_size=25),
    host=st.lists(ops, max_size=15),
    syncs=st.lists(times_, max_size=4),
    waits=st.lists(times_, max_size=4),
)
def test_the_stretches_of_a_path_touch_and_their_classes_sum_to_what_it_reached(
    tmp_path_factory: pytest.TempPathFactory,
    work: list[Any],
    host: list[Any],
    syncs: list[int],
    waits: list[int],
) -> None:
    t = KinetoTrace()
    busy: dict[int, float] = {}
    for at, length, stream, comm, recorded in sorted(work):
        begin = max(busy.get(stream, 0), at + 5)
        busy[stream] = begin + length
        t.launch(NCCL if comm else "k", at=at, runs=(begin, begin + length), stream=stream,
                 recorded=recorded)  # fmt: skip
    for at, length, thread in host:
        t.op("aten::op", at=at, dur=length, tid=thread)
    for at in syncs:
        t.runtime("cudaDeviceSynchronize", at=at, dur=30)
    for at in waits:
        t.runtime("cudaStreamWaitEvent", at=at, dur=1)
    path = analyzed(t, tmp_path_factory.mktemp("path")).window
    s = path.segments
    assert (s.start[1:] == s.end[:-1]).all()
    assert (s.end > s.start).all()
    assert sum(path.by_class) == path.end_ns - path.reached_ns
    assert sum(i.time_ns for i in path.items) == path.end_ns - path.reached_ns
    assert 0 <= path.coverage <= 1
    if len(s.start):
        assert (int(s.start[0]), int(s.end[-1])) == (path.reached_ns, path.end_ns)


def test_neither_the_hour_nor_the_number_of_a_stream_changes_the_path(tmp_path: Path) -> None:
    first = exposed(nccl=(70, 100), after=100)
    later = exposed(nccl=(70, 100), after=100)
    for event in later.events:
        event["ts"] += 7_777_777
        if event.get("args", {}).get("stream") == 20:
            event["args"]["stream"] = event["tid"] = 3
    paths = [analyzed(t, tmp_path).steps[0] for t in (first, later)]
    assert paths[0].by_class == paths[1].by_class


def test_every_metric_that_is_yielded_is_in_the_table(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 20))
    assert set(values(analyzed(t, tmp_path))) <= set(CONFIG.metrics)


def test_the_frames_have_a_row_for_each_name_and_for_each_path(tmp_path: Path) -> None:
    result = analyzed(exposed(nccl=(70, 100), after=100), tmp_path)
    frame = result.to_frame()
    assert frame["time_us"].sum() == 110
    assert frame["share"].sum() == pytest.approx(1)
    assert frame.iloc[0][["name", "class", "count", "time_us"]].tolist() == [
        "backward 1", "compute", 1, 40
    ]  # fmt: skip
    paths = result.paths_frame()
    assert paths["name"].tolist() == ["window", "ProfilerStep#1"]
    assert paths.loc[1, ["comm_us", "compute_us", "coverage", "bound"]].tolist() == [
        30, 80, 1.0, "compute"
    ]  # fmt: skip
