"""A trace read by several processes is the trace that one process reads."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuperf_analyzers.trace import shares
from gpuperf_analyzers.trace.assemble import assemble
from gpuperf_analyzers.trace.bounds import Bounds
from gpuperf_analyzers.trace.columns import EventColumns
from gpuperf_analyzers.trace.crew import Crew, Unshared, _Member
from gpuperf_analyzers.trace.model import Trace, TraceError
from gpuperf_analyzers.trace.reader import read_open, read_trace

BLOCKS = Bounds(block=32 * 1024)
SMALL = Bounds(block=4096)
"""Blocks of some 30 events, so that a short file has many."""


def same(one: Any, other: Any, where: str = "") -> None:
    """Fail where two traces differ in any field, dtype, or order."""
    if dataclasses.is_dataclass(one) and not isinstance(one, type):
        for field in dataclasses.fields(one):
            if field.name != "memo":
                path = f"{where}.{field.name}"
                same(getattr(one, field.name), getattr(other, field.name), path)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, where
        assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f"), where
    else:
        assert one == other, where


_START = Crew.start


def there(crew: Crew) -> Crew:
    """`crew`, once its processes wait for blocks."""
    _START(crew)
    until = time.monotonic() + 60
    while not all(member.credit() for member in crew._members):
        assert time.monotonic() < until
        time.sleep(0.01)
    return crew


def read_by(crew: Crew, path: Path, **more: Any) -> Trace:
    with path.open("rb") as file:
        return read_open(file, str(path), crew=crew, **more)


def event(i: int, kind: str) -> dict[str, Any]:
    """One event of `kind`; names, tracks and times recur in another order than `i`."""
    at = 1000.125 + 7 * (i % 11) + i
    common = {"ts": at, "pid": i % 3, "tid": f"stream {i % 5}"}
    return {
        "op": {
            **common, "ph": "X", "cat": "cpu_op", "name": f"op{i % 7}", "dur": 3,
            "args": {"External id": i, "Input Dims": [[i % 4, 2]], "Input type": ["float"]},
        },
        "kernel": {
            **common, "ph": "X", "cat": "kernel", "name": f"k{i % 6}", "dur": 5,
            "args": {"device": 0, "stream": i % 5, "correlation": i, "grid": [i, 1, 1],
                     "block": [32, 1, 1], "registers per thread": i % 40},
        },
        "nccl": {
            **common, "ph": "X", "cat": "kernel", "name": "ncclKernel_AllReduce", "dur": 9,
            "args": {"device": 0, "stream": 7, "correlation": i, "Collective name": "allreduce",
                     "In msg nelems": i, "dtype": "Float", "Group size": 2},
        },
        "sync": {
            **common, "ph": "X", "cat": "cuda_sync", "name": "Stream Wait", "dur": 1,
            "args": {"device": 0, "stream": 7, "wait_on_stream": i % 5,
                     "wait_on_cuda_event_record_corr_id": i},
        },
        "open": {
            **common, "ph": "X", "cat": "user_annotation", "name": f"open{i}", "dur": 2,
            "args": {"finished": False},
        },
        "begin": {**common, "ph": "B", "cat": "cpu_op", "name": f"b{i}", "tid": 9, "pid": 9},
        "end": {"ph": "E", "ts": at, "tid": 9, "pid": 9},
        "memory": {
            **common, "ph": "i", "name": "[memory]", "s": "t",
            "args": {"Bytes": 4 * i - 100, "Addr": i % 4, "Device Type": 1, "Device Id": 0,
                     "Total Allocated": 4 * i, "Total Reserved": 8 * i},
        },
        "counter": {**common, "ph": "C", "name": f"c{i % 3}", "args": {"a": i, f"s{i % 5}": 0.5}},
        "label": {"ph": "M", "name": "thread_name", "pid": i % 3, "tid": i % 2,
                  "args": {"name": f"thread {i}"}},
        "process": {"ph": "M", "name": "process_name", "pid": i % 3, "args": {"name": f"p{i}"}},
        "flow": {"ph": "s", "id": i, "ts": at, "pid": 1, "tid": 1, "name": "f", "cat": "ac2g"},
    }[kind]  # fmt: skip


KINDS = (
    "op", "kernel", "nccl", "sync", "open", "begin", "end", "memory", "counter", "label",
    "process", "flow",
)  # fmt: skip


def columns_of(blocks: list[list[dict[str, Any]]]) -> tuple[EventColumns, list[shares.Marks]]:
    columns, marks = EventColumns(), []
    for block in blocks:
        assert columns.decode(json.dumps(block).encode())
        marks.append(shares.marks_of(columns))
    return columns, marks


@given(
    kinds=st.lists(st.lists(st.sampled_from(KINDS), max_size=6), max_size=12),
    whose=st.lists(st.integers(0, 2), min_size=12, max_size=12),
)
@example(kinds=[["nccl"], ["nccl"]], whose=[1, 0] + [0] * 10)  # rows in order, processes not
def test_blocks_dealt_to_anybody_join_to_what_one_reads(
    kinds: list[list[str]], whose: list[int]
) -> None:
    serial = iter(range(10**6))
    blocks = [[event(next(serial), kind) for kind in block] for block in kinds]
    order = whose[: len(blocks)]
    alone, _ = columns_of(blocks)
    read = [
        columns_of([b for b, w in zip(blocks, order, strict=True) if w == who]) for who in range(3)
    ]
    parts = [shares.share_of(columns, marks) for columns, marks in read]
    joined = shares.join(parts, [shares.Own(columns) for columns, _ in read], order)
    for name in ("phases", "labels", "unfinished", "counter_rows"):
        assert getattr(joined, name) == getattr(alone, name)
    assert joined.strings.values == alone.strings.values
    assert joined.tracks.values == alone.tracks.values
    same(assemble(alone), assemble(joined))


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Some 100 blocks of every kind of event."""
    events = [event(i, KINDS[(i * i + i // 7) % len(KINDS)]) for i in range(3000)]
    path = tmp_path / "mixed.json.gz"
    document = {"schemaVersion": 1, "traceEvents": events, "distributedInfo": {"rank": 3}}
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    return path


def test_two_further_processes_read_the_same_trace(mixed: Path) -> None:
    with Crew(2) as crew:
        found = read_by(there(crew), mixed, bounds=SMALL)
        assert all(member.given >= 3 for member in crew._members)
        assert 0 in crew._order  # this process read some too
    same(read_trace(mixed, bounds=SMALL), found)


@pytest.mark.parametrize(
    "name",
    [
        "hta-trace-diff/test.json.gz",  # NCCL with shapes, absolute times
        "kineto-tb-resnet50-num-workers-0",  # memory instants
        "local-torch214-cpu",  # times relative to a base
        "hta-amd-trace",
    ],
)
def test_a_real_trace_is_the_same(shared_traces: Path, name: str) -> None:
    path = shared_traces / name
    if path.is_dir():
        path = max(path.rglob("*.json*"), key=lambda p: p.stat().st_size)
    with Crew(1) as crew:
        found = read_by(there(crew), path, bounds=BLOCKS)
        assert crew.shared
    same(read_trace(path, bounds=BLOCKS), found)


def _cut(text: bytes) -> bytes:
    return text[: len(text) * 3 // 4]


def _broken_late(text: bytes) -> bytes:
    at = text.rindex(b'"name"')
    return text[:at] + b"\x00\x01" + text[at:]


def _negative(text: bytes) -> bytes:
    at = text.rindex(b'"dur": ') + len(b'"dur": ')
    return text[:at] + b"-" + text[at:]


@pytest.mark.parametrize("spoil", [_cut, _broken_late, _negative])
def test_what_is_damaged_or_odd_is_left_to_one_process(
    mixed: Path, tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_bytes(spoil(gzip.decompress(mixed.read_bytes())))
    with Crew(1) as crew, pytest.raises(Unshared):
        read_by(there(crew), bad, bounds=SMALL)


def test_a_long_file_is_shared_by_read_trace_and_a_damaged_one_read_again(
    mixed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Crew, "start", there)  # at once, so that a short file finds it there
    monkeypatch.setattr("gpuperf_analyzers.trace.crew._START_AFTER", 4)
    given: list[bytes] = []
    give = _Member.give
    monkeypatch.setattr(_Member, "give", lambda self, b: (given.append(b), give(self, b)))
    same(read_trace(mixed, bounds=SMALL), read_trace(mixed, bounds=SMALL, processes=2))
    assert len(given) >= 3
    cut = tmp_path / "cut.json"
    cut.write_bytes(_cut(gzip.decompress(mixed.read_bytes())))
    alone = read_trace(cut, bounds=SMALL)
    assert [f.code for f in alone.findings][:1] == ["truncated"]
    same(alone, read_trace(cut, bounds=SMALL, processes=2))
    with pytest.raises(TraceError, match="byte"):
        read_trace(cut, bounds=SMALL, salvage=False, processes=2)


def test_a_process_that_dies_costs_nothing(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuperf_analyzers.trace.crew._START_AFTER", 4)
    died: list[int] = []

    def doomed(crew: Crew) -> None:
        there(crew)
        for member in crew._members:
            died.append(member._process.pid)
            member._process.send_signal(signal.SIGKILL)
            member._process.wait()

    monkeypatch.setattr(Crew, "start", lambda crew: doomed(crew) if not crew._members else None)
    found = read_trace(mixed, bounds=SMALL, processes=2)
    assert died
    monkeypatch.undo()
    same(read_trace(mixed, bounds=SMALL), found)


def test_no_process_to_be_had_is_no_error(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuperf_analyzers.trace.crew._START_AFTER", 4)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    same(read_trace(mixed, bounds=SMALL), read_trace(mixed, bounds=SMALL, processes=2))


def test_the_processes_end_with_the_crew(mixed: Path) -> None:
    with Crew(2) as crew:
        read_by(there(crew), mixed, bounds=SMALL)
        pids = [member._process.pid for member in crew._members]
        assert all(map(psutil.pid_exists, pids))
    assert not any(map(psutil.pid_exists, pids))


def test_a_file_beside_the_trace_is_not_taken_for_a_module(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("numpy", "msgspec", "gpuperf_analyzers"):
        mixed.with_name(f"{name}.py").write_text("open('taken', 'w').close()")
    monkeypatch.chdir(mixed.parent)
    with Crew(1) as crew:
        same(read_trace(mixed, bounds=SMALL), read_by(there(crew), mixed, bounds=SMALL))
        assert crew.shared
    assert not Path("taken").exists()


def test_a_process_whose_reader_was_killed_ends() -> None:
    code = (
        "import sys, time; from gpuperf_analyzers.trace.crew import Crew; c = Crew(1); c.start();"
        "print(c._members[0]._process.pid, flush=True); time.sleep(60)"
    )
    reader = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert reader.stdout is not None
    member = psutil.Process(int(reader.stdout.readline()))
    os.kill(reader.pid, signal.SIGKILL)
    reader.wait()
    reader.stdout.close()
    psutil.wait_procs([member], timeout=30)
    assert not member.is_running() or member.status() == psutil.STATUS_ZOMBIE
