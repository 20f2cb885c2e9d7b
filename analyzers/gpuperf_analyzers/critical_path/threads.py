"""The host's threads: what ran at each moment, and where a thread waited for something else."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from gpuperf_analyzers import intervals
from gpuperf_analyzers.critical_path.kinds import Basis
from gpuperf_analyzers.critical_path.waits import Stop, cpu_waits, device_waits
from gpuperf_analyzers.critical_path.work import Work
from gpuperf_analyzers.trace.classify import names_mask, step_mask
from gpuperf_analyzers.trace.links import nest_rows
from gpuperf_analyzers.trace.model import I64, Bool, Category, Trace

_POLL = re.compile(r"(cuda|cu|hip)(Event|Stream)Query\w*")
FAR = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Leaves:
    """The innermost event of one thread at every moment: ``row[i]`` from ``at[i]`` on."""

    at: I64
    row: I64


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """What a thread without events may have waited for, by its end.

    ``source`` is a piece of work, or -1 for a span of the thread ``track``, which must have begun
    in that stretch too.
    """

    start: I64
    end: I64
    track: I64
    source: I64


_NOTHING = Leaves(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


class Threads:
    """Every thread of the host, by its track."""

    def __init__(self, trace: Trace, work: Work, *, on_cpu: bool) -> None:
        e = trace.events
        host = _host_rows(trace, work, Category.CPU_OP, Category.RUNTIME, Category.DRIVER)
        nest = nest_rows(trace, host)
        top = nest.depth == 0
        track = e.track[nest.rows[top]].astype(np.int64)
        start, end = nest.start[top], nest.end[top]
        polls = names_mask(trace, nest.rows[top], lambda name: _POLL.fullmatch(name) is not None)
        self._finished = _finished(start[~polls], end[~polls], track[~polls], work, on_cpu=on_cpu)
        self._spans = _finished(start, end, track, work, on_cpu=False)
        self._leaves = _leaves(trace, work)
        works = np.zeros(len(e) + 1, dtype=np.bool_)  # the last is for no event
        works[host[~_dispatches(trace, host, on_cpu=on_cpu)]] = True
        self._busy = {
            t: intervals.union(
                leaves.at[:-1], np.where(works[leaves.row[:-1]], leaves.at[1:], -FAR)
            )
            for t, leaves in self._leaves.items()
        }
        stops = cpu_waits(trace, work) if on_cpu else device_waits(trace, work)
        by_thread: defaultdict[int, list[Stop]] = defaultdict(list)
        for stop in (*stops, *_stops_of_gaps(self._finished, _gaps(self._busy))):
            by_thread[stop.on].append(stop)
        self._stops = {t: sorted(s, key=lambda stop: stop.time) for t, s in by_thread.items()}
        self._times = {t: [stop.time for stop in s] for t, s in self._stops.items()}

    def stop_before(self, track: int, at: int) -> Stop | None:
        """The last stop on the thread at or before a moment; None: the path stays on it."""
        inside = self._in_gap(track, at)
        if inside is not None:
            return inside
        index = bisect_right(self._times.get(track, []), at) - 1
        return self._stops[track][index] if index >= 0 else None

    def _in_gap(self, track: int, at: int) -> Stop | None:
        """The stop where the moment is in a stretch without events, and something ended in it."""
        busy = self._busy.get(track, intervals.empty())
        before = int(np.searchsorted(busy[:, 0], at, side="left")) - 1
        begin = int(busy[before, 1]) if before >= 0 else -FAR
        if begin >= at:
            return None
        found = _stops_of_gaps(self._finished, np.array([[track, begin, at]], dtype=np.int64))
        return found[0] if found else None

    def ended_last(self, by: int) -> int:
        """The thread whose outermost event ended last by a moment; -1 where none did."""
        index = int(np.searchsorted(self._spans.end, by, side="right")) - 1
        return int(self._spans.track[index]) if index >= 0 else -1

    def begins(self, track: int) -> int:
        """When the trace's first event on the thread begins; far where there is none."""
        leaves = self._leaves.get(track)
        return FAR if leaves is None else int(leaves.at[0])

    def between(self, track: int, start: int, end: int) -> tuple[I64, I64, I64]:
        """What ran on the thread from `start` to `end`: starts, ends and rows (-1: no event)."""
        leaves = self._leaves.get(track, _NOTHING)
        first = int(np.searchsorted(leaves.at, start, side="right"))
        after = int(np.searchsorted(leaves.at, end, side="left"))
        bounds = np.concatenate(([start], leaves.at[first:after], [end]))
        row = np.concatenate(([leaves.row[first - 1] if first else -1], leaves.row[first:after]))
        return bounds[:-1], bounds[1:], row


