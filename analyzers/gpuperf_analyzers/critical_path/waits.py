"""What each blocking call of the host waited for."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from gpuperf_analyzers.critical_path.binding import call_of
from gpuperf_analyzers.critical_path.kinds import Basis
from gpuperf_analyzers.critical_path.work import Work
from gpuperf_analyzers.trace.classify import names_mask
from gpuperf_analyzers.trace.links import launches
from gpuperf_analyzers.trace.model import I64, Category, Trace
from gpuperf_analyzers.trace.syncs import blocking_calls

CLOCK_NS = 2_000
"""How much later than a call's return its cause may seem to end: two clocks, joined by fitting."""

_CPU_WAIT = re.compile(r".*wait_tensor|c10d::(monitored_)?barrier")


@dataclass(frozen=True, slots=True)
class Stop:
    """A moment on a thread before which the path is elsewhere.

    On the thread ``on`` the host went on at ``time`` because of what was done at ``ready``: the
    piece of work ``source``, or (-1) something on the thread ``track``. ``row`` is the blocking
    call, -1 for a stretch without events.
    """

    on: int
    time: int
    ready: int
    source: int
    track: int
    row: int
    basis: Basis


def blocking_rows(trace: Trace) -> I64:
    """Calls after which the host goes on only when something is done.

    Those of :func:`~gpuperf_analyzers.trace.syncs.blocking_calls`, and asynchronous copies during
    whose call the copy ended (from or to pageable memory they block). Calls of the driver's
    allocator count as the host's own work, though some of them wait for the device too.
    """
    e = trace.events
    copies = trace.rows(Category.MEMCPY)
    call = launches(trace)[copies]
    copies, call = copies[call >= 0], call[call >= 0]
    inside = e.ts[copies] + e.dur[copies] <= e.ts[call] + e.dur[call]
    return np.union1d(blocking_calls(trace), call[inside])


def device_waits(trace: Trace, work: Work) -> list[Stop]:
    """A stop for every blocking call that something on a device ended."""
    e = trace.events
    rows = blocking_rows(trace)
    asked = _recorded(trace, rows)
    chooser = _Chooser(work)
    own = {int(call): i for i, call in enumerate(work.launch_row.tolist()) if call >= 0}
    begin = e.ts[rows].tolist()
    until = (e.ts[rows] + e.dur[rows]).tolist()
    stops = []
    for i, row in enumerate(rows.tolist()):
        if row in own and work.end[own[row]] > begin[i]:
            found, basis = own[row], Basis.LAUNCH
        elif row in asked:
            found, basis = chooser.recorded(*asked[row], begin[i], until[i]), Basis.SYNC_EVENT
        else:
            found, basis = chooser.ended_last(-1, begin[i], until[i]), Basis.SYNC_CALL
        if found >= 0 and work.end[found] > begin[i]:
            ready = min(int(work.end[found]), until[i])
            stops.append(Stop(int(e.track[row]), until[i], ready, found, -1, row, basis))
    return stops


def _recorded(trace: Trace, rows: I64) -> dict[int, tuple[int, int, int]]:
    """By blocking call: device, stream (-1: all) and the latest launch that it waits for (-1).

    Waits for an event whose stream the trace does not name are left out.
    """
    e, args = trace.events, trace.sync_args
    call = call_of(trace, e.correlation[args.row])
    record = call_of(trace, args.wait_record)
    wanted = set(rows.tolist())
    found = {}
    for i, row in enumerate(args.row.tolist()):
        name = trace.name_of(row)
        if int(call[i]) not in wanted:
            continue
        device, stream = int(e.device[row]), int(e.stream[row])
        if name == "Event Sync":
            stream = int(args.wait_stream[i])
            if stream < 0:
                continue
        elif name == "Context Sync":
            stream = -1
        latest = int(e.ts[record[i]]) if record[i] >= 0 else -1
        found[int(call[i])] = (device, stream, latest)
    return found


class _Chooser:
    """Finds the work that a wait ended with."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.order = np.argsort(work.end, kind="stable")
        self.ends: list[int] = work.end[self.order].tolist()
        self.order_list: list[int] = self.order.tolist()

    def recorded(self, device: int, stream: int, latest: int, begin: int, until: int) -> int:
        """The last work launched on the stream (of the whole device: what ended last)."""
        if stream < 0:
            return self.ended_last(device, begin, until)
        lane = self.work.lane_of(device, stream)
        if lane < 0:
            return -1
        first, after = self.work.lane_start[lane : lane + 2].tolist()
        launched = np.maximum.accumulate(self.work.launch[first:after])
        bound = latest if latest >= 0 else begin
        index = int(np.searchsorted(launched, bound, side="right")) - 1
        return first + index if index >= 0 else -1

    def ended_last(self, device: int, begin: int, until: int) -> int:
        """What was launched before `begin` and ended last before `until`; -1: nothing since."""
        work = self.work
        k = bisect_right(self.ends, until + CLOCK_NS) - 1
        while k >= 0 and self.ends[k] > begin:
            i = self.order_list[k]
            if work.launch[i] <= begin and (device < 0 or work.device[i] == device):
                return i
            k -= 1
        return -1


def cpu_waits(trace: Trace, work: Work) -> list[Stop]:
    """A stop for every op of a CPU run that waits for a collective which ended inside it."""
    e = trace.events
    rows = trace.rows(Category.CPU_OP)
    rows = rows[names_mask(trace, rows, lambda name: _CPU_WAIT.fullmatch(name) is not None)]
    chooser = _Chooser(work)
    stops = []
    for row in rows.tolist():
        begin, until = int(e.ts[row]), int(e.ts[row] + e.dur[row])
        k = bisect_right(chooser.ends, until) - 1
        if k >= 0 and chooser.ends[k] > begin:
            source, ready = chooser.order_list[k], chooser.ends[k]
            on = int(e.track[row])
            stops.append(Stop(on, until, ready, source, -1, row, Basis.SYNC_CALL))
    return stops
