"""Counter tracks: what is drawn when, and how they come into a trace."""

from __future__ import annotations

import gzip
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers import read_trace
from pytest_gpuperf.recording.clock_reasons import ClockReason
from pytest_gpuperf.recording.counter_tracks import copy_with_events
from pytest_gpuperf.recording.telemetry.sampler import TelemetrySampler, Watched
from pytest_gpuperf.recording.telemetry.series import Series
from pytest_gpuperf.recording.telemetry.tracks import track_events

from .conftest import FakeNvml

BASE = 1_790_857_026_000_000_000
MS = 1_000_000
EVENT = {"ph": "C", "name": "power", "pid": 0, "ts": 1.5, "args": {"W": 250.0}}


def _watched(**series: list[tuple[int, float]]) -> Watched:
    """A window that begins at BASE; times in ms from there."""
    watched = Watched(0.02, begin_ns=BASE)
    for name, readings in series.items():
        watched.series[name] = Series()
        for at_ms, value in readings:
            watched.series[name].add(BASE + at_ms * MS, value)
    return watched


def _drawn(watched: Watched, name: str, **options: Any) -> list[tuple[float, dict[str, float]]]:
    events = track_events(watched, BASE, 3, **options)
    assert all(e["ph"] == "C" and e["pid"] == 3 for e in events)
    return [(e["ts"], e["args"]) for e in events if e["name"] == name]


def test_a_reading_is_drawn_when_it_was_taken_on_the_traces_clock() -> None:
    drawn = _drawn(_watched(power=[(20, 250.0), (40, 300.0)]), "power")
    assert drawn == [(20_000.0, {"W": 250.0}), (40_000.0, {"W": 300.0})]


def test_a_counter_of_an_interval_is_drawn_from_the_intervals_begin() -> None:
    drawn = _drawn(_watched(sm_active=[(110, 0.9), (220, 0.5)]), "sm_active")
    assert drawn == [(0.0, {"%": 90.0}), (110_000.0, {"%": 50.0})]


def test_samples_with_throttling_are_marked_and_each_reason_is_a_series() -> None:
    masks = [(20, 0), (40, ClockReason.SW_POWER_CAP | 1 << 40), (60, ClockReason.GPU_IDLE)]
    watched = _watched(reasons=[(at, float(mask)) for at, mask in masks])
    assert [args["throttled"] for _, args in _drawn(watched, "throttled")] == [0, 1, 0]
    reasons = [args for _, args in _drawn(watched, "clock_reasons")]
    assert reasons[0] == {"sw_power_cap": 0, "bit_40": 0, "gpu_idle": 0}
    assert reasons[1] == {"sw_power_cap": 1, "bit_40": 1, "gpu_idle": 0}
    assert reasons[2] == {"sw_power_cap": 0, "bit_40": 0, "gpu_idle": 1}


def test_what_held_when_the_recording_began_is_drawn_there() -> None:
    watched = _watched(power=[(20, 250.0), (40, 300.0), (60, 350.0)])
    drawn = _drawn(watched, "power", since_ns=BASE + 50 * MS)
    assert drawn == [(50_000.0, {"W": 300.0}), (60_000.0, {"W": 350.0})]
    watched.opening["temperature"] = 55.0
    assert _drawn(watched, "temperature", since_ns=BASE + 50 * MS) == [(50_000.0, {"°C": 55.0})]


