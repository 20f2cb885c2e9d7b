"""Why a device was idle: each gap split by when its next activity was launched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuperf_analyzers import intervals
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.intervals import Spans
from gpuperf_analyzers.trace.calls import calls as runtime_calls
from gpuperf_analyzers.trace.classify import step_mask
from gpuperf_analyzers.trace.links import nest_rows
from gpuperf_analyzers.trace.model import I64, Bool, Category, Trace
from gpuperf_analyzers.trace.selection import Activity, activity
from gpuperf_analyzers.trace.steps import launch_times, steps

_FAR = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class IdleSpans:
    """The idle time of one GPU as four disjoint sets whose union is all of it.

    In time order within a gap: ``host_bound`` until the launch call of the next activity begins,
    ``launch_latency`` from there to the activity's start; ``dependency`` where it was launched
    before the gap began; ``unknown`` where it has no launch record.
    """

    host_bound: Spans
    launch_latency: Spans
    dependency: Spans
    unknown: Spans


@dataclass(frozen=True, slots=True)
class Gap:
    """One stretch of idle time, ns, and what the host did in it.

    ``kind`` is the largest of the four parts. ``next_activity`` is what ended it ("" where
    nothing did). ``cpu_ops`` are the outermost CPU ops, and annotations where no op runs inside
    them, and ``calls`` the runtime calls that ran during it, longest first, with their time
    inside it in ns.
    """

    start: int
    end: int
    host_bound: int
    launch_latency: int
    dependency: int
    unknown: int
    kind: str
    next_activity: str
    cpu_ops: tuple[tuple[str, int], ...]
    calls: tuple[tuple[str, int], ...]

    @property
    def duration(self) -> int:
        """Length, ns."""
        return self.end - self.start


def idle_spans(trace: Trace, device: int, config: Config) -> IdleSpans:
    """The idle time of `device` in the window and in the steps, by cause.

    Idle at the end of the last step, with nothing to follow, is the host's: it launched nothing.
    In a trace without any launch record it is unknown like the rest.
    """
    key = f"idle_spans:{device}"
    cached = trace.memo.get(key)
    if cached is None or cached[0] != config.comm_classifiers:
        spans = _by_cause(trace, device, config)
        cached = trace.memo[key] = (config.comm_classifiers, spans)
    found: IdleSpans = cached[1]
    return found


def _by_cause(trace: Trace, device: int, config: Config) -> IdleSpans:
    found = activity(trace, device, config)
    gaps = idle_gaps(trace, device, config)
    start, end = gaps[:, 0], gaps[:, 1]
    launch = _next_launch(trace, found, end)
    linked = launch != _FAR
    unknown = ~linked & ((launch_times(trace, found) < 0).all() | _followed(trace, found, end))
    before = linked & (launch < start)
    host = ~unknown & ~before
    turn = np.clip(launch, start, end)
    return IdleSpans(
        intervals.union(start[host], turn[host]),
        intervals.union(turn[host], end[host]),
        gaps[before],
        gaps[unknown],
    )


def idle_gaps(trace: Trace, device: int, config: Config) -> Spans:
    """Every stretch without activity between the window's and the steps' outer ends."""
    found = activity(trace, device, config)
    every = steps(trace, device, config)
    lo = min([found.start, *(s.start for s in every)])
    hi = max([found.end, *(s.end for s in every)])
    return intervals.difference(intervals.span(lo, hi), found.busy)


def longest_gaps(
    trace: Trace, device: int, config: Config, *, top: int = 10, shown: int = 5
) -> tuple[Gap, ...]:
    """The `top` longest gaps, longest first, with up to `shown` ops and calls of each."""
    gaps = idle_gaps(trace, device, config)
    order = np.argsort(gaps[:, 0] - gaps[:, 1], kind="stable")[:top]
    parts = idle_spans(trace, device, config)
    found = activity(trace, device, config)
    begin = trace.events.ts[found.rows]
    ops = host_work(trace)
    calls = runtime_calls(trace)
    result = []
    for start, end in gaps[order].tolist():
        size = {
            "host_bound": intervals.measure(intervals.clip(parts.host_bound, start, end)),
            "launch_latency": intervals.measure(intervals.clip(parts.launch_latency, start, end)),
            "dependency": intervals.measure(intervals.clip(parts.dependency, start, end)),
            "unknown": intervals.measure(intervals.clip(parts.unknown, start, end)),
        }
        index = int(np.searchsorted(begin, end, side="left"))
        followed = index < len(begin) and int(begin[index]) == end
        result.append(
            Gap(
                start, end, **size, kind=max(size, key=lambda k: size[k]),
                next_activity=trace.name_of(int(found.rows[index])) if followed else "",
                cpu_ops=ran_during(trace, ops, start, end, shown),
                calls=ran_during(trace, calls, start, end, shown),
            )
        )  # fmt: skip
    return tuple(result)


def _next_launch(trace: Trace, found: Activity, end: I64) -> I64:
    """Earliest recorded launch of the activities that start where each gap ends; far: none."""
    e = trace.events
    real = e.dur[found.rows] > 0  # an empty activity ends no gap
    begin = e.ts[found.rows][real]
    launched = launch_times(trace, found)[real]
    launched = np.append(np.where(launched < 0, _FAR, launched), _FAR)
    first = np.searchsorted(begin, end, side="left")
    after = np.searchsorted(begin, end, side="right")
    result = launched[first]
    result[after == first] = _FAR
    for i in np.flatnonzero(after - first > 1):
        result[i] = launched[first[i] : after[i]].min()
    return result


def _followed(trace: Trace, found: Activity, end: I64) -> Bool:
    """Whether an activity starts where each gap ends."""
    begin = trace.events.ts[found.rows]
    index = np.minimum(np.searchsorted(begin, end, side="left"), len(begin) - 1)
    starts: Bool = begin[index] == end
    return starts


def host_work(trace: Trace) -> I64:
    """Rows of the CPU ops and annotations that say what the host did; step spans are not among."""
    rows = trace.rows(Category.CPU_OP, Category.USER_ANNOTATION)
    return rows[~step_mask(trace)[rows]]


def ran_during(
    trace: Trace, rows: I64, start: int, end: int, shown: int
) -> tuple[tuple[str, int], ...]:
    """What filled [start, end) on the host, by name: time inside it in ns, longest first.

    The outermost CPU ops (or calls) with all of their time, and annotations with the part that
    no op or annotation inside them takes.
    """
    e = trace.events
    upto = rows[: int(np.searchsorted(e.ts[rows], end, side="left"))]
    nest = nest_rows(trace, upto[e.ts[upto] + e.dur[upto] > start])
    time = np.minimum(nest.end, end) - np.maximum(nest.start, start)
    own = time.copy()
    nested = nest.parent >= 0
    np.subtract.at(own, nest.parent[nested], time[nested])
    annotation = e.cat[nest.rows] == Category.USER_ANNOTATION
    ops = nest_rows(trace, np.sort(nest.rows[~annotation]))
    outermost = np.isin(nest.rows, ops.rows[ops.depth == 0])
    time = np.where(annotation, np.maximum(own, 0), np.where(outermost, time, 0))
    names, which = np.unique(e.name[nest.rows], return_inverse=True)
    total = np.bincount(which, weights=time, minlength=len(names)).astype(np.int64)
    order = np.argsort(-total, kind="stable")[:shown]
    return tuple((trace.strings[names[i]], int(total[i])) for i in order if total[i] > 0)
