"""Timelines drawn by hand, and what must not change them. Times in µs unless named ns."""

from __future__ import annotations

import random
from dataclasses import astuple, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuperf_analyzers import timeline
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.metrics import BUILTIN, Value
from gpuperf_analyzers.timeline import Timeline
from gpuperf_analyzers.trace import Trace, read_trace
from gpuperf_analyzers.trace.classify import BUILTIN_CLASSIFIERS
from kineto import KinetoTrace

CONFIG = Config({m.name: m for m in BUILTIN}, comm_classifiers=BUILTIN_CLASSIFIERS)
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def read(trace: KinetoTrace, folder: Path) -> Trace:
    return read_trace(trace.write(folder / "trace.json"))


def values(result: Timeline) -> dict[str, Value]:
    return {v.name: v for v in result.metrics()}


def ddp_step(**options) -> KinetoTrace:
    r"""One device; columns are 10 µs.

    ::

        stream 7   GGGG..GG..      gemm [10,50) and [70,90)
        stream 20  ...NNN....      nccl [40,70)
        stream 21  C........C      copies [0,10) and [85,100)
    """
    t = KinetoTrace(**options)
    t.op("aten::mm", at=0, dur=3)
    t.launch("Memcpy HtoD (Pinned -> Device)", 0, (0, 10), cat="gpu_memcpy", stream=21,
             call="cudaMemcpyAsync", call_dur=1, bytes=4096)  # fmt: skip
    t.launch("gemm", at=1, runs=(10, 50), call_dur=1)
    t.launch(NCCL, at=5, runs=(40, 70), stream=20, call="cudaLaunchKernelExC")
    t.launch("gemm", at=60, runs=(70, 90))
    t.launch("Memcpy DtoH (Device -> Pageable)", 70, (85, 100), cat="gpu_memcpy", stream=21,
             call="cudaMemcpyAsync", bytes=8)  # fmt: skip
    return t


def test_every_part_of_a_hand_drawn_step_is_as_drawn(tmp_path: Path) -> None:
    times = timeline.analyze(read(ddp_step(), tmp_path), CONFIG, 0).window
    assert times.window_ns == 100_000
    assert times.busy_ns == 100_000
    assert times.compute_ns == 60_000
    assert times.comm_ns == 30_000
    assert times.memory_ns == 25_000
    assert times.exposed_comm_ns == 20_000  # [50, 70)
    assert times.overlapped_comm_ns == 10_000  # [40, 50)
    assert times.overlap == pytest.approx(1 / 3)
    assert times.exposed_memory_ns == 20_000  # [0, 10) and [90, 100)


def test_overlapping_kernels_on_one_stream_count_once(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 30))
    t.launch("b", at=1, runs=(20, 40))  # programmatic dependent launch
    times = timeline.analyze(read(t, tmp_path), CONFIG, 0).window
    assert (times.busy_ns, times.compute_ns, times.window_ns) == (30_000, 30_000, 30_000)


def test_two_devices_in_one_file_are_two_timelines(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 30), device=0)
    t.launch("a", at=1, runs=(20, 60), device=1)
    trace = read(t, tmp_path)
    assert timeline.analyze(trace, CONFIG, 0).window.busy_ns == 20_000
    assert timeline.analyze(trace, CONFIG, 1).window.busy_ns == 40_000


def test_a_sync_row_and_a_cpu_op_with_a_stream_are_no_activity(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 30))
    t.event("Stream Sync", "cuda_sync", 30, 500, pid=0, tid=7, device=0, stream=7)
    t.event("triton_poi_0", "cpu_op", 100, 94, device=0, stream=7, grid="grid(1,)")
    times = timeline.analyze(read(t, tmp_path), CONFIG, 0).window
    assert (times.window_ns, times.busy_ns) == (20_000, 20_000)