def _merged(tmp_path: Path, text: str, *events: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The trace `text` with `events`, and the base time that they were made with."""
    source = tmp_path / "plain.json"
    source.write_text(text)
    given: list[int] = []

    def make(base_ns: int) -> tuple[dict[str, Any], ...]:
        given.append(base_ns)
        return events

    target = io.BytesIO()
    copy_with_events(source, target, make)
    return json.loads(target.getvalue()), given[0]


@pytest.mark.parametrize(
    "text",
    [
        '{"schemaVersion": 1, "baseTimeNanoseconds": 7000, "traceEvents": [{"ph": "X"}]}',
        '{"traceEvents": [\n  {"ph": "X"}\n  ],"baseTimeNanoseconds": 7000 }',
        '{"a": "\\"traceEvents\\": [ 1", "baseTimeNanoseconds":7000,"traceEvents":[{"ph": "X"}]}',
        '{"a": "' + "x" * (1 << 20) + '", "traceEvents": [{"ph": "X"}], "b": "'
        + "y" * 70_000 + '", "baseTimeNanoseconds": 7000}',
    ],
    ids=["base in front", "base behind", "marker in a string", "longer than a chunk"],
)  # fmt: skip
def test_events_come_in_front_of_the_traces_own(tmp_path: Path, text: str) -> None:
    merged, base = _merged(tmp_path, text, EVENT, EVENT)
    assert merged["traceEvents"] == [EVENT, EVENT, {"ph": "X"}]
    assert base == 7000
    own = json.loads(text)
    assert {k: v for k, v in merged.items() if k != "traceEvents"} == {
        k: v for k, v in own.items() if k != "traceEvents"
    }


def test_a_trace_without_events_or_without_a_base_takes_them_too(tmp_path: Path) -> None:
    assert _merged(tmp_path, '{"traceEvents": [ ]}', EVENT) == ({"traceEvents": [EVENT]}, 0)
    text = '{"traceEvents": [{"ph": "X"}]}'
    assert _merged(tmp_path, text) == ({"traceEvents": [{"ph": "X"}]}, 0)


def test_what_is_no_trace_is_copied_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / "plain.json"
    source.write_text('{"other": [1, 2]}')
    target = io.BytesIO()
    copy_with_events(source, target, lambda _: [EVENT])
    assert target.getvalue() == source.read_bytes()


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_sampled_tracks_lie_on_the_steps_that_the_profiler_recorded(
    nvml: FakeNvml, tmp_path: Path, name: str
) -> None:
    torch = pytest.importorskip("torch")
    from pytest_gpuperf.recording.profiled import profile_steps
    from pytest_gpuperf.recording.sampling import Workload

    nvml.set("gpm_2 91", "sm_clock 1500 1400", "power_mw 300000")
    a = torch.ones(8, 8)
    spans: list[tuple[int, int]] = []

    def step() -> None:
        begin = time.time_ns()
        a @ a
        time.sleep(0.15)
        spans.append((begin, time.time_ns()))

    path = tmp_path / name
    with TelemetrySampler(["GPU-1"]) as sampler:
        profile_steps(
            Workload(step), device=torch.device("cpu"), steps=2, metadata=lambda: "{}",
            path=path, barrier=lambda: None,
            counters=lambda since, base: track_events(sampler.watched, base, 0, since_ns=since),
        )  # fmt: skip
    raw = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    assert {e["name"] for e in json.loads(raw)["traceEvents"] if e["ph"] == "C"} >= {
        "sm_clock", "power", "sm_active", "throttled", "temperature",
    }  # fmt: skip
    trace = read_trace(path)
    counters = trace.counters
    tracks = {trace.strings[n] for n in counters.name}
    assert {"sm_clock", "power", "sm_active", "throttled"} <= tracks
    power = counters.ts[[trace.strings[n] == "power" for n in counters.name]]
    # The last two calls are the recorded steps; 50 Hz over 0.3 s, if the machine is not busy.
    begin, end = spans[-2][0], spans[-1][1]
    absolute = power + trace.start_ns
    within = (absolute >= begin - 20 * MS) & (absolute <= end + 20 * MS)
    assert within.sum() >= 4
    assert absolute.min() >= spans[-3][1]  # none is of the call before them, the lead-in
    values = counters.value[[trace.strings[n] == "sm_active" for n in counters.name]]
    assert set(values) == {91.0}


def test_a_trace_with_tracks_is_judged_as_without(nvml: FakeNvml, tmp_path: Path) -> None:
    from gpuperf_analyzers import analyze
    from kineto import KinetoTrace

    t = KinetoTrace()
    with t.step(1, at=0, dur=95):
        t.launch("gemm", at=1, runs=(10, 60))
    plain = t.write(tmp_path / "plain.json")
    merged = tmp_path / "merged.json"
    with merged.open("wb") as target:
        copy_with_events(plain, target, lambda _: [{**EVENT, "ts": 20.0}, {**EVENT, "ts": 70.0}])
    assert len(read_trace(merged).counters.value) == 2
    assert analyze(read_trace(merged)).values == analyze(read_trace(plain)).values
