"""The columns of a trace: every phase, every field, every odd value."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuperf_analyzers.trace.model import Category, Trace
from gpuperf_analyzers.trace.reader import read_trace
from kineto import KinetoTrace

ABSENT = -1


def _read(tmp_path: Path, events: list[dict[str, Any]], **top: Any) -> Trace:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({**top, "traceEvents": events}))
    return read_trace(path)


def _x(name: Any = "e", ts: float = 0, dur: float = 1, cat: str = "cpu_op", **more: Any) -> Any:
    return {"ph": "X", "name": name, "cat": cat, "ts": ts, "dur": dur, **more}


def test_counts_rank_world_and_steps_of_every_real_trace(
    shared_traces: Path, expected: dict[str, Any]
) -> None:
    checked = 0
    for name, row in expected.items():
        trace = read_trace(shared_traces / name)
        if "error" in row:
            continue
        checked += 1
        assert sum(trace.phases.values()) == row["events"], name
        assert dict(trace.phases) == row["phases"], name
        assert (trace.rank, trace.world_size) == (row["rank"], row["world_size"]), name
        kernels = trace.events.device[trace.rows(Category.KERNEL)]
        for device, numbers in row["devices"].items():
            if device != "cpu":
                assert int((kernels == int(device)).sum()) == numbers["kernels"], name
    assert checked >= 60


def test_every_column_of_a_real_trace_agrees_with_plain_json(shared_traces: Path) -> None:
    path = next((shared_traces / "hta-nccl-parser-config").iterdir())
    raw = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    rows = sorted(
        (e for e in raw if e["ph"] == "X"), key=lambda e: (round(e["ts"] * 1e3), -e["dur"])
    )
    trace = read_trace(path)
    e = trace.events
    assert len(e) == len(rows)
    assert [trace.strings[i] for i in e.name] == [r["name"] for r in rows]
    assert [trace.tracks[i] for i in e.track] == [(r["pid"], r["tid"]) for r in rows]
    for column, key in (
        ("correlation", "correlation"),
        ("external_id", "External id"),
        ("sequence", "Sequence number"),
    ):
        expected = [r.get("args", {}).get(key, ABSENT) for r in rows]
        assert getattr(e, column).tolist() == expected, column
    shapes = [r.get("args", {}).get("Input Dims") for r in rows]
    got = [json.loads(trace.strings[i]) if i >= 0 else None for i in e.dims]
    assert got == shapes
    kernels = [r for r in rows if r["cat"] == "kernel"]
    k = trace.kernel_args
    assert k.row.tolist() == trace.rows(Category.KERNEL).tolist()
    assert k.grid.tolist() == [r["args"]["grid"] for r in kernels]
    assert k.block.tolist() == [r["args"]["block"] for r in kernels]
    assert k.registers.tolist() == [r["args"]["registers per thread"] for r in kernels]
    occupancy = [r["args"]["est. achieved occupancy %"] / 100 for r in kernels]
    assert np.allclose(k.occupancy, occupancy)
    named = [(i, r) for i, r in enumerate(rows) if "Collective name" in r.get("args", {})]
    assert len(named) == len(trace.collective_args) > 0
    for mine, (row, theirs) in zip(trace.collective_args, named, strict=True):
        args = theirs["args"]
        assert mine.row == row
        assert mine.name == args["Collective name"]
        assert mine.in_elements == args["In msg nelems"]
        assert mine.group_size == args["Group size"]
        assert mine.group_ranks == args["Process Group Ranks"]


def test_rows_are_by_start_then_longer_first_then_file_order(tmp_path: Path) -> None:
    trace = _read(
        tmp_path,
        [_x("d", 5, 1), _x("a", 0, 9), _x("c", 5, 3), _x("e", 5, 1), _x("b", 2, 1)],
    )
    assert [trace.name_of(i) for i in range(5)] == ["a", "b", "c", "d", "e"]


def test_the_columns_cannot_be_written_to(tmp_path: Path) -> None:
    trace = _read(tmp_path, [_x("b", 1), _x("a", 0)])
    with pytest.raises(ValueError, match="read-only"):
        trace.events.ts[0] = 1


def test_every_phase_is_counted(tmp_path: Path) -> None:
    phases = ["X", "i", "I", "s", "f", "t", "M", "C", "b", "e", "n", "N", "O", "D", "P", "R"]
    trace = _read(tmp_path, [{"ph": p, "ts": 0, "pid": 1, "tid": 1, "name": "a"} for p in phases])
    assert dict(trace.phases) == dict.fromkeys(phases, 1)
    odd = _read(tmp_path, [{"ph": "?", "ts": 0}, {"ts": 1}, {"ph": 3}, _x()])
    assert dict(odd.phases) == {"?": 1, "": 2, "X": 1}


def test_begin_and_end_make_one_event_each_track_on_its_own(tmp_path: Path) -> None:
    def mark(ph: str, ts: int, tid: int, name: str | None = None) -> dict[str, Any]:
        e = {"ph": ph, "ts": ts, "pid": 1, "tid": tid, "cat": "cpu_op"}
        return {**e, "name": name} if name else e

    events = [
        mark("B", 0, 1, "outer"), mark("B", 2, 1, "inner"), mark("B", 3, 2, "other"),
        mark("E", 5, 1), mark("E", 9, 2), mark("E", 10, 1), mark("E", 11, 1),
        mark("B", 12, 1, "open"), _x("whole", 1, 3),
    ]  # fmt: skip
    trace = _read(tmp_path, events)
    got = [(trace.name_of(i), int(trace.events.dur[i])) for i in range(len(trace.events))]
    assert got == [("outer", 10_000), ("whole", 3000), ("inner", 3000), ("other", 6000)]
    assert [(f.code, f.count) for f in trace.findings] == [("unmatched-begin-end", 2)]
    assert dict(trace.phases) == {"B": 4, "E": 4, "X": 1}


def test_pid_and_tid_are_numbers_or_strings(tmp_path: Path) -> None:
    trace = _read(
        tmp_path,
        [
            _x("a", 0, pid=1, tid="stream 7"),
            _x("b", 1, pid="Spans", tid="PyTorch Profiler"),
            _x("c", 2, pid=1.0, tid="stream 7"),
            _x("d", 3),
            _x("e", 4, pid=[1], tid={"a": 1}),
        ],
    )
    tracks = [trace.tracks[i] for i in trace.events.track]
    assert tracks[:3] == [(1, "stream 7"), ("Spans", "PyTorch Profiler"), (1, "stream 7")]
    assert tracks[3] == ("", "")


def test_missing_and_odd_fields_are_absent_and_not_fatal(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "ts": 0, "dur": 1},
        {"ph": "X", "ts": 1, "name": None, "cat": None, "args": None, "dur": 1},
        {"ph": "X", "ts": 2, "name": 5, "cat": 7, "args": "text", "dur": "2.5"},
        {"ph": "X", "ts": 3, "name": ["a"], "cat": ["b"], "args": [1], "dur": 1},
        {"ph": "X", "ts": 4, "dur": 1, "cat": "kernel", "args": {"grid": "grid(1,)", "block": [1]}},
    ]
    trace = _read(tmp_path, events)
    e = trace.events
    assert len(e) == 5
    assert [trace.name_of(0), trace.name_of(1), trace.name_of(3)] == ["", "", ""]
    assert trace.name_of(2) == "5"
    assert e.dur[2] == 2500
    assert [Category(c) for c in e.cat] == [Category.OTHER] * 4 + [Category.KERNEL]
    assert trace.kernel_args.grid.tolist() == [[-1, -1, -1]]
    assert np.isnan(trace.kernel_args.occupancy[0])


def test_numbers_as_strings_and_beyond_int64(tmp_path: Path) -> None:
    args = {
        "correlation": "12", "External id": 10159970886766084423, "device": "0", "stream": "0x7",
        "bytes": "256",
    }  # fmt: skip
    trace = _read(tmp_path, [_x("c", cat="gpu_memcpy", args=args)])
    e = trace.events
    assert (e.correlation[0], e.device[0], e.stream[0], e.bytes[0]) == (12, 0, 7, 256)
    assert e.external_id[0] == ABSENT


def test_a_kernel_without_arguments_is_on_its_pid_and_tid(tmp_path: Path) -> None:
    events = [
        _x("k", 0, cat="kernel", pid=3, tid=9),
        _x("k", 1, cat="kernel", pid=3, tid="stream 9"),
    ]
    e = _read(tmp_path, events).events
    assert e.device.tolist() == [3, 3]
    assert e.stream.tolist() == [9, 9]


def test_a_cpu_op_with_a_stream_is_on_no_device(tmp_path: Path) -> None:
    args = {"stream": 0, "device": 0, "grid": "grid(100,)"}
    e = _read(tmp_path, [_x("triton", args=args)]).events
    assert (e.device[0], e.stream[0]) == (ABSENT, ABSENT)


def test_a_sync_on_no_stream_has_none(tmp_path: Path) -> None:
    args = {"stream": 4294967295, "device": 0, "correlation": 5}
    e = _read(tmp_path, [_x("Context Sync", cat="cuda_sync", args=args)]).events
    assert (e.device[0], e.stream[0], e.correlation[0]) == (0, ABSENT, 5)


def test_memory_instants_counters_and_names(tmp_path: Path) -> None:
    t = KinetoTrace(base_us=0)
    t.memory(5, 1024, 4096, address=2**64 - 16, device_type=1, device=2)
    t.memory(3, -512, 3072)
    t.event("GPU util", None, 7, None, ph="C", used=3, free="4.5", note="text")
    t.event("process_name", None, 0, None, ph="M", name_="x")
    t.events[-1]["args"] = {"name": "python"}
    t.event("thread_name", None, 0, None, ph="M", tid="stream 7", label=1)
    t.events[-1]["args"] = {"name": "stream 7"}
    trace = read_trace(t.write(tmp_path / "t.json"))
    m = trace.memory
    assert m.ts.tolist() == [0, 2000]  # relative to the earliest event, at 3 µs
    assert trace.start_ns == 3000
    assert m.bytes.tolist() == [-512, 1024]
    assert m.total_allocated.tolist() == [3072, 4096]
    assert m.address.tolist() == [4096, -16]
    assert m.device_type.tolist() == [0, 1]
    assert m.device.tolist() == [-1, 2]
    c = trace.counters
    series = {trace.strings[k]: v for k, v in zip(c.key, c.value, strict=True)}
    assert series == {"used": 3.0, "free": 4.5}
    assert {trace.strings[n] for n in c.name} == {"GPU util"}
    assert trace.process_names == {100: "python"}
    assert trace.thread_names == {(100, "stream 7"): "stream 7"}


def test_old_names_of_shapes_are_the_same_column(tmp_path: Path) -> None:
    trace = _read(
        tmp_path,
        [
            _x("a", 0, args={"Input dims": [[1, 2]]}),
            _x("b", 1, args={"Input Dims": [[1, 2]], "Input type": ["float"], "Fwd thread id": 2}),
        ],
    )
    e = trace.events
    assert [json.loads(trace.strings[i]) for i in e.dims] == [[[1, 2]], [[1, 2]]]
    assert e.dims[0] == e.dims[1]
    assert e.fwd_thread.tolist() == [ABSENT, 2]


def test_two_reads_of_one_file_are_equal(tmp_path: Path) -> None:
    t = KinetoTrace()
    for i in range(50):
        t.launch("k", at=i, runs=(i, i + 2))
    path = t.write(tmp_path / "t.json")
    a, b = read_trace(path), read_trace(path)
    assert np.array_equal(a.events.ts, b.events.ts)
    assert a.strings == b.strings
