"""Trace quality: what the columns say about whether their numbers can be trusted.

Each check is a function of the trace that yields findings. A finding says what was seen, how
often, one example, and which metrics must not be judged because of it. What the reader saw
while reading comes first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.trace.calls import launch_calls
from gpuperf_analyzers.trace.classify import devices
from gpuperf_analyzers.trace.damage import FROM_EVENTS
from gpuperf_analyzers.trace.links import launches
from gpuperf_analyzers.trace.model import GPU_ACTIVITY, I64, Category, Finding, Trace
from gpuperf_analyzers.trace.steps import host_steps, steps

LIVE_SAMPLED = frozenset(
    {
        "step_time",
        "step_time_p99",
        "throughput",
        "tflops",
        "mfu",
        "hfu",
        "mamf_share",
        "peak_memory",
    }
)
"""Metrics that a live run takes with the profiler off: its trace's damage does not touch them."""

_IDLE_CAUSES = frozenset({"idle_host_bound", "idle_launch_latency", "idle_dependency"})
_WINDOW = frozenset({"window", "busy", "idle", "idle_time", "step_time", "step_time_p99"})
_HOST_PACED = _WINDOW | LIVE_SAMPLED - {"peak_memory"} | {"idle_host_bound"}
_LOSS = re.compile(
    r"(?:dropped|lost)\s+\d*\s*\w*\s*(?:record|activit|buffer|event)"
    r"|max(?:imum)? gpu buffer|buffer (?:size|count)[^.]*exceed|exceed[^.]*buffer"
    r"|CUPTI stopped early\? = [1-9]",
    re.IGNORECASE,
)
_LOG_KEYS = ("WARNING", "ERROR", "INFO")


def assess(trace: Trace, config: Config) -> tuple[Finding, ...]:
    """Everything seen of the trustworthiness of `trace`: the reader's findings, then these.

    A trace of a live run (it has a block ``gpuperf``) keeps the metrics that were sampled with
    the profiler off.
    """
    found = list(trace.findings)
    for check in _CHECKS:
        found += check(trace)
    for device in devices(trace):
        if device != "cpu":
            found += _steps_without_activity(trace, config, device)
    if "gpuperf" in trace.metadata:
        found = [_sparing(f, LIVE_SAMPLED) for f in found]
    return tuple(found)


def _sparing(finding: Finding, metrics: frozenset[str]) -> Finding:
    if not finding.invalidates & metrics:
        return finding
    return Finding(
        finding.code,
        finding.message,
        finding.count,
        finding.example,
        finding.invalidates - metrics,
        finding.at,
    )


def _activity_without_launch(trace: Trace) -> Iterator[Finding]:
    """GPU activity whose launch call is not in the file: told, since it is placed by time."""
    rows = trace.rows(*GPU_ACTIVITY)
    bare = rows[launches(trace)[rows] < 0]
    if len(bare):
        yield Finding(
            "kernel-without-launch",
            f"{len(bare)} of {len(rows)} GPU activities have no launch record: "
            "assigned to steps by time, and their idle gaps are of unknown cause",
            len(bare),
            example=trace.name_of(bare[0]),
            invalidates=_IDLE_CAUSES if len(bare) == len(rows) else frozenset(),
        )


def _launches_without_kernel(trace: Trace) -> Iterator[Finding]:
    """Launch calls that nothing on a GPU answers to: kernels that the profiler lost."""
    e = trace.events
    gpu = trace.rows(*GPU_ACTIVITY)
    if not len(gpu):
        return  # no activity at all is told as such
    calls = launch_calls(trace)
    calls = calls[e.correlation[calls] > 0]
    lost = calls[~np.isin(e.correlation[calls], e.correlation[gpu])]
    lost = lost[~_captured(trace, lost)]
    if len(lost):
        yield Finding(
            "launch-without-kernel",
            f"{len(lost)} of {len(calls)} launch calls have no kernel: the profiler lost them",
            len(lost),
            example=f"{trace.name_of(lost[0])}, correlation {e.correlation[lost[0]]}",
            invalidates=FROM_EVENTS,
        )


