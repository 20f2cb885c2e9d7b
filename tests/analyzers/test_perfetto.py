"""Exported traces: valid by the format's documented fields, exact, merged on one axis."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers.perfetto import export_trace, merge_traces
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.set_analysis import analyze_set
from gpuperf_analyzers.trace import TraceError, read_traces
from kineto import KinetoTrace

_NUMBER = (int, float)
_PHASES = frozenset("BEXibneSTFstfPCMNODv(R)cI,a")
"""Phases of the Trace Event Format."""


def check(document: dict[str, Any]) -> None:
    """The fields that "Trace Event Format" requires of each phase, by type."""
    events = document["traceEvents"]
    assert isinstance(events, list)
    for event in events:
        assert event["ph"] in _PHASES
        assert isinstance(event["name"], str)
        if event["ph"] == "M":
            assert isinstance(event["args"], dict)
            continue
        assert isinstance(event["ts"], _NUMBER)
        if event["ph"] == "X":
            assert isinstance(event["dur"], _NUMBER)
            assert event["dur"] >= 0
            assert "pid" in event
            assert "tid" in event
        if event["ph"] == "C":
            assert all(isinstance(v, _NUMBER) for v in event["args"].values())
        if event["ph"] in "stf":
            assert "id" in event
        assert isinstance(event.get("cat", ""), str)


def exported(source: Path, target: Path) -> dict[str, Any]:
    config = load_config()
    traces = read_traces([str(source)])
    export_trace(traces.traces[0], analyze_set(traces, config).ranks[0], config, target)
    raw = target.read_bytes()
    document: dict[str, Any] = json.loads(gzip.decompress(raw) if target.suffix == ".gz" else raw)
    check(document)
    return document


def tracks(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Events of ours by the title of their track."""
    titles = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in document["traceEvents"]
        if e["ph"] == "M" and e["name"] == "thread_name"
    }
    found: dict[str, list[dict[str, Any]]] = {}
    for e in document["traceEvents"]:
        if e.get("cat") == "gpuperf" and e["ph"] == "X":
            found.setdefault(titles[e["pid"], e["tid"]], []).append(e)
    return found


def comm_and_compute(rank: int, base_us: float) -> KinetoTrace:
    """Compute 10–40, all-reduce 30–70, idle 70–80, compute 80–90: exposed 40–70."""
    t = KinetoTrace(rank=rank, world_size=2, base_us=base_us)
    with t.step(1, at=0, dur=100):
        t.launch("gemm", at=5, runs=(10, 40), stream=7)
        t.launch("ncclDevKernel_AllReduce", at=8, runs=(30, 70), stream=20)
        t.launch("gemm2", at=75, runs=(80, 90), stream=7)
    return t


def test_the_tracks_hold_what_the_timeline_shows(tmp_path: Path) -> None:
    base = 1_700_000_000_000_000.0
    source = comm_and_compute(0, base).write(tmp_path / "rank0.json")
    document = exported(source, tmp_path / "out.json.gz")
    found = tracks(document)
    exposed = [(e["ts"] - base, e["dur"]) for e in found["exposed communication, device 0"]]
    assert exposed == [(40, 30)]
    idle = [(e["name"], e["ts"] - base, e["dur"]) for e in found["idle by cause, device 0"]]
    # 70–75 nothing was launched, 75–80 the launch of gemm2 was under way. Behind the last kernel,
    # to the host's end of the step, the host launched nothing.
    assert idle == [("idle: host-bound", 70, 5), ("idle: launch latency", 75, 5),
                    ("idle: host-bound", 90, 10)]  # fmt: skip
    assert [e["name"] for e in found["steps, device 0"]] == ["ProfilerStep#1"]
    original = json.loads(source.read_text())["traceEvents"]
    assert document["traceEvents"][-len(original) :] == original


