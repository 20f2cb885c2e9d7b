"""What the analysis found, as events of Chrome's trace format beside the trace's own.

Fields as "Trace Event Format" documents them: complete events (``X``) with ``name``, ``cat``,
``ts`` and ``dur`` in µs, ``pid``, ``tid``, ``args``; counters (``C``) with numbers in ``args``;
metadata (``M``) that names and orders processes and threads. A trace's own counters (NVML, as
a live run samples them) are in it already and are copied with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gpuperf_analyzers import intervals
from gpuperf_analyzers.analysis import Analysis, DeviceAnalysis
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.critical_path.marking import copy_with_events, free_pid, path_events
from gpuperf_analyzers.intervals import Spans
from gpuperf_analyzers.trace.bounds import DEFAULT_BOUNDS, Bounds
from gpuperf_analyzers.trace.gaps import idle_spans
from gpuperf_analyzers.trace.model import Trace
from gpuperf_analyzers.trace.selection import activity
from gpuperf_analyzers.trace.values import whole

CATEGORY = "gpuperf"
"""``cat`` of the added events, which no reader takes for activity."""

_IDLE = {
    "host_bound": "idle: host-bound",
    "launch_latency": "idle: launch latency",
    "dependency": "idle: dependency",
    "unknown": "idle: unknown",
}


def export_trace(
    trace: Trace,
    found: Analysis,
    config: Config,
    destination: str | os.PathLike[str],
    *,
    bounds: Bounds = DEFAULT_BOUNDS,
) -> None:
    """Write the file of `trace` once more, with the analysis `found` as further tracks.

    Raises
    ------
    TraceError
        The source was damaged (its copy would not open), or is the destination.
    OSError
        The destination cannot be written.
    """
    copy_with_events(trace, lambda: added_events(trace, found, config), destination, bounds=bounds)


def added_events(trace: Trace, found: Analysis, config: Config) -> Iterator[str]:
    """Steps, exposed communication and memory, idle by cause, memory, critical paths."""
    paths = [device.results["critical_path"] for device in found.devices]
    yield from path_events(trace, paths)
    pid = free_pid(trace) + 1
    yield _meta("process_name", pid, 0, name="gpuperf")
    yield _meta("process_sort_index", pid, 0, sort_index=-2)
    origin = trace.start_ns - max(whole(trace.metadata.get("baseTimeNanoseconds")), 0)
    tid = 0
    for device in found.devices:
        for title, slices in _tracks(trace, device, config):
            yield _meta("thread_name", pid, tid, name=f"{title}, {device.label}")
            yield _meta("thread_sort_index", pid, tid, sort_index=tid)
            yield from (_slice(pid, tid, origin, *slice_) for slice_ in slices)
            tid += 1
        yield from _memory(device, pid, origin)


Slice = tuple[str, int, int, dict[str, Any]]


def _tracks(
    trace: Trace, device: DeviceAnalysis, config: Config
) -> Iterator[tuple[str, Sequence[Slice]]]:
    """Title and slices of each track of `device` that has any."""
    steps: list[Slice] = [
        (s.name, s.start, s.end, {"step_time_us": s.step_time / 1e3}) for s in device.steps
    ]
    if steps:
        yield "steps", steps
    found = activity(trace, device.device, config)
    exposed = intervals.difference(found.comm, found.compute)
    if len(exposed):
        yield "exposed communication", _named("exposed communication", exposed)
    memory = intervals.difference(found.memory, intervals.join(found.comm, found.compute))
    if len(memory):
        yield "exposed memory", _named("exposed memory", memory)
    if device.device != "cpu":
        idle = idle_spans(trace, device.device, config)
        causes = [s for field, name in _IDLE.items() for s in _named(name, getattr(idle, field))]
        if causes:
            yield "idle by cause", sorted(causes, key=lambda s: s[1])


def _named(name: str, spans: Spans) -> list[Slice]:
    return [(name, begin, end, {}) for begin, end in spans.tolist()]


def _memory(device: DeviceAnalysis, pid: int, origin: int) -> Iterator[str]:
    """Allocated and reserved bytes as a counter; nothing where none were recorded."""
    result = device.results["memory"]
    if not result.events:
        return
    name = f"memory, {device.label}"
    columns = (result.time_us, result.allocated_bytes, result.reserved_bytes)
    for time_us, allocated, reserved in zip(*columns, strict=True):
        args = {"allocated since the recording began": allocated}
        if reserved >= 0:
            args["reserved"] = reserved
        at = _us(origin + int(np.rint(time_us * 1e3)))
        body = json.dumps({"ph": "C", "cat": CATEGORY, "name": name, "pid": pid, "args": args})
        yield f'{body[:-1]}, "ts": {at}}}'


def _meta(kind: str, pid: int, tid: int, /, **args: object) -> str:
    return json.dumps({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args})


def _slice(
    pid: int, tid: int, origin: int, name: str, begin: int, end: int, args: dict[str, Any]
) -> str:
    """One complete event; times in the file's own µs, digit by digit."""
    body = json.dumps(
        {"ph": "X", "cat": CATEGORY, "name": name, "pid": pid, "tid": tid, "args": args}
    )
    return f'{body[:-1]}, "ts": {_us(origin + begin)}, "dur": {_us(end - begin)}}}'


def _us(ns: int) -> str:
    """Whole nanoseconds as µs with three decimals, exactly."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"