def test_overlap_is_absent_without_communication_and_its_times_are_zero(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("hipblaslt_gemm", at=0, runs=(10, 30), call="hipModuleLaunchKernel")
    got = values(timeline.analyze(read(t, tmp_path), CONFIG, 0))
    assert got["overlap"].absent_reason == "no communication"
    assert got["comm_time"].value == 0
    assert got["exposed_comm"].value == 0


def test_without_steps_times_are_of_the_window_and_said_to_be(tmp_path: Path) -> None:
    got = values(timeline.analyze(read(ddp_step(), tmp_path), CONFIG, 0))
    assert got["comm_time"].value == 30
    assert "no ProfilerStep" in got["comm_time"].source
    assert got["step_time"].absent_reason == "the trace has no ProfilerStep annotation"


def steps(count: int = 6) -> KinetoTrace:
    """Steps of 100 µs; in step i the gemm takes 10 + 2i µs and nccl runs half hidden behind it."""
    t = KinetoTrace()
    for i in range(count):
        at = 100 * i
        with t.step(i, at=at, dur=100):
            t.op("aten::mm", at=at + 1, dur=8)
            t.launch("gemm", at=at + 2, runs=(at + 20, at + 30 + 2 * i))
            t.launch(NCCL, at=at + 5, runs=(at + 25 + i, at + 35 + 3 * i), stream=20)
    return t


def test_a_time_of_several_steps_is_their_median_with_every_step_told(tmp_path: Path) -> None:
    result = timeline.analyze(read(steps(), tmp_path), CONFIG, 0)
    got = values(result)
    assert got["compute_time"].samples == (10, 12, 14, 16, 18, 20)
    assert got["compute_time"].value == 15
    assert got["compute_time"].interval == (10, 20)  # six samples: the whole range
    assert got["overlapped_comm"].samples == (5, 6, 7, 8, 9, 10)
    # Each step begins with its gemm at 20; the last ends with its host span at 600.
    assert got["step_time"].samples == (100, 100, 100, 100, 100, 80)


def test_ratios_over_steps_are_ratios_of_sums_with_an_interval(tmp_path: Path) -> None:
    result = timeline.analyze(read(steps(), tmp_path), CONFIG, 0)
    got = {v.name: v for v in result.ratios_over_steps()}
    assert got["overlap"].value == pytest.approx(45 / 90)
    low, high = got["overlap"].interval or (0, 0)
    assert low == pytest.approx(0.5)  # every step hides exactly half
    assert high == pytest.approx(0.5)
    assert got["busy"].value == pytest.approx((15 + 18 + 21 + 24 + 27 + 30) / 580)


def test_phases_of_a_step_come_from_what_launched_the_kernels(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.op("aten::mm", at=0, dur=5)
    t.launch("forward_gemm", at=1, runs=(10, 20))
    t.op("autograd::engine::evaluate_function: MmBackward0", at=20, dur=10, tid=200)
    t.op("aten::mm", at=21, dur=8, tid=200, **{"Fwd thread id": 1, "Sequence number": 3})
    t.launch("backward_gemm", at=22, runs=(30, 60), tid=200)
    t.launch(NCCL, at=24, runs=(50, 70), stream=20, tid=200)
    t.event("Optimizer.step#AdamW.step", "user_annotation", 40, 20)
    t.op("aten::_foreach_add_", at=42, dur=5)
    t.launch("adam", at=43, runs=(70, 75))
    t.launch("by_nobody", at=90, runs=(95, 96))
    result = timeline.analyze(read(t, tmp_path), CONFIG, 0)
    assert astuple(result.phases[0]) == ("window", 10_000, 30_000, 5_000, 20_000, 1_000)
    assert values(result)["backward_time"].value == 30


def test_kernels_beside_communication_are_compared_with_the_same_ones_alone(
    tmp_path: Path,
) -> None:
    t = KinetoTrace()
    t.launch("gemm", at=0, runs=(0, 10))
    t.launch("gemm", at=0, runs=(10, 22))
    t.launch("gemm", at=0, runs=(22, 32))
    t.launch(NCCL, at=0, runs=(32, 80), stream=20)
    t.launch("gemm", at=0, runs=(35, 47))  # alone 10 at the median: 20% slower
    t.launch("only_here", at=0, runs=(50, 60))
    result = timeline.analyze(read(t, tmp_path), CONFIG, 0)
    assert values(result)["overlap_slowdown"].value == pytest.approx(0.2)
    assert (result.slowdown.kernels, result.slowdown.uncompared) == (1, 1)


def test_a_kernel_of_another_grid_is_another_kernel(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.launch("gemm", at=0, runs=(0, 10), grid=[1, 1, 1], block=[128, 1, 1])
    t.launch(NCCL, at=0, runs=(10, 50), stream=20)
    t.launch("gemm", at=0, runs=(12, 40), grid=[4, 1, 1], block=[128, 1, 1])
    why = values(timeline.analyze(read(t, tmp_path), CONFIG, 0))["overlap_slowdown"].absent_reason
    assert why == "no kernel ran both beside communication and alone"


def test_a_table_has_the_window_and_every_step_in_microseconds(tmp_path: Path) -> None:
    frame = timeline.analyze(read(steps(2), tmp_path), CONFIG, 0).to_frame()
    assert frame["name"].tolist() == ["window", "ProfilerStep#0", "ProfilerStep#1"]
    assert frame["compute_us"].tolist() == [22, 10, 12]


def test_the_cpu_is_a_device_whose_ops_are_compute_and_gloo_communication(tmp_path: Path) -> None:
    t = KinetoTrace(device_name=None)
    t.op("aten::mm", at=0, dur=50)
    t.op("c10d::allreduce_", at=40, dur=10)  # dispatch is not compute
    t.op("gloo:all_reduce", at=30, dur=40, tid=300)
    result = timeline.analyze(read(t, tmp_path), CONFIG, "cpu")
    times = result.window
    assert (times.window_ns, times.busy_ns) == (70_000, 70_000)
    assert (times.compute_ns, times.comm_ns) == (40_000, 40_000)
    assert (times.overlapped_comm_ns, times.exposed_comm_ns) == (10_000, 30_000)
    assert "on GPUs only" in (values(result)["idle_host_bound"].absent_reason or "")


def test_every_metric_that_is_yielded_is_in_the_table(tmp_path: Path) -> None:
    got = values(timeline.analyze(read(steps(), tmp_path), CONFIG, 0))
    assert set(got) <= set(CONFIG.metrics)
    assert {"busy", "idle", "overlap", "exposed_comm", "idle_unknown", "step_time"} <= set(got)


activities = st.lists(
    st.tuples(
        st.sampled_from(["gemm", NCCL, "Memcpy DtoD (Device -> Device)"]),
        st.integers(0, 200),
        st.integers(0, 40),
        st.integers(0, 60),
        st.booleans(),
    ),
    min_size=1,
    max_size=15,
)
no_fixture_reset = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def drawn(raw, *, base_us: float = 1_000_000.0, stream: int = 7) -> KinetoTrace:
    t = KinetoTrace(base_us=base_us)
    with t.step(1, at=0, dur=100):
        pass
    with t.step(2, at=100, dur=100):
        pass
    for name, at, delay, length, recorded in raw:
        cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
        t.launch(name, at, (at + delay, at + delay + length), cat=cat, recorded=recorded,
                 stream=stream)  # fmt: skip
    return t


@no_fixture_reset
@given(activities)
def test_the_sums_that_must_hold_hold_in_the_window_and_in_every_step(tmp_path: Path, raw) -> None:
    result = timeline.analyze(read(drawn(raw), tmp_path), CONFIG, 0)
    for times in (result.window, *result.steps):
        assert times.busy_ns + times.idle_ns == times.window_ns
        assert times.exposed_comm_ns + times.overlapped_comm_ns == times.comm_ns
        assert times.compute_ns + times.exposed_comm_ns + times.exposed_memory_ns == times.busy_ns
        causes = astuple(times)[-4:]
        assert sum(causes) == times.idle_ns
        assert min(causes) >= 0
    for times, phases in zip(result.steps, result.phases, strict=True):
        assert phases.collectives_ns == times.comm_ns


@no_fixture_reset
@given(activities, st.randoms(use_true_random=False), st.integers(0, 10**9))
def test_order_in_the_file_stream_numbers_and_the_clock_do_not_matter(
    tmp_path: Path, raw, rng: random.Random, later: int
) -> None:
    plain = timeline.analyze(read(drawn(raw), tmp_path), CONFIG, 0)
    other = drawn(raw, base_us=1_000_000.0 + later, stream=99)
    rng.shuffle(other.events)
    moved = timeline.analyze(read(other, tmp_path), CONFIG, 0)
    assert moved.window == plain.window
    assert moved.steps == plain.steps
    assert moved.phases == plain.phases


@no_fixture_reset
@given(activities, st.integers(1, 39))
def test_splitting_an_activity_in_two_changes_no_union(tmp_path: Path, raw, cut: int) -> None:
    plain = timeline.analyze(read(drawn(raw), tmp_path), CONFIG, 0).window
    name, at, delay, length, recorded = raw[0]
    cut = min(cut, length)
    halves = [(name, at, delay, cut, recorded), (name, at, delay + cut, length - cut, recorded)]
    split = timeline.analyze(read(drawn([*halves, *raw[1:]]), tmp_path), CONFIG, 0).window
    causes = {"host_bound_ns": 0, "launch_latency_ns": 0, "dependency_ns": 0, "unknown_ns": 0}
    assert replace(split, **causes) == replace(plain, **causes)