def test_slices_of_a_track_never_overlap(shared_traces: Path, tmp_path: Path) -> None:
    folder = shared_traces / "tracelens-h100"
    document = exported(sorted(folder.glob("*.json.gz"))[0], tmp_path / "out.json")
    found = tracks(document)
    assert len(found) >= 2
    for title, events in found.items():
        ends = 0.0
        for event in sorted(events, key=lambda e: e["ts"]):
            assert event["ts"] >= ends - 1e-3, title
            ends = event["ts"] + event["dur"]
    memory = [e for e in document["traceEvents"] if e["ph"] == "C" and e.get("cat") == "gpuperf"]
    assert memory


def merged(folder: Path, target: Path) -> tuple[dict[str, Any], str]:
    config = load_config()
    traces = read_traces([str(p) for p in sorted(folder.iterdir())])
    said = merge_traces(traces, analyze_set(traces, config), config, target)
    document: dict[str, Any] = json.loads(target.read_text())
    check(document)
    return document, said


def test_ranks_stand_on_one_axis_with_numbers_of_their_own(tmp_path: Path) -> None:
    base = 1_700_000_000_000_000.0
    folder = tmp_path / "set"
    folder.mkdir()
    comm_and_compute(0, base).write(folder / "rank0.json")
    comm_and_compute(1, base).write(folder / "rank1.json")
    document, said = merged(folder, tmp_path / "all.json")
    assert said.startswith("by their absolute times")
    gemms = [e for e in document["traceEvents"] if e["name"] == "gemm"]
    assert len(gemms) == 2
    assert len({e["pid"] for e in gemms}) == 2
    # The axis begins with the earliest event, the step's begin at 0; gemm is 10 µs in.
    start = document["baseTimeNanoseconds"]
    assert {round(e["ts"] * 1000) + start for e in gemms} == {int(base * 1000) + 10_000}
    names = Counter(
        e["args"]["name"].partition(":")[0]
        for e in document["traceEvents"]
        if e["ph"] == "M" and e["name"] == "process_name"
    )
    assert {"rank 0", "rank 1"} <= names.keys()


def test_arrows_of_two_ranks_are_not_joined(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    for rank in (0, 1):
        t = comm_and_compute(rank, 1e15)
        for phase, at in (("s", 5), ("f", 10)):
            t.events.append({"ph": phase, "id": 1, "name": "ac2g", "cat": "ac2g", "pid": 100,
                             "tid": 100, "ts": 1e15 + at, "bp": "e"})  # fmt: skip
        t.write(folder / f"rank{rank}.json")
    document, _ = merged(folder, tmp_path / "all.json")
    arrows = Counter(e["id"] for e in document["traceEvents"] if e["ph"] in "sf")
    assert {"0.1", "1.1"} <= arrows.keys()
    assert arrows["0.1"] == arrows["1.1"] == 2


def test_clocks_of_other_times_begin_at_0_and_it_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    comm_and_compute(0, 1e15).write(folder / "rank0.json")
    comm_and_compute(1, 1.2e15).write(folder / "rank1.json")
    document, said = merged(folder, tmp_path / "all.json")
    assert "too far apart" in said
    assert document["gpuperf_merged"]["clocks"] == said
    starts = {e["ts"] for e in document["traceEvents"] if e["name"] == "gemm"}
    assert len(starts) == 1


def test_a_real_set_is_merged(shared_traces: Path, tmp_path: Path) -> None:
    document, _ = merged(shared_traces / "local-torch214-cpu" / "ddp_gloo_4ranks",
                         tmp_path / "all.json")  # fmt: skip
    assert len(document["gpuperf_merged"]["ranks"]) == 4


def test_a_damaged_source_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    whole = comm_and_compute(0, 1e15).write(tmp_path / "rank0.json").read_bytes()
    broken = tmp_path / "broken.json"
    broken.write_bytes(whole[: len(whole) * 2 // 3])
    with pytest.raises(TraceError, match="would not open"):
        exported(broken, tmp_path / "out.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken.json", "rank0.json"]
