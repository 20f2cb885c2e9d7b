"""What ``cuda_sync`` events wait for, as columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuperf_analyzers.trace import read_trace
from kineto import KinetoTrace


def sync(t: KinetoTrace, at: float, name: str, **args: Any) -> None:
    t.event(name, "cuda_sync", at, 1, pid=0, tid=7, device=0, **args)


def test_the_stream_and_the_record_waited_for_go_with_the_events_row(tmp_path: Path) -> None:
    t = KinetoTrace()
    sync(t, 50, "Stream Wait Event", stream=20, correlation=9, wait_on_stream=7,
         wait_on_cuda_event_record_corr_id=8)  # fmt: skip
    t.op("aten::later in the file, earlier in time", at=10, dur=5)
    sync(t, 5, "Stream Sync", stream=7, correlation=3)
    sync(t, 70, "Event Sync", stream=-1, correlation=12, wait_on_stream=2**32 - 1,
         wait_on_cuda_event_record_corr_id=-1)  # fmt: skip
    trace = read_trace(t.write(tmp_path / "t.json"))
    args = trace.sync_args
    assert [trace.name_of(r) for r in args.row.tolist()] == [
        "Stream Sync", "Stream Wait Event", "Event Sync"
    ]  # fmt: skip
    assert args.wait_stream.tolist() == [-1, 7, -1]  # CUPTI's unsigned -1 is none too
    assert args.wait_record.tolist() == [-1, 8, -1]


def test_the_name_in_another_category_is_no_sync(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.event("Stream Wait Event", "cpu_op", 0, 1, wait_on_stream=7)
    assert not len(read_trace(t.write(tmp_path / "t.json")).sync_args.row)
