"""The steps of a trace: host spans, and each step's window on a device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.trace.classify import Device, step_mask
from gpuperf_analyzers.trace.links import launches
from gpuperf_analyzers.trace.model import I64, Category, Trace
from gpuperf_analyzers.trace.selection import Activity, activity


@dataclass(frozen=True, slots=True)
class Step:
    """One step.

    ``host_start`` and ``host_end`` bound its ``ProfilerStep#N`` span. ``start`` and ``end`` bound
    its window on the device: from the first activity launched in it to the first launched in the
    next; the last one's ends at the later of its host end and its last activity's end. Times are
    ns from the trace's start. ``launched`` counts the activities launched in it, ``by_time``
    those of its window that have no launch record and are counted to it by time.
    """

    name: str
    number: int
    host_start: int
    host_end: int
    start: int
    end: int
    launched: int
    by_time: int

    @property
    def step_time(self) -> int:
        """Length of the device window, ns."""
        return self.end - self.start


def steps(trace: Trace, device: Device, config: Config) -> tuple[Step, ...]:
    """Every step that the trace shows, in time order; empty where it is not annotated."""
    key = f"steps:{device}"
    cached = trace.memo.get(key)
    if cached is None or cached[0] != config.comm_classifiers:
        found_on = activity(trace, device, config)
        made = _steps(trace, found_on) if trace.span is None else span_steps(trace, found_on)
        cached = (config.comm_classifiers, made)
        trace.memo[key] = cached
    found: tuple[Step, ...] = cached[1]
    return found


def host_steps(trace: Trace) -> I64:
    """Rows of the host-side step spans, in time order, one for each name."""
    e = trace.events
    host = (e.cat == Category.USER_ANNOTATION) | (e.cat == Category.CPU_OP)
    rows = np.flatnonzero(host & step_mask(trace))
    # Other threads and processes may carry the same span: the first one begun stands for it.
    _, first = np.unique(e.name[rows], return_index=True)
    return np.sort(rows[first])


def launch_times(trace: Trace, found: Activity) -> I64:
    """When each activity of `found.rows` was launched, ns; -1 where that is not recorded.

    On the CPU an op is its own launch.
    """
    e = trace.events
    if found.device == "cpu":
        return e.ts[found.rows]
    launch = launches(trace)[found.rows]
    return np.where(launch >= 0, e.ts[launch], -1)


def step_of(trace: Trace, device: Device, config: Config) -> I64:
    """Index of the step that each activity belongs to, in the order of ``activity().rows``.

    By its launch call where there is one, else by its start; -1 outside of all steps.
    """
    found = activity(trace, device, config)
    every = steps(trace, device, config)
    if not every:
        return np.full(len(found.rows), -1, dtype=np.int64)
    launched = launch_times(trace, found)
    index = _within(launched, [s.host_start for s in every], [s.host_end for s in every])
    if trace.span is not None:
        return index  # what has no launch record belongs to no span by its time alone
    by_time = _within(trace.events.ts[found.rows], [s.start for s in every], [s.end for s in every])
    return np.where(launched >= 0, index, by_time)


def _within(at: I64, start: list[int], end: list[int]) -> I64:
    """Which of the ordered intervals each time is in; -1 where in none."""
    index = np.searchsorted(np.array(start), at, side="right") - 1
    inside = (index >= 0) & (at < np.array(end)[np.maximum(index, 0)])
    return np.where(inside, index, -1)


def _steps(trace: Trace, found: Activity) -> tuple[Step, ...]:
    e = trace.events
    hosts = host_steps(trace)
    if not len(hosts):
        return ()
    host_start = e.ts[hosts]
    # Nested or overlapping spans cannot both be steps: each ends where the next begins at latest.
    host_end = np.minimum(
        host_start + e.dur[hosts], np.append(host_start[1:], np.iinfo(np.int64).max)
    )
    begin, end = e.ts[found.rows], e.ts[found.rows] + e.dur[found.rows]
    launched = launch_times(trace, found)
    of = _within(launched, host_start.tolist(), host_end.tolist())
    of = np.where(launched >= 0, of, -1)
    far = np.iinfo(np.int64).max
    start = np.full(len(hosts), far)
    np.minimum.at(start, of[of >= 0], begin[of >= 0])
    counts = np.bincount(of[of >= 0], minlength=len(hosts))
    last_end = np.full(len(hosts), -far)
    np.maximum.at(last_end, of[of >= 0], end[of >= 0])
    bare = launched < 0
    start = _starts_without_launch(start, host_start, begin[bare], last_end)
    stop = np.append(start[1:], _last_stop(host_start, host_end, of, begin, end, bare))
    stop = np.maximum(stop, start)
    index = _within(begin[bare], start.tolist(), stop.tolist())
    by_time = np.bincount(index[index >= 0], minlength=len(hosts))
    return tuple(
        Step(
            trace.name_of(row), int(trace.name_of(row).partition("#")[2]), int(host_start[i]),
            int(host_end[i]), int(start[i]), int(stop[i]), int(counts[i]), int(by_time[i]),
        )
        for i, row in enumerate(hosts.tolist())
    )  # fmt: skip


def span_rows(trace: Trace, name: str) -> I64:
    """Rows of the host spans called `name`, in time order.

    A name that ends in ``*`` and is nobody's stands for all that begin so: inference servers write
    the batch into the annotation of each step. One that begins before an earlier one has ended is
    part of it, on whatever thread.
    """
    e = trace.events
    host = (e.cat == Category.USER_ANNOTATION) | (e.cat == Category.CPU_OP)
    rows = np.flatnonzero(host & trace.names_matching([name]))
    if not len(rows) and name.endswith("*"):
        alike = [s for s in trace.strings if s.startswith(name[:-1])]
        rows = np.flatnonzero(host & trace.names_matching(alike))
    if not len(rows):
        return rows
    rows = rows[np.lexsort((-e.dur[rows], e.ts[rows]))]
    ended = np.maximum.accumulate(e.ts[rows] + e.dur[rows])
    kept: I64 = rows[np.append(True, e.ts[rows][1:] >= ended[:-1])]
    return kept


def span_steps(trace: Trace, found: Activity) -> tuple[Step, ...]:
    """The spans ``trace.span`` in place of steps, numbered from 1.

    On a GPU the window of one runs from the start of the first activity launched in it to the end
    of the last one; it has no length where nothing was launched. On the CPU it is the span.
    """
    e = trace.events
    rows = span_rows(trace, trace.span or "")
    host_start, host_end = e.ts[rows], e.ts[rows] + e.dur[rows]
    launched = launch_times(trace, found)
    of = _within(launched, host_start.tolist(), host_end.tolist()) if len(rows) else launched
    of = np.where(launched >= 0, of, -1)
    start, end = host_start.copy(), host_end.copy()
    counts = np.bincount(of[of >= 0], minlength=len(rows))
    if found.device != "cpu":
        far = np.iinfo(np.int64).max
        begin = np.full(len(rows), far)
        end = np.full(len(rows), -far)
        inside = found.rows[of >= 0]
        np.minimum.at(begin, of[of >= 0], e.ts[inside])
        np.maximum.at(end, of[of >= 0], e.ts[inside] + e.dur[inside])
        start = np.where(counts > 0, begin, host_start)
        end = np.where(counts > 0, end, host_start)
    return tuple(
        Step(
            f"{trace.span}#{i + 1}", i + 1, int(host_start[i]), int(host_end[i]), int(start[i]),
            int(end[i]), int(counts[i]), 0,
        )
        for i in range(len(rows))
    )  # fmt: skip


def _starts_without_launch(start: I64, host_start: I64, bare: I64, last_end: I64) -> I64:
    """Starts of all windows: steps that launched nothing begin by time, and none runs backwards.

    Such a step begins with the first unlinked activity after its host start, where that comes
    before the next step's; else at its host start or the end of what came before.
    """
    start = start.copy()
    bare = np.sort(bare)
    far = np.iinfo(np.int64).max
    reached = np.maximum.accumulate(last_end)
    for i in np.flatnonzero(start == far):
        after = int(host_start[i + 1]) if i + 1 < len(start) else far
        k = int(np.searchsorted(bare, host_start[i]))
        if k < len(bare) and bare[k] < after:
            start[i] = bare[k]
        else:
            start[i] = max(int(host_start[i]), int(reached[i - 1]) if i else 0)
    return np.maximum.accumulate(start)


def _last_stop(
    host_start: I64,
    host_end: I64,
    of: I64,
    begin: I64,
    end: I64,
    bare: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> int:
    """The last window's end: the later of its host end and its last activity's end."""
    mine = (of == len(host_start) - 1) | (bare & (begin >= host_start[-1]) & (begin < host_end[-1]))
    return max(int(host_end[-1]), int(end[mine].max()) if mine.any() else 0)
