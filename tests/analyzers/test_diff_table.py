"""Op tables: hand-built traces whose exclusive times are known; real ones against the timeline."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuperf_analyzers import host, timeline
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.diff import OpRow, OpTable, op_table
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.trace import TraceError, read_trace, read_traces
from gpuperf_analyzers.trace.classify import devices
from kineto import KinetoTrace


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def table_of(trace: KinetoTrace, folder: Path, config: Config) -> OpTable:
    return op_table(read_trace(trace.write(folder / "t.json")), config)


def times(table: OpTable) -> dict[tuple[str, str, str], tuple[int, ...]]:
    """(op, kind, kernel) to µs in each step."""
    found = {
        (row.name, p.kind, p.name): tuple(t // 1000 for t in p.ns)
        for row in table.rows
        for p in row.parts
    }
    idle = {("", p.kind, p.name): tuple(t // 1000 for t in p.ns) for p in table.idle}
    return found | idle


def step_of_everything() -> KinetoTrace:
    """One step, 20 to 100 µs on the device: 20-50 mm, 40-60 relu, 30-80 all-reduce, 90-95 copy."""
    t = KinetoTrace(rank=0, world_size=2)
    with t.step(1, at=0, dur=100):
        t.op("aten::linear", 1, 6)
        t.op("aten::mm", 2, 4, dims=[[8, 4], [4, 2]], dtypes=["float", "float"])
        t.launch("gemm", 3, (20, 50))
        t.op("aten::relu", 8, 3, dims=[[8, 2]], dtypes=["float"])
        t.launch("relu_kernel", 9, (40, 60), stream=8)
        t.launch("ncclDevKernel_AllReduce_Sum_f32", 12, (30, 80), stream=9)
        t.op("aten::item", 82, 17)
        t.op("aten::_local_scalar_dense", 83, 15)
        t.launch("Memcpy DtoH", 85, (90, 95), call="cudaMemcpyAsync", cat="gpu_memcpy", bytes=4)
    return t


def test_each_moment_belongs_to_one_op_collective_copy_or_cause_of_idle_time(
    tmp_path: Path, config: Config
) -> None:
    table = table_of(step_of_everything(), tmp_path, config)
    nccl = "ncclDevKernel_AllReduce_Sum_f32"
    # relu runs beside mm until 50; the all-reduce is exposed from 60 on; 80 to 90 is idle until
    # the launch at 85; after the copy nothing is launched until the step's end on the host.
    assert {key: ns for key, ns in times(table).items() if any(ns)} == {
        ("aten::mm", "compute", "gemm"): (30,),
        ("aten::relu", "compute", "relu_kernel"): (10,),
        (nccl, "communication", nccl): (20,),
        ("aten::_local_scalar_dense", "memory", "Memcpy DtoH"): (5,),
        ("", "idle", "host-bound"): (5 + 5,),
        ("", "idle", "launch latency"): (5,),
    }
    assert [s.ns for s in table.steps] == [80_000]


def test_an_op_is_known_by_its_place_its_shapes_and_types(tmp_path: Path, config: Config) -> None:
    table = table_of(step_of_everything(), tmp_path, config)
    (mm,) = [r for r in table.rows if r.name == "aten::mm"]
    assert mm.key == (("aten::linear", "aten::mm"), "8x4 4x2", "float float")
    (scalar,) = [r for r in table.rows if r.name == "aten::_local_scalar_dense"]
    assert scalar.path == ("aten::item", "aten::_local_scalar_dense")
    (bare,) = [r for r in table.rows if "nccl" in r.name]
    assert bare.path == ("(cudaLaunchKernel)", "ncclDevKernel_AllReduce_Sum_f32")


def test_counts_are_those_of_the_op_that_called(tmp_path: Path, config: Config) -> None:
    t = step_of_everything()
    t.runtime("cudaStreamSynchronize", 86, 10)
    table = table_of(t, tmp_path, config)
    counted = {r.path[-1]: (r.calls, r.launches, r.syncs, r.bytes) for r in table.rows}
    assert counted["aten::mm"] == (1, 1, 0, 0)
    assert counted["aten::relu"] == (1, 1, 0, 0)
    # The copy is no launch of a kernel; it and the wait after it are one wait of one op.
    assert counted["aten::_local_scalar_dense"] == (1, 0, 1, 4)
    assert counted["(cudaLaunchKernel)"] == (0, 1, 0, 0)


def test_kernels_whose_names_begin_alike_stay_apart(tmp_path: Path, config: Config) -> None:
    head = "void at::native::vectorized_elementwise_kernel<4, at::native::" + "x" * 300
    t = KinetoTrace()
    with t.step(1, at=0, dur=90):
        t.op("aten::add", 0, 9)
        t.launch(head + "a>", 1, (20, 30))
        t.launch(head + "b>", 2, (30, 70))
    table = table_of(t, tmp_path, config)
    assert times(table)["aten::add", "compute", head + "a>"] == (10,)
    assert times(table)["aten::add", "compute", head + "b>"] == (40,)


def test_without_steps_the_window_is_one_and_that_is_said(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace()
    t.op("aten::mm", 0, 5)
    t.launch("gemm", 1, (20, 50))
    table = table_of(t, tmp_path, config)
    assert not table.stepped
    assert [(s.name, s.ns) for s in table.steps] == [("window", 30_000)]


def test_own_time_on_a_cpu_is_the_innermost_op_and_of_two_threads_what_began_first(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace(device_name=None)
    with t.step(1, at=0, dur=100):
        t.op("aten::linear", 0, 40)
        t.op("aten::mm", 10, 20)
        t.op("aten::relu", 25, 30, tid=200)
        t.op("c10d::allreduce_", 60, 5)
        t.event("gloo:all_reduce", "user_annotation", 62, 18, tid=300)
    table = table_of(t, tmp_path, config)
    # Thread one: linear 0-10 and 30-40, mm 10-30. Thread two: relu 25-55, which owns from where
    # mm ends. Dispatching 60-65 is nobody's: idle to 62, then gloo's.
    assert {key: ns for key, ns in times(table).items() if any(ns)} == {
        ("aten::linear", "compute", ""): (10,),
        ("aten::mm", "compute", ""): (20,),
        ("aten::relu", "compute", ""): (25,),
        ("gloo:all_reduce", "communication", "gloo:all_reduce"): (18,),
        ("", "idle", "no op runs"): (7 + 20,),
    }


def test_a_table_survives_json(tmp_path: Path, config: Config) -> None:
    table = table_of(step_of_everything(), tmp_path, config)
    assert OpTable.from_json(json.loads(json.dumps(table.to_json()))) == table


def test_ranks_of_a_set_are_steps_side_by_side(tmp_path: Path, config: Config) -> None:
    for rank, length in ((0, 30), (1, 50)):
        t = KinetoTrace(rank=rank, world_size=2)
        with t.step(1, at=0, dur=20 + length):
            t.op("aten::mm", 0, 5)
            t.launch("gemm", 1, (20, 20 + length))
        t.write(tmp_path / f"rank{rank}.json")
    table = op_table(read_traces(str(tmp_path)), config)
    assert (table.ranks, table.world_size) == ((0, 1), 2)
    assert [(s.at, s.ns) for s in table.steps] == [("rank 0", 30_000), ("rank 1", 50_000)]
    assert times(table)["aten::mm", "compute", "gemm"] == (30, 50)
    assert table.mean_step_ns == 40_000


def test_a_trace_with_nothing_to_analyze_says_why(tmp_path: Path, config: Config) -> None:
    t = KinetoTrace()
    t.runtime("cudaLaunchKernel", 0, 1)
    with pytest.raises(ValueError, match="no GPU activity"):
        table_of(t, tmp_path, config)


def test_parts_that_do_not_add_up_make_no_table(tmp_path: Path, config: Config) -> None:
    table = table_of(step_of_everything(), tmp_path, config)
    longer = tuple(replace(s, ns=s.ns + 1) for s in table.steps)
    with pytest.raises(
        ValueError, match=r"ProfilerStep#1: the parts .* not to the step's 80001 ns"
    ):
        replace(table, steps=longer)
    with pytest.raises(ValueError, match="at least one step"):
        replace(table, steps=())


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("schema", 2, "schema 2; this version reads 1"),
        ("schema", None, "schema None"),
        ("strings", [], "IndexError"),
        ("strings", "abc", "not a list"),
        ("steps", [["s", "", -5]], "not a whole number"),
        ("steps", [["s", "", float("nan")]], "not a whole number"),
        ("steps", [], "at least one step"),
        ("ranks", None, "not a list"),
        ("stepped", 1, "not true or false"),
        ("device_name", 3, "not a text"),
        ("rows", [[[], 0, 0, 0, 0, 0, []]], "without a name"),
        ("rows", [[1, 2]], "damaged"),
        ("idle", [[99, 0, 0, 0, [1]]], "IndexError"),
        ("idle", [], "add up"),
    ],
)
def test_a_damaged_table_is_one_line(
    key: str, value: Any, said: str, tmp_path: Path, config: Config
) -> None:
    raw = table_of(step_of_everything(), tmp_path, config).to_json()
    with pytest.raises(ValueError, match=said) as refused:
        OpTable.from_json({**raw, key: value})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("raw", [None, [], "rows", {"a": 1}, 7])
def test_what_is_no_table_is_refused(raw: Any) -> None:
    with pytest.raises(ValueError, match="not an op table"):
        OpTable.from_json(raw)


activities = st.lists(
    st.tuples(
        st.sampled_from(["gemm", "relu", "ncclDevKernel_AllGather", "Memcpy HtoD"]),
        st.integers(0, 90),
        st.integers(0, 30),
        st.integers(0, 30),
        st.integers(7, 9),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(raw=activities, steps=st.integers(0, 3))
def test_whatever_overlaps_the_parts_are_the_timeline_s_and_add_up(
    raw: list[tuple[str, int, int, int, int, bool]], steps: int, tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    for number in range(steps):
        with t.step(number, at=40 * number, dur=35):
            t.op("aten::op", 40 * number, 30)
    for name, at, delay, length, stream, recorded in raw:
        cat = "gpu_memcpy" if "Memcpy" in name else "kernel"
        begin = at + delay
        t.launch(name, at, (begin, begin + length), cat=cat, stream=stream, recorded=recorded)
    agrees_with_timeline(read_trace(t.write(tmp_path / "t.json")), config)


def agrees_with_timeline(trace: Any, config: Config) -> None:
    """Each kind of time, launches and syncs are those of the questions, over all devices."""
    wanted: Counter[str] = Counter()
    for device in devices(trace):
        found = timeline.analyze(trace, config, device)
        for times_ in found.steps or (found.window,):
            wanted["compute"] += times_.compute_ns
            wanted["communication"] += times_.exposed_comm_ns
            wanted["memory"] += times_.exposed_memory_ns
            wanted["idle"] += times_.idle_ns
            wanted["host-bound"] += times_.host_bound_ns or 0
            wanted["dependency"] += times_.dependency_ns or 0
        for step in host.analyze(trace, config, device).steps:
            wanted["launches"] += step.launches or 0
            wanted["syncs"] += step.syncs or 0
    table = op_table(trace, config)
    got: Counter[str] = Counter()
    for part in table.parts():
        got[part.kind] += part.total_ns
        if part.name in ("host-bound", "dependency"):
            got[part.name] += part.total_ns
    got["launches"] = sum(r.launches for r in table.rows)
    got["syncs"] = sum(r.syncs for r in table.rows)
    assert +got == +wanted
    assert OpTable.from_json(table.to_json()) == table


def test_every_real_trace_splits_as_its_timeline_does(shared_traces: Path, config: Config) -> None:
    checked = 0
    for path in sorted(shared_traces.rglob("*.json*")):
        try:
            trace = read_trace(path)
        except TraceError:
            continue
        if devices(trace):
            agrees_with_timeline(trace, config)
            checked += 1
    assert checked > 50


def test_a_row_s_time_is_that_of_its_parts(tmp_path: Path, config: Config) -> None:
    table = table_of(step_of_everything(), tmp_path, config)
    frame = table.to_frame()
    assert frame["exclusive_us"].sum() == 80.0
    row: OpRow
    for row in table.rows:
        own = frame[(frame["op"] == row.name) & (frame["path"] == " > ".join(row.path))]
        assert own["exclusive_us"].sum() == row.total_ns / 1e3
