"""The path itself: from the end of a stretch of time back to its start."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from gpuperf_analyzers.critical_path.binding import LAUNCH_NS, SETTLE_NS, Binding
from gpuperf_analyzers.critical_path.kinds import Basis, PathClass
from gpuperf_analyzers.critical_path.threads import Threads
from gpuperf_analyzers.critical_path.work import Work
from gpuperf_analyzers.trace.model import I64, Trace

_STUCK = 1000
"""Jumps without getting earlier, beyond one for each piece of work, that end a path."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path is at a moment: in a piece of work (``work``), else on a thread (``track``)."""

    work: int
    track: int
    at: int


@dataclass(frozen=True, slots=True)
class Leg:
    """One stretch of a path: of a piece of work, of a thread, or the way between two of them.

    ``row`` is the event of a way (the launched or blocking one, ``waits`` where it is yet to
    start), or of the work; -1 on a thread, whose events fill it.
    """

    start: int
    end: int
    path_class: PathClass
    row: int
    track: int
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Walk:
    """Legs from late to early, and why it ended before the start ("" where it did not).

    ``bases`` counts what led it from one thing to another.
    """

    legs: tuple[Leg, ...]
    reached: int
    reason: str
    bases: Counter[Basis]


class Walker:
    """Walks back through what was waited for."""

    def __init__(
        self, trace: Trace, work: Work, binding: Binding, threads: Threads, *, on_cpu: bool
    ) -> None:
        self._trace = trace
        call = np.maximum(work.launch_row, 0)
        self._called = (trace.events.ts[call] + trace.events.dur[call]).tolist()
        self._start_up = PathClass.CPU if on_cpu else PathClass.LAUNCH
        self._threads = threads
        self._row = work.row.tolist()
        self._start = work.start.tolist()
        self._end = work.end.tolist()
        self._class = [PathClass(c) for c in work.path_class.tolist()]
        self._launch_track = work.launch_track.tolist()
        self._basis = [Basis(b) for b in binding.basis.tolist()]
        self._source = binding.source.tolist()
        self._left = binding.left.tolist()

    def back(self, place: Place, until: int) -> Walk:
        """The path from `place` back to `until`."""
        legs: list[Leg] = []
        bases: Counter[Basis] = Counter()
        at, stuck = place.at, 0
        work, track = place.work, place.track
        reason = ""
        while at > until and not reason:
            before = at
            if work >= 0:
                legs.append(Leg(self._start[work], at, self._class[work], self._row[work], -1))
                at = min(self._start[work], at)
                if at > until:
                    at, work, track, reason = self._leave_work(work, at, legs, bases)
            else:
                at, work, track, reason = self._leave_thread(track, at, until, legs, bases)
            stuck = stuck + 1 if at >= before else 0
            if stuck > _STUCK + len(self._row):
                reason = "the events of the trace wait for each other in a circle"
        kept = tuple(
            leg if leg.start >= until else replace(leg, start=until)
            for leg in legs
            if leg.end > max(leg.start, until)
        )
        return Walk(kept, max(at, until), reason, bases)

    def _leave_work(
        self, work: int, at: int, legs: list[Leg], bases: Counter[Basis]
    ) -> tuple[int, int, int, str]:
        basis = self._basis[work]
        row = self._row[work]
        if basis is Basis.NONE:
            name = self._trace.name_of(row)
            return at, work, -1, f"nothing is known to come before {name}: no launch record"
        left, source = min(self._left[work], at), self._source[work]
        if basis is Basis.LAUNCH:
            explained = at - self._called[work] <= LAUNCH_NS
        else:
            explained = at - left <= SETTLE_NS
        path_class = self._start_up if explained else PathClass.UNKNOWN
        legs.append(Leg(left, at, path_class, row, -1, waits=True))
        bases[basis] += 1
        return left, source, self._launch_track[work] if source < 0 else -1, ""

    def _leave_thread(
        self, track: int, at: int, until: int, legs: list[Leg], bases: Counter[Basis]
    ) -> tuple[int, int, int, str]:
        stop = self._threads.stop_before(track, at)
        first = self._threads.begins(track)
        if stop is None or stop.time <= until:
            begin = max(min(first, at), until)
            legs.append(Leg(begin, at, PathClass.CPU, -1, track))
            reason = "" if begin <= until else "the thread's first event in the trace is later"
            return begin, -1, track, reason
        legs.append(Leg(stop.time, at, PathClass.CPU, -1, track))
        if stop.row >= 0:
            legs.append(Leg(stop.ready, stop.time, PathClass.SYNC, stop.row, -1))
        else:
            # The other thread or collective was done: what is left is this thread's own.
            legs.append(Leg(stop.ready, stop.time, PathClass.CPU, -1, track))
        bases[stop.basis] += 1
        return stop.ready, stop.source, stop.track, ""


def ended_last(work: Work, device: object, by: int) -> int:
    """The piece of work on `device` that ended last by a moment; -1 where there is none."""
    here = np.flatnonzero((work.end <= by) & ((device == "cpu") | (work.device == device)))
    return int(here[np.argmax(work.end[here])]) if len(here) else -1


def starts_at(work: Work, device: object, at: int) -> int:
    """The first piece of work on `device` that starts at a moment; -1 where none does."""
    here: I64 = np.flatnonzero((work.start == at) & ((device == "cpu") | (work.device == device)))
    return int(here[0]) if len(here) else -1
