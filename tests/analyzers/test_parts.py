"""Every moment of a step has one part, and the parts add up to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.trace.classify import devices
from gpuperf_analyzers.trace.model import TraceError
from gpuperf_analyzers.trace.parts import Part, PartTimes, host_meanwhile, part_times
from gpuperf_analyzers.trace.reader import read_trace
from kineto import KinetoTrace


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def split(t: KinetoTrace, tmp_path: Path, config: Config) -> PartTimes:
    trace = read_trace(t.write(tmp_path / "t.json"))
    (only,) = part_times(trace, devices(trace)[0], config)
    assert sum(only.by_part.values()) == only.length_ns
    return only


def us(found: PartTimes) -> dict[str, float]:
    return {part.value: ns / 1e3 for part, ns in found.by_part.items() if ns}


def test_a_step_is_split_by_what_the_device_did_and_what_the_host_was_at(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=400):
        t.launch("gemm", at=5, runs=(10, 30))  # compute 20
        t.launch("ncclDevKernel_AllReduce_Sum_f32", at=8, runs=(20, 45), stream=9)  # 15 exposed
        t.launch("Memcpy HtoD (Pinned -> Device)", at=9, runs=(45, 50), cat="gpu_memcpy")  # 5
        t.event("enumerate(DataLoader)#_Iter.__next__", "user_annotation", 50, 30)  # 50-80
        t.op("aten::mm", at=90, dur=30)  # 90-120; its launch call is 100-102
        t.launch("gemm", at=100, runs=(107, 207), call_dur=2)
        t.runtime("cudaStreamSynchronize", at=130, dur=80)  # ends at 210, the device at 207
        t.launch("gemm", at=250, runs=(255, 300))
        t.launch("gemm", at=252, runs=(310, 400))  # launched before the gap began
    # 80-90 is in nothing; 90-100 in the op; 100-107 from the launch call to the start.
    # 207-255 began while the host was blocked. 300-310 is a dependency.
    assert us(split(t, tmp_path, config)) == {
        "compute": 20 + 100 + 45 + 90,
        "communication": 15,
        "copies": 5,
        "data loading": 30,
        "between ops": 10,
        "host ops": 10,
        "launching": 7,
        "synchronization": 48,
        "dependency": 10,
    }


def test_compilation_and_garbage_collection_are_parts_of_their_own(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(0, 10))
    t.event("_compile.compile_inner (dynamo_timed)", "cpu_op", 10, 50)
    t.event("Python GC", "user_annotation", 60, 25)
    t.launch("b", at=85, runs=(85, 90), call_dur=0)
    assert us(split(t, tmp_path, config)) == {
        "compute": 15,
        "compilation": 50,
        "garbage collection": 25,
    }


def test_a_gap_before_work_without_a_launch_record_is_unknown(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(0, 10))
    t.launch("b", at=12, runs=(30, 40), recorded=False)
    assert us(split(t, tmp_path, config)) == {"compute": 20, "unknown": 20}


def test_on_a_cpu_data_loading_takes_its_ops_out_of_compute(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace(device_name=None)
    with t.step(1, at=0, dur=100):
        t.event("enumerate(DataLoader)#_Iter.__next__", "user_annotation", 0, 40)
        t.op("aten::stack", at=10, dur=20)  # the collate of the loader
        t.op("aten::mm", at=50, dur=30)
    assert us(split(t, tmp_path, config)) == {
        "compute": 30,
        "data loading": 30,  # the step's window begins with its first op, at 10
        "between ops": 10 + 20,
    }


def test_what_the_host_ran_meanwhile_is_named_by_its_outermost_op(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(2, 10))
    t.op("aten::linear", at=20, dur=40)
    t.op("aten::addmm", at=25, dur=30)
    t.launch("b", at=58, runs=(62, 70))
    trace = read_trace(t.write(tmp_path / "t.json"))
    # Idle is 10 to 62: the op has 40 of it.
    assert host_meanwhile(trace, 0, config) == (("aten::linear", 40_000),)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 300), st.integers(0, 60), st.integers(0, 60),
            st.sampled_from(["gemm", "ncclDevKernel_AllGather", "Memset (Device)"]), st.booleans(),
        ),
        min_size=1, max_size=25,
    ),
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 80), st.integers(0, 4)), max_size=12),
)  # fmt: skip
def test_the_parts_are_disjoint_and_leave_nothing_out(
    tmp_path_factory: pytest.TempPathFactory,
    work: list[tuple[int, int, int, str, bool]],
    host: list[tuple[int, int, int]],
) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=150), t.step(2, at=150, dur=200):
        for at, latency, length, name, recorded in work:
            cat = "gpu_memset" if name.startswith("Memset") else "kernel"
            runs = (at + latency, at + latency + length)
            t.launch(name, at, runs, stream=at % 3, cat=cat, recorded=recorded)
    for at, length, kind in host:
        if kind == 0:
            t.runtime("cudaDeviceSynchronize", at, length)
        else:
            name = ("aten::mm", "Python GC", "enumerate(DataLoader)#X", "compile_fx_inner")[
                kind - 1
            ]
            t.event(name, "cpu_op", at, length)
    path = t.write(tmp_path_factory.mktemp("parts") / "t.json")
    for found in part_times(read_trace(path), 0, load_config()):
        assert sum(found.by_part.values()) == found.length_ns
        assert min(found.by_part.values()) >= 0


def test_the_parts_of_every_real_trace_add_up_to_its_timeline(
    shared_traces: Path, expected: dict[str, dict[str, object]], config: Config
) -> None:
    from gpuperf_analyzers.timeline import analyze

    seen = 0
    for name in sorted(expected):
        try:
            trace = read_trace(shared_traces / name)
        except TraceError:
            continue
        for device in devices(trace):
            timeline = analyze(trace, config, device)
            rows = part_times(trace, device, config)
            for times, row in zip(timeline.steps or (timeline.window,), rows, strict=True):
                seen += 1
                assert sum(row.by_part.values()) == row.length_ns == times.window_ns
                if device == "cpu":
                    continue
                assert row.by_part[Part.COMPUTE] == times.compute_ns
                assert row.by_part[Part.COMMUNICATION] == times.exposed_comm_ns
                assert row.by_part[Part.COPIES] == times.exposed_memory_ns
                assert row.by_part[Part.DEPENDENCY] == times.dependency_ns
    assert seen > 80
