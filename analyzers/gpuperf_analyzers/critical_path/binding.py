"""What each piece of work waited for last: its stream, its launch, or an event of another stream.

Of everything that had to come first, what came last decided when the work could start. Where the
trace does not say what had to come first, the assumption made is named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from gpuperf_analyzers.critical_path.kinds import Basis
from gpuperf_analyzers.critical_path.work import Work
from gpuperf_analyzers.trace.calls import call_rows, calls
from gpuperf_analyzers.trace.model import I64, Bool, Trace

SETTLE_NS = 20_000
"""Start-up of a kernel that is ready: a longer delay is taken to be a wait for something."""

LAUNCH_NS = 100_000
"""The longest that a launch takes, from its call's end to the start on the device."""

_WAIT_EVENT = re.compile(r"(cuda|cu|hip)StreamWaitEvent\w*")


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """For each piece of work, what decided its start.

    ``basis`` is a :class:`~gpuperf_analyzers.critical_path.kinds.Basis`; ``source`` the piece of
    work it came from, -1 for the host or nothing; ``left`` when the path leaves that, and
    ``ready`` when the work could have started for all of it, neither after the start.
    """

    basis: I64
    source: I64
    left: I64
    ready: I64


def bindings(trace: Trace, work: Work) -> Binding:
    """What each piece of `work` waited for last."""
    found = _Latest(work)
    launched = np.flatnonzero(work.launch >= 0)
    call = work.launch[launched]
    found.offer(launched, np.full(len(launched), -1), call, Basis.LAUNCH, takes=launch_takes(work))
    _offer_streams(work, found)
    recorded = wait_events(trace)
    if len(recorded.at):
        _offer_events(work, found, recorded)
    _offer_assumed(work, found, wait_calls(trace), recorded=len(recorded.at) > 0)
    return Binding(found.basis, found.source, found.left, found.ready)


