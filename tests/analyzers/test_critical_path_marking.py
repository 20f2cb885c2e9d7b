"""The path as tracks of a copied trace: exact, whole or absent, and the source as it was."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers import critical_path
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.critical_path import mark_trace
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.trace import TraceError, read_trace
from gpuperf_analyzers.trace.classify import devices
from kineto import KinetoTrace


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def timeline_of_two() -> KinetoTrace:
    t = KinetoTrace(base_us=1_700_000_000_000_000.0)
    with t.step(1, at=0, dur=100):
        t.launch('ker"nel\\ä', at=0, runs=(10, 50))
        t.launch("b", at=3, runs=(52, 90))
    return t


def marked(source: Path, target: Path, config: Config) -> dict[str, Any]:
    trace = read_trace(source)
    found = [critical_path.analyze(trace, config, d) for d in devices(trace)]
    mark_trace(trace, found, target)
    text = target.read_bytes()
    document: dict[str, Any] = json.loads(gzip.decompress(text) if target.suffix == ".gz" else text)
    return document


def slices(document: dict[str, Any], tid: int) -> list[dict[str, Any]]:
    return [
        e for e in document["traceEvents"] if e.get("cat") == "critical_path" and e["tid"] == tid
    ]


def test_the_copy_holds_the_source_and_a_track_for_the_window_and_one_for_the_steps(
    tmp_path: Path, config: Config
) -> None:
    source = timeline_of_two().write(tmp_path / "rank0.json")
    before = source.read_bytes()
    document = marked(source, tmp_path / "marked.json", config)
    assert source.read_bytes() == before
    original = json.loads(before)
    added = len(document["traceEvents"]) - len(original["traceEvents"])
    assert document["traceEvents"][added:] == original["traceEvents"]
    assert {**document, "traceEvents": 0} == {**original, "traceEvents": 0}
    names = {e["args"].get("name") for e in document["traceEvents"] if e["ph"] == "M"}
    assert {"critical path", "window, device 0", "steps, device 0"} <= names
    window = [(e["name"], e["ts"] - 1_700_000_000_000_000, e["dur"]) for e in slices(document, 0)]
    assert window == [('ker"nel\\ä', 10, 40), ("start of b", 50, 2), ("b", 52, 38)]
    assert [e["args"]["class"] for e in slices(document, 0)] == ["compute", "launch", "compute"]
    # The step's window ends with its host span, after 10 µs in which the host did nothing more.
    assert sum(e["dur"] for e in slices(document, 1)) == 90
    assert {e["args"]["path"] for e in slices(document, 1)} == {"ProfilerStep#1"}


def test_added_tracks_have_a_process_of_their_own(tmp_path: Path, config: Config) -> None:
    t = timeline_of_two()
    t.op("aten::other", at=1, dur=1, tid=1)
    t.events[-1]["pid"] = 1_000_000
    document = marked(t.write(tmp_path / "a.json"), tmp_path / "b.json", config)
    assert {e["pid"] for e in slices(document, 0)} == {1_000_001}


def test_times_keep_their_nanoseconds_and_the_base_of_the_file(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace(base_us=5_101_497_568.0, baseTimeNanoseconds=1_700_000_000_000_000_000)
    t.launch("a", at=0, runs=(10.123, 50.456))
    target = tmp_path / "marked.json"
    marked(t.write(tmp_path / "a.json"), target, config)
    assert '"ts": 5101497578.123, "dur": 40.333}' in target.read_text()


@pytest.mark.parametrize("name", ["marked.json.gz", "marked.json"])
def test_a_copy_reads_as_the_same_numbers(name: str, tmp_path: Path, config: Config) -> None:
    source = timeline_of_two().write(tmp_path / "rank0.json.gz")
    marked(source, tmp_path / name, config)
    first, second = (
        critical_path.analyze(read_trace(p), config, 0) for p in (source, tmp_path / name)
    )
    assert [p.by_class for p in (first.window, *first.steps)] == [
        p.by_class for p in (second.window, *second.steps)
    ]


def test_a_bare_list_and_one_with_spaces_can_be_marked(tmp_path: Path, config: Config) -> None:
    source = tmp_path / "bare.json"
    source.write_text("  [\n" + json.dumps(timeline_of_two().events)[1:])
    trace = read_trace(source)
    mark_trace(trace, [critical_path.analyze(trace, config, 0)], tmp_path / "m.json")
    events = json.loads((tmp_path / "m.json").read_text())
    assert sum(e.get("cat") == "critical_path" for e in events) > 3


def test_an_empty_list_of_events_stays_valid_json(tmp_path: Path) -> None:
    source = tmp_path / "empty.json"
    source.write_text('{"traceEvents": [ ], "traceName": "x"}')
    mark_trace(read_trace(source), [], tmp_path / "m.json")
    document = json.loads((tmp_path / "m.json").read_text())
    assert document["traceName"] == "x"
    assert {e["ph"] for e in document["traceEvents"]} == {"M"}


def test_the_source_is_never_the_destination(tmp_path: Path) -> None:
    source = timeline_of_two().write(tmp_path / "rank0.json")
    with pytest.raises(TraceError, match="needs a name of its own"):
        mark_trace(read_trace(source), [], source)


def test_a_damaged_source_is_refused_with_the_mend(tmp_path: Path) -> None:
    source = tmp_path / "cut.json"
    source.write_text(json.dumps(timeline_of_two().to_json())[:-40])
    with pytest.raises(TraceError, match=r"cut\.json: truncated: .* record it again"):
        mark_trace(read_trace(source), [], tmp_path / "m.json")
    assert not (tmp_path / "m.json").exists()


def test_a_copy_that_fails_half_way_leaves_what_was_there(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = timeline_of_two().write(tmp_path / "rank0.json")
    target = tmp_path / "m.json"
    target.write_text("older")
    trace = read_trace(source)
    found = [critical_path.analyze(trace, config, 0)]

    def broken(ns: int) -> str:
        raise OSError("disk full")

    monkeypatch.setattr("gpuperf_analyzers.critical_path.marking._us", broken)
    with pytest.raises(OSError, match="disk full"):
        mark_trace(trace, found, target)
    assert target.read_text() == "older"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.json", "rank0.json"]


def test_a_real_trace_is_copied_byte_for_byte_around_the_added_events(
    shared_traces: Path, tmp_path: Path, config: Config
) -> None:
    source = shared_traces / "param-dlrm-kineto/worker0_step_12.1694128201545.pt.trace.json.gz"
    document = marked(source, tmp_path / "m.json", config)
    text, original = (tmp_path / "m.json").read_bytes(), gzip.decompress(source.read_bytes())
    cut = original.index(b"[", original.index(b'"traceEvents"')) + 1
    assert text.startswith(original[:cut])
    assert text.endswith(original[cut:])
    track = slices(document, 0)
    ends = [e["ts"] + e["dur"] for e in track]
    assert [e["ts"] for e in track[1:]] == pytest.approx(ends[:-1], abs=1e-3)