def _captured(trace: Trace, rows: I64) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which calls were recorded into a graph instead of run: between begin and end of capture."""
    e = trace.events
    inside = np.zeros(len(rows), dtype=np.bool_)
    every = trace.rows(Category.RUNTIME, Category.DRIVER)
    marks = {
        part: every[_named(trace, every, re.compile(rf"(cuda|cu|hip)Stream{part}Capture\w*"))]
        for part in ("Begin", "End")
    }
    for begin in marks["Begin"].tolist():
        ends = marks["End"][
            (e.track[marks["End"]] == e.track[begin]) & (e.ts[marks["End"]] >= e.ts[begin])
        ]
        until = e.ts[ends[0]] if len(ends) else np.iinfo(np.int64).max
        inside |= (e.track[rows] == e.track[begin]) & (e.ts[rows] >= e.ts[begin])
        inside &= (e.ts[rows] <= until) | (e.track[rows] != e.track[begin])
    return inside


def _named(
    trace: Trace, rows: I64, pattern: re.Pattern[str]
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    names = {i for i in np.unique(trace.events.name[rows]).tolist() if i >= 0}
    wanted = [i for i in names if pattern.fullmatch(trace.strings[i])]
    return np.isin(trace.events.name[rows], np.array(wanted, dtype=np.int32))


def _started_before_launch(trace: Trace) -> Iterator[Finding]:
    """GPU activity that begins before the call that launches it: the clocks do not agree."""
    e = trace.events
    rows = trace.rows(*GPU_ACTIVITY)
    launch = launches(trace)[rows]
    early = rows[(launch >= 0) & (e.ts[rows] < e.ts[np.maximum(launch, 0)])]
    if len(early):
        worst = int((e.ts[launches(trace)[early]] - e.ts[early]).max())
        yield Finding(
            "started-before-launch",
            f"{len(early)} GPU activities begin up to {worst / 1000:g} µs before their launch "
            "call: host and device clocks do not agree",
            len(early),
            example=trace.name_of(early[0]),
            invalidates=_IDLE_CAUSES,
        )


def _steps_without_activity(trace: Trace, config: Config, device: int) -> Iterator[Finding]:
    """Steps that show nothing on a device which is active elsewhere in the trace."""
    every = steps(trace, device, config)
    empty = [s for s in every if s.launched == 0 and s.by_time == 0]
    if empty:
        yield Finding(
            "step-without-gpu-events",
            f"{len(empty)} of {len(every)} steps have no GPU activity: {empty[0].name} is one",
            len(empty),
            example=empty[0].name,
            invalidates=frozenset(n for n, m in config.metrics.items() if m.scope == "step"),
            at=f"device {device}",
        )


def _overruns(trace: Trace) -> Iterator[Finding]:
    """Activity that overlaps the next on its own stream: durations do not add up to time."""
    e = trace.events
    rows = trace.rows(*GPU_ACTIVITY)
    rows = rows[np.lexsort((np.arange(len(rows)), e.stream[rows], e.device[rows]))]
    if len(rows) < 2:
        return
    same = (e.stream[rows][1:] == e.stream[rows][:-1]) & (e.device[rows][1:] == e.device[rows][:-1])
    over = same & (e.ts[rows][1:] < (e.ts + e.dur)[rows][:-1])
    at = np.flatnonzero(over)
    if len(at):
        yield Finding(
            "stream-overrun",
            f"{len(at)} activities run into the next on their stream (dependent launch, graphs): "
            "times are unions, not sums",
            len(at),
            example=trace.name_of(rows[at[0]]),
        )


def _outside_session(trace: Trace) -> Iterator[Finding]:
    """Events that begin after the profiler's session ended or end before it began."""
    e = trace.events
    spans = trace.rows(Category.SPAN)
    if not len(spans):
        return
    begin, end = int(e.ts[spans].min()), int((e.ts + e.dur)[spans].max())
    if end <= begin:
        return
    outside = np.flatnonzero(((e.ts > end) | (e.ts + e.dur < begin)) & (e.cat != Category.SPAN))
    if len(outside):
        gpu = np.isin(e.cat[outside], np.array(GPU_ACTIVITY, dtype=np.int8))
        yield Finding(
            "outside-session",
            f"{len(outside)} events lie outside of the profiler's session, "
            f"{int(gpu.sum())} of them GPU activity",
            len(outside),
            example=trace.name_of(outside[0]) if e.name[outside[0]] >= 0 else "",
            invalidates=_WINDOW if gpu.any() else frozenset(),
        )


def _buffer_loss(trace: Trace) -> Iterator[Finding]:
    """The profiler's own log, kept in the metadata, says that records were lost."""
    lines = [line for key in _LOG_KEYS for line in _lines(trace.metadata, key)]
    losses = [line for line in lines if _LOSS.search(line)]
    if losses:
        yield Finding(
            "buffer-loss",
            f"the profiler lost records: {losses[0][-160:].strip()}",
            len(losses),
            example=losses[0],
            invalidates=FROM_EVENTS,
        )


def _lines(metadata: Mapping[str, Any], key: str) -> list[str]:
    value = metadata.get(key)
    lines = value if isinstance(value, list) else [value]
    return [line for line in lines if isinstance(line, str)]


def _several(trace: Trace) -> Iterator[Finding]:
    """More than one device, or more than one process, in one file."""
    e = trace.events
    active = [d for d in devices(trace) if d != "cpu"]
    if len(active) > 1:
        yield Finding(
            "several-devices",
            f"{len(active)} devices in one file: each is analyzed on its own",
            len(active),
            example=", ".join(f"device {d}" for d in active[:4]),
        )
    tracks = np.unique(e.track[e.cat == Category.CPU_OP]).tolist()
    processes = sorted({str(trace.tracks[t][0]) for t in tracks})
    if len(processes) > 1:
        yield Finding(
            "several-processes",
            f"{len(processes)} processes in one file: correlation ids of one may be another's",
            len(processes),
            example=f"pid {processes[0]} and pid {processes[1]}",
            invalidates=_IDLE_CAUSES,
        )


def _stacks(trace: Trace) -> Iterator[Finding]:
    """Python stacks were recorded: that takes longer than many ops and stretches the steps."""
    frames = trace.rows(Category.PYTHON_FUNCTION)
    if len(frames):
        yield Finding(
            "stack-recording",
            f"Python stacks were recorded ({len(frames)} frames), which slows the host: "
            "record without with_stack to judge times of steps",
            len(frames),
            example=trace.name_of(frames[0]) if trace.events.name[frames[0]] >= 0 else "",
            invalidates=_HOST_PACED,
        )


def _steps_overlapping(trace: Trace) -> Iterator[Finding]:
    """Step spans that overlap: each is cut where the next begins."""
    e = trace.events
    rows = host_steps(trace)
    over = np.flatnonzero((e.ts + e.dur)[rows][:-1] > e.ts[rows][1:])
    if len(over):
        yield Finding(
            "overlapping-steps",
            f"{len(over)} steps overlap the next: each is taken to end where the next begins",
            len(over),
            example=trace.name_of(rows[over[0]]),
        )


_CHECKS: tuple[Callable[[Trace], Iterator[Finding]], ...] = (
    _activity_without_launch,
    _launches_without_kernel,
    _started_before_launch,
    _overruns,
    _outside_session,
    _buffer_loss,
    _several,
    _stacks,
    _steps_overlapping,
)