def launch_takes(work: Work) -> int:
    """What a launch takes at least, ns: from the call's begin to a start that awaits nothing else.

    The tenth percentile over work that was launched when its stream had nothing left to do; 0
    where there is none. Work that was launched less than this before its predecessor ended would
    not have started sooner without it.
    """
    begin = np.zeros(len(work), dtype=np.int64)
    same = np.flatnonzero(work.lane[1:] == work.lane[:-1]) + 1
    begin[same] = work.end[same - 1]
    free = (work.launch >= 0) & (work.launch >= begin) & (work.launch_row >= 0)
    taken = np.sort(np.maximum(work.start - work.launch, 0)[free])
    return min(int(taken[(len(taken) - 1) // 10]), SETTLE_NS) if len(taken) else 0


class _Latest:
    """The latest of the things offered to each piece of work; of equal times the last offered."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.basis = np.full(len(work), int(Basis.NONE), dtype=np.int64)
        self.source = np.full(len(work), -1, dtype=np.int64)
        self.left = np.full(len(work), np.iinfo(np.int64).min, dtype=np.int64)
        self.ready = self.left.copy()

    def offer(self, to: I64, source: I64, at: I64, basis: Basis, *, takes: int = 0) -> None:
        ready = np.minimum(at + takes, self.work.start[to])
        better = ready >= self.ready[to]
        to, source = to[better], source[better]
        self.basis[to], self.source[to] = int(basis), source
        self.left[to] = np.minimum(at[better], self.work.start[to])
        self.ready[to] = ready[better]

    def late(self) -> I64:
        """How long after what decided it each piece started; far where nothing did."""
        known = self.basis != int(Basis.NONE)
        late: I64 = np.where(known, self.work.start - np.where(known, self.ready, 0), 2**62)
        return late


def _offer_streams(work: Work, found: _Latest) -> None:
    """Work of one stream runs in order."""
    later = np.flatnonzero(work.lane[1:] == work.lane[:-1]) + 1
    runs_on = work.end[later - 1] > work.start[later]
    for mask, basis in ((~runs_on, Basis.STREAM), (runs_on, Basis.OVERLAP)):
        to = later[mask]
        found.offer(to, to - 1, work.end[to - 1], basis)


@dataclass(frozen=True, slots=True, eq=False)
class WaitEvents:
    """Waits of a stream for an event, as ``cuda_sync`` recorded them.

    ``at`` is when the host asked for the wait, ``recorded`` when it had the event recorded (the
    wait itself where that call is not in the trace).
    """

    at: I64
    device: I64
    stream: I64
    wait_stream: I64
    recorded: I64


def wait_events(trace: Trace) -> WaitEvents:
    """Every ``Stream Wait Event`` of which the trace names the stream waited for."""
    e, args = trace.events, trace.sync_args
    is_wait = trace.names_matching(["Stream Wait Event"])[args.row] & (args.wait_stream >= 0)
    rows = args.row[is_wait]
    call = call_of(trace, e.correlation[rows])
    at = np.where(call >= 0, e.ts[call], e.ts[rows])
    record = call_of(trace, args.wait_record[is_wait])
    return WaitEvents(
        at,
        e.device[rows].astype(np.int64),
        e.stream[rows],
        args.wait_stream[is_wait],
        np.where(record >= 0, e.ts[record], at),
    )


def call_of(trace: Trace, correlation: I64) -> I64:
    """Row of the runtime or driver call of each correlation id; -1 where there is none."""
    rows = calls(trace)
    rows = rows[trace.events.correlation[rows] > 0]
    if not len(rows):
        return np.full(len(correlation), -1, dtype=np.int64)
    rows = rows[np.argsort(trace.events.correlation[rows], kind="stable")]
    ids = trace.events.correlation[rows]
    index = np.minimum(np.searchsorted(ids, correlation), len(ids) - 1)
    return np.where((ids[index] == correlation) & (correlation > 0), rows[index], -1)


def _offer_events(work: Work, found: _Latest, waits: WaitEvents) -> None:
    """The first work on the waiting stream after a wait needs the last before the record."""
    lanes: dict[tuple[int, int], tuple[int, I64]] = {}
    for k in range(len(work.lane_start) - 1):
        first, after = int(work.lane_start[k]), int(work.lane_start[k + 1])
        asked = np.maximum.accumulate(work.launch[first:after])
        lanes[int(work.device[first]), int(work.stream[first])] = (first, asked)
    to, source = [], []
    table = np.column_stack(
        (waits.at, waits.device, waits.stream, waits.wait_stream, waits.recorded)
    )
    for at, device, stream, wait_stream, recorded in table.tolist():
        here, there = lanes.get((device, stream)), lanes.get((device, wait_stream))
        if here is None or there is None:
            continue
        after = int(np.searchsorted(here[1], at, side="right"))
        before = int(np.searchsorted(there[1], recorded, side="right")) - 1
        if after < len(here[1]) and before >= 0:
            to.append(here[0] + after)
            source.append(there[0] + before)
    targets, sources = np.array(to, dtype=np.int64), np.array(source, dtype=np.int64)
    # Several waits before one piece of work: offered by their ends, the latest stays.
    order = np.argsort(work.end[sources], kind="stable")
    targets, sources = targets[order], sources[order]
    for one in _rounds(targets):
        found.offer(targets[one], sources[one], work.end[sources[one]], Basis.EVENT)


def _rounds(targets: I64) -> list[I64]:
    """Indices in rounds without a repeated target, keeping each target's own order."""
    order = np.argsort(targets, kind="stable")
    ordered = targets[order]
    first = np.searchsorted(ordered, ordered, side="left")
    turn = np.arange(len(ordered)) - first
    return [order[turn == k] for k in range(int(turn.max()) + 1)] if len(turn) else []


def wait_calls(trace: Trace) -> I64:
    """When the host called ``cudaStreamWaitEvent``, ns, in time order."""
    rows = call_rows(trace, lambda name: _WAIT_EVENT.fullmatch(name) is not None)
    return trace.events.ts[rows]


def _told_to_wait(work: Work, waits: I64) -> Bool:
    """Whether some stream was told to wait between the launch of each and of its predecessor."""
    previous = np.full(len(work), -1, dtype=np.int64)
    same = np.flatnonzero(work.lane[1:] == work.lane[:-1]) + 1
    previous[same] = work.launch[same - 1]
    told = np.searchsorted(waits, work.launch) > np.searchsorted(waits, previous)
    result: Bool = told & (work.launch >= 0)
    return result


def _offer_assumed(work: Work, found: _Latest, waits: I64, *, recorded: bool) -> None:
    """What ended last on another stream, for work that was told to wait, or that starts late.

    With recorded events nobody else was told to wait. What still starts late waited for room.
    """
    shared = _shares_launch(work)
    never = np.zeros(len(work), dtype=np.bool_)
    told = never if recorded else _told_to_wait(work, waits) & ~shared
    by_time = Basis.SHARED if recorded or len(waits) else Basis.BY_TIME
    asked = np.where(work.launch < 0, np.iinfo(np.int64).max, work.launch)
    asked = np.where(told, _last_before(waits, work.launch), asked)
    for mask, basis, least in (
        (told, Basis.WAIT_CALL, 0),
        (shared, Basis.GRAPH, 0),
        (~never, by_time, SETTLE_NS),
    ):
        to = np.flatnonzero(mask & (found.late() > least))
        source = _ended_last(work, to, asked[to])
        kept = (source >= 0) & (work.end[source] > found.ready[to])
        found.offer(to[kept], source[kept], work.end[source[kept]], basis)
    _offer_running(work, found)


def _last_before(waits: I64, at: I64) -> I64:
    """The last of the sorted times before each of `at`; -1 where none."""
    index = np.searchsorted(waits, at) - 1
    return np.where(index >= 0, waits[np.maximum(index, 0)], -1) if len(waits) else at * 0 - 1


def _shares_launch(work: Work) -> Bool:
    """Whether a launch started this and something on another lane: a graph with branches."""
    shared = np.zeros(len(work), dtype=np.bool_)
    known = np.flatnonzero(work.launch_row >= 0)
    order = known[np.argsort(work.launch_row[known], kind="stable")]
    call, lane = work.launch_row[order], work.lane[order]
    differs = np.flatnonzero((call[1:] == call[:-1]) & (lane[1:] != lane[:-1]))
    branched = np.unique(call[differs])
    shared[known] = np.isin(work.launch_row[known], branched)
    return shared


def _ended_last(work: Work, to: I64, asked: I64) -> I64:
    """Of other lanes of the same device, what was launched by `asked` and ended last in time."""
    best = np.full(len(to), -1, dtype=np.int64)
    best_end = np.full(len(to), np.iinfo(np.int64).min, dtype=np.int64)
    for k in range(len(work.lane_start) - 1):
        first, after = int(work.lane_start[k]), int(work.lane_start[k + 1])
        launched = np.maximum.accumulate(work.launch[first:after])
        ends = np.maximum.accumulate(work.end[first:after])
        count = np.minimum(
            np.searchsorted(launched, asked, side="right"),
            np.searchsorted(ends, work.start[to], side="right"),
        )
        other = (work.lane[to] != k) & (work.device[to] == work.device[first]) & (count > 0)
        last = first + np.maximum(count - 1, 0)
        better = other & (work.end[last] > best_end)
        best[better], best_end[better] = last[better], work.end[last[better]]
    return best


def _offer_running(work: Work, found: _Latest) -> None:
    """Work that still starts late while another lane is busy: it waited for room on the device."""
    to = np.flatnonzero(found.late() > SETTLE_NS)
    best = np.full(len(to), -1, dtype=np.int64)
    start = work.start[to]
    for k in range(len(work.lane_start) - 1):
        first, after = int(work.lane_start[k]), int(work.lane_start[k + 1])
        begun = first + np.searchsorted(work.start[first:after], start, side="left") - 1
        at = np.maximum(begun, first)
        covers = (
            (begun >= first)
            & (work.lane[to] != k)
            & (work.device[to] == work.device[first])
            & (work.end[at] >= start)
        )
        best = np.where(covers & ((best < 0) | (work.start[at] > work.start[best])), at, best)
    chosen = best >= 0
    found.offer(to[chosen], best[chosen], start[chosen], Basis.SHARED)