def _host_rows(trace: Trace, work: Work, *categories: Category) -> I64:
    """Host events of these categories, without step spans and what counts as work."""
    rows = trace.rows(*categories)
    return rows[~step_mask(trace)[rows] & ~np.isin(rows, work.row)]


def _dispatches(trace: Trace, rows: I64, *, on_cpu: bool) -> Bool:
    """Which host events may wait inside for a collective: ``c10d::`` ops of a CPU run."""
    return names_mask(trace, rows, lambda name: on_cpu and name.startswith("c10d::"))


def _finished(start: I64, end: I64, track: I64, work: Work, *, on_cpu: bool) -> Finished:
    """Outermost spans of threads, and on a CPU run the collectives, which may begin earlier."""
    nothing = np.full(len(start), -1, dtype=np.int64)
    columns = [start, end, track, nothing]
    if on_cpu:
        n = len(work)
        extra = [np.full(n, FAR), work.end, np.full(n, -1), np.arange(n)]
        columns = [np.concatenate(pair) for pair in zip(columns, extra, strict=True)]
    order = np.argsort(columns[1], kind="stable")
    return Finished(*(column[order] for column in columns))


def _gaps(busy: dict[int, intervals.Spans]) -> I64:
    """Stretches of each thread without events that one ends: (track, begin, end)."""
    gaps = [
        np.column_stack((np.full(len(union), track), np.append(-FAR, union[:-1, 1]), union[:, 0]))
        for track, union in busy.items()
        if len(union)
    ]
    return np.concatenate(gaps) if gaps else np.empty((0, 3), dtype=np.int64)


def _stops_of_gaps(finished: Finished, gaps: I64) -> list[Stop]:
    """A stop for each stretch in which something else was finished."""
    track, begin, end = gaps.T
    index = np.searchsorted(finished.end, end, side="right") - 1
    while True:
        at = np.maximum(index, 0)
        open_ = (index >= 0) & (len(finished.end) > 0)
        if len(finished.end):
            open_ &= finished.end[at] > begin
            fits = open_ & (finished.start[at] >= begin) & (finished.track[at] != track)
        else:
            fits = open_
        wrong = open_ & ~fits
        if not wrong.any():
            break
        index = np.where(wrong, index - 1, index)
    return [
        Stop(
            int(track[i]), int(end[i]), int(finished.end[k]), int(finished.source[k]),
            int(finished.track[k]), -1, Basis.THREAD,
        )
        for i, k in zip(np.flatnonzero(fits).tolist(), index[fits].tolist(), strict=True)
    ]  # fmt: skip


def _leaves(trace: Trace, work: Work) -> dict[int, Leaves]:
    """The innermost event of every thread at every moment, annotations included."""
    e = trace.events
    rows = _host_rows(
        trace, work, Category.CPU_OP, Category.RUNTIME, Category.DRIVER, Category.USER_ANNOTATION
    )
    nest = nest_rows(trace, rows)
    track = e.track[nest.rows]
    found = {}
    for t in np.unique(track).tolist():
        here = track == t
        at = np.unique(np.concatenate((nest.start[here], nest.end[here])))
        inner = nest.innermost(np.full(len(at), t), at)
        found[t] = Leaves(at, np.where(inner >= 0, nest.rows[np.maximum(inner, 0)], -1))
    return found
